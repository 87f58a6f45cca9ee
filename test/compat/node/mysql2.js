// mysql2 as applications use it: promises, execute with its statement cache, pools, streams, pipelining.
'use strict';
const fs = require('fs');
const path = require('path');
const mysql = require('mysql2');
const promised = require('mysql2/promise');
const { settings, say, fields, run, values, valuesTable, sequence, pause } = require('./steps');

const connect = (options) => promised.createConnection({ ...settings, charset: 'utf8mb4', ...options });

run({
  async connects() {
    const connection = await connect();
    say((await connection.query('SELECT DATABASE() AS db, @@autocommit AS auto'))[0]);
    const [[{ id }]] = await connection.query('SELECT CONNECTION_ID() AS id');
    say(id === connection.threadId, (await connection.ping()) === undefined || true);
    await connection.end();
  },
  async values() {
    const connection = await connect({ supportBigNumbers: true, bigNumberStrings: true, dateStrings: true });
    await connection.query(valuesTable);
    const names = Object.keys(values).join(', ');
    const marks = Object.keys(values).map(() => '?').join(', ');
    const insert = `INSERT INTO everything (${names}) VALUES (${marks})`;
    for (const way of ['query', 'execute']) {
      const [result] = await connection[way](insert, Object.values(values));
      say(way, result);
      const [rows, columns] = await connection[way]('SELECT * FROM everything WHERE txt = ? ORDER BY id', [values.txt]);
      say(rows);
      say(columns.map((c) => [c.name, c.orgTable, c.characterSet, c.columnLength, c.columnType, c.flags, c.decimals]));
    }
    await connection.end();
  },
  async statements_in_numbers() {
    const connection = await connect({ maxPreparedStatements: 10 });
    await connection.query('CREATE TABLE item (id INT AUTO_INCREMENT PRIMARY KEY, name VARCHAR(20))');
    let wrong = 0;
    for (const number of sequence(60)) {
      const [{ insertId }] = await connection.execute('INSERT INTO item (name) VALUES (?)', [`n${number}`]);
      const [rows] = await connection.execute(`SELECT name, ${number % 25} AS n FROM item WHERE id = ?`, [insertId]);
      wrong += rows.length !== 1 || rows[0].name !== `n${number}` || rows[0].n !== number % 25;
    }
    say('wrong', wrong);
    const statement = await connection.prepare('SELECT ? + ? AS sum');
    say((await statement.execute([1, 2]))[0], (await statement.execute([3, 4]))[0]);
    await statement.close();
    await connection.end();
  },
  async queued_without_waiting() {
    const connection = mysql.createConnection({ ...settings });
    await connection.promise().query('CREATE TABLE queued (n INT)');
    const results = await Promise.all(sequence(300).map((n) => connection.promise().query('INSERT INTO queued VALUES (?)', [n])));
    say(results.reduce((sum, [result]) => sum + result.affectedRows, 0));
    const reads = await Promise.all(sequence(100).map((n) => connection.promise().execute('SELECT n FROM queued WHERE n = ?', [n])));
    say(reads.every(([rows], i) => rows.length === 1 && rows[0].n === i + 1));
    connection.destroy();
  },
  async transactions() {
    const connection = await connect();
    const other = await connect();
    await connection.query('CREATE TABLE account (id INT PRIMARY KEY, balance INT)');
    await connection.beginTransaction();
    await connection.query('INSERT INTO account VALUES (1, 100), (2, 0)');
    say((await other.query('/*ms=master*/ SELECT COUNT(*) AS n FROM account'))[0]);
    await connection.commit();
    say((await other.query('/*ms=master*/ SELECT COUNT(*) AS n FROM account'))[0]);
    await connection.beginTransaction();
    say((await connection.execute('UPDATE account SET balance = balance + ?', [5]))[0].info);
    await connection.rollback();
    say((await connection.query('SELECT * FROM account ORDER BY id'))[0]);
    await connection.query('SET autocommit = 0');
    await connection.query('DELETE FROM account');
    await connection.rollback();
    say((await connection.query('SELECT COUNT(*) AS n, @@autocommit AS auto FROM account'))[0]);
    await connection.end();
    await other.end();
  },
  async errors() {
    const connection = await connect();
    for (const statement of ['SELECT * FROM not_there', 'SELEC', 'SELECT 1; SELECT 2', 'INSERT INTO account VALUES (1, 1)',
      'USE no_such_database', 'CALL no_such_routine()']) {
      for (const way of ['query', 'execute']) {
        try {
          await connection[way](statement);
          say(statement, 'no error');
        } catch (error) {
          say(statement, ...fields(error));
        }
      }
    }
    for (const change of [{ password: 'wrong' }, { database: 'no_such_database' }, { user: 'nobody' }]) {
      try {
        await connect(change);
        say('no error');
      } catch (error) {
        say(...fields(error));
      }
    }
    await connection.end();
  },
  async multi_statements_and_procedures() {
    const connection = await connect({ multipleStatements: true });
    say((await connection.query("SELECT 1 AS a; SELECT 2 AS b, 'ü' AS c; SET @z = 9; SELECT @z AS z"))[0]);
    try {
      await connection.query('SELECT 1; SELECT * FROM not_there; SELECT 3');
    } catch (error) {
      say(...fields(error));
    }
    await connection.query('CREATE PROCEDURE several(IN n INT, OUT doubled INT) BEGIN SELECT n; SELECT n + 1 AS a; SET doubled = n * 2; END');
    say((await connection.query('CALL several(21, @d); SELECT @d'))[0]);
    say((await connection.execute('CALL several(?, @d)', [4]))[0]);
    await connection.end();
  },
  async streams() {
    const connection = mysql.createConnection(settings);
    let sum = 0;
    for await (const row of connection.query("SELECT seq, REPEAT('x', 100) FROM compat_numbers.seq_1_to_20000").stream()) sum += row.seq;
    say(sum);
    sum = 0;
    for await (const row of connection.execute('SELECT seq FROM compat_numbers.seq_1_to_1000').stream()) sum += row.seq;
    say(sum);
    connection.destroy();
  },
  async pools() {
    const pool = mysql.createPool({ ...settings, connectionLimit: 4, resetOnRelease: false }).promise();
    const rows = await Promise.all(sequence(40).map((n) => pool.execute('SELECT ? AS n', [n])));
    say(rows.every(([[row]], i) => Number(row.n) === i + 1));
    const connection = await pool.getConnection();
    await connection.query('SET @x = 1');
    await connection.changeUser({ database: 'information_schema' });
    say((await connection.query('SELECT @x AS x, DATABASE() AS db'))[0]);
    connection.release();
    await pool.end();
  },
  async reset() {
    const connection = await connect();
    await connection.query("SET @x = 1, time_zone = '+05:00'");
    await connection.query('CREATE TEMPORARY TABLE gone (n INT)');
    if (connection.reset) await connection.reset();
    say((await connection.query('SELECT @x AS x, @@time_zone = @@global.time_zone AS zone, DATABASE() AS db'))[0]);
    try {
      await connection.query('SELECT * FROM gone');
    } catch (error) {
      say(...fields(error));
    }
    await connection.end();
  },
  async load_data_local() {
    const file = path.join(process.env.COMPAT_FOLDER, 'mysql2.csv');
    fs.writeFileSync(file, sequence(5000).map((n) => `${n},name ${n}\n`).join(''));
    const connection = await connect();
    await connection.query('CREATE TABLE loaded (n INT, name VARCHAR(20))');
    const [result] = await connection.query({
      sql: `LOAD DATA LOCAL INFILE '${file}' INTO TABLE loaded FIELDS TERMINATED BY ','`,
      infileStreamFactory: (name) => fs.createReadStream(name) });
    say(result);
    say((await connection.query('SELECT COUNT(*) AS n, SUM(n) AS s FROM loaded'))[0]);
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
    say(Date.now() - begin < 15000, (await connection.query("SELECT 'alive' AS word"))[0]);
    // mysql2 throws what nobody listens for.
    connection.on('error', () => {});
    await killer.query(`KILL ${connection.threadId}`);
    await connection.query('SELECT 1').then(() => say('still there'), (error) => say('gone', error.fatal));
    await killer.end();
  },
});
