// What the views that ask a command again and again have in common: the question, its command line, its error.

import { commandBox, told } from '../action.js';
import { Asking, read } from '../api.js';
import { h } from '../dom.js';
import { commandLine } from '../format.js';

export class Asked {
  // right: what the command needs; question(): [group, command, args, options]; rows(rows): shows them
  constructor(host, { right = 'monitor', periodMs = 3000, question, rows }) {
    Object.assign(this, { host, right, question, rows });
    this.line = commandBox('');
    this.error = h('div', { role: 'alert' });
    this.head = h('div', { class: 'row panel' }, h('span', { class: 'note', text: 'The same in a terminal:' }), this.line.element);
    this.asking = new Asking(periodMs, () => this.ask(), (answer) => this.show(answer), (error) => this.fail(error));
  }

  ask() {
    const [group, command, args = [], options = {}] = this.question();
    this.line.set(commandLine(group, command, args, options));
    return read(group, command, args, options);
  }

  show(rows) {
    this.error.replaceChildren();
    this.rows(rows);
  }

  fail(error) {
    const signIn = error.status === 401 || error.status === 403;
    const button = h('button', { type: 'button', class: 'small', text: 'Sign in', on: { click: () => this.host.askForToken() } });
    this.error.replaceChildren(h('div', { class: 'error' }, h('p', { text: signIn ? `This view needs the ${this.right} token.` : told(error) }), signIn ? button : ''));
  }

  start() {
    this.asking.start();
  }

  stop() {
    this.asking.stop();
  }

  again() {
    this.asking.again();
  }
}
