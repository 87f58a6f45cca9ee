// A router that is made up: it serves the console's files and a farm of any size that changes every second.
//
// It stands in where a real farm would be too large (1,000 servers, 100 shards), and where a fault must show that real
// servers do not have just now. What it answers has the form of a router's answers.

import { createServer } from 'node:http';
import { readFile } from 'node:fs/promises';

const FILES = new URL('../../crates/door-http/console/', import.meta.url);
const KINDS = { html: 'text/html; charset=utf-8', css: 'text/css', js: 'text/javascript', svg: 'image/svg+xml' };
export const ATTACK = 'SELECT \'<script>window.attacked = true</script><img src=x onerror="window.attacked = true">\' FROM t WHERE id = ?';

// A generator of numbers from 0 to 1 that always gives the same ones.
function numbers(seed) {
  let state = seed;
  return () => {
    state = (state * 1664525 + 1013904223) % 4294967296;
    return state / 4294967296;
  };
}

// A farm; `hurt` says which groups are down and which are hurt.
export function madeUp({ groups = 3, replicas = 2, shards = 12, hurt = true, samples = 300 } = {}) {
  const next = numbers(7);
  const picture = { farm: { id: 'made-up', version: '0', in_doubt: hurt ? 1 : 0, last_pause_ms: 71.4, store_silent_s: 0, sql_serves: true }, groups: {}, servers: {}, routers: {}, events: {}, traffic: {} };
  for (let g = 1; g <= groups; g += 1) {
    const name = `g${g}`;
    const severity = hurt && g === 2 ? 'down' : hurt && g % 5 === 3 ? 'hurt' : 'well';
    const why = { well: [], hurt: [`${name}-2 does not replicate: Error 1062: Duplicate entry '7' for key 'PRIMARY'`], down: [`its primary ${name}-0 does not answer: connection refused: writes wait`] }[severity];
    picture.groups[name] = { severity, why, kind: 'replication', description: g === 1 ? 'orders' : '', active: true, writable: severity !== 'down', primary: `u${g}-0`, timeline: 1 };
    for (let s = 0; s <= replicas; s += 1) {
      const bad = (severity === 'down' && s === 0) || (severity === 'hurt' && s === 2);
      picture.servers[`u${g}-${s}`] = {
        group: name, name: `${name}-${s}`, address: `10.0.${g % 250}.${s + 1}:3306`, status: s === 0 ? 'primary' : 'replica', mode: s === 0 ? 'read_write' : 'read_only',
        weight: 1, engine: 'mariadb', version: '10.11.6-MariaDB', severity: bad ? (s === 0 ? 'down' : 'hurt') : 'well',
        state: bad ? (s === 0 ? 'does not answer: connection refused' : 'does not replicate: Error 1062: Duplicate entry') : s === 0 ? 'takes writes' : 'replicates',
        ...(bad ? {} : { lag_ms: s === 0 ? 0 : Math.round(next() * 40) / 10 }),
      };
    }
  }
  picture.routers = { r1: { http: '10.0.0.1:6080', sql: '10.0.0.1:6306', version: '0', started_ms: Date.now() - 9e6, leads: true, own: true }, r2: { http: '10.0.0.2:6080', sql: '10.0.0.2:6306', version: '0', started_ms: Date.now() - 8e6, leads: false, own: false } };
  const now = Date.now();
  for (let back = samples; back >= 1; back -= 1) {
    const at = now - back * 1000;
    const held = back > 118 && back < 122;
    picture.traffic[at] = { statements: held ? 900 : 5200 + 900 * Math.sin(back / 20) + 400 * next(), errors: held ? 3 : back % 37 === 0 ? 1 : 0, sessions: 410 + Math.round(20 * next()), held: held ? 60 : 0, waiting: 0, p50_ms: 0.4 + 0.1 * next(), p99_ms: held ? 180 : 3 + 2 * next() };
  }
  const kinds = [['server_alive', 'it answers again'], ['primary_lost', 'two probes and both replicas say so'], ['server_promoted', 'it takes the writes; clients waited 71 ms'], ['server_rejoined', 'it follows the new primary'], ['config_changed', 'version 4 by ada']];
  kinds.forEach(([kind, detail], at) => {
    const when = now - 121_000 + at * 900;
    picture.events[`${when}-0`] = { at_ms: when, kind, group: 'g1', address: '10.0.1.1:3306', detail };
  });
  return { picture, tables: tables(groups, shards, hurt) };
}

function tables(groups, shards, hurt) {
  const at = new Date(Date.now() - 60_000).toISOString();
  const next = numbers(11);
  const digest = (n) => ({
    digest: `${n.toString(16).padStart(4, '0')}e3a1c55d0b9f7a6e2d11`, text: n === 0 ? ATTACK : `SELECT c${n}, name FROM orders WHERE customer = ? AND state IN (...)`, tag: n % 3 ? 'app:web,controller:orders' : '', database: 'shop', user: 'web', group: `g${(n % groups) + 1}`,
    calls: Math.round(90000 / (n + 1)), errors: n % 7 ? 0 : n + 1, rows_sent: 900, rows_changed: 0, bytes: 120000, first_seen: at, last_seen: at, time_ms_sum: 54000 / (n + 1), time_ms_p50: 0.4 + next(), time_ms_p99: 4 + 9 * next(), time_ms_max: 20 + 900 * next(), wait_ms_sum: 4, wait_ms_p99: 0.1, server_ms_p50: 0.3, server_ms_p99: 4, router: 'r1',
  });
  const session = (n) => ({ id: 1000 + n, user: 'web', client: `10.0.9.${n % 250}:5${n}`, door: 'sql', database: 'shop', command: n % 4 ? 'Sleep' : 'Query', time_ms: Math.round(4000 * next()), state: n % 4 ? '' : 'waits for the server', server: n % 4 ? '' : '10.0.1.2:3306', pins: n % 9 ? '' : 'temporary_table', pinned_ms: 0, digest: n % 4 ? '' : 'aa11bb22', tag: '', trace: '', router: 'r1' });
  return {
    'digest/list': Array.from({ length: 400 }, (_, n) => digest(n)),
    'digest/show': [{ ...digest(0), example: ATTACK, errors_by_number: '1062:3', plan: 'id=1, table=orders, type=ref, key=customer' }],
    'session/list': Array.from({ length: 800 }, (_, n) => session(n)),
    'sharding/list_definitions': [{ mapping_id: 1, type_name: 'SLOTS', global_group_id: 'g1', name: 'orders' }],
    'sharding/list_tables': [{ mapping_id: 1, table_name: 'shop.orders', column_name: 'customer' }, { mapping_id: 1, table_name: 'shop.countries', column_name: null }],
    'sharding/list_sizes': Array.from({ length: shards }, (_, n) => ({ shard_id: n + 1, mapping_id: 1, group_id: `g${(n % groups) + 1}`, shards_there: n % 3 ? 1 : 2, tables: 4, rows: n === 7 ? null : 1200 * n, bytes: n === 7 ? null : 300_000 * n, age_s: n === 7 ? null : 4 })),
    'sharding/list_shards': Array.from({ length: shards }, (_, n) => ({ shard_id: n + 1, mapping_id: 1, group_id: `g${(n % groups) + 1}`, state: n === 4 ? 'DISABLED' : 'ENABLED', lower_bound: `slots ${n * 100}` })),
    'job/list': [
      { uuid: 'c0ffee00-1', kind: 'split_shard', group_id: 'g3', address: 'shard 2', source: 'g2', state: 'running', step: 'copy shop.orders', tables_done: 1, tables: 3, rows: 120000, bytes: 9e7, started: at, ended: null, method: null, bytes_total: null, bytes_per_s: null },
      { uuid: 'c0ffee00-2', kind: 'clone', group_id: 'g1', address: '10.0.1.9:3306', source: '10.0.1.2:3306', state: 'running', step: 'backup', tables_done: 0, tables: 0, rows: 0, bytes: 3e9, started: at, ended: null, method: 'backup', bytes_total: 8e9, bytes_per_s: 9e7 },
      { uuid: 'c0ffee00-3', kind: 'clone', group_id: 'g1', address: '10.0.1.8:3306', source: '10.0.1.2:3306', state: 'failed', step: 'copy', tables_done: 2, tables: 9, rows: 10, bytes: 1e6, started: at, ended: at, method: 'copy', bytes_total: null, bytes_per_s: null },
    ],
    'subscription/list': [
      { name: 'index', groups: '', databases: '', tables: 'shop.orders,shop.items', snapshot: true, order: null, created: at, acknowledged: at, lag_ms: 40, lag_bytes: 900, expiry_percent: 0, gap: null },
      { name: 'audit', groups: '', databases: 'shop', tables: '', snapshot: false, order: 'global', created: at, acknowledged: at, lag_ms: 2.1e9, lag_bytes: 8e9, expiry_percent: 81, gap: null },
      { name: 'warehouse', groups: 'g2', databases: '', tables: '', snapshot: false, order: null, created: at, acknowledged: at, lag_ms: 3e9, lag_bytes: 9e9, expiry_percent: 116, gap: 'g2: behind 0-2-900 up to 0-2-4000' },
    ],
    'sink/list': [{ name: 'hooks', to: 'https://10.0.9.1/hook', state: 'failing', groups: '', databases: '', tables: '', snapshot: false, order: null, delivered: 120000, letters: 2, lag_ms: 9000, lag_bytes: 12000, expiry_percent: null, gap: null, error: 'the answer was 500: no' }],
    'transaction/list': hurt ? [{ transaction_id: 'x1-4f00aa', state: 'prepared', verdict: '', decider: 'g2', branches: 'g1,g3', since: at, waits_for: 'the primary of g2' }] : [],
    'config/history': [4, 3, 2, 1].map((version) => ({ version, when: at, by: 'ada', comment: version === 4 ? 'larger pools for the sale' : '', state: version === 4 ? 'in force' : '' })),
    'config/diff': [{ difference: '--- version 3\n+++ version 4 by ada\n@@ settings\n-pool_connections_max = 64\n+pool_connections_max = 128' }],
    'config/show': [{ document: '# version 4\npool_connections_max = 128\n' }],
    'config/settings': [{ name: 'pool_connections_max', value: '128', from: 'farm', default: '64', scope: 'farm, at once' }],
    'manage/help': [{ command: 'manage doctor', help: '' }],
    'manage/doctor': [{ check: 'binlog_format', severity: 'error', server: '10.0.1.2:3306', evidence: 'binlog_format = STATEMENT', breaks: 'the change stream and moves of shards', cure: 'SET GLOBAL binlog_format = ROW' }],
  };
}

// Serves it; `nudge(picture)` gives the patch of each second.
export async function serve(farm, { nudge = lags, token = 'made-up' } = {}) {
  let { picture } = farm;
  const asked = [];
  const server = createServer(async (request, response) => {
    const { pathname } = new URL(request.url, 'http://localhost');
    const send = (status, kind, body) => response.writeHead(status, { 'content-type': kind, 'cache-control': 'no-store' }).end(body);
    if (pathname === '/' || pathname.startsWith('/console/')) {
      const name = pathname === '/' ? 'index.html' : pathname.slice('/console/'.length);
      const body = await readFile(new URL(name, FILES)).catch(() => undefined);
      return body ? send(200, KINDS[name.split('.').pop()], body) : send(404, 'text/plain', '');
    }
    if (pathname === '/v1/live') {
      response.writeHead(200, { 'content-type': 'text/event-stream', 'cache-control': 'no-store' });
      const event = (name, json) => response.write(`event: ${name}\ndata: ${JSON.stringify(json)}\n\n`);
      event('hello', { access: 'admin' });
      event('state', picture);
      const timer = setInterval(() => event('patch', nudge(picture)), 1000);
      response.on('close', () => clearInterval(timer));
      return undefined;
    }
    if (request.headers.authorization !== `Bearer ${token}`) return send(401, 'application/json', '{"error":"this needs the monitor right","cure":"sign in"}');
    asked.push(`${request.method} ${request.url}`);
    const rows = farm.tables[pathname.replace('/v1/', '')];
    return send(200, 'application/json', JSON.stringify(rows ?? [{ success: true }]));
  });
  await new Promise((done) => server.listen(Number(process.env.PORT ?? 0), '127.0.0.1', done));
  return { url: `http://127.0.0.1:${server.address().port}`, token, asked, close: () => { server.closeAllConnections(); server.close(); } };
}

// Lags move, and a sample is added.
function lags(picture) {
  const servers = {};
  for (const [uuid, server] of Object.entries(picture.servers)) {
    if (server.lag_ms) servers[uuid] = { lag_ms: Math.round(Math.random() * 60) / 10 };
  }
  return { servers, traffic: { [Date.now()]: { statements: 5000 + 500 * Math.random(), errors: 0, sessions: 410, held: 0, waiting: 0, p50_ms: 0.5, p99_ms: 4 } } };
}

if (process.argv[1] === new URL(import.meta.url).pathname) {
  const [groups = '3', shards = '12'] = process.argv.slice(2);
  const { url, token } = await serve(madeUp({ groups: Number(groups), shards: Number(shards), replicas: groups > 50 ? 3 : 2 }));
  console.log(`${url}/#token=${token}`);
}
