// The MariaDB connector as applications use it: pipelining, batch (bulk), pools with reset, streams.
'use strict';
const fs = require('fs');
const path = require('path');
const mariadb = require('mariadb');
const { settings, say, fields, run, values, valuesTable, sequence, pause } = require('./steps');

const connect = (options) => mariadb.createConnection({ ...settings, ...options });

run({
  async connects() {
    const connection = await connect();
    say(await connection.query('SELECT DATABASE() AS db, @@autocommit AS auto, @@character_set_client AS cs'));
    say(connection.serverVersion(), connection.info.isMariaDB());
    const [{ id }] = await connection.query('SELECT CONNECTION_ID() AS id');
    say(Number(id) === connection.threadId);
    await connection.ping();
    await connection.end();
  },
  async values() {
    const connection = await connect({ dateStrings: true });
    await connection.query(valuesTable);
    const names = Object.keys(values).join(', ');
    const marks = Object.keys(values).map(() => '?').join(', ');
    for (const way of ['query', 'execute']) {
      say(way, await connection[way](`INSERT INTO everything (${names}) VALUES (${marks})`, Object.values(values)));
      const rows = await connection[way]('SELECT * FROM everything WHERE txt = ? ORDER BY id', [values.txt]);
      say([...rows]);
      say(rows.meta.map((c) => [c.name(), c.orgTable(), c.columnLength, c.type, c.flags, c.scale]));
    }
    await connection.end();
  },
  async batches() {
    const connection = await connect();
    await connection.query('CREATE TABLE item (id INT AUTO_INCREMENT PRIMARY KEY, name VARCHAR(20), n INT)');
    for (const bulk of [true, false]) {
      say(await connection.batch({ sql: 'INSERT INTO item (name, n) VALUES (?, ?)', bulk },
        sequence(1000).map((n) => [n % 3 ? `n${n}` : null, n])));
    }
    say(await connection.query('SELECT COUNT(*) AS c, COUNT(name) AS named, SUM(n) AS s FROM item'));
    say(await connection.batch('UPDATE item SET name = ? WHERE id = ?', [['a', 1], ['b', 2], ['c', 1000000]]));
    try {
      await connection.batch('INSERT INTO item (id, n) VALUES (?, ?)', [[5000, 1], [5001, 1], [5000, 2]]);
    } catch (error) {
      say(...fields(error));
    }
    await connection.end();
  },
  async pipelined() {
    const connection = await connect({ pipelining: true });
    await connection.query('CREATE TABLE piped (n INT PRIMARY KEY)');
    const results = await Promise.allSettled(sequence(200).map((n) => connection.query('INSERT INTO piped VALUES (?)', [n === 100 ? 99 : n])));
    say(results.filter(({ status }) => status === 'fulfilled').length, fields(results[99].reason));
    say(await connection.query('SELECT COUNT(*) AS c FROM piped'));
    const reads = await Promise.all(sequence(100).map((n) => connection.execute('SELECT ? AS n', [n])));
    say(reads.every(([row], i) => Number(row.n) === i + 1));
    await connection.end();
  },
  async transactions() {
    const connection = await connect();
    const other = await connect();
    await connection.query('CREATE TABLE account (id INT PRIMARY KEY, balance INT)');
    await connection.beginTransaction();
    await connection.query('INSERT INTO account VALUES (1, 100)');
    say(await other.query('/*ms=master*/ SELECT COUNT(*) AS n FROM account'));
    await connection.commit();
    say(await other.query('/*ms=master*/ SELECT COUNT(*) AS n FROM account'));
    await connection.beginTransaction();
    await connection.query('DELETE FROM account');
    await connection.rollback();
    say(await connection.query('SELECT * FROM account'));
    await connection.end();
    await other.end();
  },
  async errors() {
    const connection = await connect();
    for (const statement of ['SELECT * FROM not_there', 'SELEC', 'SELECT 1; SELECT 2', 'INSERT INTO account VALUES (1, 1)']) {
      for (const way of ['query', 'execute']) {
        await connection[way](statement).then(() => say(statement, 'no error'), (error) => say(statement, ...fields(error)));
      }
    }
    for (const change of [{ password: 'wrong' }, { database: 'no_such_database' }, { user: 'nobody' }]) {
      await connect(change).then(() => say('no error'), (error) => say(...fields(error)));
    }
    await connection.end();
  },
  async multi_statements_and_procedures() {
    const connection = await connect({ multipleStatements: true });
    say(await connection.query("SELECT 1 AS a; SELECT 2 AS b, 'ü' AS c; SET @z = 9; SELECT @z AS z"));
    await connection.query('CREATE PROCEDURE several(IN n INT, OUT doubled INT) BEGIN SELECT n; SELECT n + 1 AS a; SET doubled = n * 2; END');
    say(await connection.query('CALL several(21, @d); SELECT @d'));
    say(await connection.execute('CALL several(?, ?)', [4, null]));
    await connection.end();
  },
  async streams() {
    const connection = await connect();
    let sum = 0;
    for await (const row of connection.queryStream("SELECT seq, REPEAT('x', 100) AS x FROM compat_numbers.seq_1_to_20000")) sum += Number(row.seq);
    say(sum);
    await connection.end();
  },
  async pools() {
    const pool = mariadb.createPool({ ...settings, connectionLimit: 4, resetAfterUse: true });
    const rows = await Promise.all(sequence(40).map((n) => pool.query('SELECT ? AS n', [n])));
    say(rows.every(([row], i) => Number(row.n) === i + 1));
    for (let round = 0; round < 4; round++) {
      const connection = await pool.getConnection();
      say(await connection.query('SELECT @x AS x'));
      await connection.query('SET @x = 1');
      await connection.release();
    }
    await pool.end();
  },
  async reset_and_change_user() {
    const connection = await connect();
    await connection.query("SET @x = 1, time_zone = '+05:00'");
    await connection.reset();
    say(await connection.query('SELECT @x AS x, @@time_zone = @@global.time_zone AS zone'));
    await connection.changeUser({ user: settings.user, password: settings.password, database: 'information_schema' });
    say(await connection.query('SELECT DATABASE() AS db'));
    await connection.end();
  },
  async load_data_local() {
    const file = path.join(process.env.COMPAT_FOLDER, 'mariadb.csv');
    fs.writeFileSync(file, sequence(5000).map((n) => `${n},name ${n}\n`).join(''));
    const connection = await connect({ permitLocalInfile: true });
    await connection.query('CREATE TABLE loaded (n INT, name VARCHAR(20))');
    say(await connection.query(`LOAD DATA LOCAL INFILE '${file}' INTO TABLE loaded FIELDS TERMINATED BY ','`));
    say(await connection.query('SELECT COUNT(*) AS n, SUM(n) AS s FROM loaded'));
    await connection.end();
  },
  async timeouts() {
    const connection = await connect();
    await connection.query({ sql: 'SELECT SLEEP(20)', timeout: 300 }).then(() => say('no error'), (error) => say(...fields(error)));
    say(await connection.query("SELECT 'alive' AS word"));
    await connection.end();
  },
  async killed() {
    const connection = await connect();
    const killer = await connect();
    let ended = false;
    const begin = Date.now();
    const sleeping = connection.query('SELECT SLEEP(20)').catch(() => {}).finally(() => { ended = true; });
    while (!ended && Date.now() - begin < 15000) {
      await pause(300);
      await killer.query(`KILL QUERY ${connection.threadId}`);
    }
    await sleeping;
    say(Date.now() - begin < 15000, await connection.query("SELECT 'alive' AS word"));
    await connection.end();
    await killer.end();
  },
  async compressed() {
    const connection = await connect({ compress: true });
    say((await connection.query("SELECT REPEAT('x', 1000000) AS x"))[0].x.length);
    await connection.end();
  },
});
