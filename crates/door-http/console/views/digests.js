// Digests: which statements the farm's time goes to, which fail, where they come from.

import { confirm, details } from '../action.js';
import { read } from '../api.js';
import { h, setClass, setText } from '../dom.js';
import { bytes, commandLine, count, duration, moment } from '../format.js';
import { Table, linkCell } from '../table.js';
import { Asked } from './asked.js';

const LIMIT = 500;

export const digests = {
  id: 'digests',
  title: 'Digests',
  answers: 'Which statements does the time go to? Which fail? Where do they come from?',
  make: (host) => new Digests(host),
};

// The columns of statements by digest; `opened(row)` shows all of one.
export function digestColumns(opened) {
  const number = (name, title, show = count) => ({ name, title, number: true, value: (row) => row[name], show: (row) => show(row[name]) });
  const text = (name, className) => ({ name, title: name, className, value: (row) => row[name] ?? '' });
  return [
    { name: 'digest', title: 'digest', value: (row) => row.digest, cell: linkCell((row) => (row.digest ?? '').slice(0, 12), opened) },
    { name: 'text', title: 'text', className: 'long mono', value: (row) => row.text ?? '', show: (row) => row.text ?? '(for admins)' },
    number('calls', 'calls'),
    { ...number('errors', 'errors'), cell: errorsCell },
    number('time_ms_sum', 'time in all', duration),
    number('time_ms_p50', 'p50', duration),
    number('time_ms_p99', 'p99', duration),
    number('time_ms_max', 'longest', duration),
    number('wait_ms_sum', 'waited in all', duration),
    number('rows_sent', 'rows sent'),
    number('rows_changed', 'rows changed'),
    number('bytes', 'bytes', bytes),
    text('tag', 'middle'),
    text('database', 'middle'),
    text('user', 'middle'),
    text('group', 'middle'),
    { name: 'last_seen', title: 'last seen', value: (row) => row.last_seen, show: (row) => moment(row.last_seen) },
    text('router', 'middle'),
  ];
}

// A number that stands out unless it is 0.
function errorsCell(td, row) {
  setText(td, count(row.errors));
  setClass(td, row.errors > 0 ? 'number some' : 'number');
}

export const digestKey = (row) => [row.digest, row.tag, row.database, row.user, row.group, row.router].join('\n');

// Everything of one digest, in a dialog.
export async function showDigest(row) {
  const line = commandLine('digest', 'show', [row.digest]);
  const show = async (options) => {
    const rows = await read('digest', 'show', [row.digest], { router: row.router ?? '', ...options });
    return rows.find((one) => digestKey(one) === digestKey(row)) ?? rows[0] ?? row;
  };
  try {
    const found = await show({});
    // EXPLAIN of the example: nothing of it runs.
    const more = { text: 'Plan of the example', ask: async () => (await show({ plan: 'true' })).plan ?? '' };
    details(`Digest ${row.digest.slice(0, 12)}`, Object.entries(found), line, more);
  } catch (error) {
    details(`Digest ${row.digest.slice(0, 12)}`, [...Object.entries(row), ['refused', error.message]], line);
  }
}

class Digests {
  constructor(host) {
    this.table = new Table({ label: 'Statements by digest', columns: digestColumns(showDigest), keyOf: digestKey, sortBy: 'time_ms_sum', descending: true, empty: 'Nothing was counted yet.' });
    this.since = h('select', { id: 'since' }, [['', 'the start, or the last reset'], ['15m', '15 minutes ago'], ['1h', 'an hour ago'], ['6h', 'six hours ago'], ['1d', 'a day ago']]
      .map(([value, text]) => h('option', { value, text })));
    this.asked = new Asked(host, {
      question: () => ['digest', 'list', [], { order: 'time', limit: LIMIT, ...(this.since.value ? { since: this.since.value } : {}) }],
      rows: (rows) => this.table.set(rows.filter((row) => row.digest)),
    });
    this.since.addEventListener('change', () => this.asked.again());
    const reset = h('button', { type: 'button', text: 'Begin anew…' });
    reset.addEventListener('click', () => confirm({
      title: 'Count statements anew',
      what: 'All routers forget what they have counted of statements by digest. Nothing waits for it.',
      group: 'digest', command: 'reset', verb: 'Begin anew', done: () => this.asked.again(),
    }));
    this.table.tools.append(h('label', { for: 'since', text: 'Since ' }, this.since), reset);
    this.element = h('div', {}, this.asked.head, this.asked.error, this.table.element);
  }

  start() {
    this.asked.start();
  }

  stop() {
    this.asked.stop();
  }
}
