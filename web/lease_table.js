// Who holds what: one row per lease, those that wait and those on the CPU included. On a
// narrow page the rows become cards; the roles keep them a table for screen readers.

import {el, icon, KeyedList, setAttribute, setHidden, setIcon, setText, setWidth} from './dom.js';
import {kMissing, sentence} from './format.js';
import {LeaseFilter} from './lease_filter.js';
import * as words from './lease_text.js';
import {memoryText, placeText, priorityOf} from './lease_text.js';

const kLongReason = 150;  // characters; longer ones are folded

const kColumns = [
  ['agent', 'Agent'],
  ['priority', 'Priority'],
  ['state', 'State'],
  ['gpu', 'GPU'],
  ['memory', 'Used of promised'],
  ['since', 'Since'],
  ['left', 'Time left'],
  ['tier', 'Enforcement'],
  ['act', 'Action'],
];

export class LeaseTable {
  // revoke(lease, button) is called when an operator wants one back.
  constructor(revoke) {
    const heads = kColumns.map(
        ([id, title]) =>
            el('th', {scope: 'col', role: 'columnheader', class: `lease-${id}`},
               el('span', {class: id === 'act' ? 'unseen' : '', text: title})));
    this.body = el('tbody', {role: 'rowgroup'});
    this.rows = new KeyedList(this.body, () => new Row(revoke));
    this.filter = new LeaseFilter(() => this.update(...this.last));
    this.table =
        el('table', {class: 'lease-table', role: 'table'},
           el('caption', {class: 'unseen', text: 'Leases of GPU memory'}),
           el('thead', {role: 'rowgroup'}, el('tr', {role: 'row'}, ...heads)), this.body);
    this.node = el(
        'div', {class: 'card table-card lease-box'}, this.filter.box, this.table, this.filter.more);
  }

  update(answer, cards, lag) {
    this.last = [answer, cards, lag];
    const {leases = [], waiting = [], on_cpu: onCpu = []} = answer;
    const items = [
      ...leases.map((lease) => ({lease})),
      ...waiting.map((lease, i) => ({lease, place: {at: i + 1, of: waiting.length}})),
      ...onCpu.map((lease) => ({lease})),
    ];
    setHidden(this.node, !items.length);
    const shown = this.filter.choose(items, ({lease}) => words.searchText(lease, cards));
    setHidden(this.table, !shown.length);
    this.rows.update(shown, ({lease}) => lease.lease_id, cards, lag);
  }
}

// Something to read first and a smaller remark under it.
class Pair {
  constructor() {
    this.text = el('span', {class: 'pair-text'});
    this.remark = el('span', {class: 'pair-remark muted'});
    this.nodes = [this.text, this.remark];
  }

  update({text, remark}) {
    setText(this.text, text);
    setText(this.remark, remark);
  }
}

class Row {
  constructor(revoke) {
    for (const name of ['agent', 'gpu', 'since', 'left', 'tier']) this[name] = new Pair();
    this.swatch = el('i', {class: 'swatch', 'aria-hidden': 'true'});
    this.priority = el('span');
    this.use = new Use();
    this.state = new StateCell();
    this.button = el('button', {
      class: 'button tiny',
      type: 'button',
      text: 'Revoke',
      on: {click: () => revoke(this.lease, this.button)}
    });
    const parts = {
      agent: this.agent.nodes,
      priority: [el('span', {class: 'priority'}, this.swatch, this.priority)],
      state: this.state.nodes,
      gpu: this.gpu.nodes,
      memory: this.use.nodes,
      since: this.since.nodes,
      left: this.left.nodes,
      tier: this.tier.nodes,
      act: [this.button],
    };
    this.cells =
        Object.fromEntries(kColumns.map(([id, title]) => [id, cell(id, title, parts[id])]));
    this.node = el('tr', {role: 'row'}, ...Object.values(this.cells));
  }

  update({lease, ...more}, cards, lag) {
    this.lease = lease;
    setAttribute(this.node, 'data-lease', lease.lease_id);
    setAttribute(this.node, 'data-state', lease.state);
    this.agent.update({text: lease.agent, remark: aside(lease)});
    setAttribute(this.agent.text, 'title', lease.agent);
    setAttribute(this.swatch, 'class', `swatch pr-${priorityOf(lease)}`);
    setText(this.priority, sentence(lease.priority));
    const broken = words.brokenCard(lease, cards);
    this.state.update(words.stateText(lease, lag, {...more, broken}));
    this.updatePlace(lease, cards);
    this.use.update(lease);
    this.since.update(words.sinceText(lease, lag));
    this.left.update(words.leftText(lease, lag));
    setAttribute(this.cells.left, 'title', 'It ends then, unless its holder renews it');
    this.updateTier(lease);
    setHidden(this.button, lease.state === 'draining');
    setAttribute(this.button, 'aria-label', `Revoke the lease of ${lease.agent}`);
  }

  // Without a GPU there is nothing to use, and a reason to tell in that place.
  updatePlace(lease, cards) {
    const granted = Boolean(lease.gpus?.length);
    const {name, bus} = placeText(lease, cards);
    this.gpu.update({text: name, remark: bus});
    setAttribute(this.cells.gpu, 'title', granted ? lease.reason : null);
    setHidden(this.cells.gpu, !granted);
    setHidden(this.cells.memory, !granted);
    setAttribute(this.cells.state, 'colspan', granted ? null : '3');
  }

  // Only what is granted is enforced.
  updateTier(lease) {
    const {name, short, long} = words.tierText(lease.enforcement);
    const granted = Boolean(lease.gpus?.length);
    this.tier.update(granted ? {text: name, remark: short} : {text: kMissing, remark: ''});
    setAttribute(this.cells.tier, 'title', granted ? long : null);
    setAttribute(this.tier.text, 'aria-description', granted ? long : null);
  }
}

const cell = (id, title, nodes) =>
    el('td', {role: 'cell', class: `lease-${id} num`, 'data-title': title}, ...nodes);

// "lease 12 · pid 4711 · llm"
const aside = (lease) => [`lease\u00a0${lease.lease_id}`, lease.pid && `pid\u00a0${lease.pid}`,
                          lease.model_type !== lease.agent && lease.model_type]
                             .filter(Boolean)
                             .join(' · ');

class StateCell {
  constructor() {
    this.icon = icon('probation');
    this.word = el('span');
    this.badge = el('span', {class: 'badge'}, this.icon, this.word);
    this.remark = el('span', {class: 'pair-remark'});
    this.reason = el('span', {class: 'pair-remark muted lease-reason'});
    this.fold = el('button', {
      class: 'fold',
      type: 'button',
      'aria-expanded': 'false',
      on: {click: () => this.toggle()}
    });
    this.nodes = [this.badge, this.remark, this.reason, this.fold];
    this.open = false;
  }

  toggle() {
    this.open = !this.open;
    this.show();
  }

  show() {
    const long = this.reason.textContent.length > kLongReason;
    setHidden(this.fold, !long);
    setText(this.fold, this.open ? 'less' : 'more');
    setAttribute(this.fold, 'aria-expanded', String(this.open));
    setAttribute(this.reason, 'data-folded', long && !this.open ? 'yes' : null);
  }

  update({word, look, remark, reason}) {
    setAttribute(this.badge, 'data-state', look);
    setIcon(this.icon, look);
    setText(this.word, word);
    setText(this.remark, remark);
    setText(this.reason, reason);
    this.show();
  }
}

// Promised and used as a bar: what goes past the promise stands out at its end.
class Use {
  constructor() {
    this.text = el('span', {class: 'pair-text'});
    this.remark = el('span', {class: 'pair-remark muted'});
    this.within = el('span', {class: 'seg seg-used'});
    this.past = el('span', {class: 'seg seg-past'});
    this.bar = el('span', {class: 'meter lease-bar', role: 'img'}, this.within, this.past);
    this.nodes = [
      el('span', {class: 'lease-use'}, this.text, this.remark),
      this.bar,
    ];
  }

  update(lease) {
    const {text, remark, shares} = words.useText(lease);
    setText(this.text, text);
    setText(this.remark, remark);
    setAttribute(this.bar, 'data-unknown', shares.length ? null : 'yes');
    setAttribute(this.bar, 'aria-label', shares.length ? `${text} used` : 'Use not known');
    setWidth(this.within, shares[0] ?? 0);
    setWidth(this.past, shares[1] ?? 0);
    setAttribute(this.bar, 'title', barTitle(lease));
  }
}

const kWhyUnknown =
    'Which process holds it is not known: it was asked for over TCP, or its memory is not listed';

const barTitle = (lease) =>
    (lease.used_gb === undefined ? kWhyUnknown : `${memoryText(lease)} promised`);
