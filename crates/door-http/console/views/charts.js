// Charts: what this router served in the last ten minutes, with marks where a primary changed.

import { Chart } from '../chart.js';
import { h } from '../dom.js';
import { count, duration } from '../format.js';

// Events that show in the charts.
const MARKS = new Map([
  ['primary_lost', 'lost'],
  ['server_promoted', 'new primary'],
  ['failover_lossy', 'lossy change'],
  ['server_died', 'server died'],
]);

export const charts = {
  id: 'charts',
  title: 'Charts',
  answers: 'What does this router serve, how fast, and did a change of primary show?',
  make: () => new Charts(),
};

class Charts {
  constructor() {
    const show = (value) => count(value);
    this.charts = [
      new Chart({
        title: 'Statements and errors, per second',
        show,
        series: [
          { name: 'statements', of: (it) => it.statements },
          { name: 'errors', of: (it) => it.errors },
        ],
      }),
      new Chart({
        title: 'Time of a statement',
        show: (ms) => duration(ms).replace(/\.0 /, ' '),
        series: [
          { name: 'p99', of: (it) => it.p99_ms, show: duration },
          { name: 'p50', of: (it) => it.p50_ms, show: duration },
        ],
      }),
      new Chart({
        title: 'Clients, and who waits',
        show,
        series: [
          { name: 'clients', of: (it) => it.sessions },
          { name: 'wait for a primary', of: (it) => it.held },
          { name: 'wait for a connection', of: (it) => it.waiting },
        ],
      }),
    ];
    this.element = h('div', {},
      h('div', { class: 'charts' }, this.charts.map((chart) => chart.element)),
      h('p', { class: 'note', text: 'A router keeps these numbers for ten minutes, each second while somebody looks, else every three. Longer times are in Prometheus (/metrics).' }));
  }

  show(picture) {
    const samples = Object.entries(picture.traffic ?? {}).map(([at, sample]) => ({ at: Number(at), ...sample })).sort((a, b) => a.at - b.at);
    const marks = Object.values(picture.events ?? {})
      .filter((event) => MARKS.has(event.kind))
      .map((event) => ({ at: event.at_ms, name: `${event.group} ${MARKS.get(event.kind)}` }));
    for (const chart of this.charts) chart.set(samples, marks);
  }
}
