// Shards: the maps, where each shard is, and what moves.

import { confirm, commandBox } from '../action.js';
import { h, keyed, setClass, setText } from '../dom.js';
import { bytes, count } from '../format.js';
import { Asked } from './asked.js';

const HUES = 8;

export const shards = {
  id: 'shards',
  title: 'Shards',
  answers: 'Which group has which part of which map? What moves?',
  make: (host) => new Shards(host),
};

class Shards {
  constructor(host) {
    this.host = host;
    this.maps = [];
    this.tables = [];
    this.moves = [];
    this.sizes = new Map();
    const part = (periodMs, question, rows) => new Asked(host, { periodMs, question, rows: (answer) => { rows(answer); this.draw(); } });
    this.asked = [
      part(3000, () => ['sharding', 'list_shards'], (rows) => { this.rows = rows; }),
      part(10_000, () => ['sharding', 'list_definitions'], (rows) => { this.maps = rows; }),
      part(10_000, () => ['sharding', 'list_tables'], (rows) => { this.tables = rows; }),
      part(10_000, () => ['sharding', 'list_sizes'], (rows) => { this.sizes = new Map(rows.map((row) => [row.shard_id, row])); }),
      part(2000, () => ['job', 'list'], (rows) => { this.moves = rows.filter((row) => String(row.address ?? '').startsWith('shard ') && !row.ended); }),
    ];
    this.search = h('input', { type: 'search', placeholder: 'Filter', 'aria-label': 'Filter: shards', 'data-filter': true });
    this.search.addEventListener('input', () => this.draw());
    this.told = h('span', { class: 'note', role: 'status' });
    this.list = h('div', {});
    this.empty = h('div', { class: 'panel', hidden: true },
      h('p', { text: 'No table is sharded. A map comes first; docs/SHARDING.md goes on from there:' }),
      h('p', {}, commandBox('heddle sharding create_definition SLOTS g1').element));
    this.element = h('div', {}, this.asked[0].head, this.asked[0].error, h('div', { class: 'table-tools' }, this.search, this.told), this.empty, this.list);
  }

  start() {
    for (const asked of this.asked) asked.start();
  }

  stop() {
    for (const asked of this.asked) asked.stop();
  }

  draw() {
    if (!this.rows) return;
    const wanted = this.search.value.toLowerCase();
    const groups = [...new Set(this.rows.map((row) => row.group_id))].sort();
    const moving = new Map(this.moves.map((job) => [String(job.address).replace('shard ', ''), job]));
    const known = new Map(this.maps.map((map) => [map.mapping_id, map]));
    const byMap = new Map(this.maps.map((map) => [map.mapping_id, []]));
    for (const row of this.rows) {
      const shown = { ...row, job: moving.get(String(row.shard_id)), size: this.sizes.get(row.shard_id), hue: groups.indexOf(row.group_id) % HUES };
      const text = `${row.shard_id} ${row.group_id} ${row.state} ${row.lower_bound}`.toLowerCase();
      if (!byMap.has(row.mapping_id)) byMap.set(row.mapping_id, []);
      if (text.includes(wanted)) byMap.get(row.mapping_id).push(shown);
    }
    this.empty.hidden = byMap.size > 0;
    setText(this.told, [number(this.rows.length, 'shard'), number(byMap.size, 'map'), number(this.moves.length, 'running move')].join(', '));
    const maps = [...byMap].map(([id, rows]) => ({ id, rows, map: known.get(id), tables: this.tables.filter((table) => table.mapping_id === id) }));
    keyed(this.list, maps, (it) => it.id, () => this.makeMap(), (element, it) => this.updateMap(element, it));
  }

  makeMap() {
    const parts = { title: h('h2'), tables: h('p', { class: 'note' }), list: h('ul', { class: 'shards' }) };
    const element = h('section', { class: 'panel' }, parts.title, parts.tables, parts.list);
    element.parts = parts;
    return element;
  }

  updateMap(element, { id, rows, map, tables }) {
    const { parts } = element;
    setText(parts.title, map ? `Map ${id}${map.name ? ` ${map.name}` : ''}: ${map.type_name}, global group ${map.global_group_id}` : `Map ${id}`);
    parts.list.setAttribute('aria-label', `Shards of map ${id}`);
    setText(parts.tables, tables.map((table) => `${table.table_name}${table.column_name ? ` by ${table.column_name}` : ' (global)'}`).join(', '));
    keyed(parts.list, rows, (row) => row.shard_id, (row) => this.makeShard(row), (tile, row) => this.updateShard(tile, row));
  }

  makeShard() {
    const parts = { name: h('b'), group: h('span'), bound: h('span', { class: 'note mono' }), size: h('span', { class: 'size' }), state: h('span', { class: 'state' }), job: h('span', { class: 'job' }) };
    const button = h('button', { type: 'button', class: 'small' });
    const tile = h('li', {}, parts.name, parts.group, parts.bound, parts.size, parts.state, parts.job, button);
    tile.parts = { ...parts, button };
    button.addEventListener('click', () => this.toggle(tile.row));
    return tile;
  }

  updateShard(tile, row) {
    const { parts } = tile;
    const on = row.state === 'ENABLED';
    tile.row = row;
    setClass(tile, `shard hue-${row.hue}${on ? '' : ' off'}${row.job ? ' moving' : ''}`);
    setText(parts.name, `Shard ${row.shard_id}`);
    setText(parts.group, `on ${row.group_id}`);
    setText(parts.bound, row.lower_bound === undefined || row.lower_bound === null || row.lower_bound === '' ? '' : `from ${row.lower_bound}`);
    parts.bound.title = String(row.lower_bound ?? '');
    setText(parts.size, sizeOf(row.size));
    parts.size.title = row.size?.bytes === undefined || row.size.bytes === null ? '' : `${row.group_id}'s primary said so ${row.size.age_s} s ago`;
    setClass(parts.state, `state ${on ? 'well' : 'down'}`);
    setText(parts.state, on ? 'enabled' : 'disabled');
    setText(parts.job, row.job ? `${row.job.kind} to ${row.job.group_id}: ${row.job.state}, ${row.job.step}` : '');
    setText(parts.button, on ? 'Disable…' : 'Enable…');
    parts.button.setAttribute('aria-label', `${on ? 'Disable…' : 'Enable…'} shard ${row.shard_id}`);
    parts.button.hidden = !this.host.may('admin');
  }

  toggle(row) {
    const on = row.state === 'ENABLED';
    confirm({
      title: `${on ? 'Disable' : 'Enable'} shard ${row.shard_id}`,
      what: on ? 'Heddle refuses every statement that needs this shard from then on.' : 'Statements use this shard again.',
      group: 'sharding', command: on ? 'disable_shard' : 'enable_shard', args: [row.shard_id],
      verb: on ? 'Disable' : 'Enable', risky: on, done: () => this.asked[0].again(),
    });
  }
}

// What the group has of the map, as its primary thinks; some of it may be other shards'.
function sizeOf(size) {
  if (size?.bytes === undefined || size.bytes === null) return '';
  const told = `${number(size.rows, 'row')}, ${bytes(size.bytes)}`;
  return size.shards_there > 1 ? `${told} with ${number(size.shards_there - 1, 'other')}` : told;
}

function number(amount, what) {
  return `${count(amount)} ${what}${amount === 1 ? '' : 's'}`;
}
