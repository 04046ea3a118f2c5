// The last two minutes of one value per device, for the small curves on the tiles.
// Filled once from history, then by snapshots; never longer than kSeconds.

import {getHistory} from './api.js';

export const kSeconds = 120;
const kMetrics = {
  cpu: 'cpu_utilization',
  server: 'request_rate'
};

export const trailMetric = (device) => kMetrics[device] ?? 'utilization';

export class Trails {
  constructor() {
    this.byDevice = new Map();
  }

  // Points {t, v} in order of time; v is null where nothing was measured.
  of(device) {
    return this.byDevice.get(device) ?? [];
  }

  take(snapshot) {
    const now = snapshot.time_ms;
    const present = new Set(['cpu', 'server']);
    this.add('cpu', now, snapshot.cpu?.readings);
    this.add('server', now, snapshot.server?.readings);
    for (const gpu of snapshot.gpus) {
      present.add(gpu.uuid);
      this.add(gpu.uuid, now, gpu.health.state === 'lost' ? {} : gpu.readings);
    }
    for (const device of this.byDevice.keys()) {
      if (!present.has(device)) this.byDevice.delete(device);
    }
  }

  add(device, now, readings) {
    let points = this.byDevice.get(device);
    if (!points) {
      this.byDevice.set(device, points = []);
      this.recall(device, now);
    }
    if (points.length && points.at(-1).t >= now) return;
    points.push({t: now, v: readings?.[trailMetric(device)]?.value ?? null});
    while (points.length && points[0].t < now - kSeconds * 1000) points.shift();
  }

  async recall(device, now) {
    try {
      const metric = trailMetric(device);
      const answer = await getHistory(device, [metric], now - kSeconds * 1000, now, kSeconds);
      const {t = [], mean = []} = answer.metrics[metric] ?? {};
      const points = this.byDevice.get(device);
      if (!points) return;
      const first = points[0]?.t ?? Infinity;
      const older = t.map((time, i) => ({t: time, v: mean[i]})).filter((p) => p.t < first);
      points.unshift(...older);
    } catch { /* no history: the curve grows from now on */
    }
  }
}
