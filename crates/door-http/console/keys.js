// The keyboard: one letter does what a button does. A switch turns the letters off for those whose input sends them by chance.

import { openDialog } from './action.js';
import { h } from './dom.js';

const KEPT = 'heddle-keys-off';

const HELP = [
  ['1 … 9, 0, -, =', 'the views, in the order of the list'],
  ['[ and ]', 'the view before, the view behind'],
  ['/', 'the filter of the view'],
  ['p', 'pause, and go on'],
  ['d', 'dark, and light'],
  ['?', 'this list'],
  ['Esc', 'close a dialog'],
];

function areOff() {
  return localStorage.getItem(KEPT) === 'yes';
}

export function showKeys() {
  const list = h('dl', {}, HELP.map(([key, what]) => [h('dt', {}, h('kbd', { text: key })), h('dd', { text: what })]));
  const off = h('input', { type: 'checkbox', id: 'keys-off' });
  off.checked = areOff();
  off.addEventListener('change', () => localStorage.setItem(KEPT, off.checked ? 'yes' : 'no'));
  const close = h('button', { type: 'button', text: 'Close', on: { click: () => dialog.close() } });
  const dialog = openDialog('Keys', [
    list,
    h('label', { for: 'keys-off' }, off, 'Letters do nothing (Tab, Enter and Esc always work)'),
    h('div', { class: 'row' }, close),
  ]);
  close.focus();
}

// actions: {view(index), step(by), filter(), pause(), theme()}
export function listen(actions) {
  document.addEventListener('keydown', (event) => {
    if (event.ctrlKey || event.altKey || event.metaKey || areOff()) return;
    const typing = event.target.closest?.('input, textarea, select, dialog');
    if (typing) return;
    const place = '1234567890-='.indexOf(event.key);
    if (place >= 0) actions.view(place);
    else if (event.key === '[') actions.step(-1);
    else if (event.key === ']') actions.step(1);
    else if (event.key === '/') actions.filter();
    else if (event.key === 'p') actions.pause();
    else if (event.key === 'd') actions.theme();
    else if (event.key === '?') showKeys();
    else return;
    event.preventDefault();
  });
}
