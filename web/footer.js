// The last line of the page: what watching costs, and what could not be looked at.

import {byId, el, KeyedList, setHidden, setText} from './dom.js';
import {plural, share} from './format.js';

const notes = new KeyedList(byId('notes'), () => {
  const node = el('li');
  return {node, update: (note) => setText(node, note)};
});

export function footer({sampler, notes: found = [], gpus}) {
  setText(byId('sampler'), sampler ? costLine(sampler) : '');
  setHidden(byId('notes'), gpus.length === 0);  // without a GPU they stand higher up
  notes.update(found, (note) => note);
}

function costLine(sampler) {
  // Why none is needed stands among the notes.
  const parts = [`Sampler ${sampler.state.replace(/^(not needed):.*/, '$1')}`];
  if (sampler.pid) {
    parts.push(
        `${share(100 * sampler.core_share)} of a core`,
        `${share(100 * sampler.driver_share)} of the driver's time`, plural(sampler.calls, 'call'),
        plural(sampler.errors, 'error'), plural(sampler.restarts, 'restart'));
    if (sampler.interval_scale >= 1.05)
      parts.push(
          `intervals scaled ${Number(sampler.interval_scale.toFixed(1))}× to stay within its budget`);
  }
  return parts.join(' · ');
}
