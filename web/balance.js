// Rows of equal length: eight tiles where six would fit stand as four and four.

const kLeastRem = 15.2;
const kGapRem = 0.9;

// How many columns `count` tiles take where at most `most` fit.
export function columnsFor(count, most) {
  const rows = Math.ceil(count / Math.max(1, most));
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
    const most = Math.floor((this.grid.clientWidth / rem + kGapRem) / (kLeastRem + kGapRem));
    const columns = `repeat(${columnsFor(this.count, most)}, minmax(0, 1fr))`;
    if (this.grid.style.gridTemplateColumns !== columns) {
      this.grid.style.gridTemplateColumns = columns;
    }
  }
}
