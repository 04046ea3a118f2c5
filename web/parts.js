// The parts tiles and panels are built from: badge, meter, fact, copy button.

import {el, icon, setAttribute, setHidden, setIcon, setText, setWidth} from './dom.js';

const kLabels = {
  healthy: 'Healthy',
  degraded: 'Degraded',
  lost: 'Lost',
  probation: 'Probation'
};

// Icon, colour and word say the same thing, so that none of them is needed alone.
export class Badge {
  constructor() {
    this.icon = icon('probation');
    this.word = el('span');
    this.node = el('span', {class: 'badge'}, this.icon, this.word);
  }

  update(state) {
    setAttribute(this.node, 'data-state', state);
    setIcon(this.icon, kLabels[state] ? state : 'info');
    setText(this.word, kLabels[state] ?? state);
  }
}

// A big number under its small name.
export const labelled = (name, node) =>
    el('p', {class: 'labelled'}, el('span', {class: 'label', text: name}), node);

// A bar of segments that together make at most 1.
export class Meter {
  constructor(label, kinds) {
    this.segments = kinds.map((kind) => el('span', {class: `seg seg-${kind}`}));
    this.node =
        el('div', {
          class: 'meter',
          role: 'meter',
          'aria-label': label,
          'aria-valuemin': '0',
          'aria-valuemax': '100'
        },
           ...this.segments);
  }

  update(shares, words) {
    this.segments.forEach((segment, i) => setWidth(segment, shares[i] ?? 0));
    const known = shares[0] !== undefined && Number.isFinite(shares[0]);
    setAttribute(this.node, 'aria-valuenow', String(Math.round(100 * (known ? shares[0] : 0))));
    setAttribute(this.node, 'aria-valuetext', words);
  }
}

// A name, a value and a smaller remark under it.
export class Fact {
  constructor(name) {
    this.value = el('dd', {class: 'fact-value num'});
    this.remark = el('dd', {class: 'fact-remark num'});
    this.node = el('div', {class: 'fact'}, el('dt', {text: name}), this.value, this.remark);
  }

  update(value, remark = '') {
    setText(this.value, value);
    setText(this.remark, remark);
  }
}

// Text with a button that puts it on the clipboard.
export class Copyable {
  constructor(label) {
    this.text = el('span', {class: 'copy-text'});
    this.button = el('button', {
      class: 'button tiny',
      type: 'button',
      text: 'Copy',
      'aria-label': label,
      on: {click: () => this.copy()}
    });
    this.node = el('div', {class: 'copy'}, this.button, this.text);
  }

  update(text) {
    setHidden(this.node, !text);
    setText(this.text, text);
  }

  async copy() {
    setText(this.button, (await toClipboard(this.text)) ? 'Copied' : 'Selected');
    clearTimeout(this.timer);
    this.timer = setTimeout(() => setText(this.button, 'Copy'), 1500);
  }
}

// Plain http on a remote address has no clipboard: select the text instead.
async function toClipboard(node) {
  try {
    await navigator.clipboard.writeText(node.textContent);
    return true;
  } catch {
    window.getSelection().selectAllChildren(node);
    return false;
  }
}
