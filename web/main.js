// The dashboard: listens to the server, keeps the newest snapshot, and redraws once
// per frame at most. Nothing is drawn while the tab is hidden.

import {AlertsPanel} from './alerts_panel.js';
import {Balance} from './balance.js';
import {byId, KeyedList, setAttribute, setHidden, setText} from './dom.js';
import {footer} from './footer.js';
import {GpuTile} from './gpu_tile.js';
import {Leases} from './leases.js';
import {Ledger} from './ledger.js';
import {MachineTiles} from './machine_tiles.js';
import {NoGpu} from './no_gpu.js';
import {Panel} from './panel.js';
import {Stream} from './stream.js';
import {Summary} from './summary.js';
import {Trails} from './trail.js';
import {Trends} from './trends.js';

// "gap" says that events were missed while we were away.
const kAlertNews = new Set(['alert', 'alert_resolved', 'gap']);
const kQuietMs = 1500;  // without a snapshot for this long, ages still count up

class Page {
  constructor() {
    this.live = false;
    this.trails = new Trails();
    this.trends = new Trends(() => this.plan());
    this.tiles = new KeyedList(byId('gpu-tiles'), (gpu) => new GpuTile(gpu));
    this.balance = new Balance(byId('gpu-tiles'));
    this.alerts = new AlertsPanel();
    this.leases = new Leases(() => this.plan());
    const now = () => this.now();
    // Whatever has update(view) can stand here; each part finds its own place in the page.
    this.parts = [
      new Summary(),
      new MachineTiles(),
      new NoGpu(now),
      this.alerts,
      this.leases,
      new Ledger(),
      new Panel(now),
    ];
    byId('update').addEventListener('click', () => location.reload());
    setInterval(() => this.lagMs() > kQuietMs && this.plan(), 1000);
  }

  // The server's wall time; the browser's clock only counts on from its last word.
  now() {
    return this.snapshot ? this.snapshot.time_ms + this.lagMs() : Date.now();
  }

  lagMs() {
    return this.snapshot ? performance.now() - this.receivedAt : 0;
  }

  onEvent(type, data) {
    if (type === 'snapshot')
      this.take(data);
    else if (kAlertNews.has(type))
      this.alerts.refresh();
    if (type.startsWith('lease_') || type === 'gap') this.leases.onEvent();
  }

  take(snapshot) {
    if (!this.snapshot) this.catchUp();
    this.version ??= snapshot.version;
    this.snapshot = snapshot;
    this.receivedAt = performance.now();
    this.trails.take(snapshot);
    this.plan();
  }

  // What is not in the snapshot.
  catchUp() {
    this.alerts.refresh();
    this.trends.refresh();
    this.leases.refresh();
  }

  onState(state, seconds) {
    this.live = state === 'live';
    setAttribute(byId('link'), 'data-state', state);
    setText(byId('link-text'), this.live ? 'Live' : 'Reconnecting');
    setAttribute(
        byId('link'), 'title',
        this.live ? 'Values arrive every second' : `Next try in ${Math.ceil(seconds)} s`);
    this.plan();
  }

  plan() {
    if (this.planned) return;
    this.planned = true;
    requestAnimationFrame(() => {
      this.planned = false;
      if (this.snapshot) this.draw();
    });
  }

  draw() {
    const {snapshot, live, trails, trends} = this;
    const lag = Math.max(0, this.lagMs() / 1000);
    const view = {snapshot, lag, live, trails, trends, now: this.now()};
    if (this.leases.settled) setAttribute(byId('page'), 'aria-busy', null);
    setAttribute(document.body, 'data-link', live ? 'live' : 'away');
    setText(byId('version'), snapshot.version);
    setHidden(byId('update'), snapshot.version === this.version);
    setHidden(byId('demo'), !snapshot.demo);
    setText(byId('demo'), snapshot.demo ? `Demo: ${scenarioName(snapshot.demo)}` : '');
    this.tiles.update(snapshot.gpus, (gpu) => gpu.uuid, view);
    this.balance.update(snapshot.gpus.length);
    for (const part of this.parts) part.update(view);
    footer(snapshot);
  }
}

// A scenario may be a file.
const scenarioName = (demo) => demo.replace(/^.*\//, '').replace(/\.json$/, '');

const page = new Page();
new Stream(
    '/v1/events', (type, data) => page.onEvent(type, data),
    (state, seconds) => page.onState(state, seconds))
    .run();
