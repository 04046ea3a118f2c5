// The leases: who holds, waits for or does without a GPU, what is left to lease, and the
// timeline. Asked for every two seconds while the page is visible, and on events.

import {getLeases} from './api.js';
import {byId, el, setHidden, setText} from './dom.js';
import {keyHeaders} from './key.js';
import {LeaseCapacity} from './lease_capacity.js';
import {LeaseTable} from './lease_table.js';
import {totalText} from './lease_text.js';
import {LeaseTimeline} from './lease_timeline.js';
import {Copyable} from './parts.js';
import {askRevoke} from './revoke.js';

const kRefreshMs = 2000;
const kMinMs = 300;        // between two requests, however many events come
const kPatienceMs = 2000;  // the page does not wait longer than this for the first answer

export class Leases {
  constructor(changed) {
    this.changed = changed;
    this.settled = false;  // whether the section has its first content
    this.total = byId('leases-total');
    this.empty = makeEmpty();
    this.table = new LeaseTable((lease, button) => this.revoke(lease, button));
    this.capacity = new LeaseCapacity();
    this.timeline = new LeaseTimeline(changed);
    byId('leases').append(this.empty, this.table.node, this.timeline.node, this.capacity.node);
    const look = () => document.hidden || this.refresh();
    setInterval(look, kRefreshMs);
    document.addEventListener('visibilitychange', look);
  }

  // Something happened to a lease.
  onEvent() {
    if (document.hidden) return;
    this.changedSince = true;
    this.refresh();
  }

  // One request at a time, and one more for all that were wanted meanwhile.
  async refresh() {
    if (this.asking) {
      this.again = true;
      return;
    }
    this.asking = true;
    if (!this.settled) setTimeout(() => this.settle(), kPatienceMs);
    const past = this.changedSince || !this.timeline.read ? this.timeline.refresh() : null;
    this.changedSince = false;
    try {
      this.answer = await getLeases();
      this.receivedAt = performance.now();
      await past;
      this.settle();
    } catch { /* the stream's own state says that the server is away */
    }
    setTimeout(() => this.rested(), kMinMs);
  }

  rested() {
    this.asking = false;
    if (!this.again) return;
    this.again = false;
    this.refresh();
  }

  settle() {
    this.settled = true;
    this.changed();
  }

  update({now}) {
    if (!this.answer) return;
    const lag = (performance.now() - this.receivedAt) / 1000;
    const listed = this.answer.cards ?? [];
    const cards = new Map(listed.map((card) => [card.gpu_uuid, card]));
    const total = totalText(this.answer);
    setText(this.total, total);
    setHidden(this.empty, total !== '');
    this.table.update(this.answer, cards, lag);
    this.capacity.update(listed);
    this.timeline.update(cards, now);
  }

  revoke(lease, button) {
    askRevoke(lease, button, byId('leases-section'), () => this.onEvent());
  }
}

function makeEmpty() {
  const curl = new Copyable('Copy the command');
  const python = new Copyable('Copy the Python lines');
  const key = keyHeaders().Authorization ? ' -H "Authorization: Bearer $SLUICE_SERVE_API_KEY"' : '';
  const body = '{"agent": "scout", "memory_gb": 8, "priority": "high", "ttl_s": 600}';
  curl.update(
      `curl -s ${location.origin}/v1/leases${key} ` +
      `-H 'Content-Type: application/json' -d '${body}'`);
  python.update(
      'import sluice\nwith sluice.lease("scout", memory_gb=8) as gpu:\n' +
      '    model.to(gpu.device)');
  for (const one of [curl, python]) one.node.classList.add('command');
  return el(
      'div', {class: 'card lease-empty', hidden: true}, el('p', {
        text: 'Nobody holds a lease. A program asks for GPU memory like this, and gets its own ' +
            'GPU, or the reason why it has none:'
      }),
      el('div', {class: 'lease-examples'}, curl.node, python.node));
}
