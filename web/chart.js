// One chart: curves with the band between their lowest and highest value, and a
// line of words that says the values under the pointer, or else the newest.

import {el, setText} from './dom.js';
import {clock, kMissing} from './format.js';
import {nearest} from './series.js';
import {SpanPicker} from './span_picker.js';
import {TrendText} from './trend_text.js';

const Dygraph = window.Dygraph;
// The legend writes style attributes, which the content policy forbids; we have our own.
Dygraph.PLUGINS = Dygraph.PLUGINS.filter((plugin) => plugin !== Dygraph.Plugins.Legend);

const kCurrentSeconds = 30;  // an older value is not "now"

const css = (name) => getComputedStyle(document.documentElement).getPropertyValue(name).trim();

export class Chart {
  // onPoint(time or null): the pointer moved; onSpan(from, to): a span was drawn.
  constructor(spec, {onPoint, onSpan, onBack}) {
    this.spec = spec;
    this.metrics = Object.keys(spec.curves);
    this.labels = Object.values(spec.curves);
    this.onPoint = onPoint;
    this.rows = [];
    this.trend = new TrendText(spec.title);
    this.when = el('span', {class: 'chart-when num'});
    this.values = this.labels.map(() => el('b', {class: 'num'}));
    const legend = this.labels.map(
        (label, i) =>
            el('span', {class: 'legend-item'},
               el('i', {class: `swatch line-${i}`, 'aria-hidden': 'true'}), `${label} `,
               this.values[i]));
    this.plot = el('div', {class: 'chart-plot'});
    this.node =
        el('figure', {class: 'chart card'},
           el('figcaption', {}, el('span', {class: 'chart-title', text: spec.title}),
              this.trend.node, this.when, el('span', {class: 'legend'}, ...legend)),
           this.plot);
    this.picker = new SpanPicker(this.plot, () => this.graph, {onSpan, onBack});
  }

  draw(rows, span, top, step) {
    this.rows = rows;
    this.current = span.to - 1000 * Math.max(kCurrentSeconds, 3 * step);
    this.node.classList.toggle('empty', !rows.length);
    const file =
        rows.length ? rows : [[new Date(span.from), ...this.metrics.map(() => [null, null, null])]];
    const moving = {file, dateWindow: [span.from, span.to], valueRange: this.range(top)};
    if (this.graph)
      this.graph.updateOptions(moving);
    else
      this.graph = new Dygraph(this.plot, file, {...this.options(), ...moving});
    this.say(null);
  }

  range(top) {
    if (this.spec.top || top) return [0, 1.02 * (this.spec.top ?? top)];
    return this.spec.floor === undefined ? [null, null] : [this.spec.floor, this.ceiling()];
  }

  ceiling() {
    const highest = Math.max(...this.rows.flatMap((row) => row.slice(1).map((c) => c[2] || 0)), 0);
    return highest ? highest * 1.1 : 1;
  }

  options() {
    const format = (v) => this.spec.format(v);
    return {
      labels: ['time', ...this.labels],
      customBars: true,
      connectSeparatedPoints: true,
      colors: this.metrics.map((_, i) => css(`--line-${i}`)),
      fillAlpha: 0.16,
      strokeWidth: 1.7,
      gridLineColor: css('--grid'),
      axisLineColor: css('--grid'),
      axisLabelFontSize: 11,
      highlightCircleSize: 3,
      xRangePad: 0,
      yRangePad: 4,
      labelsKMG2: Boolean(this.spec.binary),
      interactionModel: {},
      animatedZooms: false,
      axes: {
        y: {axisLabelWidth: 62, axisLabelFormatter: format, pixelsPerLabel: 26},
        x: {pixelsPerLabel: 72, drawGrid: false},
      },
      highlightCallback: (event, time) => this.onPoint(time),
      unhighlightCallback: () => this.onPoint(null),
    };
  }

  // Shows the values at a moment here; null is the newest of each curve.
  say(time) {
    const row = time === null || !this.rows.length ? null : nearest(this.rows, time);
    if (this.graph && row !== null)
      this.graph.setSelection(row);
    else
      this.graph?.clearSelection();
    this.node.classList.toggle('pointed', row !== null);
    setText(this.when, row === null ? '' : clock(this.rows[row][0].getTime()));
    this.values.forEach((node, i) => setText(node, this.words(row, i + 1)));
  }

  // Those of the device's trends that are about these curves.
  showTrends(trends) {
    this.trend.update(trends.filter(({metric}) => this.isAbout(metric)));
  }

  isAbout(metric) {
    return metric in this.spec.curves || metric === this.spec.alsoAbout;
  }

  words(row, column) {
    const at = row === null ? this.newest(column) : this.rows[row][column];
    if (!at || !Number.isFinite(at[1])) return kMissing;
    const {format} = this.spec;
    const [low, mean, high] = at.map(format);
    return row === null || low === high ? mean : `${mean} (${low} to ${high})`;
  }

  newest(column) {
    const row = this.rows.findLast((r) => Number.isFinite(r[column][1]));
    return row && row[0] >= this.current ? row[column] : null;
  }

  restyle() {
    this.graph?.updateOptions({
      colors: this.metrics.map((_, i) => css(`--line-${i}`)),
      gridLineColor: css('--grid'),
      axisLineColor: css('--grid'),
    });
  }

  close() {
    this.picker.close();
    this.graph?.destroy();
    this.graph = null;
  }
}
