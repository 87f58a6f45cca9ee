// Transactions in doubt: those over several groups that have prepared branches, which hold locks until they end.

import { confirm } from '../action.js';
import { h } from '../dom.js';
import { ago, moment } from '../format.js';
import { Table, buttonsCell } from '../table.js';
import { Asked } from './asked.js';

export const transactions = {
  id: 'transactions',
  title: 'In doubt',
  heading: 'Transactions in doubt',
  answers: 'Which transactions over several groups hold locks, and what do they wait for?',
  make: (host) => new Transactions(host),
};

class Transactions {
  constructor(host) {
    const text = (name, title = name, className = '') => ({ name, title, className, value: (row) => row[name] ?? '' });
    this.table = new Table({
      label: 'Transactions over several groups with prepared branches',
      keyOf: (row) => row.transaction_id,
      sortBy: 'since',
      empty: 'No transaction is in doubt.',
      columns: [
        text('transaction_id', 'transaction', 'mono middle'),
        text('state'),
        text('verdict'),
        text('decider', 'coordinator group'),
        text('branches', 'branches on', 'middle'),
        { name: 'since', title: 'since', value: (row) => row.since, show: (row) => `${moment(row.since)} (${ago(Date.parse(row.since))})` },
        text('waits_for', 'waits for', 'long'),
        {
          name: 'end', title: 'end',
          cell: buttonsCell((row) => (host.may('admin') ? [['Resolve…', () => this.resolve(row), false, row.transaction_id]] : [])),
        },
      ],
    });
    this.asked = new Asked(host, { periodMs: 2000, question: () => ['transaction', 'list'], rows: (rows) => this.table.set(rows) });
    this.element = h('div', {}, this.asked.head, this.asked.error, this.table.element,
      h('p', { class: 'note', text: 'Heddle ends them by itself as soon as it can. A verdict by hand is for a coordinator group that is lost for good: see `heddle manage help transaction resolve`.' }));
  }

  resolve(row) {
    confirm({
      title: 'End this transaction now',
      what: 'Heddle asks its coordinator group again and does what was decided there. It decides nothing by itself.',
      group: 'transaction', command: 'resolve', args: [row.transaction_id], verb: 'Ask and end it', risky: false, done: () => this.asked.again(),
    });
  }

  start() {
    this.asked.start();
  }

  stop() {
    this.asked.stop();
  }
}
