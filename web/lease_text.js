// Text of a lease on the page: pure functions of the JSON of /v1/leases.

import {bytes, bytesOf, clock, duration, kMissing, plural, sentence} from './format.js';
import {shortBus} from './reading.js';

const kGiB = 2 ** 30;
export const gib = (gb) => bytes(gb * kGiB);

export const kPriorities = ['critical', 'high', 'normal', 'low'];
// A name from a newer server has a word, and no colour of its own.
export const priorityOf = ({priority}) => (kPriorities.includes(priority) ? priority : 'low');

const kTiers = {
  none: [
    'a promise only',
    'Nobody else is promised this memory. Whether the holder keeps to it cannot be seen.'
  ],
  observed: [
    'over-use is reported', 'Over-use is noticed within one sample and reported. Nothing stops it.'
  ],
  client: ['its allocator refuses', 'The holder\'s own allocator refuses to go past the lease.'],
  mps: ['MPS refuses', 'The NVIDIA MPS server refuses memory past the lease, per process.'],
  cgroup: [
    'the kernel refuses',
    'The kernel or the driver refuses memory past the lease, whatever the program does.'
  ],
};

// {name, short, long}: the enforcement tier in plain words.
export function tierText(name) {
  const [short, long] = kTiers[name] ?? ['', ''];
  return {name: sentence(name), short, long};
}

const kStates = {
  held: ['Held', 'healthy'],
  yielding: ['Asked to yield', 'degraded'],
  draining: ['Draining', 'probation'],
  waiting: ['Waiting', 'probation'],
  on_cpu: ['On the CPU', 'degraded'],
};

// The first of its GPUs that cannot be used, if any.
export const brokenCard = (lease, cards) =>
    (lease.gpus ?? []).map((part) => cards.get(part.gpu_uuid)).find((card) => card && !card.usable);

// {word, look, remark, reason}; `place` is {at, of} in the queue, `lag` the answer's age,
// `broken` the GPU of it that cannot be used.
export function stateText(lease, lag, {place, broken} = {}) {
  const [word, look] = kStates[lease.state] ?? [sentence(lease.state), 'info'];
  if (broken && lease.state === 'held') {
    return {word: 'GPU not usable', look: 'lost', remark: sentence(broken.why), reason: ''};
  }
  if (lease.over_use && lease.state === 'held') {
    return {word: 'Over its lease', look: 'lost', remark: overText(lease), reason: ''};
  }
  return {word, look, remark: remarkOn(lease, lag, place), reason: reasonFor(lease)};
}

function remarkOn(lease, lag, place) {
  if (lease.state === 'waiting' && place) {
    return `${memoryText(lease)} requested, place ${place.at} of ${place.of} in the queue`;
  }
  if (lease.state === 'on_cpu') return `${memoryText(lease)} requested`;
  if (lease.state === 'yielding') {
    const left = countdown((lease.yield_in_s ?? 0) - lag);
    return lease.over_use ? `${left}; ${overText(lease)}` : left;
  }
  if (lease.state === 'draining') return 'given back, until a sample shows it';
  return '';
}

const overText = (lease) => `uses ${bytes(lease.over_use)} more than promised`;

const countdown = (left) =>
    (left > 0 ? `${duration(left)} left to give it back` : `${duration(-left)} overdue`);

// The reason of a held lease only says why it was placed there, so it is not shown.
function reasonFor(lease) {
  if (lease.state === 'yielding') return sentence(lease.yield_reason ?? '');
  return lease.state === 'held' ? '' : sentence(lease.reason);
}

// The text that the search looks in: the words of the row, and the numbers of the lease and its
// process.
export function searchText(lease, cards) {
  const {name, bus} = placeText(lease, cards);
  const [word] = kStates[lease.state] ?? [lease.state];
  return [
    lease.agent, `lease ${lease.lease_id}`, `pid ${lease.pid ?? ''}`, lease.model_type, word,
    lease.priority, name, bus, lease.enforcement, lease.over_use ? 'over its lease' : ''
  ].join(' ')
      .replaceAll('\u00a0', ' ')
      .toLowerCase();
}

// Those that show what was typed as it was typed; where there are none, those that show every
// word of it, a number at the beginning of one.
export function chooseRows(items, typed, words) {
  const phrase = typed.trim().toLowerCase();
  if (!phrase) return items;
  const shown = items.map((item) => ` ${words(item)}`);
  const exact = items.filter((_, i) => shown[i].includes(phrase));
  if (exact.length) return exact;
  const terms = phrase.split(/\s+/).map((word) => (/^\d+$/.test(word) ? ` ${word}` : word));
  return items.filter((_, i) => terms.every((word) => shown[i].includes(word)));
}

// "12 of 340 leases", "none of 340 leases", "the first 50 of 340 leases".
export function shownText(shown, found, all) {
  const leases = plural(all, 'lease', 'leases');
  if (found === all) return shown === all ? leases : `the first ${shown} of ${leases}`;
  if (!found) return `none of ${leases}`;
  return shown === found ? `${found} of ${leases}` : `${shown} of ${found} found, of ${leases}`;
}

// "40.0 GiB", "2 × 40.0 GiB" with several GPUs.
export function memoryText(lease) {
  const parts = lease.gpus ?? [];
  if (!parts.length) return gib(lease.requested_gb);
  const same = parts.every((part) => part.memory_gb === parts[0].memory_gb);
  if (parts.length > 1 && same) return `${parts.length} × ${gib(parts[0].memory_gb)}`;
  return gib(lease.memory_gb);
}

// {text, remark, shares}: promised and really used; shares are of the longer of the two,
// [used within the promise, used past it], none where the use is not known.
export function useText(lease) {
  const {memory_gb: promised, used_gb: used} = lease;
  const requested = lease.requested_gb * (lease.gpus?.length ?? 0);
  const less = requested > promised * 1.001 ? `requested ${gib(requested)}` : '';
  if (used === undefined) {
    return {text: `${memoryText(lease)} promised`, remark: less || 'use not known', shares: []};
  }
  const all = Math.max(promised, used);
  const shares = all ? [Math.min(promised, used) / all, (all - promised) / all] : [0, 0];
  const text = `${bytesOf(used * kGiB, promised * kGiB)}`;
  return {text, remark: less || (lease.gpus?.length > 1 ? memoryText(lease) : ''), shares};
}

// Where it is: names of its GPUs by index where the server lists them, else by uuid.
export function placeText(lease, cards) {
  const parts = lease.gpus ?? [];
  if (!parts.length) return {name: kMissing, bus: ''};
  const found = parts.map((part) => cards.get(part.gpu_uuid));
  const names = parts.map((part, i) => found[i]?.gpu_device ?? part.gpu_uuid.slice(0, 12));
  return {
    name: `${parts.length > 1 ? 'GPUs' : 'GPU'}\u00a0${names.join(', ')}`,
    bus: parts.length > 1 ? '' : shortBus(found[0]?.bus),
  };
}

// {text, remark} for how long it has lasted, and for what is left.
export function sinceText(lease, lag) {
  const age = lease.granted_age_s ?? lease.requested_age_s;
  const at = Date.parse(lease.granted_at ?? lease.requested_at);
  return {text: duration(age + lag), remark: clock(at)};
}

export function leftText(lease, lag) {
  const never = lease.state === 'draining' || lease.expires_in_s === undefined;
  if (never) return {text: kMissing, remark: ''};
  const left = lease.expires_in_s - lag;
  const remark = lease.state === 'waiting' ? 'then gives up' : '';
  return {text: left > 0 ? duration(left) : 'over', remark};
}

// "4 leases hold 131.0 GiB, 2 wait, 1 on the CPU".
export function totalText({leases = [], waiting = [], on_cpu: onCpu = [], counts}) {
  const all = counts ?? {leases: leases.length, waiting: waiting.length, on_cpu: onCpu.length};
  const held = leases.reduce((sum, lease) => sum + lease.memory_gb, 0);
  const words = [];
  if (all.leases) words.push(`${plural(all.leases, 'lease holds', 'leases hold')} ${gib(held)}`);
  if (all.waiting) words.push(plural(all.waiting, 'waits', 'wait'));
  if (all.on_cpu) words.push(`${all.on_cpu} on the CPU`);
  return words.join(', ');
}
