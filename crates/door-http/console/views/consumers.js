// Consumers of changes: subscriptions and sinks, how far each is behind, and how near that is to what the servers keep.

import { h } from '../dom.js';
import { bytes, count, duration, moment } from '../format.js';
import { Table, stateCell } from '../table.js';
import { Asked } from './asked.js';

// As the router's own warning (NEAR_PERCENT).
const NEAR_PERCENT = 75;

const SEVERITY = { running: 'well', paused: 'hurt', failing: 'hurt', stuck: 'down' };

export const consumers = {
  id: 'consumers',
  title: 'Consumers',
  heading: 'Consumers of changes',
  answers: 'Who is told of changes, how far behind is he, and for how long will the servers have what he lacks?',
  make: (host) => new Consumers(host),
};

const text = (name, title = name, className = '') => ({ name, title, className, value: (row) => row[name] ?? '' });

const LAG = [
  { name: 'lag_ms', title: 'behind', number: true, value: (row) => row.lag_ms, show: (row) => duration(row.lag_ms) },
  { name: 'lag_bytes', title: 'bytes', number: true, value: (row) => row.lag_bytes, show: (row) => bytes(row.lag_bytes) },
  { name: 'kept', title: 'of what is kept', value: (row) => row.expiry_percent ?? -1, cell: stateCell(kept) },
  text('gap', 'purged', 'long'),
];

class Consumers {
  constructor(host) {
    const tables = [
      ['subscription', 'Subscriptions', 'There is no subscription.', [
        text('name'), ...LAG, text('tables', 'tables', 'middle'), text('groups'), text('order'),
        { name: 'acknowledged', title: 'acknowledged', value: (row) => row.acknowledged, show: (row) => moment(row.acknowledged) },
      ]],
      ['sink', 'Sinks', 'There is no sink.', [
        text('name'), text('to', 'to', 'middle'),
        { name: 'state', title: 'state', value: (row) => row.state, cell: stateCell((row) => [SEVERITY[row.state] ?? 'hurt', row.state]) },
        ...LAG,
        { name: 'delivered', title: 'delivered', number: true, value: (row) => row.delivered, show: (row) => count(row.delivered) },
        { name: 'letters', title: 'dead letters', number: true, value: (row) => row.letters, show: (row) => count(row.letters) },
        text('error', 'error', 'long'),
      ]],
    ];
    this.all = tables.map(([group, label, empty, columns]) => {
      const table = new Table({ label, keyOf: (row) => row.name, sortBy: 'name', empty, columns });
      const asked = new Asked(host, { periodMs: 2000, question: () => [group, 'list'], rows: (rows) => table.set(rows) });
      return { asked, element: h('section', {}, h('h2', { text: label }), asked.head, asked.error, table.element) };
    });
    this.element = h('div', {}, this.all.map((it) => it.element));
  }

  start() {
    for (const { asked } of this.all) asked.start();
  }

  stop() {
    for (const { asked } of this.all) asked.stop();
  }
}

// How much the lag is of what the servers keep, as a state.
function kept(row) {
  if (row.gap) return ['down', 'gap'];
  const percent = row.expiry_percent;
  if (percent === undefined || percent === null) return ['well', 'all is kept'];
  return [percent >= NEAR_PERCENT ? 'hurt' : 'well', `${percent} %`];
}
