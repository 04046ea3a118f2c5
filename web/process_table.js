// The processes on GPUs as a table that can be sorted by any column.

import {el, KeyedList, setAttribute, setHidden, setText} from './dom.js';
import {bytes, kMissing, percent, plural} from './format.js';
import {colourOf, programName} from './palette.js';

const kMaxRows = 100;

const kColumns = [
  {id: 'gpu', title: 'GPU', class: 'num', show: (p) => p.gpu},
  {id: 'pid', title: 'PID', class: 'num right', show: (p) => String(p.pid)},
  {id: 'name', title: 'Name', class: '', show: (p) => programName(p.name)},
  {id: 'user', title: 'User', class: '', show: (p) => p.user || kMissing},
  {
    id: 'memory_bytes',
    title: 'Memory',
    class: 'num right',
    down: true,
    show: (p) => bytes(p.memory_bytes)
  },
  {
    id: 'utilization',
    title: 'SM',
    class: 'num right',
    down: true,
    show: (p) => percent(p.utilization)
  },
];

const classOf = (column) => `col-${column.id} ${column.class}`;

export class ProcessTable {
  constructor({withGpu}) {
    this.columns = kColumns.filter((column) => withGpu || column.id !== 'gpu');
    this.sort = this.columns.find((column) => column.id === 'memory_bytes');
    this.down = true;
    this.items = [];
    this.heads = this.columns.map((column) => this.makeHead(column));
    this.body = el('tbody');
    this.rows = new KeyedList(this.body, () => new Row(this.columns));
    this.none = el('p', {class: 'muted table-none', text: 'No process uses this memory.'});
    this.more = el('p', {class: 'muted table-none num', hidden: true});
    this.table =
        el('table', {}, el('caption', {class: 'unseen', text: 'Processes on the GPUs'}),
           el('thead', {}, el('tr', {}, ...this.heads)), this.body);
    this.node = el('div', {class: 'table-box'}, this.table, this.none, this.more);
    this.mark();
  }

  makeHead(column) {
    return el('th', {scope: 'col', class: classOf(column)}, el('button', {
                class: 'sort',
                type: 'button',
                text: column.title,
                on: {click: () => this.choose(column)}
              }));
  }

  choose(column) {
    this.down = this.sort === column ? !this.down : Boolean(column.down);
    this.sort = column;
    this.mark();
    this.update(this.items);
  }

  mark() {
    this.columns.forEach(
        (column, i) => setAttribute(
            this.heads[i], 'aria-sort',
            column !== this.sort ? null :
                this.down        ? 'descending' :
                                   'ascending'));
  }

  update(items) {
    this.items = items;
    const sorted = [...items].sort((a, b) => this.compare(a, b));
    this.rows.update(sorted.slice(0, kMaxRows), (p) => `${p.gpu}/${p.pid}/${p.kind}`);
    setHidden(this.table, !items.length);
    setHidden(this.none, items.length > 0);
    setHidden(this.more, items.length <= kMaxRows);
    setText(this.more, `and ${plural(Math.max(0, items.length - kMaxRows), 'more row')}`);
  }

  compare(a, b) {
    const x = a[this.sort.id] ?? -1;
    const y = b[this.sort.id] ?? -1;
    const order = typeof x === 'string' ? x.localeCompare(String(y)) : x - y;
    return (this.down ? -order : order) || a.pid - b.pid;
  }
}

class Row {
  constructor(columns) {
    this.columns = columns;
    this.cells = columns.map((column) => el('td', {class: classOf(column)}));
    this.swatch = el('i', {'aria-hidden': 'true'});
    this.label = el('span');
    this.cells[columns.findIndex((column) => column.id === 'name')].append(this.swatch, this.label);
    this.node = el('tr', {}, ...this.cells);
  }

  update(process) {
    this.columns.forEach((column, i) => {
      setText(column.id === 'name' ? this.label : this.cells[i], column.show(process));
      if (column.id === 'name') setAttribute(this.cells[i], 'title', process.name ?? '');
    });
    setAttribute(this.swatch, 'class', `swatch seg-${colourOf(process.name)}`);
  }
}
