// Rows of equal length: eight tiles where six would fit stand as four and four.

const kMinRem = 15.2;
const kGapRem = 0.9;

// How many columns `count` tiles take where at most `max` fit.
export function columnsFor(count, max) {
  const rows = Math.ceil(count / Math.max(1, max));
  return Math.max(1, Math.ceil(count / Math.max(1, rows)));
}

export class Balance {
  constructor(grid) {
    this.grid = grid;
    this.count = 0;
    new ResizeObserver(() => this.apply()).observe(grid);
  }

  update(count) {
    if (count === this.count) return;
    this.count = count;
    this.apply();
  }

  apply() {
    const rem = parseFloat(getComputedStyle(document.documentElement).fontSize);
    const max = Math.floor((this.grid.clientWidth / rem + kGapRem) / (kMinRem + kGapRem));
    const columns = `repeat(${columnsFor(this.count, max)}, minmax(0, 1fr))`;
    if (this.grid.style.gridTemplateColumns !== columns) {
      this.grid.style.gridTemplateColumns = columns;
    }
  }
}
