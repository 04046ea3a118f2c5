// The leases of the last hour (or day) as bars: lanes by GPU or by agent, coloured by
// priority. One bar is in the tab order; the arrow keys go on from it.

import {getTimeline} from './api.js';
import {el, KeyedList, setAttribute, setHidden, setText} from './dom.js';
import {clock, duration, minute, plural, sentence} from './format.js';
import {kNoGpu, lanesOf, ticksOf} from './timeline_lanes.js';
import {kPriorities, memoryText, placeText, priorityOf} from './lease_text.js';
import {shortBus} from './reading.js';

const kSpans = [
  ['5 min', 300],
  ['15 min', 900],
  ['1 h', 3600],
  ['6 h', 6 * 3600],
  ['24 h', 24 * 3600],
];
const kRefreshMs = 15000;  // changes come by events; this catches what was missed
const kRowRem = 1.55;
const kNameShare = 0.06;  // of the width: a narrower bar has no space for a name

// Why not all of that time are here; empty when they are.
function leftOut({leases, truncated, damaged = 0}) {
  const why = [];
  if (truncated) why.push(`only ${plural(leases.length, 'lease')} of more are shown`);
  if (damaged) why.push(`${plural(damaged, 'row')} of the store cannot be read`);
  return why.join('; ');
}

export class LeaseTimeline {
  constructor(changed) {
    this.changed = changed;
    this.seconds = 3600;
    this.by = 'gpu';
    this.leases = [];
    this.node =
        el('div', {class: 'card timeline', hidden: true}, this.makeHead(), this.makePlot(),
           this.makeLegend());
    setInterval(() => document.hidden || this.refresh(), kRefreshMs);
  }

  makeHead() {
    this.spans = kSpans.map(([text, seconds]) => el('button', {
                              class: 'button tiny',
                              type: 'button',
                              text,
                              'data-seconds': String(seconds),
                              on: {click: () => this.choose({seconds})}
                            }));
    this.groupings =
        [['By GPU', 'gpu'], ['By agent', 'agent']].map(([text, by]) => el('button', {
                                                         class: 'button tiny',
                                                         type: 'button',
                                                         text,
                                                         'data-by': by,
                                                         on: {click: () => this.choose({by})}
                                                       }));
    return el(
        'div', {class: 'timeline-head'}, el('h3', {text: 'Timeline'}),
        el('span', {role: 'group', 'aria-label': 'Lanes'}, ...this.groupings),
        el('span', {role: 'group', 'aria-label': 'Time shown'}, ...this.spans));
  }

  makePlot() {
    this.grid = el('div', {class: 'timeline-grid', 'aria-hidden': 'true'});
    this.ticks = new KeyedList(this.grid, () => new Tick());
    this.lanes = el('div', {class: 'lanes'});
    this.laneList = new KeyedList(this.lanes, () => new Lane());
    this.tip = new Tip();
    this.none = el('p', {class: 'muted timeline-none', text: 'No lease in this time.'});
    this.plot =
        el('div', {
          class: 'timeline-plot',
          role: 'group',
          'aria-label': 'Leases over time: arrow keys go from bar to bar',
          on: {
            pointerover: (event) => this.point(event.target.closest('.bar') ?? this.focused()),
            pointerleave: () => this.point(this.focused()),
            focusin: (event) => this.enter(event.target.closest('.bar')),
            focusout: () => this.point(null),
            keydown: (event) => this.key(event),
          }
        },
           this.grid, this.lanes, this.tip.node, this.none);
    return this.plot;
  }

  makeLegend() {
    this.truncated = el('span', {hidden: true});
    const kinds = [
      ...kPriorities.map((name) => [`pr-${name}`, name]),
      ['legend-waiting', 'waiting or on the CPU'],
    ];
    return el(
        'p', {class: 'ledger-legend muted'},
        ...kinds.map(([look, text]) => el('span', {}, el('i', {class: `swatch ${look}`}), text)),
        this.truncated);
  }

  choose(what) {
    Object.assign(this, what);
    this.refresh();
    this.changed();
  }

  async refresh() {
    const seconds = this.seconds;
    try {
      const answer = await getTimeline(seconds);
      if (seconds !== this.seconds) return;  // another span was chosen meanwhile
      this.leases = answer.leases;
      this.read = true;
      const left = leftOut(answer);
      setHidden(this.truncated, !left);
      setText(this.truncated, left);
      this.changed();
    } catch { /* the stream's own state says that the server is away */
    }
  }

  update(cards, now) {
    for (const button of [...this.spans, ...this.groupings]) {
      const on = button.dataset.by === this.by || button.dataset.seconds === String(this.seconds);
      setAttribute(button, 'aria-pressed', String(on));
    }
    const from = now - 1000 * this.seconds;
    const first = this.by === 'gpu' ? [...cards.keys()] : [];
    const lanes = lanesOf(this.leases, {from, to: now, by: this.by, first});
    const empty = !lanes.some((lane) => lane.bars.length);
    // Before anybody ever had a lease there is nothing to be seen.
    setHidden(this.node, empty && this.node.hidden);
    setHidden(this.none, !empty);
    this.ticks.update(ticksOf(from, now), (tick) => tick.time);
    this.laneList.update(lanes, (lane) => lane.key, this.by, cards, now);
    this.keepOneInTabOrder();
  }

  bars() {
    return [...this.lanes.querySelectorAll('.bar')];
  }

  keepOneInTabOrder() {
    const bars = this.bars();
    if (bars.some((bar) => bar.tabIndex === 0)) return;
    if (bars.length) bars[0].tabIndex = 0;
  }

  focused() {
    return this.lanes.querySelector('.bar:focus-visible');
  }

  enter(bar) {
    if (!bar) return;
    for (const other of this.bars()) other.tabIndex = other === bar ? 0 : -1;
    this.point(bar);
  }

  point(bar) {
    this.tip.show(bar, this.plot);
  }

  key(event) {
    const bars = this.bars();
    const at = bars.indexOf(document.activeElement);
    if (event.key === 'Escape') this.point(null);
    if (at < 0 || event.ctrlKey || event.metaKey || event.altKey) return;
    const next = {
      ArrowRight: bars[at + 1],
      ArrowDown: bars[at + 1],
      ArrowLeft: bars[at - 1],
      ArrowUp: bars[at - 1],
      Home: bars[0],
      End: bars.at(-1),
    }[event.key];
    if (!next) return;
    next.focus();
    event.preventDefault();
  }
}

class Tick {
  constructor() {
    this.node = el('span', {class: 'tick'});
  }

  update({time, left}) {
    setText(this.node, minute(time));
    place(this.node, 'left', left);
    setAttribute(this.node, 'data-end', left > 0.94 ? 'yes' : null);
  }
}

function place(node, property, share) {
  const value = `${(100 * share).toFixed(2)}%`;
  if (node.style[property] !== value) node.style[property] = value;
}

class Lane {
  constructor() {
    this.name = el('span', {class: 'lane-name'});
    this.sub = el('span', {class: 'lane-sub muted num'});
    this.track = el('div', {class: 'lane-track'});
    this.bars = new KeyedList(this.track, () => new Bar());
    this.node = el('div', {class: 'lane'}, el('p', {}, this.name, this.sub), this.track);
  }

  update({key, rows, bars, left}, by, cards, now) {
    const card = cards.get(key);
    setText(this.name, laneName(key, by, card));
    const bus = by === 'gpu' && card && shortBus(card.bus);
    setText(this.sub, [bus, left ? `+${left}` : ''].filter(Boolean).join(' '));
    setAttribute(this.sub, 'title', left ? `${left} more at the same time are not drawn` : null);
    const height = `${(rows * kRowRem).toFixed(2)}rem`;
    if (this.track.style.height !== height) this.track.style.height = height;
    this.bars.update(bars, (bar) => bar.key, cards, now);
  }
}

function laneName(key, by, card) {
  if (by === 'agent') return key;
  if (key === kNoGpu) return 'Without a GPU';
  return card ? `GPU ${card.gpu_device ?? '?'}` : `${key.slice(0, 12)}…`;
}

class Bar {
  constructor() {
    this.label = el('span');
    this.node = el('button', {class: 'bar', type: 'button', tabindex: '-1'}, this.label);
    this.node.view = this;
  }

  update({span, left, width, row}, cards, now) {
    this.span = span;
    this.lines = () => linesOf(span, cards, now);
    setText(this.label, width < kNameShare ? '' : span.lease.agent);
    setAttribute(this.node, 'class', `bar pr-${priorityOf(span.lease)}`);
    setAttribute(this.node, 'data-kind', span.kind);
    setAttribute(this.node, 'data-open', span.open ? 'yes' : null);
    setAttribute(this.node, 'data-lease', span.lease.lease_id);
    setAttribute(this.node, 'aria-label', [span.lease.agent, ...this.lines()].join('. '));
    place(this.node, 'left', left);
    place(this.node, 'width', width);
    const top = `${(row * kRowRem).toFixed(2)}rem`;
    if (this.node.style.top !== top) this.node.style.top = top;
  }
}

const kKinds = {
  held: 'held',
  waiting: 'waited',
  cpu: 'on the CPU'
};

// The text of a bar's tooltip.
function linesOf({kind, from, to, open, lease}, cards, now) {
  const {name, bus} = placeText(lease, cards);
  const where = lease.gpus?.length ? `${name}${bus ? ` (${bus})` : ''}, ` : '';
  const until = open ? 'now' : clock(to);
  const lasted = duration(((open ? now : to) - from) / 1000);
  return [
    `${sentence(lease.priority)} priority`,
    `${where}${memoryText(lease)}${lease.gpus?.length ? '' : ' requested'}`,
    `${clock(from)} to ${until}: ${kKinds[kind]} ${lasted}`,
    ...(lease.reason ? [sentence(lease.reason)] : []),
  ];
}

class Tip {
  constructor() {
    this.title = el('p', {class: 'tip-title'});
    this.lines = el('ul');
    this.list = new KeyedList(this.lines, makeLine);
    this.node =
        el('div', {class: 'tip num', 'aria-hidden': 'true', hidden: true}, this.title, this.lines);
  }

  show(bar, plot) {
    setHidden(this.node, !bar);
    if (!bar) return;
    setText(this.title, bar.view.span.lease.agent);
    this.list.update(bar.view.lines().map((text, i) => ({text, i})), ({i}) => i);
    const box = plot.getBoundingClientRect();
    const at = bar.getBoundingClientRect();
    const max = box.width - this.node.offsetWidth;
    this.node.style.left = `${Math.max(0, Math.min(max, at.left - box.left))}px`;
    this.node.style.top = `${at.bottom - box.top + 6}px`;
  }
}

function makeLine() {
  const node = el('li');
  return {node, update: ({text}) => setText(node, text)};
}
