// Clicks through the console of a farm of real servers in Chromium, kills a primary and looks whether it shows, has axe-core
// judge every view in both colour schemes, and takes the pictures of docs/CONSOLE.md (PICTURES=DIR).
//
// Usage: node run.mjs HEDDLE

import assert from 'node:assert/strict';
import { mkdir, stat } from 'node:fs/promises';
import { join } from 'node:path';

import { launch, open, press, textOf, until, view, violations } from './browser.mjs';
import { Farm } from './farm.mjs';
import { ATTACK, madeUp, serve } from './made_up.mjs';
import { invalid } from './valid.mjs';

const VIEWS = ['overview', 'charts', 'digests', 'slow', 'sessions', 'shards', 'transactions', 'events', 'jobs', 'configuration', 'doctor', 'consumers'];
const PICTURE_BYTES_MAX = 150 * 1024;
const SCRIPT_ALIAS = '<script>window.attacked = 1</script><img src=x onerror="window.attacked = 1">';

const program = process.env.CHROMIUM ?? '/usr/bin/chromium';
const [heddle] = process.argv.slice(2);
const pictures = process.env.PICTURES;
if (pictures) await mkdir(pictures, { recursive: true });
let failures = 0;

async function check(name, does) {
  try {
    await does();
    console.log(`ok      ${name}`);
  } catch (error) {
    failures += 1;
    console.log(`FAILED  ${name}\n        ${error.stack.replaceAll('\n', '\n        ')}`);
  }
}

async function picture(page, name) {
  if (!pictures) return;
  const path = join(pictures, `${name}.png`);
  await page.screenshot({ path, optimizeForSpeed: false });
  const { size } = await stat(path);
  assert.ok(size <= PICTURE_BYTES_MAX, `${path} has ${size} bytes`);
}

const wellNow = (page) => until(page, () => document.querySelector('#verdict').classList.contains('well'));

async function judged(page, what) {
  const found = await violations(page);
  assert.deepEqual(found, [], `${what}: ${found.join('\n')}`);
}

async function onRealServers(browser, farm) {
  const url = `http://${farm.http}/`;
  const page = await open(browser, url);
  const waits = farm.client('SELECT SLEEP(600)');

  await check('the overview of `heddle up` needs no token, everything else does', async () => {
    await wellNow(page);
    assert.equal(await textOf(page, '#link'), 'live');
    assert.equal(await page.$$eval('.group', (groups) => groups.length), 2);
    await view(page, 'sessions');
    await until(page, () => document.querySelector('.error')?.textContent.includes('monitor token'));
  });

  await check('a wrong token is refused, the right one opens', async () => {
    await press(page, 'Sign in', '.tools');
    await page.type('#token', 'wrong');
    await press(page, 'Sign in', 'dialog');
    await until(page, () => document.querySelector('dialog [role=alert]').textContent.includes('right'));
    await page.$eval('#token', (input) => { input.value = ''; });
    await page.type('#token', farm.token);
    await press(page, 'Sign in', 'dialog');
    await until(page, () => !document.querySelector('dialog') && document.querySelector('#sign').textContent === 'Sign out');
    await until(page, () => document.querySelectorAll('tbody tr').length > 0);
  });

  await check('the policy of the page lets no text become markup or a script', async () => {
    const blocked = await page.evaluate(() => {
      const script = document.createElement('script');
      try {
        script.text = 'window.attacked = 1';
        document.body.append(script);
      } catch {
        // Trusted Types refuse it.
      }
      try {
        document.createElement('div').innerHTML = '<b>x</b>';
        return 'taken';
      } catch (error) {
        return error.name;
      }
    });
    assert.equal(blocked, 'TypeError');
    assert.equal(await page.evaluate(() => window.attacked), undefined);
    page.mistakes.length = 0;
  });

  await check('a statement with a script in it is a text', async () => {
    const run = await farm.client(`SELECT 1 AS \`${SCRIPT_ALIAS}\``);
    assert.equal(run.code, 0, run.text);
    await view(page, 'digests');
    await until(page, (text) => [...document.querySelectorAll('td.long')].some((td) => td.textContent.includes(text)), '<script>window.attacked');
    assert.equal(await page.evaluate(() => window.attacked), undefined);
    await picture(page, 'digests');
    await page.$$eval('tbody button', (all) => all[0].click());
    await until(page, () => document.querySelector('dialog dl'));
    await press(page, 'Plan of the example', 'dialog');
    await until(page, () => /digest_examples/.test(document.querySelector('dialog pre.plan').textContent));
    await press(page, 'Close', 'dialog');
  });

  await check('the charts have the minutes from before somebody looked', async () => {
    const minutes = await page.evaluate(() => fetch('/v1/live').then((answer) => answer.json()));
    const times = Object.keys(minutes.picture?.traffic ?? {});
    assert.ok(times.length > 1, `${times}`);
  });

  await check('a session is killed behind a question that shows the command', async () => {
    await view(page, 'sessions');
    await page.type('[data-filter]', 'Query');
    await until(page, () => [...document.querySelectorAll('tbody button')].some((it) => it.textContent === 'Session…'));
    await picture(page, 'sessions');
    await press(page, 'Session…', 'tbody');
    const line = await textOf(page, 'dialog code');
    assert.match(line, /^heddle session kill \d+$/);
    await picture(page, 'question');
    await judged(page, 'the question');
    await press(page, 'End the session', 'dialog');
    const ended = await waits;
    assert.notEqual(ended.code, 0, 'the client lost its connection');
    await until(page, () => !document.querySelector('dialog'));
  });

  await check('a group that takes no writes is seen at once', async () => {
    await view(page, 'overview');
    await page.$$eval('.group summary', (all) => all[1].click());
    await press(page, 'Deactivate… g2', '.group');
    assert.equal(await textOf(page, 'dialog code'), 'heddle group deactivate g2');
    await press(page, 'Deactivate', 'dialog');
    const { pid } = await farm.primaryOf('g2');
    process.kill(pid, 'SIGSTOP');
    try {
      await until(page, () => document.querySelector('#verdict').textContent === 'Group g2 takes no writes');
      assert.ok(await page.$eval('.group', (first) => first.matches('.down') && first.querySelector('h2').textContent === 'g2'));
      assert.match(await page.title(), /g2 takes no writes/);
      await picture(page, 'overview-down');
      await judged(page, 'a group that is down');
    } finally {
      process.kill(pid, 'SIGCONT');
    }
    await farm.command('group', 'activate', 'g2');
    await wellNow(page);
  });

  await check('a primary that is killed shows as events and in the charts', async () => {
    await view(page, 'events');
    const { pid } = await farm.primaryOf('g1');
    process.kill(pid, 'SIGKILL');
    await until(page, () => {
      const kinds = [...document.querySelectorAll('tbody .state')].map((it) => it.textContent);
      return kinds.includes('primary_lost') && kinds.includes('server_promoted');
    });
    await wellNow(page);
    await picture(page, 'events');
    await view(page, 'charts');
    await until(page, () => [...document.querySelectorAll('.mark-name')].some((it) => it.textContent === 'g1 new primary'));
  });

  await check('shards and their maps are there', async () => {
    await view(page, 'shards');
    await until(page, () => document.querySelectorAll('.shard').length === 2);
    await picture(page, 'shards');
  });

  await check('a document and what it changed are shown', async () => {
    await farm.command('config', 'set', '--setting', 'slow_log_ms=500', '--comment', 'slower is slow');
    await view(page, 'configuration');
    await until(page, () => document.querySelectorAll('main tbody tr').length > 1);
    await press(page, 'Difference', 'main');
    await until(page, () => [...document.querySelectorAll('pre .added')].some((line) => line.textContent.includes('slow_log_ms')));
    await picture(page, 'configuration');
  });

  await check('doctor examines on demand', async () => {
    await view(page, 'doctor');
    await press(page, 'Examine now');
    await until(page, () => /findings|Nothing is wrong/.test(document.querySelector('main [role=status]').textContent));
    await picture(page, 'doctor');
  });

  await check('the keyboard does what the mouse does', async () => {
    await page.evaluate(() => document.activeElement.blur());
    await page.keyboard.press('3');
    await until(page, () => location.hash === '#/digests');
    await page.keyboard.press('/');
    assert.ok(await page.evaluate(() => document.activeElement.matches('[data-filter]')));
    await page.keyboard.press('Tab');
    await page.evaluate(() => document.activeElement.blur());
    await page.keyboard.press(']');
    await until(page, () => location.hash === '#/slow');
    await page.keyboard.press('?');
    await until(page, () => document.querySelector('dialog[open]'));
    await judged(page, 'the keys');
    await page.keyboard.press('Escape');
    await until(page, () => !document.querySelector('dialog'));
    await page.keyboard.press('p');
    await until(page, () => document.querySelector('#link').textContent === 'paused');
    await page.keyboard.press('p');
    await until(page, () => document.querySelector('#link').textContent === 'live');
  });

  await check('where no stream comes through, the picture is asked for', async () => {
    const other = await open(browser, 'about:blank');
    await other.setRequestInterception(true);
    other.on('request', (request) => (request.headers().accept === 'text/event-stream' ? request.abort() : request.continue()));
    await other.goto(url);
    await until(other, () => document.querySelector('#link').textContent === 'live, by asking');
    await wellNow(other);
    await other.browserContext().close();
  });

  assert.deepEqual(page.mistakes, []);
  await page.browserContext().close();
}

// Every view in both schemes, on a farm with everything that can be shown.
async function everyView(browser) {
  const router = await serve(madeUp());
  const documents = { page: await (await fetch(router.url)).text() };
  for (const scheme of ['dark', 'light']) {
    const page = await open(browser, `${router.url}/#token=${router.token}`, { scheme });
    await until(page, () => document.querySelector('#verdict').matches('.down'));
    for (const id of VIEWS) {
      await check(`axe finds nothing in ${id}, ${scheme}`, async () => {
        await view(page, id);
        if (id === 'doctor') {
          await press(page, 'Examine now');
          await until(page, () => document.querySelector('main tbody tr'));
        } else if (id === 'configuration') {
          await press(page, 'Difference', 'main');
          await until(page, () => document.querySelector('pre .added'));
        } else if (id === 'shards') {
          await until(page, () => document.querySelector('.shard'));
        } else if (id === 'overview') {
          await page.$$eval('.group summary', (all) => all[0].click());
          await until(page, () => document.querySelector('.group tbody tr'));
        } else if (id !== 'charts') {
          await until(page, () => document.querySelector('main tbody tr'));
        }
        await judged(page, id);
        documents[`${id}-${scheme}`] = `<!doctype html>\n${await page.evaluate(() => document.documentElement.outerHTML)}`;
        assert.equal(await page.evaluate(() => window.attacked), undefined, ATTACK);
        assert.deepEqual(page.mistakes, []);
      });
    }
    if (scheme === 'light') {
      await check('pictures of what a sound farm does not show', async () => {
        for (const [id, name] of [['charts', 'charts'], ['shards', 'shards-moving'], ['jobs', 'jobs'], ['transactions', 'transactions'], ['slow', 'slow']]) {
          await view(page, id);
          if (id !== 'charts') await until(page, () => document.querySelector('main tbody tr, .shard'));
          await picture(page, name);
        }
      });
    }
    await page.browserContext().close();
  }
  router.close();
  await check('the page and what the scripts make of it are valid HTML', async () => {
    const found = await invalid(documents);
    if (found === null) console.log('        skipped: no Java');
    else assert.deepEqual(found, [], found.join('\n'));
  });
}

// A thousand servers: there are elements for what is in sight, and what is not in sight can be found.
async function large(browser) {
  const router = await serve(madeUp({ groups: 250, replicas: 3, shards: 100, hurt: true }));
  const page = await open(browser, `${router.url}/#token=${router.token}`);
  await check('a thousand servers are shown, the worst first', async () => {
    await until(page, () => document.querySelectorAll('.group').length === 250);
    assert.ok(await page.$eval('.group', (first) => first.matches('.down')));
    // Of a patch that changes the lag of all replicas, no group is made anew.
    await page.$$eval('.group', (all) => all.forEach((group) => { group.seenBefore = true; }));
    const lag = () => page.$eval('.group.well .drawing', (drawing) => drawing.textContent);
    const before = await lag();
    await until(page, (before) => document.querySelector('.group.well .drawing').textContent !== before, before);
    assert.ok(await page.$$eval('.group', (all) => all.every((group) => group.seenBefore)));
    await page.type('[data-filter]', 'g249-2');
    await until(page, () => document.querySelectorAll('.group').length === 1);
    await picture(page, 'filtered');
  });
  await check('rows beyond sight are no elements, and are there when one scrolls', async () => {
    await view(page, 'digests');
    await until(page, () => document.querySelectorAll('tbody tr').length > 10);
    assert.ok((await page.$$eval('tbody tr', (rows) => rows.length)) < 80);
    await page.$eval('.scroll', (place) => { place.scrollTop = place.scrollHeight; });
    await until(page, () => [...document.querySelectorAll('tbody tr')].some((row) => row.getAttribute('aria-rowindex') === '401'));
    assert.ok((await page.$$eval('tbody tr', (rows) => rows.length)) < 80);
  });
  await check('a hundred shards', async () => {
    await view(page, 'shards');
    await until(page, () => document.querySelectorAll('.shard').length === 100);
    await until(page, () => [...document.querySelectorAll('.shard .size')].some((size) => /^\d.* rows, .*B/.test(size.textContent)));
    assert.match(await page.$eval('.shard .size', (size) => size.title), /^g\d+'s primary said so 4 s ago$/);
    await judged(page, 'a hundred shards');
  });
  assert.deepEqual(page.mistakes, []);
  router.close();
}

const browser = await launch(program);
try {
  await everyView(browser);
  await large(browser);
  if (heddle) {
    const farm = await Farm.start(heddle, ['--groups', '2', '--replicas', '2']);
    try {
      await farm.command('sharding', 'create_definition', 'SLOTS', 'g1', 'orders');
      await farm.command('sharding', 'add_shard', '1', 'g1,g2', 'ENABLED');
      await onRealServers(browser, farm);
    } finally {
      await farm.end();
    }
  }
} finally {
  await browser.close();
}
console.log(failures ? `${failures} failed` : 'all of the console is well');
process.exit(failures ? 1 : 0);
