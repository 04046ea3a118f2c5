// What a machine without a GPU shows in their place: that all is well, why none was
// found, how to look further, and the CPU's own curves.

import {ChartSet} from './chart_set.js';
import {byId, el, KeyedList, setHidden, setText} from './dom.js';
import {Copyable} from './parts.js';

export class NoGpu {
  constructor(now) {
    this.now = now;
    this.box = byId('no-gpu');
    this.notes = el('ul', {class: 'no-gpu-notes'});
    this.noteList = new KeyedList(this.notes, makeNote);
    this.command = new Copyable('Copy the command');
    this.command.node.classList.add('command');
    this.command.update('sluice doctor');
    this.box.append(
        el('p', {class: 'no-gpu-head', text: 'No GPU here, and that is fine.'}),
        el('p', {text: 'Sluice runs on the CPU instead. What it looked for and did not find:'}),
        this.notes, el('p', {
          text: 'If this machine should have a GPU, this names what is missing and how to fix it:'
        }),
        this.command.node);
  }

  update({snapshot, trends}) {
    const none = snapshot.gpus.length === 0;
    setHidden(this.box, !none);
    setHidden(byId('gpu-tiles'), none);
    if (!none) return this.dropCharts();
    this.noteList.update(snapshot.notes ?? [], (note) => note);
    if (!this.charts) this.makeCharts();
    this.charts.showTrends(trends.of('cpu'));
  }

  makeCharts() {
    this.charts = new ChartSet('cpu', this.now);
    this.section = el('section', {'aria-label': 'CPU'}, el('h2', {text: 'CPU'}), this.charts.node);
    byId('gpus').after(this.section);
  }

  dropCharts() {
    this.charts?.close();
    this.section?.remove();
    this.charts = this.section = null;
  }
}

function makeNote() {
  const node = el('li');
  return {node, update: (note) => setText(node, note)};
}
