// Line charts of the last ten minutes, drawn as SVG: lines, an axis that fits, and marks where something happened.

import { h, setAttribute, setText, svg } from './dom.js';
import { clock } from './format.js';

const WINDOW_MS = 600_000;
const LEFT = 58;
const BOTTOM = 20;
const TOP = 16;
const HEIGHT = 190;
// Further apart than this, two samples have nothing to do with each other.
const GAP_MS = 5000;
// Between two times at the axis.
const STEPS_MS = [10_000, 20_000, 60_000, 120_000];
// More marks than these say nothing.
const MARKS_MAX = 12;

// The smallest of 1, 2, 5 times a power of ten that is not below this.
export function ceiling(value) {
  if (!(value > 0)) return 1;
  const power = 10 ** Math.floor(Math.log10(value));
  return [1, 2, 5, 10].map((factor) => factor * power).find((it) => it >= value);
}

// title; series: [{name, of(sample), show(value)}], three at most; show(value): on the axis
export class Chart {
  constructor({ title, series, show }) {
    Object.assign(this, { title, series, show });
    this.samples = [];
    this.marks = [];
    this.legend = series.map((_, at) => h('span', { class: 'abc'[at] }));
    this.svg = svg('svg', { role: 'img' });
    this.element = h('figure', { class: 'chart' }, h('figcaption', {}, h('h2', { text: title }), h('div', { class: 'legend' }, this.legend)), this.svg);
    this.svg.addEventListener('pointermove', (event) => this.point(event.offsetX));
    this.svg.addEventListener('pointerleave', () => this.point(undefined));
    new ResizeObserver(() => this.draw()).observe(this.svg);
  }

  // samples: [{at, …}] in order; marks: [{at, name}]
  set(samples, marks) {
    this.samples = samples;
    this.marks = marks;
    this.draw();
  }

  point(x) {
    this.pointed = x;
    this.draw();
  }

  draw() {
    const width = this.svg.clientWidth;
    if (!width) return;
    const end = this.samples.at(-1)?.at ?? Date.now();
    // A console that was opened just now shows what it has, and no empty minutes.
    const begin = Math.max(end - WINDOW_MS, Math.min(this.samples[0]?.at ?? end, end - WINDOW_MS / 10));
    const seen = this.samples.filter((sample) => sample.at >= begin);
    const most = Math.max(0, ...seen.flatMap((sample) => this.series.map((one) => one.of(sample) ?? 0)));
    const top = ceiling(most);
    const x = (at) => LEFT + ((at - begin) / (end - begin)) * (width - LEFT - 6);
    const y = (value) => HEIGHT - BOTTOM - (value / top) * (HEIGHT - BOTTOM - TOP);
    const parts = [...this.axes(width, begin, end, top, x, y)];
    this.series.forEach((one, at) => parts.push(...this.lines(one, 'abc'[at], seen, x, y)));
    parts.push(...this.named(this.marks.filter((it) => it.at >= begin && it.at <= end), width, x));
    const shown = this.pointed === undefined ? seen.at(-1) : nearest(seen, x, this.pointed);
    if (this.pointed !== undefined && shown) {
      parts.push(svg('line', { class: 'cross', x1: x(shown.at), x2: x(shown.at), y1: TOP, y2: HEIGHT - BOTTOM }));
    }
    setAttribute(this.svg, 'viewBox', `0 0 ${width} ${HEIGHT}`);
    this.svg.replaceChildren(...parts);
    this.tell(shown);
  }

  // Marks with their names, one below the other where they are close.
  *named(marks, width, x) {
    let row = 0;
    let last = -Infinity;
    for (const mark of marks.slice(-MARKS_MAX)) {
      const place = x(mark.at);
      const late = place > width - 130;
      row = place - last < 130 ? row + 1 : 0;
      last = place;
      yield svg('line', { class: 'mark', x1: place, x2: place, y1: TOP - 4, y2: HEIGHT - BOTTOM });
      yield svg('text', { class: 'mark-name', x: place + (late ? -4 : 4), y: TOP + row * 13, 'text-anchor': late ? 'end' : 'start' }, mark.name);
    }
  }

  *axes(width, begin, end, top, x, y) {
    for (const part of [0, 0.5, 1]) {
      const at = y(top * part);
      yield svg('line', { class: 'grid', x1: LEFT, x2: width, y1: at, y2: at });
      yield svg('text', { x: LEFT - 6, y: at + 4, 'text-anchor': 'end' }, part === 0 ? '0' : this.show(top * part));
    }
    const step = STEPS_MS.find((it) => (end - begin) / it <= 6) ?? STEPS_MS.at(-1);
    for (let at = Math.ceil(begin / step) * step; at <= end; at += step) {
      yield svg('text', { x: x(at), y: HEIGHT - 4, 'text-anchor': 'middle' }, step < 60_000 ? clock(at) : clock(at).slice(0, 5));
    }
  }

  *lines(one, name, seen, x, y) {
    let path = '';
    let last;
    let from;
    const areas = [];
    const close = () => {
      if (from !== undefined) areas.push(`L${x(last).toFixed(1)},${y(0)}L${x(from).toFixed(1)},${y(0)}Z`);
    };
    for (const sample of seen) {
      const value = one.of(sample);
      if (value === undefined) continue;
      const begins = last === undefined || sample.at - last > GAP_MS;
      if (begins) from = sample.at;
      path += `${begins ? 'M' : 'L'}${x(sample.at).toFixed(1)},${y(value).toFixed(1)}`;
      last = sample.at;
    }
    close();
    if (name === 'a' && path && path.lastIndexOf('M') === 0) yield svg('path', { class: 'area a', d: path + areas.join('') });
    yield svg('path', { class: `line ${name}`, d: path });
  }

  // The numbers beside the title: of the last sample, or of the one that is pointed at.
  tell(sample) {
    const texts = this.series.map((one) => {
      const value = sample ? one.of(sample) : undefined;
      return `${one.name} ${value === undefined ? '–' : (one.show ?? this.show)(value)}`;
    });
    texts.forEach((text, at) => setText(this.legend[at], text));
    const failures = this.marks.length ? `; ${this.marks.length} changes of primary` : '';
    setAttribute(this.svg, 'aria-label', `${this.title}, the last ten minutes. ${texts.join(', ')}${failures}`);
  }
}

function nearest(samples, x, place) {
  let best;
  for (const sample of samples) {
    if (!best || Math.abs(x(sample.at) - place) < Math.abs(x(best.at) - place)) best = sample;
  }
  return best;
}
