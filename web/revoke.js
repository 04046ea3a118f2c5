// An operator takes a lease back: asked for a reason first, which is shown to the holder.

import {revokeLease} from './api.js';
import {byId, el, setHidden, setText} from './dom.js';
import {memoryText} from './lease_text.js';

// Where `button` is gone by then, the focus goes to `home`. `done` is called after it worked.
export function askRevoke(lease, button, home, done) {
  const dialog = byId('revoke');
  const input = el('input', {
    id: 'revoke-reason',
    type: 'text',
    required: true,
    maxlength: '200',
    autocomplete: 'off',
    placeholder: 'maintenance of this GPU at 14:00'
  });
  const problem = el('p', {class: 'alert-problem', role: 'alert', hidden: true});
  const go = el('button', {class: 'button danger', type: 'submit', text: 'Revoke the lease'});
  const keep =
      el('button',
         {class: 'button', type: 'button', text: 'Keep it', on: {click: () => dialog.close()}});
  const title = el('h2', {id: 'revoke-title', text: `Revoke the lease of ${lease.agent}?`});
  const text = el('p', {class: 'muted', text: consequence(lease)});
  const label = el('label', {for: input.id, text: 'Reason, which is shown to the holder'
  });
  const buttons = el('div', {class: 'ask-buttons'}, keep, go);
  const form = el('form', {}, title, text, label, input, problem, buttons);
  form.addEventListener('submit', async (event) => {
    event.preventDefault();
    const reason = input.value.trim();
    if (!reason) return;
    go.disabled = true;
    try {
      await revokeLease(lease.lease_id, reason);
      dialog.close();
      done();
    } catch (error) {
      setText(problem, error.message);
      setHidden(problem, false);
      go.disabled = false;
    }
  });
  dialog.replaceChildren(form);
  dialog.onclose = () => (button.isConnected && !button.hidden ? button : home).focus();
  dialog.showModal();
  input.focus();
}

function consequence(lease) {
  if (!lease.gpus?.length) return `Its request for ${memoryText(lease)} is dropped.`;
  return `Its promise of ${memoryText(lease)} ends at once and others may be given that memory. ` +
      'The process itself is not stopped.';
}
