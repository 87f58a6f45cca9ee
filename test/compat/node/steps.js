// What the Node programs share: where to connect, and steps whose output is compared.
'use strict';

const settings = {
  host: process.env.COMPAT_HOST, port: Number(process.env.COMPAT_PORT), user: process.env.COMPAT_USER,
  password: process.env.COMPAT_PASSWORD, database: process.env.COMPAT_DATABASE,
  // Every connection is by TLS; whose certificate it is does not matter here.
  ...(process.env.COMPAT_TLS ? { ssl: { rejectUnauthorized: false } } : {}),
};

function printable(key, value) {
  if (typeof value === 'bigint') return `${value}n`;
  if (value && value.type === 'Buffer') return `0x${Buffer.from(value.data).toString('hex')}`;
  return value;
}

function say(...words) {
  console.log(words.map((word) => JSON.stringify(word, printable)).join(' '));
}

function fields(error) {
  return [error.code, error.errno, error.sqlState, error.sqlMessage];
}

// Runs the steps in order; an error that a step does not expect is part of the comparison.
async function run(steps) {
  for (const [name, step] of Object.entries(steps)) {
    console.log('==', name);
    try {
      await step();
    } catch (error) {
      console.log('unexpected:', error.code, error.errno, error.message);
    }
  }
  // A pool that was not ended keeps Node alive.
  process.exit(0);
}

const values = {
  tiny: -128, big: '18446744073709551615', dec_: '-12345678901234567.890123', dbl: 0.25,
  txt: "naïve 日本語 🧵 'q' \\", bin: Buffer.from(Array.from({ length: 256 }, (_, i) => i)),
  moment: '1999-12-31 23:59:59.123456', doc: '{"a": [1, null, "ü"]}', nothing: null,
};
const valuesTable = `CREATE TABLE everything (id INT AUTO_INCREMENT PRIMARY KEY, tiny TINYINT, big BIGINT UNSIGNED,
  dec_ DECIMAL(30,6), dbl DOUBLE, txt TEXT, bin VARBINARY(300), moment DATETIME(6), doc JSON, nothing INT)
  DEFAULT CHARSET utf8mb4`;
const sequence = (count) => Array.from({ length: count }, (_, i) => i + 1);
const pause = (ms) => new Promise((done) => setTimeout(done, ms));

module.exports = { settings, say, fields, run, values, valuesTable, sequence, pause };
