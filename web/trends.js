// What the last hour shows of each device: what rises, falls or has jumped, in words.
// The server works it out from its history; it is asked now and then, not every second.

import {getTrends} from './api.js';
import {bytes, count, decimal, duration, milliseconds, minute, watts} from './format.js';

const kRefreshMs = 20000;       // a new point of the hour
const kFarSeconds = 24 * 3600;  // an end further away than this is not shown

const kManySeconds = 10 * 3600;

const kNames = {
  memory_used: 'Memory',
  temperature: 'Temperature',
  power: 'Power',
  clock_ratio: 'SM clock',
  ecc_corrected: 'Corrected memory errors',
  pcie_replays: 'PCIe replays',
  host_memory_used: 'Memory',
  request_p50: 'p50',
  request_p99: 'p99',
};

// What a value comes to that rises on.
const kEnds = {
  memory_used: 'full',
  host_memory_used: 'full',
  temperature: 'slowdown',
};

const kAmounts = {
  bytes,
  watts,
  milliseconds,
  celsius: (v) => `${decimal(v)} °C`,
  percent: (v) => `${decimal(v)} %`,
};

export class Trends {
  constructor(changed) {
    this.changed = changed;
    this.byDevice = {};
    const look = () => document.hidden || this.refresh();
    setInterval(look, kRefreshMs);
    document.addEventListener('visibilitychange', look);
  }

  // [{metric, name, kind, text}], what ends soonest first; empty when nothing is worth a mention.
  of(device) {
    return this.byDevice[device] ?? [];
  }

  async refresh() {
    try {
      const answer = await getTrends();
      this.byDevice = Object.fromEntries(
          Object.entries(answer).map(([device, list]) => [device, inOrder(list).map(inText)]));
      this.changed();
    } catch { /* the stream's own state says that the server is away */
    }
  }
}

const left = (trend) => trend.limit_in_s ?? Number.MAX_VALUE;
const inOrder = (list) => [...list].sort((a, b) => left(a) - left(b));

// "Memory" and "rising 1.2 GiB/h, full in 3 h 0 min": charts have the name already.
export function inText(trend) {
  const {metric, kind} = trend;
  const text = trend.at_ms === undefined ? slopeText(trend) : jumpText(trend);
  const name = kNames[metric] ?? metric.replaceAll('_', ' ');
  return {metric, kind, name, text: text.replace(/(\d|at|in) (?=\S)/g, '$1\u00a0')};
}

export const namedText = ({name, text}) => `${name} ${text}`;

const amount = (value, unit) => (kAmounts[unit] ?? count)(Math.abs(value));

function slopeText({metric, kind, per_hour: rate, unit, limit_in_s: left}) {
  const words = `${kind === 'growing' ? 'rising' : 'falling'} ${amount(rate, unit)}/h`;
  if (left === undefined || left > kFarSeconds) return words;
  return `${words}, ${kEnds[metric] ?? 'at its limit'} ${soon(left)}`;
}

function jumpText({kind, before, after, unit, at_ms: at}) {
  return `${kind} by ${amount(after - before, unit)} at ${minute(at)}`;
}

// A rate is never so exact that seconds would mean something.
function soon(seconds) {
  if (seconds < 60) return 'now';
  if (seconds < 3600) return `in ${Math.round(seconds / 60)} min`;
  return `in ${seconds < kManySeconds ? duration(seconds) : `${Math.round(seconds / 3600)} h`}`;
}
