// Requests to the server that served this page.

import {askKey, keyHeaders} from './key.js';

// The response, once the server accepts our key. Throws when it cannot be reached
// or answers with an error; the message is the server's own where it gave one.
export async function request(path, options = {}) {
  for (;;) {
    const response = await fetch(path, {
      cache: 'no-store',
      ...options,
      headers: {...options.headers, ...keyHeaders()},
    });
    if (response.ok) return response;
    if (response.status !== 401) throw new Error(await reason(response));
    await askKey();
  }
}

async function reason(response) {
  try {
    const error = (await response.json()).error;
    return error?.message ?? error ?? `HTTP ${response.status}`;
  } catch {
    return `HTTP ${response.status}`;
  }
}

const send = (method, path, body) => request(path, {
  method,
  headers: {'Content-Type': 'application/json'},
  body: JSON.stringify(body),
});

export const getJson = async (path, signal) => (await request(path, {signal})).json();

export const getAlerts = () => getJson('/v1/alerts');

// {device: [{metric, unit, kind, …}]}: what the last hour shows.
export const getTrends = () => getJson('/v1/trends');

export const silence = (rule, device, seconds) =>
    send('POST', '/v1/alerts/silence', {rule, device, for_s: seconds});

export const unsilence = (rule, device) => send('DELETE', '/v1/alerts/silence', {rule, device});

const kMaxPages = 20;

// {leases, waiting, on_cpu, cards, recent, counts}: who has which GPU, and what is left of each.
// The lists are as long as the pages that are followed; `counts` says how long they really are.
export async function getLeases() {
  const all = await getJson('/v1/leases');
  for (let page = all, n = 1; page.next && n < kMaxPages; ++n) {
    page = await getJson(`/v1/leases?cursor=${encodeURIComponent(page.next)}`);
    for (const list of ['leases', 'waiting', 'on_cpu']) all[list].push(...page[list]);
  }
  return all;
}

// What was held, waited for and ended in the last `seconds`.
export const getTimeline = (seconds) => getJson(`/v1/leases/timeline?from=-${seconds}&limit=2000`);

export const revokeLease = (id, reason) =>
    send('POST', `/v1/leases/${encodeURIComponent(id)}/revoke`, {reason});

// {"device", "step_s", "metrics": {name: {t, mean, min, max}}} between two wall times.
export function getHistory(device, metrics, from, to, points, signal) {
  const query = new URLSearchParams({
    device,
    metrics: metrics.join(','),
    from: Math.round(from),
    to: Math.round(to),
    points,
  });
  return getJson(`/v1/history?${query}`, signal);
}
