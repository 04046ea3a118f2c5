// The panel of one device: charts with history, health, facts and processes. Which
// one is open stands in the address (#device=…), so it survives a reload and the
// browser's back button closes it.

import {ChartSet} from './chart_set.js';
import {byId, el, icon, KeyedList, setHidden, setText} from './dom.js';
import {cpuFacts, gpuFacts} from './facts.js';
import {clock, duration, sentence} from './format.js';
import {Badge, Copyable} from './parts.js';
import {ProcessTable} from './process_table.js';
import {isLost} from './reading.js';

export class Panel {
  constructor(now) {
    this.now = now;
    this.dialog = byId('panel');
    this.dialog.addEventListener('close', () => this.leave());
    this.dialog.addEventListener(
        'click', (event) => event.target === this.dialog && this.dialog.close());
    window.addEventListener('hashchange', () => this.follow());
  }

  device() {
    const match = /^#device=(.+)$/.exec(location.hash);
    return match ? decodeURIComponent(match[1]) : null;
  }

  follow() {
    const device = this.device();
    if (device === this.view?.device) return;
    if (!device)
      this.dialog.close();
    else if (this.latest)
      this.show(device);
  }

  show(device) {
    this.view?.charts.close();
    if (!exists(this.latest.snapshot, device)) return this.leave();
    this.view = new DeviceView(device, this.now, () => this.dialog.close());
    this.view.update(this.latest);
    this.dialog.replaceChildren(this.view.node);
    if (!this.dialog.open) this.dialog.showModal();
    this.dialog.scrollTop = 0;
  }

  leave() {
    this.view?.charts.close();
    this.view = null;
    this.dialog.replaceChildren();
    if (this.device()) history.replaceState(null, '', location.pathname + location.search);
  }

  update(latest) {
    this.latest = latest;
    if (this.view)
      this.view.update(latest);
    else
      this.follow();
  }
}

const exists = (snapshot, device) => ['cpu', 'server'].includes(device) ||
    snapshot.gpus.some((gpu) => gpu.uuid === device);

class DeviceView {
  constructor(device, now, close) {
    this.device = device;
    this.title = el('h2', {id: 'panel-title'});
    this.sub = el('p', {class: 'tile-sub num'});
    this.badge = new Badge();
    this.charts = new ChartSet(device, now);
    this.facts = el('dl', {class: 'fact-list card'});
    this.factList = new KeyedList(this.facts, makeFactLine);
    this.node =
        el('div', {class: 'panel-box'},
           el('header', {class: 'panel-head'},
              el('div', {class: 'tile-names'}, this.title, this.sub), this.badge.node,
              el('button', {
                class: 'button quiet square',
                type: 'button',
                'aria-label': 'Close',
                on: {click: close}
              },
                 icon('close'))),
           this.makeTrouble(), this.charts.node, this.makeProcesses(), this.makeXids(),
           el('section', {}, el('h3', {text: 'Facts'}), this.facts));
  }

  makeTrouble() {
    this.cause = el('p', {class: 'trouble-cause'});
    this.fix = new Copyable('Copy the fix');
    return this.trouble =
               el('div', {class: 'card panel-trouble', hidden: true}, this.cause, this.fix.node);
  }

  makeProcesses() {
    this.table = new ProcessTable({withGpu: false});
    return this.processes =
               el('section', {}, el('h3', {text: 'Processes'}),
                  el('div', {class: 'card table-card'}, this.table.node));
  }

  makeXids() {
    this.xids = el('ul', {class: 'card recent-list'});
    this.xidList = new KeyedList(this.xids, makeXidLine);
    return this.xidSection =
               el('section', {hidden: true}, el('h3', {text: 'XID events'}), this.xids);
  }

  update({snapshot, lag, trends}) {
    const gpu = snapshot.gpus.find((g) => g.uuid === this.device);
    this.charts.showTrends(gpu && isLost(gpu) ? [] : trends.of(this.device));
    setHidden(this.badge.node, !gpu);
    setHidden(this.processes, !gpu);
    if (gpu) return this.updateGpu(gpu, lag);
    setText(this.title, this.device === 'cpu' ? 'CPU' : 'Server');
    setText(this.sub, this.device === 'cpu' ? snapshot.cpu?.info?.model ?? '' : location.host);
    this.setFacts(
        this.device === 'cpu' ? cpuFacts(snapshot.cpu?.info) : [['Version', snapshot.version]]);
  }

  updateGpu(gpu, lag) {
    setText(this.title, gpu.name);
    setText(this.sub, gpu.bus);
    this.badge.update(gpu.health.state);
    const {state, cause, fix, since_s: since} = gpu.health;
    setHidden(this.trouble, state === 'healthy');
    this.trouble.dataset.state = state;
    setText(
        this.cause,
        `${sentence(state)} for ${duration((since ?? 0) + lag)}${cause ? `: ${cause}` : ''}`);
    this.fix.update(fix);
    this.table.update(gpu.processes?.list ?? []);
    setHidden(this.xidSection, !gpu.xids?.length);
    this.xidList.update([...(gpu.xids ?? [])].reverse(), (xid) => `${xid.code}${xid.time}`);
    this.setFacts(gpuFacts(gpu));
  }

  setFacts(lines) {
    this.factList.update(lines, ([name]) => name);
  }
}

function makeFactLine([name]) {
  const text = el('dd', {class: 'num'});
  return {
    node: el('div', {}, el('dt', {text: name}), text),
    update: ([, words]) => setText(text, words)
  };
}

function makeXidLine() {
  const what = el('p');
  const meta = el('p', {class: 'num muted'});
  return {
    node: el('li', {}, what, meta),
    update(xid) {
      setText(what, `XID ${xid.code}: ${xid.meaning}`);
      setText(
          meta,
          `${clock(Date.parse(xid.time))} · what to do: ${
              (xid.action ?? '').replaceAll('_', ' ')}`);
    },
  };
}
