// A table that can be sorted and filtered, and has as many rows as there are: only those in sight are elements.

import { h, keyed, setAttribute, setClass, setText } from './dom.js';
import { count } from './format.js';

const ROW_PX = 34;
const BEYOND = 12;

// columns: {name, title, value(row), show(row), number, className, cell(td, row), searched}
//   value: what is sorted and searched by; show: its text; cell: fills the cell itself.
export class Table {
  constructor({ label, columns, keyOf, sortBy, descending = false, short = false, empty = 'Nothing to show.' }) {
    Object.assign(this, { label, columns, keyOf, sortBy, descending, empty });
    this.rows = [];
    this.shown = [];
    this.wanted = '';
    this.search = h('input', { type: 'search', 'aria-label': `Filter: ${label}`, placeholder: 'Filter', 'data-filter': true });
    this.search.addEventListener('input', () => {
      this.wanted = this.search.value.toLowerCase();
      this.choose();
    });
    this.told = h('span', { class: 'note', role: 'status' });
    this.tools = h('div', { class: 'table-tools' }, this.search, this.told);
    this.heads = columns.map((column) => this.head(column));
    this.body = h('tbody');
    this.table = h('table', { 'aria-label': label }, h('thead', {}, h('tr', {}, this.heads)), this.body);
    this.scroll = h('div', { class: short ? 'scroll short' : 'scroll', tabindex: '0', role: 'region', 'aria-label': label }, this.table);
    this.scroll.addEventListener('scroll', () => this.soon(), { passive: true });
    this.element = h('div', {}, this.tools, this.scroll);
    this.resized = new ResizeObserver(() => this.soon());
    this.resized.observe(this.scroll);
    this.markSorted();
  }

  head(column) {
    const className = column.number ? 'number' : '';
    if (!column.value) return h('th', { scope: 'col', class: className, text: column.title });
    const button = h('button', { type: 'button', text: column.title });
    button.addEventListener('click', () => {
      this.descending = this.sortBy === column.name ? !this.descending : Boolean(column.number);
      this.sortBy = column.name;
      this.markSorted();
      this.choose();
    });
    return h('th', { scope: 'col', class: className }, button);
  }

  markSorted() {
    this.columns.forEach((column, at) => {
      const sorted = column.name === this.sortBy;
      setAttribute(this.heads[at], 'aria-sort', sorted ? (this.descending ? 'descending' : 'ascending') : null);
      const button = this.heads[at].querySelector('button');
      if (button) setText(button, column.title + (sorted ? (this.descending ? ' ▼' : ' ▲') : ''));
    });
  }

  set(rows) {
    this.rows = rows;
    this.choose();
  }

  // Filters and sorts anew.
  choose() {
    const { wanted } = this;
    let shown = this.rows;
    if (wanted) {
      const texts = this.columns.filter((column) => column.value);
      shown = shown.filter((row) => texts.some((column) => String(column.value(row) ?? '').toLowerCase().includes(wanted)));
    }
    const by = this.columns.find((column) => column.name === this.sortBy);
    if (by) {
      const way = this.descending ? -1 : 1;
      shown = [...shown].sort((a, b) => way * compare(by.value(a), by.value(b)));
    }
    this.shown = shown;
    const of = shown.length === this.rows.length ? '' : ` of ${count(this.rows.length)}`;
    setText(this.told, this.rows.length === 0 ? this.empty : `${count(shown.length)}${of} ${this.rows.length === 1 ? 'row' : 'rows'}`);
    setAttribute(this.table, 'aria-rowcount', shown.length + 1);
    this.draw();
  }

  soon() {
    if (this.waits) return;
    this.waits = true;
    requestAnimationFrame(() => {
      this.waits = false;
      this.draw();
    });
  }

  draw() {
    const height = this.scroll.clientHeight || 600;
    const first = Math.max(0, Math.floor(this.scroll.scrollTop / ROW_PX) - BEYOND);
    const last = Math.min(this.shown.length, first + Math.ceil(height / ROW_PX) + 2 * BEYOND);
    const items = this.shown.slice(first, last).map((row, at) => ({ key: `r${this.keyOf(row)}`, row, at: first + at }));
    if (first > 0) items.unshift({ key: 'above', rows: first });
    if (last < this.shown.length) items.push({ key: 'below', rows: this.shown.length - last });
    keyed(this.body, items, (item) => item.key, (item) => this.make(item), (tr, item) => this.update(tr, item));
  }

  make(item) {
    if (!item.row) return h('tr', { class: 'gap', 'aria-hidden': 'true' }, h('td', { colspan: this.columns.length }));
    const cells = this.columns.map((column) => h('td', { class: [column.number ? 'number' : '', column.className ?? ''].join(' ').trim() }));
    return h('tr', {}, cells);
  }

  update(tr, item) {
    if (!item.row) {
      tr.firstChild.style.height = `${item.rows * ROW_PX}px`;
      return;
    }
    setAttribute(tr, 'aria-rowindex', item.at + 2);
    this.columns.forEach((column, at) => {
      const td = tr.children[at];
      if (column.cell) {
        column.cell(td, item.row);
        return;
      }
      const text = column.show ? column.show(item.row) : column.value(item.row);
      setText(td, text);
      if (column.className?.includes('long') || column.className?.includes('middle')) setAttribute(td, 'title', text);
    });
  }
}

function compare(a, b) {
  if (a === b) return 0;
  if (a === undefined || a === null) return 1;
  if (b === undefined || b === null) return -1;
  if (typeof a === 'number' && typeof b === 'number') return a - b;
  return String(a).localeCompare(String(b), undefined, { numeric: true });
}

// A cell with buttons, made once per row; `buttons(row)` gives [text, handler, risky, of what] of each.
export function buttonsCell(buttons) {
  return (td, row) => {
    td.rowOfButtons = row;
    const wanted = buttons(row);
    const names = wanted.map(([text]) => text).join('|');
    if (td.namesOfButtons === names) return;
    td.namesOfButtons = names;
    td.replaceChildren(
      h(
        'div',
        { class: 'buttons' },
        wanted.map(([text, , risky, label], at) =>
          h('button', {
            type: 'button',
            class: risky ? 'small risky' : 'small',
            text,
            'aria-label': label ? `${text} ${label}` : undefined,
            on: { click: () => buttons(td.rowOfButtons)[at][1]() },
          }),
        ),
      ),
    );
  };
}

// A cell with a state: its word, and by its class a shape and a colour.
export function stateCell(of) {
  return (td, row) => {
    const [severity, word] = of(row);
    let span = td.firstElementChild;
    if (!span) td.append((span = h('span')));
    setClass(span, `state ${severity}`);
    setText(span, word);
  };
}

// A cell whose text opens something.
export function linkCell(text, opened) {
  return (td, row) => {
    td.rowOfLink = row;
    let button = td.firstElementChild;
    if (!button) {
      button = h('button', { type: 'button', class: 'plain', on: { click: () => opened(td.rowOfLink) } });
      td.append(button);
    }
    setText(button, text(row));
  };
}
