// The API key, where the server wants one: asked for once, kept for this tab only.

import {byId, el} from './dom.js';

const kSlot = 'sluice-api-key';
let asking = null;

export function keyHeaders() {
  const key = sessionStorage.getItem(kSlot);
  return key ? {Authorization: `Bearer ${key}`} : {};
}

// Resolves when a key was given. Callers that are refused at the same time share
// one question; `refused` is the key the server did not take.
export function askKey() {
  const refused = sessionStorage.getItem(kSlot) !== null;
  asking ??= new Promise((given) => show(refused, given)).finally(() => {
    asking = null;
  });
  return asking;
}

function show(refused, given) {
  const input = el('input', {
    type: 'password',
    id: 'key-input',
    autocomplete: 'off',
    required: true,
    spellcheck: 'false'
  });
  const form =
      el('form', {}, el('h2', {id: 'key-title', text: 'API key'}), el('p', {
           text: refused ? 'The server did not take that key. Try again.' :
                           'This server asks for a key. It is kept until you close the tab.'
         }),
         el('label',
            {for: 'key-input', text: 'Key'
            }),
         input, el('button', {class: 'button strong', type: 'submit', text: 'Open the dashboard'}));
  const dialog = byId('key');
  dialog.replaceChildren(form);
  dialog.oncancel = (event) => event.preventDefault();
  form.addEventListener('submit', (event) => {
    event.preventDefault();
    sessionStorage.setItem(kSlot, input.value.trim());
    dialog.close();
    given();
  });
  if (!dialog.open) dialog.showModal();
  input.focus();
}
