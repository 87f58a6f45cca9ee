// Chromium without a window, and what the test does with a page.

import { readFile } from 'node:fs/promises';
import { createRequire } from 'node:module';

import puppeteer from 'puppeteer-core';

const PATIENCE_MS = 30_000;
const AXE = createRequire(import.meta.url).resolve('axe-core/axe.min.js');
// What WCAG 2.2 asks at the levels A and AA, and what axe's authors hold for good practice.
const RULES = ['wcag2a', 'wcag2aa', 'wcag21a', 'wcag21aa', 'wcag22aa', 'best-practice'];

export function launch(program) {
  return puppeteer.launch({ executablePath: program, headless: true, args: ['--no-sandbox', '--disable-gpu', '--force-device-scale-factor=1'] });
}

// A page of one browser context, whose errors fail the test.
export async function open(browser, url, { scheme = 'dark', width = 1120, height = 640 } = {}) {
  const context = await browser.createBrowserContext();
  const page = await context.newPage();
  page.setDefaultTimeout(PATIENCE_MS);
  page.mistakes = [];
  page.on('pageerror', (error) => page.mistakes.push(error.message));
  page.on('console', (message) => {
    // A refused request is the router's answer, and what the test provokes.
    if (message.type() === 'error' && !message.text().startsWith('Failed to load resource')) page.mistakes.push(message.text());
  });
  await page.setViewport({ width, height });
  await page.emulateMediaFeatures([{ name: 'prefers-color-scheme', value: scheme }, { name: 'prefers-reduced-motion', value: 'reduce' }]);
  await page.goto(url);
  return page;
}

// Waits until a function of the page gives something true.
export function until(page, condition, ...args) {
  return page.waitForFunction(condition, { polling: 100 }, ...args);
}

export const textOf = (page, selector) => page.$eval(selector, (element) => element.textContent);

// Presses the button with this text or label, inside `scope`.
export async function press(page, text, scope = 'body') {
  await until(page, (scope, text) => [...document.querySelectorAll(`${scope} button`)].some((it) => !it.disabled && (it.textContent === text || it.getAttribute('aria-label') === text)), scope, text);
  await page.evaluate((scope, text) => {
    [...document.querySelectorAll(`${scope} button`)].find((it) => !it.disabled && (it.textContent === text || it.getAttribute('aria-label') === text)).click();
  }, scope, text);
}

// Goes to a view by its link.
export async function view(page, id) {
  await page.$eval(`nav a[href="#/${id}"]`, (link) => link.click());
  await until(page, (id) => document.querySelector('nav a[aria-current]')?.getAttribute('href') === `#/${id}`, id);
}

// What axe finds wrong, one line each. The policy of the page lets no script in, so axe comes by the debugger's way.
export async function violations(page) {
  const source = await readFile(AXE, 'utf8');
  await page.evaluate(source);
  const found = await page.evaluate((rules) => window.axe.run(document, { runOnly: { type: 'tag', values: rules } }), RULES);
  return found.violations.flatMap((violation) => violation.nodes.map((node) => `${violation.id}: ${violation.help}: ${node.target.join(' ')} ${node.any[0]?.message ?? ''}`));
}
