// Slow: what runs long just now, and which statements took longest in the last quarter of an hour.

import { h } from '../dom.js';
import { Table } from '../table.js';
import { Asked } from './asked.js';
import { digestColumns, digestKey, showDigest } from './digests.js';
import { sessionColumns } from './sessions.js';

const SHAPES = ['digest', 'text', 'calls', 'errors', 'time_ms_max', 'time_ms_p99', 'time_ms_p50', 'wait_ms_sum', 'tag', 'group', 'user', 'last_seen'];

export const slow = {
  id: 'slow',
  title: 'Slow statements',
  answers: 'What runs long just now? What took longest in the last quarter of an hour?',
  make: (host) => new Slow(host),
};

class Slow {
  constructor(host) {
    const columns = digestColumns(showDigest);
    this.running = new Table({ label: 'Statements that run now', columns: sessionColumns(host, () => this.now.again()), keyOf: (row) => `${row.id} ${row.router}`, sortBy: 'time_ms', descending: true, short: true, empty: 'No statement runs just now.' });
    this.shapes = new Table({ label: 'Statements of the last 15 minutes by their longest time', columns: SHAPES.map((name) => columns.find((it) => it.name === name)), keyOf: digestKey, sortBy: 'time_ms_max', descending: true, empty: 'Nothing was counted in the last 15 minutes.' });
    this.now = new Asked(host, {
      periodMs: 2000,
      question: () => ['session', 'list'],
      rows: (rows) => this.running.set(rows.filter((row) => row.id && row.command && row.command !== 'Sleep' && row.door !== 'own')),
    });
    this.past = new Asked(host, {
      periodMs: 5000,
      question: () => ['digest', 'list', [], { order: 'mean', limit: 200, since: '15m' }],
      rows: (rows) => this.shapes.set(rows.filter((row) => row.digest)),
    });
    this.element = h('div', {},
      h('section', { class: 'panel', 'aria-labelledby': 'running-now' }, h('h2', { id: 'running-now', text: 'Running now' }), this.now.error, this.running.element),
      h('section', { class: 'panel', 'aria-labelledby': 'longest' }, h('h2', { id: 'longest', text: 'Longest of the last 15 minutes' }), this.past.error, this.shapes.element),
      this.past.head,
      h('p', { class: 'note', text: 'Each slow statement by itself, with its client, is a line of the slow log (setting slow_log).' }));
  }

  start() {
    this.now.start();
    this.past.start();
  }

  stop() {
    this.now.stop();
    this.past.stop();
  }
}
