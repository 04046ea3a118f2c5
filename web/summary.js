// The verdict line with the machine's totals beside it, the page title, and what a
// screen reader announces when the verdict changes.

import {byId, setAttribute, setHidden, setText} from './dom.js';
import {bytesOf, celsius, duration, marginText, percent, watts} from './format.js';
import {Fact} from './parts.js';
import {isLost, memoryOf, sum, value} from './reading.js';
import {judge} from './verdict.js';

const kIcons = {
  info: 'info',
  healthy: 'healthy',
  degraded: 'degraded',
  lost: 'lost',
  probation: 'probation'
};

export class Summary {
  constructor() {
    this.facts = {
      utilization: new Fact('Utilisation'),
      memory: new Fact('Memory'),
      power: new Fact('Power'),
      hottest: new Fact('Hottest'),
    };
    byId('totals').append(...Object.values(this.facts).map((fact) => fact.node));
  }

  update({snapshot, lag, live}) {
    const verdict = judge(snapshot, lag);
    setAttribute(byId('verdict'), 'data-state', live ? verdict.state : 'unknown');
    setAttribute(byId('verdict-icon'), 'href', `#icon-${kIcons[verdict.state]}`);
    setText(byId('verdict-head'), verdict.head);
    setText(
        byId('verdict-tail'),
        live ? verdict.tail : `As it was ${duration(lag)} ago. ${verdict.tail}`);
    setText(
        byId('announce'),
        live ? `${verdict.head}. ${spoken(snapshot)}` : 'Connection lost, reconnecting');
    document.title = `${verdict.head} · Sluice`;
    this.totals(snapshot.gpus);
  }

  totals(all) {
    setHidden(byId('totals'), !all.length);
    const gpus = all.filter((gpu) => !isLost(gpu));
    const readings = gpus.map((gpu) => gpu.readings);
    const each = (name) => readings.map((r) => value(r, name));
    const busy = each('utilization').filter((v) => v !== undefined);
    const memory = gpus.map(memoryOf);
    const heat = each('temperature').filter((v) => v !== undefined);
    const total = sum(memory.map((m) => m.total));
    const used = sum(memory.map((m) => m.used));
    this.facts.utilization.update(
        percent(busy.length ? sum(busy) / busy.length : undefined), 'mean of all');
    this.facts.memory.update(
        percent(total ? (100 * used) / total : undefined), bytesOf(used, total));
    const limit = sum(each('power_limit'));
    this.facts.power.update(watts(sum(each('power'))), limit ? `of ${watts(limit)}` : '');
    const hottest = heat.length ? Math.max(...heat) : undefined;
    const margin = Math.min(...each('temperature_margin').filter((v) => v !== undefined));
    this.facts.hottest.update(celsius(hottest), marginText(margin, 'to slowdown'));
  }
}

// Without ages, so that it changes (and is read out) only when something happens.
function spoken(snapshot) {
  return snapshot.gpus.filter((gpu) => gpu.health.state !== 'healthy')
      .map((gpu) => `${gpu.name} ${gpu.bus} ${gpu.health.state}`)
      .join('. ');
}
