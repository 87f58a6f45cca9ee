// A farm of real servers for the test: `heddle up` in a directory of its own, ended with its servers.

import { spawn, execFile } from 'node:child_process';
import { mkdtemp, readFile, rm } from 'node:fs/promises';
import { createServer } from 'node:net';
import { tmpdir } from 'node:os';
import { join } from 'node:path';

const START_MS = 120_000;

async function freePort() {
  const server = createServer();
  await new Promise((done) => server.listen(0, '127.0.0.1', done));
  const { port } = server.address();
  await new Promise((done) => server.close(done));
  return port;
}

export class Farm {
  // Starts it, and waits until all doors serve.
  static async start(program, flags) {
    const farm = new Farm();
    farm.program = program;
    farm.data = await mkdtemp(join(tmpdir(), 'heddle-console-'));
    const ports = await Promise.all(['sql', 'kv', 'http', 'fabric'].map(async (door) => [door, await freePort()]));
    const doors = ports.flatMap(([door, port]) => [`--${door}`, `127.0.0.1:${port}`]);
    farm.process = spawn(program, ['up', '--data', farm.data, ...doors, ...flags], { stdio: ['ignore', 'pipe', 'pipe'] });
    farm.said = '';
    farm.process.stderr.on('data', (text) => { farm.said += text; });
    await new Promise((ready, failed) => {
      const timer = setTimeout(() => failed(new Error(`heddle up is not ready: ${farm.said}`)), START_MS);
      farm.process.stdout.on('data', (text) => {
        farm.said += text;
        if (farm.said.includes('heddle: ready')) {
          clearTimeout(timer);
          ready();
        }
      });
      farm.process.on('exit', (code) => failed(new Error(`heddle up ended with ${code}: ${farm.said}`)));
    });
    const about = JSON.parse(await readFile(join(farm.data, 'farm.json'), 'utf8'));
    farm.http = about.http;
    farm.sql = about.sql;
    farm.token = (await readFile(join(farm.data, 'token'), 'utf8')).trim();
    return farm;
  }

  // Servers as farm.json has them now; their pids change.
  async servers() {
    return JSON.parse(await readFile(join(this.data, 'farm.json'), 'utf8')).servers;
  }

  // The process of a group's primary.
  async primaryOf(group) {
    const rows = await this.command('group', 'lookup_servers', group);
    const { address } = rows.find((row) => row.status === 'PRIMARY');
    return (await this.servers()).find((server) => server.address === address);
  }

  command(...words) {
    return new Promise((done, failed) => {
      execFile(this.program, [...words, '--json', '--http', this.http, '--data', this.data], (error, stdout, stderr) => {
        if (error) failed(new Error(stderr || error.message));
        else done(JSON.parse(stdout));
      });
    });
  }

  // A client of the SQL door; resolves to its exit code and what it said.
  client(statements) {
    const [host, port] = this.sql.split(':');
    return new Promise((done) => {
      execFile('mariadb', ['--no-defaults', '-h', host, '-P', port, '-u', 'root', '-e', statements], (error, stdout, stderr) => done({ code: error ? error.code : 0, text: stdout + stderr }));
    });
  }

  async end() {
    if (this.process.exitCode === null) {
      const ended = new Promise((done) => this.process.on('exit', done));
      this.process.removeAllListeners('exit');
      this.process.on('exit', () => {});
      const gone = new Promise((done) => this.process.once('close', done));
      this.process.kill('SIGTERM');
      await Promise.race([ended, gone]);
    }
    await rm(this.data, { recursive: true, force: true });
  }
}
