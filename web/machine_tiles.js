// The two tiles beside the GPUs: this machine's CPU and this server.

import {byId, el, setText} from './dom.js';
import {bytesOf, celsius, decimal, milliseconds, percent, perSecond, share} from './format.js';
import {Fact, labelled, Meter} from './parts.js';
import {hostMemory, value} from './reading.js';
import {Sparkline} from './sparkline.js';
import {TrendText} from './trend_text.js';

export class MachineTiles {
  constructor() {
    this.cpu = new CpuTile();
    this.server = new ServerTile();
    byId('machine-tiles').append(this.cpu.node, this.server.node);
  }

  update(view) {
    this.cpu.update(view);
    this.server.update(view);
  }
}

function frame(device, title, sub, ...body) {
  return el(
      'article', {class: 'tile', 'data-device': device},
      el('header', {class: 'tile-head'},
         el('h3', {}, el('a', {class: 'tile-open', href: `#device=${device}`, text: title})), sub),
      ...body);
}

class CpuTile {
  constructor() {
    this.sub = el('p', {class: 'tile-sub num'});
    this.load = el('span', {class: 'big num'});
    this.spark = new Sparkline();
    this.loadMeter = new Meter('CPU utilisation', ['load']);
    this.memory = el('span', {class: 'num'});
    this.trend = new TrendText('Memory');
    this.memoryMeter = new Meter('Host memory', ['used']);
    this.average = new Fact('Load');
    this.cores = new Fact('Cores');
    this.heat = new Fact('Temp');
    this.node = frame(
        'cpu', 'CPU', this.sub,
        el('div', {class: 'tile-load'}, labelled('Utilisation', this.load), this.spark.node),
        this.loadMeter.node,
        el('p', {class: 'tile-line'}, el('span', {class: 'muted', text: 'Memory'}), this.trend.node,
           this.memory),
        this.memoryMeter.node,
        el('dl', {class: 'facts'}, this.average.node, this.cores.node, this.heat.node));
  }

  update({snapshot, trails, trends, now}) {
    const {info = {}, readings} = snapshot.cpu ?? {};
    const {total, used} = hostMemory(snapshot);
    const busy = value(readings, 'cpu_utilization');
    setText(this.sub, info.model ?? '');
    setText(this.load, percent(busy));
    this.spark.update(trails.of('cpu'), now);
    this.loadMeter.update([(busy ?? 0) / 100], percent(busy));
    setText(this.memory, bytesOf(used, total));
    this.trend.update(trends.of('cpu').filter((trend) => trend.metric === 'host_memory_used'));
    this.memoryMeter.update([used / total], bytesOf(used, total));
    this.average.update(decimal(value(readings, 'cpu_load')), '1 min average');
    this.cores.update(
        coreCount(info.usable_cores), info.limited_by || `of ${coreCount(info.logical_cores)}`);
    this.heat.update(celsius(value(readings, 'cpu_temperature')));
  }
}

const coreCount = (n) => (Number.isInteger(n) ? String(n) : decimal(n));

class ServerTile {
  constructor() {
    this.sub = el('p', {class: 'tile-sub num', text: location.host});
    this.rate = el('span', {class: 'big num'});
    this.spark = new Sparkline();
    this.p50 = new Fact('p50');
    this.p99 = new Fact('p99');
    this.errors = new Fact('Errors');
    this.node = frame(
        'server', 'Server', this.sub,
        el('div', {class: 'tile-load tall'}, labelled('Requests', this.rate), this.spark.node),
        el('dl', {class: 'facts'}, this.p50.node, this.p99.node, this.errors.node));
  }

  update({snapshot, trails, now}) {
    const read = (name) => value(snapshot.server?.readings, name);
    setText(this.rate, perSecond(read('request_rate')));
    this.spark.update(trails.of('server'), now, 0);
    this.p50.update(milliseconds(read('request_p50')), 'half are faster');
    this.p99.update(milliseconds(read('request_p99')), '99 of 100 are');
    this.errors.update(share(read('request_error_rate')), 'answered 500');
  }
}
