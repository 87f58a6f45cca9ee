// Knex over mysql2: schema builder and migrations, queries, batches, streams, nested transactions, its pool.
'use strict';
const knex = require('knex');
const { settings, say, fields, run, sequence } = require('./steps');

const quiet = Object.fromEntries(['warn', 'error', 'deprecate', 'debug'].map((name) => [name, () => {}]));
const open = (options) => knex({ client: 'mysql2', log: quiet, connection: { ...settings, charset: 'utf8mb4', dateStrings: true }, pool: { min: 0, max: 4 }, ...options });
const source = {
  getMigrations: async () => ['1_make', '2_fill'], getMigrationName: (name) => name,
  getMigration: async (name) => ({
    up: (db) => (name === '1_make'
      ? db.schema.createTable('thing', (t) => {
        t.increments('id'); t.string('name', 50).notNullable().unique(); t.decimal('price', 12, 3); t.json('extra');
        t.specificType('data', 'longblob'); t.datetime('at', { precision: 6 }); t.integer('parent').unsigned().references('thing.id');
      }) : db('thing').insert({ name: 'first' })),
    down: (db) => (name === '1_make' ? db.schema.dropTable('thing') : db('thing').delete()),
  }),
};
const told = (error) => say(...fields(error));
const db = open();

run({
  async migrations() {
    say(await db.migrate.latest({ migrationSource: source }), await db.migrate.currentVersion({ migrationSource: source }));
    say(await db.migrate.rollback({ migrationSource: source }), await db.schema.hasTable('thing'));
    await db.migrate.latest({ migrationSource: source });
    await db.schema.alterTable('thing', (t) => { t.integer('count').defaultTo(0); t.index(['price', 'name'], 'by_price'); });
    say(await db('thing').columnInfo(), await db.schema.hasColumn('thing', 'count'));
  },
  async rows() {
    const [id] = await db('thing').insert({ name: "ü 🧵 'q' \\ ?", price: '1.250', extra: JSON.stringify({ a: [1, null] }), data: Buffer.alloc(2_000_000, 9), at: '1999-12-31 23:59:59.123456' });
    const row = await db('thing').where({ id }).first();
    say(id, { ...row, data: row.data.length });
    await db.batchInsert('thing', sequence(500).map((n) => ({ name: `n${n}`, price: n, parent: n % 2 ? 1 : null })), 100);
    say(await db('thing').count('* as n').sum('price as total').max('name as last').first());
    say(await db('thing as t').leftJoin('thing as p', 'p.id', 't.parent').select('p.name').count('* as n').groupBy('p.name').orderBy('p.name'));
    say(await db('thing').select('name').whereIn('name', ['n1', 'n2']).orWhereBetween('price', [10, 12]).orderBy('id'));
    say(await db('thing').where('price', '>', 490).update({ count: db.raw('count + ?', [3]) }), await db('thing').where('name', 'n500').increment('count', 4));
    say(await db('thing').insert({ name: 'n5', price: 5 }).onConflict('name').merge({ price: -5 }), await db('thing').where('name', 'n5').pluck('price'));
    say(await db('thing').insert({ name: 'n5' }).onConflict('name').ignore());
    say(await db.raw('SELECT ?? FROM ?? WHERE ?? = ? UNION SELECT ?', ['name', 'thing', 'id', id, 'x']).then(([rows]) => rows));
    say(await db.with('few', db('thing').where('price', '<', 4).select('name', 'price')).select('*').from('few').orderBy('price'));
    let seen = 0;
    for await (const one of db('thing').orderBy('id').stream()) seen += one.id > 0;
    say(seen, await db('thing').where('price', '>=', 400).delete(), await db('thing').truncate().catch(told));
  },
  async transactions() {
    await db.transaction(async (t) => {
      await t('thing').insert({ name: 'kept' });
      await t.transaction(async (inner) => { await inner('thing').insert({ name: 'inner' }); throw new Error('inner only'); }).catch((error) => say(error.message));
      say(await t('thing').where('name', 'kept').forUpdate().pluck('name'));
    }, { isolationLevel: 'repeatable read' });
    await db.transaction(async (t) => { await t('thing').insert({ name: 'lost' }); throw new Error('roll back'); }).catch((error) => say(error.message));
    const reading = await db.transaction({ readOnly: true });
    await reading('thing').insert({ name: 'never' }).catch(told);
    await reading.rollback();
    say(await db('thing').whereIn('name', ['kept', 'inner', 'lost', 'never']).pluck('name'));
  },
  async two_connections() {
    const other = open({ pool: { min: 1, max: 1 } });
    let wrong = 0;
    for (const n of sequence(50)) {
      await db('thing').insert({ name: `w${n}` });
      wrong += (await other('thing').where('name', `w${n}`)).length !== 1;
    }
    say('wrong', wrong);
    await other.destroy();
  },
  async pool() {
    const prepared = open({ pool: { min: 0, max: 2, afterCreate: (connection, done) => connection.query("SET @mine = 7, time_zone = '+03:00'", done) } });
    const answers = await Promise.all(sequence(20).map(() => prepared.raw('SELECT @mine AS mine, @@time_zone AS zone').then(([[row]]) => row)));
    say(answers.every((row) => row.zone === '+03:00' && Number(row.mine) === 7));
    await prepared.destroy();
  },
  async errors() {
    await db('thing').insert({ name: 'kept' }).catch(told);
    await db('not_there').catch(told);
    await db('thing').insert({ name: 'x', parent: 4711 }).catch(told);
    await db.raw('SELECT SLEEP(5)').timeout(200, { cancel: true }).catch((error) => say(error.name));
    say(await db('thing').where('name', 'kept').pluck('name'));
    await open({ connection: { ...settings, password: 'wrong' } }).raw('SELECT 1').catch((error) => say(error.code, error.errno));
  },
});
