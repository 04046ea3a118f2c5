// What is left to lease on each GPU, and the strangers on it: processes without a lease.

import {el, KeyedList, setAttribute, setHidden, setText, setWidth} from './dom.js';
import {plural} from './format.js';
import {gib} from './lease_words.js';
import {programName} from './palette.js';
import {shortBus} from './reading.js';

const kShown = 3;

const kKinds = [
  ['leased', 'promised to leases'],
  ['stranger', 'used without a lease'],
  ['other', 'other use'],
  ['back', 'held back'],
];

export class LeaseRoom {
  constructor() {
    this.list = el('ul', {class: 'room-list'});
    this.cards = new KeyedList(this.list, () => new Card());
    this.legend =
        el('p', {class: 'ledger-legend muted'},
           ...[...kKinds, ['free', 'free to lease']].map(
               ([kind, text]) => el('span', {}, el('i', {class: `swatch room-${kind}`}), text)));
    this.node =
        el('div', {class: 'card room'}, el('h3', {text: 'Room to lease'}), this.list, this.legend);
  }

  update(cards) {
    setHidden(this.node, !cards.length);
    this.cards.update(cards, (card) => card.gpu_uuid);
  }
}

// GB of one card by kind; together at most its memory.
export function roomOf(card) {
  const leased = card.promised_gb;
  const stranger = card.strangers_gb;
  const back = Math.max(0, card.memory_gb - card.total_gb);
  // Nothing is free of a GPU that cannot be used, which does not mean that it is in use.
  const other = card.usable ? Math.max(0, card.total_gb - card.free_gb - leased - stranger) : 0;
  return {leased, stranger, other, back};
}

class Card {
  constructor() {
    this.name = el('span', {class: 'room-name'});
    this.free = el('span', {class: 'muted'});
    this.segments = kKinds.map(([kind]) => el('span', {class: `seg room-${kind}`}));
    this.bar = el('div', {class: 'meter', role: 'img'}, ...this.segments);
    this.why = el('p', {class: 'room-why', hidden: true});
    this.strangers = el('ul', {class: 'strangers'});
    this.strangerList = new KeyedList(this.strangers, () => new Stranger());
    this.node =
        el('li', {class: 'num'}, el('p', {class: 'tile-line'}, this.name, this.free), this.bar,
           this.why, this.strangers);
  }

  update(card) {
    setText(this.name, `GPU ${card.gpu_device ?? '?'} · ${shortBus(card.bus)}`);
    setAttribute(this.name, 'title', card.name);
    setText(this.free, card.usable ? `${gib(card.free_gb)} free` : 'not to be had');
    const room = roomOf(card);
    kKinds.forEach(([kind], i) => setWidth(this.segments[i], room[kind] / card.memory_gb));
    const words =
        kKinds.filter(([kind]) => room[kind] > 0.05).map(([kind,
                                                           text]) => `${gib(room[kind])} ${text}`);
    const label = [...words, `${gib(card.free_gb)} free to lease`].join(', ');
    setAttribute(this.bar, 'aria-label', label);
    setAttribute(this.bar, 'title', label);
    setHidden(this.why, !card.why);
    setText(this.why, card.why);
    this.strangerList.update(linesOf(card.strangers), (line) => line.key);
  }
}

// The largest first; the rest in one line.
function linesOf(strangers) {
  const sorted = [...strangers].sort((a, b) => (b.memory_gb ?? 0) - (a.memory_gb ?? 0));
  const most = sorted.length > kShown ? kShown - 1 : kShown;
  const lines = sorted.slice(0, most).map((p) => ({
                                            key: String(p.pid),
                                            who: programName(p.name),
                                            owner: [p.user, `pid ${p.pid}`],
                                            memory: p.memory_gb,
                                          }));
  const rest = sorted.slice(most);
  if (rest.length)
    lines.push({
      key: 'rest',
      who: `and ${plural(rest.length, 'more', 'more')}`,
      owner: [],
      memory: rest.reduce((all, p) => all + (p.memory_gb ?? 0), 0)
    });
  return lines;
}

class Stranger {
  constructor() {
    this.who = el('span', {class: 'stranger-name'});
    this.owner = el('span', {class: 'muted stranger-owner'});
    this.memory = el('span');
    this.node = el('li', {}, this.who, this.owner, this.memory);
  }

  update({who, owner, memory}) {
    setText(this.who, who);
    setText(this.owner, owner.filter(Boolean).join(' · '));
    setText(this.memory, memory === null ? 'size not known' : gib(memory));
  }
}
