// Active alerts with cause, fix and silence; what was resolved lately below them.

import {getAlerts, silence, unsilence} from './api.js';
import {byId, el, icon, KeyedList, setAttribute, setHidden, setIcon, setText} from './dom.js';
import {clock, duration, plural, sentence} from './format.js';
import {Copyable} from './parts.js';

const kIcons = {
  critical: 'lost',
  warning: 'degraded',
  info: 'info'
};
const kDurations = [['15 min', 900], ['1 h', 3600], ['8 h', 8 * 3600], ['24 h', 24 * 3600]];
const kRecent = 20;
const kRefreshMs = 60000;

export class AlertsPanel {
  constructor() {
    this.none = el('p', {class: 'card calm', text: 'No active alerts.'});
    this.active = el('ul', {class: 'alert-list'});
    this.activeList = new KeyedList(this.active, () => new AlertCard(() => this.refresh()));
    this.recentTitle = el('summary');
    this.recent = el('ul', {class: 'recent-list'});
    this.recentList = new KeyedList(this.recent, () => new RecentLine());
    this.details =
        el('details', {class: 'card recent', hidden: true}, this.recentTitle, this.recent);
    byId('alerts').append(this.none, this.active, this.details);
    setInterval(() => document.hidden || this.refresh(), kRefreshMs);
  }

  update({snapshot, lag}) {
    const alerts = snapshot.alerts ?? [];
    setHidden(this.none, alerts.length > 0);
    this.activeList.update(alerts, (alert) => alert.id, snapshot.time_ms + 1000 * lag);
  }

  // The resolved ones are not in the snapshot; asked for when an event says so.
  async refresh() {
    try {
      const recent = (await getAlerts()).recent ?? [];
      const shown = recent.filter((alert) => alert.resolved_ms)
                        .sort((a, b) => b.resolved_ms - a.resolved_ms)
                        .slice(0, kRecent);
      setHidden(this.details, !shown.length);
      setText(this.recentTitle, `${plural(shown.length, 'alert')} resolved lately`);
      this.recentList.update(shown, (alert) => `${alert.id} ${alert.since_ms}`);
    } catch { /* the stream's own state says that the server is away */
    }
  }
}

class AlertCard {
  constructor(changed) {
    this.changed = changed;
    this.icon = icon('info');
    this.summary = el('p', {class: 'alert-summary'});
    this.meta = el('p', {class: 'alert-meta num muted'});
    this.cause = el('p', {class: 'alert-cause'});
    this.fix = new Copyable('Copy the fix');
    this.node =
        el('li', {class: 'card alert'}, this.icon,
           el('div', {class: 'alert-body'}, this.summary, this.meta, this.cause, this.fix.node,
              this.makeSilence()));
  }

  makeSilence() {
    this.toggle = el('button', {
      class: 'button tiny',
      type: 'button',
      text: 'Silence',
      'aria-expanded': 'false',
      on: {click: () => this.press()}
    });
    this.choices =
        el('span', {class: 'silence-choices', hidden: true},
           ...kDurations.map(
               ([text, seconds]) => el('button', {
                 class: 'button tiny',
                 type: 'button',
                 text,
                 'aria-label': `Silence for ${text}`,
                 on: {click: () => this.act(silence(this.alert.rule, this.alert.device, seconds))}
               })));
    this.problem = el('span', {class: 'alert-problem', role: 'alert'});
    return el('div', {class: 'silence'}, this.toggle, this.choices, this.problem);
  }

  press() {
    if (this.alert.silenced_until_ms)
      this.act(unsilence(this.alert.rule, this.alert.device));
    else
      this.expand(this.choices.hidden);
  }

  expand(open) {
    setHidden(this.choices, !open);
    setAttribute(this.toggle, 'aria-expanded', String(open));
    if (open) this.choices.firstChild.focus();
  }

  async act(request) {
    try {
      await request;
      setText(this.problem, '');
    } catch (error) {
      setText(this.problem, error.message);
    }
    this.expand(false);
    this.toggle.focus();
    this.changed();
  }

  update(alert, now) {
    this.alert = alert;
    const silenced = alert.silenced_until_ms;
    setAttribute(this.node, 'data-rule', alert.rule);
    setAttribute(this.node, 'data-severity', alert.severity);
    setAttribute(this.node, 'data-silenced', silenced ? 'yes' : null);
    setIcon(this.icon, kIcons[alert.severity] ?? 'info');
    setText(this.summary, alert.summary);
    const since = alert.since_ms;
    setText(
        this.meta,
        `${sentence(alert.severity)} · since ${clock(since)} (${duration((now - since) / 1000)})` +
            (silenced ? ` · silenced until ${clock(silenced)}` : ''));
    setText(this.cause, sentence(alert.cause));
    this.fix.update(alert.fix);
    setText(this.toggle, silenced ? 'End silence' : 'Silence');
  }
}

class RecentLine {
  constructor() {
    this.summary = el('p', {class: 'recent-summary'});
    this.meta = el('p', {class: 'num muted'});
    this.node = el('li', {}, this.summary, this.meta);
  }

  update(alert) {
    const {since_ms: from, resolved_ms: to} = alert;
    setText(this.summary, alert.summary);
    setText(this.meta, `${clock(from)}, lasted ${duration((to - from) / 1000)}`);
  }
}
