// Numbers as people read them. A value that was not measured is a dash.

export const kMissing = '–';

const integer = new Intl.NumberFormat('en', {maximumFractionDigits: 0});
const tenth = new Intl.NumberFormat('en', {minimumFractionDigits: 1, maximumFractionDigits: 1});

const known = (value) => typeof value === 'number' && Number.isFinite(value);
const written = (f) => (value) => (known(value) ? f(value) : kMissing);

export const count = written((v) => integer.format(v));
export const percent = written((v) => `${integer.format(v)} %`);
export const celsius = written((v) => `${integer.format(v)} °C`);
// Degrees until slowdown: "16 °C left", "2 °C too hot".
export function marginText(margin, left) {
  if (!known(margin)) return '';
  return margin < 0 ? `${celsius(-margin)} too hot` : `${celsius(margin)} ${left}`;
}

export const watts =
    written((v) => (v >= 10000 ? `${tenth.format(v / 1000)} kW` : `${integer.format(v)} W`));
export const megahertz = written((v) => `${integer.format(v)} MHz`);
export const decimal = written((v) => tenth.format(v));

// Small shares keep their digits: 0.04 %.
export const share =
    written((v) => `${v > 0 && v < 1 ? Number(v.toPrecision(2)) : tenth.format(v)} %`);

export const perSecond = written((v) => `${v < 10 ? tenth.format(v) : integer.format(v)} /s`);

export const milliseconds = written((v) => {
  if (v < 1) return `${integer.format(v * 1000)} µs`;
  if (v < 1000) return `${v < 10 ? tenth.format(v) : integer.format(v)} ms`;
  return `${tenth.format(v / 1000)} s`;
});

const kBinary = ['B', 'KiB', 'MiB', 'GiB', 'TiB', 'PiB'];

function binaryStep(value) {
  return value < 1024 ? 0 : Math.min(kBinary.length - 1, Math.floor(Math.log2(value) / 10));
}

export const bytes = written((v) => {
  const step = binaryStep(v);
  return `${(step < 3 ? integer : tenth).format(v / 1024 ** step)} ${kBinary[step]}`;
});

// "41.2 of 139.8 GiB": both in the unit of the total.
export function bytesOf(part, total) {
  if (!known(part) || !known(total)) return bytes(part);
  const step = binaryStep(total);
  return `${tenth.format(part / 1024 ** step)} of ${bytes(total)}`;
}

export const duration = written((seconds) => {
  const s = Math.max(0, Math.round(seconds));
  if (s < 60) return `${s} s`;
  if (s < 3600) return `${Math.floor(s / 60)} min ${s % 60} s`;
  if (s < 86400) return `${Math.floor(s / 3600)} h ${Math.floor((s % 3600) / 60)} min`;
  return `${Math.floor(s / 86400)} d ${Math.floor((s % 86400) / 3600)} h`;
});

const sameDay = new Intl.DateTimeFormat(
    undefined, {hour: '2-digit', minute: '2-digit', second: '2-digit', hour12: false});
const otherDay = new Intl.DateTimeFormat(
    undefined, {month: 'short', day: 'numeric', hour: '2-digit', minute: '2-digit', hour12: false});

const toTheMinute =
    new Intl.DateTimeFormat(undefined, {hour: '2-digit', minute: '2-digit', hour12: false});

export const minute = written((ms) => toTheMinute.format(new Date(ms)));

// A wall time in milliseconds; the day only when it is not today's.
export const clock = written((ms) => {
  const date = new Date(ms);
  return (date.toDateString() === new Date().toDateString() ? sameDay : otherDay).format(date);
});

// One of many with its noun: plural(1, 'GPU') is "1 GPU".
export const plural = (n, noun, many = `${noun}s`) => `${integer.format(n)} ${n === 1 ? noun : many}`;

export const sentence = (text) => (text ? text[0].toUpperCase() + text.slice(1) : '');
