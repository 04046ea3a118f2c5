// History as rows a chart draws: one row per moment with [min, mean, max] of each
// curve. null joins its neighbours (a slower curve), NaN is a hole (no data).

const kHoleSteps = 3;
const kHoleSeconds = 20;  // slow metrics are sampled every few seconds

export function rowsOf(answer, metrics) {
  const hole = 1000 * Math.max(kHoleSteps * answer.step_s, kHoleSeconds);
  const rows = new Map();
  metrics.forEach((metric, column) => {
    const {t = [], mean = [], min = mean, max = mean} = answer.metrics[metric] ?? {};
    t.forEach((time, i) => {
      if (i > 0 && time - t[i - 1] > hole)
        cell(rows, t[i - 1] + hole / 2, metrics.length)[column] = kHole;
      cell(rows, time, metrics.length)[column] = [min[i], mean[i], max[i]];
    });
  });
  return [...rows].sort(([a], [b]) => a - b).map(([time, cells]) => [new Date(time), ...cells]);
}

const kHole = [NaN, NaN, NaN];
const kNothing = [null, null, null];

function cell(rows, time, width) {
  if (!rows.has(time)) rows.set(time, Array(width).fill(kNothing));
  return rows.get(time);
}

// The row nearest to a moment; rows are in order of time.
export function nearest(rows, time) {
  let low = 0;
  let high = rows.length - 1;
  while (low < high) {
    const middle = (low + high) >> 1;
    if (rows[middle][0] < time)
      low = middle + 1;
    else
      high = middle;
  }
  return low > 0 && time - rows[low - 1][0] < rows[low][0] - time ? low - 1 : low;
}
