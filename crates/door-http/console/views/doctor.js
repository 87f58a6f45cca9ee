// Doctor: what is wrong with farm, servers and host, with the statement that mends it. It asks servers, so it runs on demand.

import { commandBox, told } from '../action.js';
import { read } from '../api.js';
import { h, setText } from '../dom.js';
import { clock } from '../format.js';
import { Table, stateCell } from '../table.js';

const COMMAND = ['manage', 'doctor'];
const ORDER = ['critical', 'error', 'down', 'severe', 'warning', 'hurt', 'notice', 'info', 'ok', 'well'];
const SEVERITY = { critical: 'down', error: 'down', severe: 'down', warning: 'hurt', notice: 'hurt' };
const LONG = new Set(['evidence', 'breaks', 'cure', 'problem', 'statement', 'missing']);

export const doctor = {
  id: 'doctor',
  title: 'Doctor',
  answers: 'What is wrong with my servers, what does it break, and which line mends it?',
  make: (host) => new Doctor(host),
};

class Doctor {
  constructor(host) {
    this.host = host;
    this.told = h('span', { class: 'note', role: 'status', text: 'Heddle logs in to every server for it.' });
    this.button = h('button', { type: 'button', text: 'Examine now' });
    this.button.addEventListener('click', () => this.examine());
    this.error = h('div', { role: 'alert' });
    this.place = h('div');
    this.element = h('div', {},
      h('div', { class: 'row panel' }, this.button, this.told, h('span', { class: 'note', text: 'The same in a terminal:' }), commandBox('heddle doctor').element),
      this.error, this.place);
  }

  async examine() {
    this.button.disabled = true;
    setText(this.told, 'The router asks all servers…');
    try {
      const rows = await read(...COMMAND);
      this.error.replaceChildren();
      this.table(rows);
      setText(this.told, rows.length ? `${rows.length} findings at ${clock(Date.now())}` : `Nothing is wrong, at ${clock(Date.now())}.`);
    } catch (error) {
      const text = error.status === 401 || error.status === 403 ? 'This view needs the admin token.' : told(error);
      this.error.replaceChildren(h('div', { class: 'error' }, h('p', { text }),
        h('button', { type: 'button', class: 'small', text: 'Sign in', on: { click: () => this.host.askForToken() } })));
      setText(this.told, '');
    }
    this.button.disabled = false;
  }

  // The columns are those of the answer: each release may find more.
  table(rows) {
    const names = Object.keys(rows[0] ?? { finding: '' });
    const columns = names.map((name) => ({
      name,
      title: name.replaceAll('_', ' '),
      className: LONG.has(name) ? 'long' : 'middle',
      value: (row) => (name === 'severity' ? ORDER.indexOf(String(row[name]).toLowerCase()) : row[name] ?? ''),
      show: (row) => String(row[name] ?? ''),
      cell: name === 'severity' ? stateCell((row) => [SEVERITY[String(row[name]).toLowerCase()] ?? 'well', String(row[name])]) : undefined,
    }));
    const table = new Table({
      label: 'Findings',
      columns: [...columns, { name: 'all', title: 'cure', cell: cureCell }].filter((column) => column.name !== 'all' || names.includes('cure')),
      keyOf: (row) => JSON.stringify(row),
      sortBy: names.includes('severity') ? 'severity' : names[0],
      empty: 'Nothing is wrong.',
    });
    table.set(rows);
    this.place.replaceChildren(table.element);
  }
}

// The statement that mends it, to be copied.
function cureCell(td, row) {
  if (td.shownCure === row.cure) return;
  td.shownCure = row.cure;
  td.replaceChildren(row.cure ? commandBox(String(row.cure)).element : '');
}
