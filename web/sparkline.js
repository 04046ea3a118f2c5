// A small curve of the last two minutes; decoration beside a number, so it has no
// text of its own for screen readers.

import {setAttribute, svg} from './dom.js';
import {kSeconds} from './trail.js';

const kWidth = 120;
const kHeight = 36;
const kGapMs = 5000;

export class Sparkline {
  constructor() {
    this.area = svg('path', {class: 'spark-area'});
    this.curve = svg('path', {class: 'spark-curve'});
    this.node =
        svg('svg', {
          class: 'spark',
          viewBox: `0 0 ${kWidth} ${kHeight}`,
          preserveAspectRatio: 'none',
          'aria-hidden': 'true'
        },
            this.area, this.curve);
  }

  // `top` is the value at the upper edge; 0 fits the curve to its own highest point.
  update(points, now, top = 100) {
    const runs = split(points);
    const highest = top || 1.15 * Math.max(1e-9, ...points.map((p) => p.v ?? 0));
    const x = (t) => (kWidth * (1 - (now - t) / (kSeconds * 1000))).toFixed(1);
    const y = (v) =>
        (kHeight - 1 - (kHeight - 2) * Math.min(1, Math.max(0, v / highest))).toFixed(1);
    const line = (run) => 'M' + run.map((p) => `${x(p.t)} ${y(p.v)}`).join('L');
    setAttribute(this.curve, 'd', runs.map(line).join(''));
    setAttribute(
        this.area, 'd',
        runs.map((run) => `${line(run)}L${x(run.at(-1).t)} ${kHeight}L${x(run[0].t)} ${kHeight}Z`)
            .join(''));
  }
}

// The segments without a gap.
function split(points) {
  const runs = [];
  let run = null;
  let last = 0;
  for (const point of points) {
    if (point.v === null) {
      run = null;
      continue;
    }
    if (!run || point.t - last > kGapMs) runs.push(run = []);
    run.push(point);
    last = point.t;
  }
  return runs;
}
