// TypeORM over mysql2: entities without decorators, migrations, relations, query builder, streams.
'use strict';
require('reflect-metadata');
const { DataSource, EntitySchema, In, MoreThan, Table } = require('typeorm');
const { settings, say, run, sequence } = require('./steps');

const Team = new EntitySchema({
  name: 'team', columns: { id: { type: Number, primary: true, generated: true }, name: { type: 'varchar', length: 40, unique: true } },
  relations: { players: { type: 'one-to-many', target: 'player', inverseSide: 'team' } },
});
const Player = new EntitySchema({
  name: 'player',
  columns: {
    id: { type: 'bigint', primary: true, generated: true }, nick: { type: 'varchar', length: 60, charset: 'utf8mb4' },
    score: { type: 'decimal', precision: 12, scale: 3, nullable: true }, data: { type: 'json', nullable: true },
    image: { type: 'longblob', nullable: true }, joined: { type: 'datetime', precision: 6, nullable: true },
    edition: { type: Number, version: true },
  },
  relations: { team: { type: 'many-to-one', target: 'team', inverseSide: 'players', nullable: true } },
  indices: [{ columns: ['score', 'nick'] }],
});
class First1700000000000 {
  async up(runner) {
    await runner.createTable(new Table({ name: 'note', columns: [{ name: 'id', type: 'int', isPrimary: true, isGenerated: true, generationStrategy: 'increment' },
      { name: 'text', type: 'text', isNullable: true }] }), true);
    await runner.query("INSERT INTO note (text) VALUES ('first')");
  }
  async down(runner) {
    await runner.dropTable('note');
  }
}
const open = (options) => new DataSource({
  type: 'mysql', host: settings.host, port: settings.port, username: settings.user, password: settings.password, charset: 'utf8mb4',
  database: settings.database, entities: [Team, Player], migrations: [First1700000000000], connectorPackage: 'mysql2',
  supportBigNumbers: true, timezone: 'Z', ssl: settings.ssl, poolSize: 3, ...options,
}).initialize();
const told = (error) => say(error.name, error.code, error.errno, error.message);
let db;

run({
  async migrations() {
    db = await open();
    await db.synchronize(true);
    await db.runMigrations();
    say(await db.query('SELECT * FROM note'), (await db.query('SELECT name FROM migrations')));
    await db.undoLastMigration();
    await db.synchronize();
    const runner = db.createQueryRunner();
    say((await runner.getTable('player')).columns.map((c) => [c.name, c.type, c.isNullable, c.length, c.precision]), await runner.hasTable('note'));
    await runner.release();
  },
  async rows() {
    const teams = db.getRepository('team');
    const players = db.getRepository('player');
    const team = await teams.save({ name: 'blau 🧵' });
    const joined = new Date(Date.UTC(1999, 11, 31, 23, 59, 59));
    const anna = await players.save({ nick: "a'n\\n?a", score: '12.345', data: { a: [1, null] }, image: Buffer.alloc(1_500_000, 3), joined, team });
    say(anna.id, anna.edition);
    const read = await players.findOne({ where: { nick: anna.nick }, relations: { team: true } });
    say(read.score, read.data, read.image.length, read.joined, read.team, read.edition);
    read.score = null;
    await players.save(read);
    say((await players.findOneBy({ id: read.id })).edition);
    await players.insert(sequence(250).map((n) => ({ nick: `n${n}`, score: n, team: n % 3 ? team : null })));
    say(await players.count(), await players.sum('score'), await players.findBy({ nick: In(['n7', 'n8']), score: MoreThan(7) }));
    say(await players.createQueryBuilder('p').leftJoin('p.team', 't').select('t.name', 'team').addSelect('COUNT(*)', 'n')
      .groupBy('t.name').orderBy('t.name').getRawMany());
    say((await players.createQueryBuilder('p').where('p.score BETWEEN :a AND :b', { a: 10, b: 12 }).orderBy('p.id', 'DESC').take(2).getManyAndCount())[1]);
    say((await players.update({ nick: 'n9' }, { score: 1000 })).affected, (await players.delete({ score: MoreThan(200) })).affected);
    const stream = await players.createQueryBuilder('p').orderBy('p.id').stream();
    let seen = 0;
    for await (const row of stream) seen += row.p_nick.startsWith('n');
    say(seen);
    await teams.upsert([{ name: 'blau 🧵' }, { name: 'rot' }], ['name']);
    say((await teams.find({ order: { name: 'ASC' } })).map((row) => row.name));
  },
  async transactions() {
    await db.transaction('SERIALIZABLE', async (manager) => {
      await manager.insert('team', { name: 'kept' });
      say(await manager.countBy('team', { name: 'kept' }));
    });
    await db.transaction(async (manager) => {
      await manager.insert('team', { name: 'lost' });
      await manager.transaction(async (inner) => inner.insert('team', { name: 'inner' }));
      throw new Error('roll back');
    }).catch(told);
    const runner = db.createQueryRunner();
    await runner.startTransaction('READ COMMITTED');
    const found = await runner.manager.findOne('team', { where: { name: 'kept' }, lock: { mode: 'pessimistic_write' } });
    say(found.name);
    await runner.rollbackTransaction();
    await runner.release();
    say(await db.getRepository('team').count());
  },
  async two_connections() {
    const other = await open({ poolSize: 1 });
    let wrong = 0;
    for (const n of sequence(50)) {
      const { id } = await db.getRepository('player').save({ nick: `w${n}` });
      wrong += !(await other.getRepository('player').findOneBy({ id }));
    }
    say('wrong', wrong);
    await other.destroy();
  },
  async errors() {
    await db.getRepository('team').insert({ name: 'kept' }).catch(told);
    await db.query('SELECT * FROM not_there').catch(told);
    await db.getRepository('player').insert({ nick: 'x', team: { id: 4711 } }).catch(told);
    await open({ password: 'wrong' }).catch((error) => say(error.code, error.errno));
    await db.destroy();
  },
});
