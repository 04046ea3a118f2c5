// Which of many leases the table shows: a search box over it, and a button under it for more.

import {el, setHidden, setText} from './dom.js';
import {chooseRows, shownText} from './lease_text.js';

const kStep = 50;  // rows at first, and more with each press
const kFew = 8;    // so many are seen at a glance

export class LeaseFilter {
  // changed() is called when other rows are to be shown.
  constructor(changed) {
    this.limit = kStep;
    this.input = el('input', {
      id: 'lease-filter',
      type: 'search',
      maxlength: '128',
      autocomplete: 'off',
      spellcheck: 'false',
      placeholder: 'agent, GPU, state, pid',
      on: {
        input: () => {
          this.limit = kStep;
          changed();
        }
      }
    });
    this.count = el('p', {class: 'muted num', role: 'status'});
    this.box = el('div', {class: 'lease-filter', role: 'search', hidden: true}, el('label', {for: this.input.id, text: 'Filter'
                  }), this.input, this.count);
    this.more = el('button', {
      class: 'button lease-more num',
      type: 'button',
      hidden: true,
      on: {
        click: () => {
          this.limit += kStep;
          changed();
        }
      }
    });
  }

  // The items to show; words(item) is what is searched.
  choose(items, words) {
    const found = chooseRows(items, this.input.value, words);
    const shown = found.slice(0, this.limit);
    // What was typed stays in reach when leases end meanwhile.
    setHidden(this.box, items.length <= kFew && !this.input.value);
    setText(this.count, shownText(shown.length, found.length, items.length));
    const left = found.length - shown.length;
    setHidden(this.more, left === 0);
    setText(this.more, `Show ${Math.min(left, kStep)} more of ${left}`);
    return shown;
  }
}
