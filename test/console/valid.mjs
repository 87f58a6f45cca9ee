// Whether markup is valid HTML, by the W3C's Nu Html Checker. It needs Java; `null` where there is none.

import { execFile } from 'node:child_process';
import { mkdtemp, rm, writeFile } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { promisify } from 'node:util';

import vnu from 'vnu-jar';

const run = promisify(execFile);
const OUTPUT_BYTES_MAX = 16 << 20;

async function hasJava() {
  try {
    await run('java', ['-version']);
    return true;
  } catch {
    return false;
  }
}

// What is wrong with these documents, by their names, one line each.
export async function invalid(documents) {
  if (!await hasJava()) return null;
  const dir = await mkdtemp(join(tmpdir(), 'heddle-valid-'));
  try {
    const paths = [];
    for (const [name, html] of Object.entries(documents)) {
      paths.push(join(dir, `${name}.html`));
      await writeFile(paths.at(-1), html);
    }
    const checks = ['-jar', vnu, '--errors-only', '--exit-zero-always', '--format', 'json', ...paths];
    const { stderr } = await run('java', checks, { maxBuffer: OUTPUT_BYTES_MAX });
    const { messages } = JSON.parse(stderr);
    return messages.map((it) => `${it.url.split('/').at(-1)}:${it.lastLine}: ${it.message} ${it.extract ?? ''}`);
  } finally {
    await rm(dir, { recursive: true });
  }
}
