// One GPU at a glance. Nodes are made once and changed in place; the tile keeps
// its size whatever the values are, and a lost GPU shows cause and fix in the
// place of values that no longer hold.

import {el, KeyedList, setAttribute, setHidden, setText} from './dom.js';
import {bytesOf, celsius, duration, marginText, megahertz, percent, plural, sentence, watts} from './format.js';
import {Badge, Copyable, Fact, labelled, Meter} from './parts.js';
import {isLost, isStale, memoryOf, sampleAge, value} from './reading.js';
import {Sparkline} from './sparkline.js';
import {namedText} from './trends.js';

const kNewXidSeconds = 24 * 3600;
const kLongName = 13;
const kOrdinary = 'power cap';

// Readings that should be 0, worst first.
const kFaults = {
  rows_failed: () => 'Row remapping failed: the memory is worn out',
  ecc_uncorrected: (n) => `${plural(n, 'uncorrected memory error')} since the driver loaded`,
  rows_pending: () => 'A row remap waits for a reset',
};

export class GpuTile {
  constructor(gpu) {
    this.open = el('a', {class: 'tile-open', href: `#device=${encodeURIComponent(gpu.uuid)}`});
    this.bus = el('p', {class: 'tile-sub num'});
    this.badge = new Badge();
    this.notes = el('ul', {class: 'tile-notes'});
    this.noteList = new KeyedList(this.notes, makeNote);
    this.node =
        el('article', {class: 'tile', 'data-device': gpu.uuid},
           el('header', {class: 'tile-head'}, el('h3', {}, this.open), this.badge.node, this.bus),
           this.makeValues(), this.makeTrouble(), this.notes);
  }

  makeValues() {
    this.load = el('span', {class: 'big num'});
    this.spark = new Sparkline();
    this.loadMeter = new Meter('Utilisation', ['load']);
    this.memory = el('span', {class: 'num'});
    this.memoryMeter = new Meter('Memory', ['used', 'reserved']);
    this.heat = new Fact('Temp');
    this.power = new Fact('Power');
    this.clock = new Fact('SM clock');
    this.values =
        el('div', {class: 'tile-values'},
           el('div', {class: 'tile-load'}, labelled('Utilisation', this.load), this.spark.node),
           this.loadMeter.node,
           el('p', {class: 'tile-line'}, el('span', {class: 'muted', text: 'Memory'}), this.memory),
           this.memoryMeter.node,
           el('dl', {class: 'facts'}, this.heat.node, this.power.node, this.clock.node));
    return this.values;
  }

  makeTrouble() {
    this.cause = el('p', {class: 'trouble-cause'});
    this.fix = new Copyable('Copy the fix');
    this.last = el('p', {class: 'trouble-last num muted'});
    this.trouble =
        el('div', {class: 'tile-trouble', hidden: true}, this.cause, this.fix.node, this.last);
    return this.trouble;
  }

  update(gpu, {lag, trails, trends, now}) {
    setText(this.open, shortName(gpu.name));
    setAttribute(this.open, 'title', gpu.name);
    setText(this.bus, [gpu.bus, tenants(gpu)].filter(Boolean).join(' · '));
    this.badge.update(gpu.health.state);
    setAttribute(this.node, 'data-state', gpu.health.state);
    setAttribute(this.node, 'data-stale', isStale(gpu, lag) ? 'yes' : null);
    setHidden(this.values, isLost(gpu));
    setHidden(this.trouble, !isLost(gpu));
    if (isLost(gpu))
      this.updateTrouble(gpu, lag);
    else
      this.updateValues(gpu, trails, now);
    this.noteList.update(notesOf(gpu, lag, trends.of(gpu.uuid)), (note) => note.key);
  }

  updateValues(gpu, trails, now) {
    const read = (name) => value(gpu.readings, name);
    setText(this.load, percent(read('utilization')));
    setAttribute(this.load, 'data-ghost', gpu.ghost_utilization ? 'yes' : null);
    this.spark.update(trails.of(gpu.uuid), now);
    this.loadMeter.update([(read('utilization') ?? 0) / 100], percent(read('utilization')));
    const {total, used, reserved} = memoryOf(gpu);
    setText(this.memory, bytesOf(used, total));
    this.memoryMeter.update([used / total, reserved / total], bytesOf(used, total));
    const margin = read('temperature_margin');
    this.heat.update(celsius(read('temperature')), marginText(margin, 'left'));
    const limit = read('power_limit');
    this.power.update(watts(read('power')), limit === undefined ? '' : `of ${watts(limit)}`);
    this.clock.update(
        megahertz(read('sm_clock')),
        read('clock_ratio') === undefined ? '' : `${percent(read('clock_ratio'))} of max`);
  }

  updateTrouble(gpu, lag) {
    setText(this.cause, sentence(gpu.health.cause || 'The driver no longer answers for it.'));
    this.fix.update(gpu.health.fix);
    const when = gpu.age_s === undefined ? 'no sample yet' :
                                           `last sample ${duration(sampleAge(gpu, lag))} ago`;
    setText(this.last, `Lost ${duration((gpu.health.since_s ?? 0) + lag)} ago, ${when}`);
  }
}

function tenants(gpu) {
  const running = gpu.processes?.list?.length;
  if (running === undefined || isLost(gpu)) return '';
  return running ? plural(running, 'process', 'processes') : 'no processes';
}

// Running into the power limit is normal for a busy card; anything else is worth a note.
function throttleNote(reasons) {
  const ordinary = reasons.every((reason) => reason === kOrdinary);
  if (ordinary) return ['info', 'At its power limit'];
  return ['degraded', `Held back: ${reasons.join(', ')}`];
}

// A name that fits the tile; the full one is the link's title.
const shortName = (name) =>
    (name.length > kLongName ? name.replace(/^NVIDIA (GeForce )?/, '') : name);

// What a person should notice, worst first; [{key, kind, text, trend}].
function notesOf(gpu, lag, trends) {
  const notes = [];
  const add = (key, kind, text, trend = null) => notes.push({key, kind, text, trend});
  if (gpu.health.state === 'degraded' || gpu.health.state === 'probation') {
    add('cause', gpu.health.state, sentence(gpu.health.cause || gpu.health.state));
  }
  const xid = gpu.xids?.at(-1);
  if (xid && xid.age_s + lag < kNewXidSeconds && !gpu.health.cause.includes(`XID ${xid.code}`)) {
    add('xid', 'degraded', `XID ${xid.code}, ${duration(xid.age_s + lag)} ago: ${xid.meaning}`);
  }
  for (const [name, words] of Object.entries(kFaults)) {
    const faults = value(gpu.readings, name);
    if (faults) add(name, 'degraded', words(faults));
  }
  if (gpu.throttle?.length) add('throttle', ...throttleNote(gpu.throttle));
  if (gpu.ghost_utilization)
    add('ghost', 'info', 'Ghost load: no process runs here, the counter is stuck');
  if (!isLost(gpu) && isStale(gpu, lag))
    add('stale', 'info', `Sample ${duration(sampleAge(gpu, lag))} old`);
  if (!isLost(gpu))
    for (const trend of trends) add(trend.metric, 'trend', namedText(trend), trend.kind);
  if (!notes.length && !isLost(gpu)) add('calm', 'calm', 'Not held back, no errors');
  return notes.slice(0, 2);
}

function makeNote() {
  const node = el('li', {class: 'note'});
  return {
    node,
    update(note) {
      setAttribute(node, 'data-kind', note.kind);
      setAttribute(node, 'data-trend', note.trend);
      setAttribute(node, 'title', note.text);
      setText(node, note.text);
    },
  };
}
