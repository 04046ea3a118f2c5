// Who holds the memory of each GPU: its processes, what the driver reserves, what
// nobody admits to ("unknown"), and what is free.

import {byId, el, KeyedList, setAttribute, setHidden, setText, setWidth} from './dom.js';
import {bytes, bytesOf} from './format.js';
import {colourOf, programName} from './palette.js';
import {ProcessTable} from './process_table.js';
import {isLost, memoryOf, shortBus, sum} from './reading.js';

const kNoise = 64 << 20;  // a driver's rounding, not a hidden owner

export class Ledger {
  constructor() {
    this.rows = el('ul', {class: 'ledger-rows'});
    this.list = new KeyedList(this.rows, () => new Row());
    this.table = new ProcessTable({withGpu: true});
    const legend = el(
        'p', {class: 'ledger-legend muted'},
        ...[['process', 'p0'], ['reserved by the driver', 'reserved'], ['unknown owner', 'unknown'],
            ['free', 'free']]
            .map(([text, kind]) => el('span', {}, el('i', {class: `swatch seg-${kind}`}), text)));
    byId('ledger').append(
        el('div', {class: 'card'}, this.rows, legend),
        el('div', {class: 'card table-card'}, this.table.node));
  }

  update({snapshot}) {
    const gpus = snapshot.gpus.filter((gpu) => memoryOf(gpu).total);
    setHidden(byId('ledger-section'), !gpus.length);
    this.list.update(gpus, (gpu) => gpu.uuid);
    this.table.update(
        snapshot.gpus.filter((gpu) => !isLost(gpu))
            .flatMap(
                (gpu) => (gpu.processes?.list ??
                          []).map((process) => ({...process, gpu: shortBus(gpu.bus)}))));
  }
}

class Row {
  constructor() {
    this.name = el('span', {class: 'ledger-name num'});
    this.words = el('span', {class: 'ledger-words num'});
    this.bar = el('div', {class: 'meter ledger-bar', role: 'img'});
    this.segments = new KeyedList(this.bar, () => new Segment());
    this.node = el('li', {}, el('p', {class: 'tile-line'}, this.name, this.words), this.bar);
  }

  update(gpu) {
    const memory = memoryOf(gpu);
    const parts = isLost(gpu) ? [] : partsOf(gpu, memory);
    setText(this.name, `${shortBus(gpu.bus)} · ${gpu.name}`);  // a phone cuts off the end
    setText(this.words, isLost(gpu) ? 'lost' : bytesOf(memory.used, memory.total));
    this.segments.update(parts, (part) => part.key, memory.total);
    setAttribute(this.bar, 'aria-label', parts.map((part) => part.text).join(', ') || 'not known');
  }
}

class Segment {
  constructor() {
    this.node = el('span');
  }

  update(part, total) {
    setAttribute(this.node, 'class', `seg seg-${part.kind}`);
    setAttribute(this.node, 'title', part.text);
    setWidth(this.node, part.bytes / total);
  }
}

// Parts of one GPU's memory in the order they are drawn; free space is the rest.
export function partsOf(gpu, {used = 0, reserved = 0, total}) {
  const owners = (gpu.processes?.list ?? [])
                     .filter((p) => p.memory_bytes)
                     .sort((a, b) => b.memory_bytes - a.memory_bytes || a.pid - b.pid);
  const owned = sum(owners.map((p) => p.memory_bytes)) ?? 0;
  const fit = owned > used && used > 0 ? used / owned : 1;  // shared pages are counted twice
  const parts = owners.map((p) => ({
                             key: `${p.pid}${p.kind}`,
                             kind: colourOf(p.name),
                             bytes: p.memory_bytes * fit,
                             text: `${programName(p.name)} (${p.pid}): ${bytes(p.memory_bytes)}`
                           }));
  const unknown = used - owned;
  if (unknown > kNoise)
    parts.push({
      key: 'unknown',
      kind: 'unknown',
      bytes: unknown,
      text: `unknown owner: ${bytes(unknown)}`
    });
  if (reserved)
    parts.push({
      key: 'reserved',
      kind: 'reserved',
      bytes: reserved,
      text: `reserved by the driver: ${bytes(reserved)}`
    });
  const free = total - used - reserved;
  if (free > 0) parts.push({key: 'free', kind: 'free', bytes: free, text: `free: ${bytes(free)}`});
  return parts;
}
