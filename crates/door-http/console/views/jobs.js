// Jobs: clones and moves that run beside the commands, how far they are, and buttons to hold or end them.

import { confirm } from '../action.js';
import { h, setText } from '../dom.js';
import { bytes, count, duration, moment } from '../format.js';
import { Table, buttonsCell, stateCell } from '../table.js';
import { Asked } from './asked.js';

const SEVERITY = { running: 'well', done: 'well', paused: 'hurt', aborted: 'hurt', failed: 'down' };

export const jobs = {
  id: 'jobs',
  title: 'Jobs',
  answers: 'What runs beside the commands, how far is it, when will it end?',
  make: (host) => new Jobs(host),
};

class Jobs {
  constructor(host) {
    const text = (name, title = name, className = '') => ({ name, title, className, value: (row) => row[name] ?? '' });
    this.table = new Table({
      label: 'Jobs',
      keyOf: (row) => row.uuid,
      sortBy: 'started',
      descending: true,
      empty: 'No job runs, and none ended lately.',
      columns: [
        text('uuid', 'job', 'mono middle'),
        text('kind'),
        { name: 'state', title: 'state', value: (row) => row.state, cell: stateCell((row) => [SEVERITY[row.state] ?? 'hurt', row.state]) },
        { name: 'progress', title: 'progress', value: part, cell: progressCell },
        text('step', 'does', 'middle'),
        text('group_id', 'group'),
        text('address', 'what', 'middle'),
        text('source', 'from', 'middle'),
        { name: 'rows', title: 'rows', number: true, value: (row) => row.rows, show: (row) => count(row.rows) },
        { name: 'bytes', title: 'bytes', number: true, value: (row) => row.bytes, show: (row) => bytes(row.bytes) },
        { name: 'left', title: 'left', number: true, value: left, show: (row) => (left(row) === undefined ? '' : duration(left(row))) },
        { name: 'started', title: 'started', value: (row) => row.started, show: (row) => moment(row.started) },
        { name: 'ended', title: 'ended', value: (row) => row.ended ?? '', show: (row) => (row.ended ? moment(row.ended) : '') },
        { name: 'act', title: 'action', cell: buttonsCell((row) => (host.may('admin') && !row.ended ? this.buttons(row) : [])) },
      ],
    });
    this.asked = new Asked(host, { periodMs: 1000, question: () => ['job', 'list'], rows: (rows) => this.table.set(rows) });
    this.element = h('div', {}, this.asked.head, this.asked.error, this.table.element);
  }

  buttons(row) {
    const ask = (command, verb, what, risky) => [`${verb}…`, () => confirm({
      title: `${verb} job ${row.uuid}`, what, group: 'job', command, args: [row.uuid], verb, risky, done: () => this.asked.again(),
    }), risky, `job ${row.uuid}`];
    const abort = ask('abort', 'Abort', 'A server that is being filled is emptied again; what moved goes back. Clients are not concerned.', true);
    if (row.kind === 'clone') return [abort];
    const resumes = row.state === 'paused' || row.state === 'failed';
    return [resumes ? ask('resume', 'Resume', 'The move goes on where it stands.', false) : ask('pause', 'Pause', 'The move stands still; clients are not concerned.', false), abort];
  }

  start() {
    this.asked.start();
  }

  stop() {
    this.asked.stop();
  }
}

// How much of a job is done, from 0 to 1, where that is known.
function part(row) {
  if (row.state === 'done') return 1;
  if (row.bytes_total) return Math.min(1, row.bytes / row.bytes_total);
  if (row.tables) return Math.min(1, row.tables_done / row.tables);
  return undefined;
}

// Milliseconds until the end, where that can be guessed.
function left(row) {
  if (row.ended || !row.bytes_total || !row.bytes_per_s) return undefined;
  return (Math.max(0, row.bytes_total - row.bytes) / row.bytes_per_s) * 1000;
}

function progressCell(td, row) {
  if (!td.firstChild) td.append(h('progress', { max: '1' }), h('span', { class: 'note' }));
  const [bar, text] = td.children;
  const done = part(row);
  if (done === undefined) bar.removeAttribute('value');
  else bar.value = done;
  bar.hidden = done === undefined && Boolean(row.ended);
  bar.setAttribute('aria-label', `Progress of job ${row.uuid}`);
  setText(text, done === undefined ? '' : ` ${Math.floor(done * 100)} %`);
}
