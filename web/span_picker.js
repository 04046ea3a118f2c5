// Draws a span of time on a chart: drag sideways with mouse or finger, or with the
// keyboard on the focused chart (arrows move, + and - zoom, Home goes back).

import {el} from './dom.js';

const kMinPixels = 6;

export class SpanPicker {
  constructor(plot, graph, {onSpan, onBack}) {
    this.plot = plot;
    this.graph = graph;
    this.onSpan = onSpan;
    this.onBack = onBack;
    this.shade = el('div', {class: 'shade', hidden: true});
    this.stop = new AbortController();
    const on = (type, f) => plot.addEventListener(type, f, {signal: this.stop.signal});
    on('pointerdown', (event) => this.begin(event));
    on('pointermove', (event) => this.move(event));
    on('pointerup', (event) => this.end(event));
    on('pointercancel', () => this.drop());
    on('dblclick', () => onBack());
    on('keydown', (event) => this.key(event));
    plot.tabIndex = 0;
    plot.setAttribute('role', 'group');
    plot.setAttribute('aria-label', 'Chart: arrow keys move in time, plus and minus zoom');
  }

  begin(event) {
    if (event.button !== 0 || !this.graph()) return;
    this.from = this.offset(event);
    this.plot.append(this.shade);
    this.plot.setPointerCapture(event.pointerId);
  }

  offset(event) {
    return event.clientX - this.plot.getBoundingClientRect().left;
  }

  move(event) {
    if (this.from === undefined) return;
    this.to = this.offset(event);
    this.shade.hidden = Math.abs(this.to - this.from) < kMinPixels;
    this.shade.style.left = `${Math.min(this.from, this.to)}px`;
    this.shade.style.width = `${Math.abs(this.to - this.from)}px`;
  }

  end() {
    const drawn = !this.shade.hidden && this.from !== undefined;
    const times = drawn ? [this.from, this.to].map((x) => this.graph().toDataXCoord(x)) : null;
    this.drop();
    if (times) this.onSpan(Math.min(...times), Math.max(...times));
  }

  drop() {
    this.from = undefined;
    this.shade.hidden = true;
  }

  key(event) {
    if (!this.graph() || event.ctrlKey || event.metaKey || event.altKey) return;
    const [from, to] = this.graph().xAxisRange();
    const width = to - from;
    const moves = {
      ArrowLeft: [from - width / 4, to - width / 4],
      ArrowRight: [from + width / 4, to + width / 4],
      '+': [from + width / 4, to - width / 4],
      '=': [from + width / 4, to - width / 4],
      '-': [from - width / 2, to + width / 2],
    };
    if (event.key === 'Home')
      this.onBack();
    else if (moves[event.key])
      this.onSpan(...moves[event.key]);
    else
      return;
    event.preventDefault();
  }

  close() {
    this.stop.abort();
  }
}
