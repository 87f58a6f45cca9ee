// Events: what happened to the farm lately, as this router saw it, the latest first.

import { commandBox } from '../action.js';
import { h } from '../dom.js';
import { ago, commandLine } from '../format.js';
import { Table, stateCell } from '../table.js';

// How bad a kind of event is, by what its name says.
const DOWN = /(_lost|_died|_lossy|_stuck|unreachable|unreadable|unwritable|unavailable|adrift|failed|refused|panicked)$/;
const HURT = /(suspected|_waits|fenced|demoted|mistaken|changed|older|advised|_left|removed)$/;

export const events = {
  id: 'events',
  title: 'Events',
  answers: 'What happened lately, to whom, in which order?',
  make: () => new Events(),
};

class Events {
  constructor() {
    const text = (name, title = name, className = '') => ({ name, title, className, value: (row) => row[name] ?? '' });
    this.table = new Table({
      label: 'The last 200 events',
      keyOf: (row) => row.key,
      sortBy: 'at',
      descending: true,
      empty: 'Nothing happened since this router was started.',
      columns: [
        { name: 'at', title: 'when', value: (row) => row.order, show: (row) => new Date(row.at_ms).toISOString().replace('T', ' ').replace('Z', '') },
        { name: 'ago', title: 'ago', number: true, value: (row) => -row.order, show: (row) => ago(row.at_ms) },
        { name: 'kind', title: 'event', value: (row) => row.kind, cell: stateCell((row) => [severity(row.kind), row.kind]) },
        text('group', 'group'),
        text('address', 'server'),
        text('detail', 'what', 'long'),
      ],
    });
    const head = h('div', { class: 'row panel' }, h('span', { class: 'note', text: 'The same in a terminal:' }), commandBox(commandLine('group', 'events')).element);
    this.element = h('div', {}, head, this.table.element);
  }

  show(picture) {
    if (this.seen === picture.events) return;
    this.seen = picture.events;
    this.table.set(Object.entries(picture.events ?? {}).map(([key, event]) => ({ ...event, key, order: order(key) })));
  }
}

function severity(kind) {
  if (DOWN.test(kind)) return 'down';
  return HURT.test(kind) ? 'hurt' : 'well';
}

// Keys are MILLISECONDS-NUMBER.
function order(key) {
  const [at, number] = key.split('-').map(Number);
  return at + Math.min(number, 999) / 1000;
}
