// The page: which view is shown, what the top says of the farm, and where the news come from.

import { askForToken } from './action.js';
import { Asking, onSign, signedIn, signIn } from './api.js';
import { h, setAttribute, setClass, setText } from './dom.js';
import { listen, showKeys } from './keys.js';
import { Live } from './live.js';
import { charts } from './views/charts.js';
import { configuration } from './views/configuration.js';
import { consumers } from './views/consumers.js';
import { digests } from './views/digests.js';
import { doctor } from './views/doctor.js';
import { events } from './views/events.js';
import { jobs } from './views/jobs.js';
import { overview } from './views/overview.js';
import { sessions } from './views/sessions.js';
import { shards } from './views/shards.js';
import { slow } from './views/slow.js';
import { transactions } from './views/transactions.js';

// Each: {id, title, heading, answers, make(host) → {element, show(picture), start(), stop()}}
const VIEWS = [overview, charts, digests, slow, sessions, shards, transactions, events, jobs, configuration, doctor, consumers];
const THEME = 'heddle-theme';
const at = (id) => document.getElementById(id);

const made = new Map();
const links = new Map();
let shown;

// What a view may ask of the page.
const host = {
  live: undefined,
  may: (right) => ['public', 'monitor', 'admin'].indexOf(host.live.access) >= ['public', 'monitor', 'admin'].indexOf(right),
  askForToken,
};

host.live = new Live(changed, linked);

function current() {
  const id = location.hash.replace(/^#\//, '');
  return VIEWS.find((view) => view.id === id) ?? VIEWS[0];
}

// Shows the view that the address names.
function go() {
  const view = current();
  if (!made.has(view.id)) made.set(view.id, view.make(host));
  const next = made.get(view.id);
  if (shown === next) return;
  shown?.stop?.();
  shown = next;
  at('main').replaceChildren(head(view), next.element);
  for (const [id, link] of links) setAttribute(link, 'aria-current', id === view.id ? 'page' : null);
  if (host.live.picture) next.show?.(host.live.picture);
  next.start?.();
  document.title = title();
}

function head(view) {
  return h('div', { class: 'head' }, h('h1', { text: view.heading ?? view.title }), h('p', { class: 'answers', text: view.answers }));
}

// The worst first: what an engineer must know at once.
function verdict(picture) {
  const groups = Object.entries(picture.groups ?? {});
  const named = (severity) => groups.filter(([, group]) => group.severity === severity).map(([name]) => name);
  const [down, hurt] = [named('down'), named('hurt')];
  const list = (names) => (names.length > 4 ? `${names.slice(0, 4).join(', ')} and ${names.length - 4} more` : names.join(', '));
  if (picture.farm.store_silent_s > 0) return ['down', `The state store has not answered for ${picture.farm.store_silent_s} s: nothing fails over`];
  if (down.length) return ['down', `${down.length === 1 ? 'Group' : 'Groups'} ${list(down)} ${down.length === 1 ? 'takes' : 'take'} no writes${hurt.length ? `; ${hurt.length} more ${hurt.length === 1 ? 'is' : 'are'} hurt` : ''}`];
  if (!picture.farm.sql_serves) return ['down', 'The SQL door takes no clients'];
  if (hurt.length) return ['hurt', `${hurt.length === 1 ? 'Group' : 'Groups'} ${list(hurt)} ${hurt.length === 1 ? 'is' : 'are'} hurt, and all groups take writes`];
  if (!groups.length) return ['hurt', 'The farm has no group yet: heddle group create NAME'];
  return ['well', groups.length === 1 ? `Group ${groups[0][0]} takes writes, all its servers are well` : `All ${groups.length} groups take writes, all servers are well`];
}

function title() {
  const picture = host.live.picture;
  const [severity, text] = picture ? verdict(picture) : ['well', ''];
  const sign = { well: '', hurt: '▲ ', down: '■ ' }[severity];
  return `${sign}${severity === 'well' ? current().title : text} – Heddle`;
}

// A new picture is there.
function changed() {
  const { picture } = host.live;
  const [severity, text] = verdict(picture);
  setText(at('verdict'), text);
  setClass(at('verdict'), `verdict ${severity}`);
  if (document.title !== title()) document.title = title();
  badge('overview', Object.values(picture.groups ?? {}).filter((group) => group.severity !== 'well').length, 'groups are not well');
  badge('transactions', picture.farm.in_doubt, 'transactions are in doubt');
  shown?.show?.(picture);
}

function badge(id, number, what) {
  const place = links.get(id).lastElementChild;
  setText(place, number > 0 ? String(number) : '');
  setClass(place, number > 0 ? 'badge' : '');
  setAttribute(place, 'title', number > 0 ? `${number} ${what}` : null);
}

function linked(how, why) {
  const texts = {
    live: 'live',
    polling: 'live, by asking',
    paused: 'paused',
    lost: 'the router does not answer',
    refused: 'sign in to look',
  };
  setText(at('link'), texts[how]);
  setClass(at('link'), how === 'lost' || how === 'refused' ? 'link lost' : 'link');
  setAttribute(at('link'), 'title', why || null);
  if (how === 'lost') {
    setText(at('verdict'), `This router does not answer: what is shown is of before (${why})`);
    setClass(at('verdict'), 'verdict down');
  }
  if (how === 'refused') {
    setText(at('verdict'), 'The router shows its farm to those who sign in');
    setClass(at('verdict'), 'verdict hurt');
    if (!document.querySelector('dialog')) askForToken(signedIn() ? 'The router does not know this token.' : '');
  }
  setText(at('sign'), signedIn() ? 'Sign out' : 'Sign in');
}

function pause() {
  const paused = !host.live.paused;
  Asking.paused = paused;
  host.live.pause(paused);
  setAttribute(at('pause'), 'aria-pressed', String(paused));
  setText(at('pause'), paused ? 'Go on' : 'Pause');
}

function theme(next) {
  document.documentElement.dataset.theme = next;
  setText(at('theme'), next === 'dark' ? 'Light' : 'Dark');
}

function switchTheme() {
  const next = document.documentElement.dataset.theme === 'dark' ? 'light' : 'dark';
  localStorage.setItem(THEME, next);
  theme(next);
}

function start() {
  const system = matchMedia('(prefers-color-scheme: dark)');
  const chosen = () => localStorage.getItem(THEME) ?? (system.matches ? 'dark' : 'light');
  theme(chosen());
  system.addEventListener('change', () => theme(chosen()));
  for (const view of VIEWS) {
    const link = h('a', { href: `#/${view.id}` }, h('span', { text: view.title }), h('span'));
    links.set(view.id, link);
    at('views').append(h('li', {}, link));
  }
  // A link may bring the token, which then leaves the address and the history.
  const brought = location.hash.match(/^#token=([^&]+)$/);
  if (brought) {
    signIn(decodeURIComponent(brought[1]));
    history.replaceState(null, '', '#/overview');
  }
  at('skip').addEventListener('click', (event) => {
    event.preventDefault();
    at('main').focus();
  });
  at('pause').addEventListener('click', pause);
  at('theme').addEventListener('click', switchTheme);
  at('keys').addEventListener('click', showKeys);
  at('sign').addEventListener('click', () => (signedIn() ? signIn('') : askForToken()));
  onSign(() => {
    host.live.restart();
    shown?.stop?.();
    shown?.start?.();
  });
  addEventListener('hashchange', go);
  const step = (by) => VIEWS[(VIEWS.indexOf(current()) + by + VIEWS.length) % VIEWS.length];
  const open = (view) => view && (location.hash = `#/${view.id}`);
  listen({
    view: (place) => open(VIEWS[place]),
    step: (by) => open(step(by)),
    filter: () => at('main').querySelector('[data-filter]')?.focus(),
    pause,
    theme: switchTheme,
  });
  go();
  host.live.start();
}

start();
