// Sessions: who is connected to any router, what they do, what they keep a server connection for.

import { confirm } from '../action.js';
import { h } from '../dom.js';
import { duration } from '../format.js';
import { Table, buttonsCell } from '../table.js';
import { Asked } from './asked.js';

export const sessions = {
  id: 'sessions',
  title: 'Sessions',
  answers: 'Who is connected, what do they do, and what keeps a server connection?',
  make: (host) => new Sessions(host),
};

// The columns of sessions; `changed()` is called when one was ended.
export function sessionColumns(host, changed) {
  const text = (name, title = name, className = '') => ({ name, title, className, value: (row) => row[name] ?? '' });
  const time = (name, title) => ({ name, title, number: true, value: (row) => row[name], show: (row) => (row[name] ? duration(row[name]) : '') });
  const end = (row, query) => confirm({
    title: query ? `End the statement of session ${row.id}` : `End session ${row.id}`,
    what: `${row.user} from ${row.client || 'Heddle itself'}, ${row.command}, ${row.state}. ${query ? 'The client gets error 1317 and stays connected.' : 'The client loses its connection; an open transaction is rolled back.'}`,
    group: 'session', command: 'kill', args: [row.id], options: query ? { query: 'true' } : {},
    verb: query ? 'End the statement' : 'End the session', done: changed,
  });
  return [
    { name: 'id', title: 'id', number: true, value: (row) => row.id },
    {
      name: 'end', title: 'end',
      cell: buttonsCell((row) => (host.may('admin') && row.door !== 'own'
        ? [
          ['Statement…', () => end(row, true), false, `of session ${row.id}`],
          ['Session…', () => end(row, false), true, `${row.id}`],
        ]
        : [])),
    },
    text('user', 'user', 'middle'),
    text('client', 'client', 'middle'),
    text('door'),
    text('database', 'database', 'middle'),
    text('command'),
    time('time_ms', 'for'),
    text('state', 'state', 'middle'),
    text('server', 'server', 'middle'),
    text('pins', 'kept for', 'middle'),
    time('pinned_ms', 'kept'),
    { name: 'digest', title: 'digest', className: 'mono', value: (row) => row.digest ?? '', show: (row) => (row.digest ?? '').slice(0, 12) },
    text('tag', 'tag', 'middle'),
    text('router', 'router', 'middle'),
  ];
}

class Sessions {
  constructor(host) {
    this.table = new Table({ label: 'Sessions of all routers', columns: sessionColumns(host, () => this.asked.again()), keyOf: (row) => `${row.id} ${row.router}`, sortBy: 'time_ms', descending: true, empty: 'Nobody is connected.' });
    this.asked = new Asked(host, {
      periodMs: 2000,
      question: () => ['session', 'list'],
      rows: (rows) => this.table.set(rows),
    });
    this.element = h('div', {}, this.asked.head, this.asked.error, this.table.element);
  }

  start() {
    this.asked.start();
  }

  stop() {
    this.asked.stop();
  }
}
