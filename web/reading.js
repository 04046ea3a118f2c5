// How the page reads a snapshot: values, ages, memory, all absent when not measured.

export const value = (readings, name) => readings?.[name]?.value;

export const kStaleSeconds = 3;  // a fast value older than this is marked
const kSlowStaleSeconds = 20;    // power, clocks and temperature come more rarely
const kSlow = new Set(['temperature', 'power', 'sm_clock']);

// The age of a GPU's newest sample by now; `lag` is how long the page has had it.
export const sampleAge = (gpu, lag) => (gpu.age_s ?? Infinity) + lag;

export function isStale(gpu, lag) {
  if (sampleAge(gpu, lag) > kStaleSeconds) return true;
  return [...kSlow].some((name) => (gpu.readings?.[name]?.age_s ?? 0) + lag > kSlowStaleSeconds);
}

// Bytes of one GPU; info is what detection found before the first sample.
export function memoryOf(gpu) {
  const total = value(gpu.readings, 'memory_total') ?? gpu.info?.memory_total_bytes;
  const used = value(gpu.readings, 'memory_used');
  const reserved = value(gpu.readings, 'memory_reserved');
  const free = value(gpu.readings, 'memory_free');
  return {total, used, reserved, free};
}

export const hostMemory = (snapshot) => ({
  total: value(snapshot.cpu?.readings, 'host_memory_total'),
  used: value(snapshot.cpu?.readings, 'host_memory_used'),
});

export function sum(values) {
  const known = values.filter((v) => v !== undefined && v !== null);
  return known.length ? known.reduce((a, b) => a + b, 0) : undefined;
}

export const isLost = (gpu) => gpu.health.state === 'lost';

// What tells one of eight equal cards from the others.
export const shortBus = (bus) => (bus ?? '').replace(/^0000:/, '');
