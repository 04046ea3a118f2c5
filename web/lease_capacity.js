// The capacity left to lease on each GPU, and the unmanaged processes on it (those without a
// lease).

import {el, KeyedList, setAttribute, setHidden, setText, setWidth} from './dom.js';
import {plural} from './format.js';
import {gib} from './lease_text.js';
import {programName} from './palette.js';
import {shortBus} from './reading.js';

const kShown = 3;

const kKinds = [
  ['leased', 'promised to leases'],
  ['unmanaged', 'used without a lease'],
  ['other', 'other use'],
  ['back', 'held back'],
];

export class LeaseCapacity {
  constructor() {
    this.list = el('ul', {class: 'capacity-list'});
    this.cards = new KeyedList(this.list, () => new Card());
    this.legend = el(
        'p', {class: 'ledger-legend muted'},
        ...[...kKinds, ['free', 'free to lease']].map(
            ([kind, text]) => el('span', {}, el('i', {class: `swatch capacity-${kind}`}), text)));
    this.node =
        el('div', {class: 'card capacity'}, el('h3', {text: 'Capacity to lease'}), this.list,
           this.legend);
  }

  update(cards) {
    setHidden(this.node, !cards.length);
    this.cards.update(cards, (card) => card.gpu_uuid);
  }
}

// GB of one card by kind; together at most its memory.
export function capacityOf(card) {
  const leased = card.promised_gb;
  const unmanaged = card.unmanaged_gb;
  const back = Math.max(0, card.memory_gb - card.total_gb);
  // Nothing is free of a GPU that cannot be used, which does not mean that it is in use.
  const other = card.usable ? Math.max(0, card.total_gb - card.free_gb - leased - unmanaged) : 0;
  return {leased, unmanaged, other, back};
}

class Card {
  constructor() {
    this.name = el('span', {class: 'capacity-name'});
    this.free = el('span', {class: 'muted'});
    this.segments = kKinds.map(([kind]) => el('span', {class: `seg capacity-${kind}`}));
    this.bar = el('div', {class: 'meter', role: 'img'}, ...this.segments);
    this.why = el('p', {class: 'capacity-why', hidden: true});
    this.unmanaged = el('ul', {class: 'unmanaged'});
    this.unmanagedList = new KeyedList(this.unmanaged, () => new UnmanagedProcess());
    this.node =
        el('li', {class: 'num'}, el('p', {class: 'tile-line'}, this.name, this.free), this.bar,
           this.why, this.unmanaged);
  }

  update(card) {
    setText(this.name, `GPU ${card.gpu_device ?? '?'} · ${shortBus(card.bus)}`);
    setAttribute(this.name, 'title', card.name);
    setText(this.free, card.usable ? `${gib(card.free_gb)} free` : 'not to be had');
    const capacity = capacityOf(card);
    kKinds.forEach(([kind], i) => setWidth(this.segments[i], capacity[kind] / card.memory_gb));
    const words = kKinds.filter(([kind]) => capacity[kind] > 0.05)
                      .map(([kind, text]) => `${gib(capacity[kind])} ${text}`);
    const label = [...words, `${gib(card.free_gb)} free to lease`].join(', ');
    setAttribute(this.bar, 'aria-label', label);
    setAttribute(this.bar, 'title', label);
    setHidden(this.why, !card.why);
    setText(this.why, card.why);
    this.unmanagedList.update(linesOf(card.unmanaged), (line) => line.key);
  }
}

// The largest first; the rest in one line.
function linesOf(unmanaged) {
  const sorted = [...unmanaged].sort((a, b) => (b.memory_gb ?? 0) - (a.memory_gb ?? 0));
  const max = sorted.length > kShown ? kShown - 1 : kShown;
  const lines = sorted.slice(0, max).map((p) => ({
                                           key: String(p.pid),
                                           name: programName(p.name),
                                           owner: [p.user, `pid ${p.pid}`],
                                           memory: p.memory_gb,
                                         }));
  const rest = sorted.slice(max);
  if (rest.length)
    lines.push({
      key: 'rest',
      name: `and ${plural(rest.length, 'more', 'more')}`,
      owner: [],
      memory: rest.reduce((all, p) => all + (p.memory_gb ?? 0), 0)
    });
  return lines;
}

class UnmanagedProcess {
  constructor() {
    this.name = el('span', {class: 'unmanaged-name'});
    this.owner = el('span', {class: 'muted unmanaged-owner'});
    this.memory = el('span');
    this.node = el('li', {}, this.name, this.owner, this.memory);
  }

  update({name, owner, memory}) {
    setText(this.name, name);
    setText(this.owner, owner.filter(Boolean).join(' · '));
    setText(this.memory, memory === null ? 'size not known' : gib(memory));
  }
}
