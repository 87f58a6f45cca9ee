// Configuration: who changed what when and why, what differs between versions, and the way back.

import { commandBox, confirm, told } from '../action.js';
import { read } from '../api.js';
import { h, setText } from '../dom.js';
import { commandLine, moment } from '../format.js';
import { Table, buttonsCell } from '../table.js';
import { Asked } from './asked.js';

export const configuration = {
  id: 'configuration',
  title: 'Configuration',
  answers: 'What is in force? Who changed it, when and why? What differs?',
  make: (host) => new Configuration(host),
};

class Configuration {
  constructor(host) {
    const text = (name, title = name, className = '') => ({ name, title, className, value: (row) => row[name] ?? '' });
    this.table = new Table({
      label: 'Versions of the configuration',
      keyOf: (row) => row.version,
      sortBy: 'version',
      descending: true,
      short: true,
      empty: 'No version was written yet.',
      columns: [
        { name: 'version', title: 'version', number: true, value: (row) => row.version },
        { name: 'when', title: 'when', value: (row) => row.when, show: (row) => moment(row.when) },
        text('by', 'by', 'middle'),
        text('comment', 'why', 'long'),
        text('state', 'state', 'middle'),
        {
          name: 'act', title: 'action',
          cell: buttonsCell((row) => [
            ['Difference', () => this.difference(row.version), false, `of version ${row.version}`],
            ['Document', () => this.document(row.version), false, `of version ${row.version}`],
            ...(row.state === 'in force' ? [] : [['Go back…', () => this.rollback(row), true, `to version ${row.version}`]]),
          ]),
        },
      ],
    });
    this.settings = new Table({
      label: 'Settings in force on this router',
      keyOf: (row) => row.name,
      sortBy: 'name',
      empty: 'Settings need the admin token.',
      columns: [text('name', 'name', 'mono'), text('value', 'value', 'middle mono'), text('from', 'from', 'middle'), text('default', 'default', 'middle mono'), text('scope', 'scope', 'middle')],
    });
    this.asked = new Asked(host, { right: 'admin', periodMs: 10_000, question: () => ['config', 'history'], rows: (rows) => this.table.set(rows) });
    this.asks = new Asked(host, { right: 'admin', periodMs: 10_000, question: () => ['config', 'settings'], rows: (rows) => this.settings.set(rows) });
    this.title = h('h2', { text: 'Difference', id: 'shown-title' });
    this.line = commandBox('heddle config diff');
    this.pre = h('pre', { role: 'group', tabindex: '0', 'aria-labelledby': 'shown-title' });
    this.shown = h('section', { class: 'panel', hidden: true, 'aria-labelledby': 'shown-title' }, this.title, h('p', {}, this.line.element), this.pre);
    this.element = h('div', {}, this.asked.head, this.asked.error, this.table.element, this.shown,
      h('section', { class: 'panel', 'aria-labelledby': 'settings-title' }, h('h2', { id: 'settings-title', text: 'Settings in force' }), this.settings.element));
  }

  async put(title, group, command, args, column) {
    this.shown.hidden = false;
    setText(this.title, title);
    this.line.set(commandLine(group, command, args));
    try {
      const rows = await read(group, command, args);
      const text = rows[0]?.[column] ?? 'Nothing differs.';
      this.pre.replaceChildren(...text.split('\n').map((line) => h('span', { class: kind(line), text: `${line}\n` })));
    } catch (error) {
      this.pre.replaceChildren(told(error));
    }
  }

  difference(version) {
    return this.put(`What version ${version} changed`, 'config', 'diff', [Math.max(0, version - 1), version], 'difference');
  }

  document(version) {
    return this.put(`The document of version ${version}`, 'config', 'show', [version], 'document');
  }

  rollback(row) {
    confirm({
      title: `Go back to version ${row.version}`,
      what: `A new version says what version ${row.version} said; it is in force at once on all routers. Servers, groups and primaries stay.`,
      group: 'config', command: 'rollback', args: [row.version], verb: 'Go back', done: () => this.asked.again(),
    });
  }

  start() {
    this.asked.start();
    this.asks.start();
  }

  stop() {
    this.asked.stop();
    this.asks.stop();
  }
}

// What a line of a difference is.
function kind(line) {
  if (/^(@@|---|\+\+\+)/.test(line)) return 'place';
  if (line.startsWith('+')) return 'added';
  return line.startsWith('-') ? 'removed' : '';
}
