// A device's trends as one line of words beside the value or chart they are about;
// nothing where there is none. An arrow shows the direction at a glance.

import {el, setAttribute, setHidden, setText} from './dom.js';
import {sentence} from './format.js';
import {namedText} from './trends.js';

export class TrendText {
  // `about` is shown beside it already and is not repeated.
  constructor(about) {
    this.about = about;
    this.node = el('span', {class: 'trend num', hidden: true});
  }

  update(list) {
    setHidden(this.node, !list.length);
    setAttribute(this.node, 'data-trend', list[0]?.kind ?? null);
    const text =
        list.map((trend) => (trend.name === this.about ? sentence(trend.text) : namedText(trend)))
            .join('; ');
    setText(this.node, text);
    setAttribute(this.node, 'title', `${text} (from the last hour)`);
  }
}
