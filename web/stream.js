// Server-sent events over fetch: EventSource cannot send the key. Reconnects for
// ever with growing pauses and asks for what it missed by Last-Event-ID.

import {request} from './api.js';

const kFirstPause = 500;
const kLongestPause = 8000;
const kSilence = 10000;  // the server speaks every second; this long is a dead line
const kLongestEvent = 1 << 24;

// Takes text in chunks as they arrive, passes complete events to onEvent({type, id, data}).
export class EventParser {
  constructor(onEvent) {
    this.onEvent = onEvent;
    this.rest = '';
    this.clear();
  }

  clear() {
    this.type = 'message';
    this.data = [];
  }

  push(text) {
    const lines = (this.rest + text).split(/\r?\n/);
    this.rest = lines.pop();
    if (this.rest.length > kLongestEvent) throw new Error('an event without end');
    for (const line of lines) this.line(line);
  }

  line(line) {
    if (line === '') {
      if (this.data.length)
        this.onEvent({type: this.type, id: this.id, data: this.data.join('\n')});
      this.clear();
      return;
    }
    const colon = line.indexOf(':');
    const field = colon < 0 ? line : line.slice(0, colon);
    const value = colon < 0 ? '' : line.slice(colon + 1).replace(/^ /, '');
    if (field === 'event')
      this.type = value;
    else if (field === 'data')
      this.data.push(value);
    else if (field === 'id')
      this.id = value;
  }
}

export class Stream {
  // onState('live' | 'reconnecting', seconds until the next try)
  constructor(path, onEvent, onState) {
    this.path = path;
    this.onEvent = onEvent;
    this.onState = onState;
    this.lastId = null;
    this.pause = kFirstPause;
    this.parked = false;  // the page lies in the browser's back/forward cache
    window.addEventListener('pagehide', () => this.park(true));
    window.addEventListener('pageshow', () => this.park(false));
    window.addEventListener('online', () => this.wake?.());
    document.addEventListener('visibilitychange', () => document.hidden || this.wake?.());
  }

  // A page that is left but kept must not hold one of the few connections.
  park(parked) {
    this.parked = parked;
    if (parked)
      this.control?.abort();
    else
      this.wake?.();
  }

  async run() {
    for (;;) {
      try {
        if (!this.parked) await this.listen();
      } catch { /* whatever it was, the answer is to try again */
      }
      this.onState('reconnecting', this.pause / 1000);
      await this.rest(this.pause * (0.75 + Math.random() / 2));
      this.pause = Math.min(kLongestPause, this.pause * 2);
    }
  }

  rest(milliseconds) {
    return new Promise((done) => {
             const timer = setTimeout(done, milliseconds);
             this.wake = () => {
               clearTimeout(timer);
               done();
             };
           })
        .finally(() => {
          this.wake = null;
        });
  }

  async listen() {
    const control = this.control = new AbortController();
    let timer = setTimeout(() => control.abort(), kSilence);
    const heard = () => {
      clearTimeout(timer);
      timer = setTimeout(() => control.abort(), kSilence);
    };
    const parser = new EventParser((event) => this.take(event));
    try {
      const headers = {Accept: 'text/event-stream'};
      if (this.lastId !== null) headers['Last-Event-ID'] = this.lastId;
      const response = await request(this.path, {headers, signal: control.signal});
      const reader = response.body.pipeThrough(new TextDecoderStream()).getReader();
      for (;;) {
        const {done, value} = await reader.read();
        if (done) return;
        heard();
        parser.push(value);
      }
    } finally {
      clearTimeout(timer);
    }
  }

  take(event) {
    if (event.id !== undefined) this.lastId = event.id;
    this.pause = kFirstPause;
    this.onState('live', 0);
    this.onEvent(event.type, JSON.parse(event.data));
  }
}
