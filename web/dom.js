// Small helpers over the DOM. What the machine reports (process names, causes)
// is hostile: it only ever goes in as text, never as markup.

const kSvg = 'http://www.w3.org/2000/svg';

export const byId = (id) => document.getElementById(id);

// el('button', {class: 'x', text: 'Go', on: {click: f}, 'aria-label': '…'}, child…)
export function el(tag, props = {}, ...children) {
  return fill(document.createElement(tag), props, children);
}

export function svg(tag, props = {}, ...children) {
  return fill(document.createElementNS(kSvg, tag), props, children);
}

export function icon(name, extra = '') {
  return svg(
      'svg', {class: `icon ${extra}`, 'aria-hidden': 'true'}, svg('use', {href: `#icon-${name}`}));
}

export function setIcon(node, name) {
  setAttribute(node.firstChild, 'href', `#icon-${name}`);
}

function fill(node, props, children) {
  for (const [name, value] of Object.entries(props)) {
    if (name === 'text')
      node.textContent = value;
    else if (name === 'on')
      for (const [type, f] of Object.entries(value)) node.addEventListener(type, f);
    else if (value !== undefined && value !== null && value !== false)
      node.setAttribute(name, value === true ? '' : value);
  }
  node.append(...children);
  return node;
}

// The setters touch the page only when something changed, so that a second in
// which nothing moved costs no layout.
export function setText(node, text) {
  if (node.textContent !== text) node.textContent = text;
}

export function setAttribute(node, name, value) {
  if (value === null)
    node.removeAttribute(name);
  else if (node.getAttribute(name) !== value)
    node.setAttribute(name, value);
}

export function setHidden(node, hidden) {
  if (node.hidden !== hidden) node.hidden = hidden;
}

export function setWidth(node, share) {
  const width = `${(100 * Math.min(1, Math.max(0, share))).toFixed(1)}%`;
  if (node.style.width !== width) node.style.width = width;
}

// Children that follow a list: nodes are made once per key, moved when the order
// changes and removed when their key is gone. make(item) gives {node, update(item, …)}.
export class KeyedList {
  constructor(parent, make) {
    this.parent = parent;
    this.make = make;
    this.views = new Map();
  }

  update(items, keyOf, ...context) {
    const seen = new Set();
    let previous = null;
    for (const item of items) {
      const key = keyOf(item);
      if (seen.has(key)) continue;
      seen.add(key);
      if (!this.views.has(key)) this.views.set(key, this.make(item));
      const view = this.views.get(key);
      view.update(item, ...context);
      const place = previous ? previous.nextSibling : this.parent.firstChild;
      if (view.node !== place) this.parent.insertBefore(view.node, place);
      previous = view.node;
    }
    for (const [key, view] of this.views) {
      if (seen.has(key)) continue;
      view.node.remove();
      this.views.delete(key);
    }
  }
}
