// One sentence about the whole machine, decided from a snapshot alone.

import {duration, plural} from './format.js';

const kOrder = ['lost', 'degraded', 'probation'];

// {state, head, tail}: state picks icon and colour, head is the sentence, tail
// says what to look at first.
export function judge(snapshot, lag = 0) {
  const gpus = snapshot.gpus ?? [];
  if (!gpus.length) return withoutGpu(snapshot);
  const groups = kOrder.map((state) => [state, gpus.filter((g) => g.health.state === state)])
                     .filter(([, list]) => list.length);
  if (!groups.length) return allHealthy(snapshot);
  const healthy = gpus.length - groups.reduce((n, [, list]) => n + list.length, 0);
  return {
    state: groups[0][0],
    head: `${healthy} of ${plural(gpus.length, 'GPU')} healthy`,
    tail: groups.map(([state, list]) => describe(state, list, lag)).join('; '),
  };
}

function withoutGpu(snapshot) {
  const starting = /starting/.test(snapshot.sampler?.state ?? '');
  if (starting)
    return {state: 'probation', head: 'Looking for GPUs', tail: 'The sampler is starting.'};
  return {state: 'info', head: 'Running on the CPU', tail: 'No GPU was found on this machine.'};
}

const kAll = ['', 'The GPU is healthy', 'Both GPUs are healthy'];

function allHealthy(snapshot) {
  const count = snapshot.gpus.length;
  const open = (snapshot.alerts ?? []).filter((alert) => !alert.silenced_until_ms);
  const critical = open.some((alert) => alert.severity === 'critical');
  return {
    state: critical ? 'degraded' : 'healthy',
    head: kAll[count] ?? `All ${count} GPUs are healthy`,
    tail: open.length ? `${plural(open.length, 'alert')} to look at` :
                        'Nothing needs your attention.',
  };
}

function describe(state, list, lag) {
  if (list.length > 1) return `${list.length} ${state === 'probation' ? 'on probation' : state}`;
  const {since_s: since, cause} = list[0].health;
  const when = state === 'lost' ? ` ${duration((since ?? 0) + lag)} ago` :
                                  ` for ${duration((since ?? 0) + lag)}`;
  const what = state === 'probation' ? 'on probation' : state;
  return `1 ${what}${when}${cause ? `: ${cause}` : ''}`;
}
