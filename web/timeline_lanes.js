// The timeline's geometry: which leases stand in which lane, in which row of it, and
// where the hours are marked. Pure functions.

const kShortWait = 500;   // ms; a grant that came at once has no waiting to show
const kMinShare = 0.004;  // of the width: what is drawn is never narrower

const kMaxRows = 12;  // of one lane: a crowd must not push the rest off the page

export const kNoGpu = 'no gpu';

// The spans of one lease: [{kind, from, to, open, lanes}]; times in ms, `lanes` by GPU.
export function spansOf(lease, now) {
  const {requested_ms: requested, granted_ms: granted, ended_ms: ended} = lease;
  const spans = [];
  const wait = (granted ?? ended ?? now) - requested;
  if (granted === null || wait > kShortWait) {
    const kind = lease.state === 'on_cpu' ? 'cpu' : 'waiting';
    const open = granted === null && ended === null;
    spans.push({kind, from: requested, to: granted ?? ended ?? now, open, lanes: [kNoGpu]});
  }
  if (granted !== null) {
    const lanes = lease.gpus.map((part) => part.gpu_uuid);
    spans.push({kind: 'held', from: granted, to: ended ?? now, open: ended === null, lanes});
  }
  return spans.map((span) => ({...span, lease}));
}

// [{key, rows, bars, left}] for what shows between `from` and `to`: first the lanes in `first`,
// whether or not anything is in them, then the others; the ones without a GPU come last.
// A bar is {key, span, left, width, row} with left and width as shares of the total; the
// lane's `left` is how many more there are than it has rows for.
export function lanesOf(leases, {from, to, by, first = []}) {
  const lanes = new Map(first.map((key) => [key, []]));
  const late = [];
  for (const lease of leases) {
    for (const span of spansOf(lease, to)) {
      if (span.to < from || span.from > to) continue;
      for (const key of by === 'agent' ? [lease.agent] : span.lanes) {
        const known = key === kNoGpu ? late : lanes.get(key) ?? lanes.set(key, []).get(key);
        known.push(span);
      }
    }
  }
  if (late.length) lanes.set(kNoGpu, late);
  return [...lanes].map(([key, spans]) => ({key, ...stack(spans, from, to)}));
}

// What overlaps in time stands in rows below each other, as few as will do. Where there are
// more than can be shown, what is still going on comes first.
function stack(spans, from, to) {
  const sorted = [...spans].sort((a, b) => a.from - b.from);
  const all = inRows(sorted, from, to);
  if (all.rows <= kMaxRows) return {...all, left: 0};
  const {bars} = inRows(sorted.sort((a, b) => b.open - a.open), from, to);
  const shown = bars.filter((bar) => bar.row < kMaxRows);
  return {rows: kMaxRows, bars: shown, left: bars.length - shown.length};
}

function inRows(spans, from, to) {
  const width = to - from;
  const ends = [];
  const bars = spans.map((span) => {
    const begin = Math.max(from, span.from);
    const end = Math.max(Math.min(to, span.to), begin + width * kMinShare);
    const free = ends.findIndex((last) => last <= begin);
    const row = free < 0 ? ends.length : free;
    ends[row] = end;
    const left = Math.min((begin - from) / width, 1 - kMinShare);
    const key = `${span.lease.lease_id} ${span.kind}`;
    return {key, span, left, width: Math.min(1 - left, (end - begin) / width), row};
  });
  return {rows: Math.max(1, ends.length), bars};
}

const kSteps = [1, 2, 5, 10, 15, 30, 60, 120, 180, 360, 720].map((minutes) => 60000 * minutes);
const kMaxTicks = 6;

// Wall times at full minutes or hours, at most six of them.
export function ticksOf(from, to) {
  const step = kSteps.find((s) => (to - from) / s <= kMaxTicks) ?? 86400000;
  const zone = 60000 * new Date(to).getTimezoneOffset();
  const ticks = [];
  for (let t = Math.ceil((from - zone) / step) * step + zone; t <= to; t += step) {
    ticks.push({time: t, left: (t - from) / (to - from)});
  }
  return ticks;
}
