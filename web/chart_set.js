// The charts of one device over one span of time. Presets follow the clock and
// refresh themselves; a drawn span stands still. All charts share span and pointer.

import {getHistory} from './api.js';
import {Chart} from './chart.js';
import {chartsOf} from './chart_specs.js';
import {el, setAttribute, setHidden, setText} from './dom.js';
import {clock} from './format.js';
import {rowsOf} from './series.js';
import {TrendText} from './trend_text.js';

const kPresets =
    [['5 min', 300], ['1 h', 3600], ['24 h', 86400], ['7 d', 7 * 86400], ['90 d', 90 * 86400]];
const kPoints = 600;
const kMinSpanMs = 10000;
const kLongestSpanMs = 90 * 86400 * 1000;

export class ChartSet {
  constructor(device, now) {
    this.device = device;
    this.now = now;  // () => the server's wall time in ms
    this.specs = chartsOf(device);
    const hooks = {
      onPoint: (time) => this.point(time),
      onSpan: (from, to) => this.pick(from, to),
      onBack: () => this.choose(this.preset)
    };
    this.charts = this.specs.map((spec) => new Chart(spec, hooks));
    this.others = new TrendText();
    this.problem = el('p', {class: 'chart-problem', role: 'status'});
    this.trends = [];
    this.node =
        el('div', {class: 'chart-set'}, this.makeRanges(), this.others.node, this.problem,
           el('div', {class: 'charts'}, ...this.charts.map((chart) => chart.node)));
    this.restyle = () => this.charts.forEach((chart) => chart.restyle());
    window.addEventListener('themechange', this.restyle);
    this.choose(300);
  }

  makeRanges() {
    this.buttons = kPresets.map(([text, seconds]) => el('button', {
                                  class: 'button tiny',
                                  type: 'button',
                                  text,
                                  'data-seconds': seconds,
                                  on: {click: () => this.choose(seconds)}
                                }));
    this.drawn = el('span', {class: 'num muted range-words'});
    this.back = el('button', {
      class: 'button tiny',
      type: 'button',
      text: 'Back to live',
      hidden: true,
      on: {click: () => this.choose(this.preset)}
    });
    return el(
        'div', {class: 'ranges', role: 'group', 'aria-label': 'Time span'}, ...this.buttons,
        this.back, this.drawn);
  }

  choose(seconds) {
    this.preset = seconds;
    this.fixed = null;
    this.mark();
    this.load();
  }

  pick(from, to) {
    const middle = (from + to) / 2;
    const half = Math.min(kLongestSpanMs, Math.max(kMinSpanMs, to - from)) / 2;
    const late = Math.max(0, middle + half - this.now());
    this.fixed = {from: middle - half - late, to: middle + half - late};
    this.mark();
    this.load();
  }

  // What the last hour shows, beside the charts it is about; a drawn span may be another time.
  showTrends(trends) {
    this.trends = trends;
    const shown = this.fixed ? [] : trends;
    for (const chart of this.charts) chart.showTrends(shown);
    this.others.update(
        shown.filter(({metric}) => !this.charts.some((chart) => chart.isAbout(metric))));
  }

  mark() {
    this.showTrends(this.trends);
    for (const button of this.buttons) {
      const on = !this.fixed && Number(button.dataset.seconds) === this.preset;
      setAttribute(button, 'aria-pressed', String(on));
    }
    setHidden(this.back, !this.fixed);
    setText(
        this.drawn,
        this.fixed ? `${clock(this.fixed.from)} to ${clock(this.fixed.to)}` :
                     'Drag on a chart to zoom in');
  }

  span() {
    return this.fixed ?? {from: this.now() - 1000 * this.preset, to: this.now()};
  }

  async load() {
    clearTimeout(this.timer);
    this.control?.abort();
    const control = this.control = new AbortController();
    const span = this.span();
    const metrics =
        this.specs.flatMap((spec) => [...Object.keys(spec.curves), spec.topMetric]).filter(Boolean);
    try {
      const answer =
          await getHistory(this.device, metrics, span.from, span.to, kPoints, control.signal);
      if (control.signal.aborted) return;
      this.charts.forEach(
          (chart, i) => chart.draw(
              rowsOf(answer, chart.metrics), span, topOf(answer, this.specs[i]), answer.step_s));
      setText(this.problem, '');
    } catch (error) {
      if (control.signal.aborted) return;
      setText(this.problem, `History is not to be had just now: ${error.message}`);
    }
    this.plan();
  }

  // A preset refreshes about as often as a new point would show.
  plan() {
    if (this.fixed || this.closed) return;
    const pause = Math.min(60000, Math.max(1000, (1000 * this.preset) / kPoints));
    this.timer =
        setTimeout(() => (document.hidden || this.pointing ? this.plan() : this.load()), pause);
  }

  point(time) {
    this.pointing = time !== null;
    for (const chart of this.charts) chart.say(time);
  }

  close() {
    this.closed = true;
    clearTimeout(this.timer);
    this.control?.abort();
    window.removeEventListener('themechange', this.restyle);
    for (const chart of this.charts) chart.close();
  }
}

function topOf(answer, spec) {
  const top = spec.topMetric && answer.metrics[spec.topMetric]?.max;
  return top?.length ? Math.max(...top) : undefined;
}
