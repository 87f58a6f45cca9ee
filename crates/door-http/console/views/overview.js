// Overview: which group is hurt, how it is built, and how far its replicas are behind. The worst groups come first.

import { confirm, commandBox } from '../action.js';
import { h, keyed, setClass, setText, svg } from '../dom.js';
import { ago, commandLine, count, duration } from '../format.js';

const ORDER = { down: 0, hurt: 1, well: 2 };
const WORDS = { well: 'takes writes', hurt: 'takes writes, but is hurt', down: 'takes no writes' };
// A server's box, and what is between two of them.
const BOX_PX = 46;
const GAP_PX = 6;

export const overview = {
  id: 'overview',
  title: 'Overview',
  answers: 'Which group is hurt? Who takes its writes, who follows, how far behind?',
  make: (host) => new Overview(host),
};

class Overview {
  constructor(host) {
    this.host = host;
    this.tiles = new Map();
    this.wanted = '';
    const tiles = h('dl', { class: 'tiles' });
    for (const name of ['Statements', 'p99', 'Errors', 'Clients', 'Wait for a primary', 'Last change took']) {
      const value = h('dd', { text: '–' });
      this.tiles.set(name, value);
      tiles.append(h('div', { class: 'tile' }, h('dt', { text: name }), value));
    }
    this.search = h('input', { type: 'search', placeholder: 'Filter', 'aria-label': 'Filter: groups', 'data-filter': true });
    this.search.addEventListener('input', () => {
      this.wanted = this.search.value.toLowerCase();
      if (this.picture) this.show(this.picture);
    });
    this.told = h('span', { class: 'note', role: 'status' });
    this.routers = h('p', { class: 'note' });
    this.groups = h('ul', { class: 'groups', 'aria-label': 'Groups' });
    this.empty = h('div', { class: 'panel', hidden: true },
      h('p', { text: 'The farm has no group yet. Make one, then add a server to it:' }),
      h('p', {}, commandBox('heddle group create g1').element),
      h('p', {}, commandBox('heddle group add g1 HOST:PORT').element));
    this.element = h('div', {}, tiles, h('div', { class: 'table-tools' }, this.search, this.told, this.routers), this.empty, this.groups);
  }

  show(picture) {
    this.picture = picture;
    this.showTiles(picture);
    const routers = Object.entries(picture.routers ?? {});
    setText(this.routers, routers.length
      ? `Routers: ${routers.map(([name, router]) => name + (router.leads ? ' (leads)' : '') + (router.own ? ' (this one)' : '')).join(', ')}`
      : 'One router, which is alone');
    this.cards = this.collect(picture, Math.max(1, routers.length));
    const names = this.cards.filter((card) => !this.wanted || card.searched.includes(this.wanted));
    setText(this.told, `${names.length} ${names.length === 1 ? 'group' : 'groups'}, ${Object.keys(picture.servers ?? {}).length} servers`);
    this.empty.hidden = this.cards.length > 0;
    keyed(this.groups, names, (card) => card.name, (card) => this.make(card), (element, card) => this.update(element, card));
  }

  showTiles(picture) {
    const last = Object.entries(picture.traffic ?? {}).at(-1)?.[1] ?? {};
    const set = (name, text) => setText(this.tiles.get(name), text);
    set('Statements', last.statements === undefined ? '–' : `${count(last.statements)}/s`);
    set('p99', duration(last.p99_ms));
    set('Errors', last.errors === undefined ? '–' : `${count(last.errors)}/s`);
    set('Clients', count(last.sessions));
    set('Wait for a primary', count(last.held));
    set('Last change took', picture.farm.last_pause_ms ? duration(picture.farm.last_pause_ms) : 'none yet');
  }

  // A card per group. One whose parts are all the same objects as before is the same object itself.
  collect(picture, routers) {
    const servers = new Map();
    for (const [uuid, server] of Object.entries(picture.servers ?? {})) {
      if (!servers.has(server.group)) servers.set(server.group, []);
      servers.get(server.group).push([uuid, server]);
    }
    const lastEvents = new Map();
    for (const event of Object.values(picture.events ?? {})) if (event.group) lastEvents.set(event.group, event);
    const before = new Map((this.cards ?? []).map((card) => [card.name, card]));
    const cards = Object.entries(picture.groups ?? {}).map(([name, group]) => {
      const own = servers.get(name) ?? [];
      const event = lastEvents.get(name);
      const old = before.get(name);
      const same = old && old.group === group && old.event === event && old.routers === routers
        && old.servers.length === own.length && own.every(([, server], at) => old.servers[at][1] === server);
      if (same) return old;
      const searched = [name, group.severity, group.description, ...own.flatMap(([, it]) => [it.name, it.address, it.status, it.version])];
      return { name, group, servers: own, event, routers, searched: searched.join(' ').toLowerCase() };
    });
    return cards.sort((a, b) => ORDER[a.group.severity] - ORDER[b.group.severity] || a.name.localeCompare(b.name, undefined, { numeric: true }));
  }

  make(card) {
    const element = h('li', { class: 'group' });
    const parts = {
      title: h('h2', { text: card.name }),
      state: h('span', { class: 'state pulse' }),
      note: h('span', { class: 'note' }),
      why: h('ul', { class: 'why' }),
      drawing: h('div', { class: 'drawing' }),
      last: h('p', { class: 'last' }),
      actions: h('div', {}),
    };
    const more = h('details', {}, h('summary', { text: 'Servers, and what can be done' }), parts.actions);
    more.addEventListener('toggle', () => {
      element.isOpen = more.open;
      if (more.open) this.drawActions(element);
    });
    element.parts = parts;
    element.append(h('header', {}, parts.title, parts.state, parts.note), parts.why, parts.drawing, parts.last, more);
    return element;
  }

  update(element, card) {
    const { group, servers, event } = card;
    const { parts } = element;
    element.card = card;
    setClass(element, `group ${group.severity}`);
    setClass(parts.state, `state pulse ${group.severity}`);
    setText(parts.state, WORDS[group.severity]);
    const replicas = servers.filter(([uuid]) => uuid !== group.primary);
    const notes = [group.kind === 'galera' ? 'Galera' : '', group.description, group.timeline > 1 ? `timeline ${group.timeline}` : ''];
    setText(parts.note, notes.filter(Boolean).join(' · '));
    parts.why.hidden = group.why.length === 0;
    keyed(parts.why, group.why.map((text, at) => ({ text, at })), (it) => `${it.at}${it.text}`, (it) => h('li', { text: it.text }), () => {});
    this.draw(parts.drawing, card, servers.find(([uuid]) => uuid === group.primary)?.[1], replicas);
    setText(parts.last, event ? `${ago(event.at_ms)}: ${event.kind}: ${event.detail}` : '');
    if (element.isOpen) this.drawActions(element);
  }

  // Routers, the primary, the replicas, and arrows between them. Boxes are text; the arrows only repeat what they say.
  draw(place, card, primary, replicas) {
    const rows = Math.max(1, replicas.length);
    const height = rows * BOX_PX + (rows - 1) * GAP_PX;
    const middle = height / 2;
    const { severity } = card.group;
    const way = card.group.writable ? 'well' : 'down';
    const router = h('div', { class: 'box router' }, h('b', { text: String(card.routers) }), h('span', { text: card.routers === 1 ? 'router' : 'routers' }));
    const list = h('ul', { class: 'replicas', 'aria-label': `Replicas of ${card.name}` },
      replicas.map(([, server]) => h('li', {}, box(server, followers(server)))));
    const to = svg('svg', { viewBox: `0 0 42 ${height}`, height, 'aria-hidden': 'true' }, arrow([[4, middle], [38, middle]], way));
    const from = svg('svg', { viewBox: `0 0 100 ${height}`, height, 'aria-hidden': 'true' });
    replicas.forEach(([, server], at) => {
      const y = at * (BOX_PX + GAP_PX) + BOX_PX / 2;
      const follows = server.severity === 'well';
      from.append(
        arrow([[3, middle], [20, y], [97, y]], follows ? 'well' : 'down'),
        svg('text', { x: 58, y: y - 5, 'text-anchor': 'middle' }, follows ? duration(server.lag_ms).replace('–', '?') : 'broken'),
      );
    });
    place.replaceChildren(router, to, primary ? box(primary, `primary · ${primary.address}`, true) : nobody(severity), from, list);
  }

  // Everything of the group's servers, and buttons.
  drawActions(element) {
    const { card, parts } = element;
    const admin = this.host.may('admin');
    const rows = card.servers.map(([uuid, server]) => {
      const promote = h('button', { type: 'button', class: 'small', text: 'Make primary…', 'aria-label': `Make primary… ${server.name}` });
      promote.disabled = !admin || server.status !== 'replica';
      promote.addEventListener('click', () => confirm({
        title: `Make ${server.name} the primary of ${card.name}`,
        what: 'Clients wait for a moment; no statement fails, and nothing that was acknowledged is lost.',
        group: 'group', command: 'promote', args: [card.name, server.address], verb: 'Make it the primary',
      }));
      return h('tr', {}, [server.name, server.address, server.status, server.mode.replaceAll('_', ' '), server.weight,
        duration(server.lag_ms), `${server.engine} ${server.version}`].map((text) => h('td', { text: String(text) })), h('td', {}, promote, h('span', { class: 'visually-hidden', text: uuid })));
    });
    const heads = ['server', 'address', 'status', 'mode', 'weight', 'lag', 'version', 'action'].map((text) => h('th', { scope: 'col', text }));
    const table = h('div', { class: 'scroll short', tabindex: '0', role: 'region', 'aria-label': `Servers of ${card.name}` },
      h('table', {}, h('thead', {}, h('tr', {}, heads)), h('tbody', {}, rows)));
    const verb = card.group.active ? 'deactivate' : 'activate';
    const text = card.group.active ? 'Deactivate…' : 'Activate…';
    const toggle = h('button', { type: 'button', class: 'small', text, 'aria-label': `${text} ${card.name}` });
    toggle.disabled = !admin;
    toggle.addEventListener('click', () => confirm({
      title: `${card.group.active ? 'Deactivate' : 'Activate'} ${card.name}`,
      what: card.group.active ? 'Heddle will not act by itself when its primary fails.' : 'Heddle will act by itself when its primary fails.',
      group: 'group', command: verb, args: [card.name], verb: card.group.active ? 'Deactivate' : 'Activate',
    }));
    parts.actions.replaceChildren(table, h('div', { class: 'row' }, toggle,
      admin ? '' : h('span', { text: 'Buttons need the admin token.' }),
      commandBox(commandLine('group', 'health', [card.name])).element));
  }
}

function followers(server) {
  return server.status === 'replica' ? server.address : `${server.status} · ${server.address}`;
}

function box(server, second, isPrimary = false) {
  const well = server.severity === 'well';
  return h('div', { class: `box ${server.severity}${isPrimary ? ' primary' : ''}`, title: `${server.name}, ${server.address}: ${server.state}` },
    h('b', { text: server.name }),
    h('span', { class: well ? '' : `state ${server.severity}`, text: well ? second : server.state }),
    h('span', { class: 'visually-hidden', text: server.lag_ms === undefined ? '' : `lag ${duration(server.lag_ms)}` }));
}

function nobody(severity) {
  return h('div', { class: `box primary ${severity}` }, h('b', { text: 'no primary' }), h('span', { class: 'state down', text: 'writes wait' }));
}

// A line through these points, with a head at the last one.
function arrow(points, severity) {
  const [[x1, y1], [x2, y2]] = points.slice(-2);
  const angle = Math.atan2(y2 - y1, x2 - x1);
  const point = (turn) => `${x2 - 9 * Math.cos(angle + turn)},${y2 - 9 * Math.sin(angle + turn)}`;
  const line = [...points.slice(0, -1), [x2 - 6 * Math.cos(angle), y2 - 6 * Math.sin(angle)]];
  return svg('g', {},
    svg('polyline', { class: `arrow ${severity}`, points: line.map((it) => it.join(',')).join(' ') }),
    svg('polygon', { class: `head-of-arrow ${severity}`, points: `${x2},${y2} ${point(0.42)} ${point(-0.42)}` }));
}
