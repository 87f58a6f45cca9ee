// Numbers, times and commands as people read them.

const LARGE = [[1e12, 'T'], [1e9, 'G'], [1e6, 'M'], [1e4, 'k']];

// 12345 is 12.3k; small numbers stay whole.
export function count(value) {
  if (value === undefined || value === null) return '–';
  for (const [size, unit] of LARGE) {
    if (Math.abs(value) >= size) {
      const scale = unit === 'k' ? 1e3 : size;
      return `${(value / scale).toFixed(1)}${unit}`;
    }
  }
  return Number.isInteger(value) ? String(value) : value.toFixed(value < 10 ? 1 : 0);
}

export function bytes(value) {
  if (value === undefined || value === null) return '–';
  const units = ['B', 'KiB', 'MiB', 'GiB', 'TiB'];
  let unit = 0;
  let left = value;
  while (left >= 1024 && unit < units.length - 1) {
    left /= 1024;
    unit += 1;
  }
  return `${unit === 0 ? left : left.toFixed(1)} ${units[unit]}`;
}

// Milliseconds as the unit that says most.
export function duration(ms) {
  if (ms === undefined || ms === null) return '–';
  if (ms < 1) return `${ms.toFixed(2)} ms`;
  if (ms < 100) return `${ms.toFixed(1)} ms`;
  if (ms < 1000) return `${Math.round(ms)} ms`;
  if (ms < 60_000) return `${(ms / 1000).toFixed(1)} s`;
  if (ms < 3_600_000) return `${Math.floor(ms / 60_000)} min ${Math.floor((ms % 60_000) / 1000)} s`;
  if (ms < 86_400_000) return `${Math.floor(ms / 3_600_000)} h ${Math.floor((ms % 3_600_000) / 60_000)} min`;
  return `${Math.floor(ms / 86_400_000)} d ${Math.floor((ms % 86_400_000) / 3_600_000)} h`;
}

// The local time of a moment.
export function clock(ms) {
  const at = new Date(ms);
  return Number.isNaN(at.getTime()) ? '–' : at.toLocaleTimeString([], { hour12: false });
}

export function moment(text) {
  if (!text) return '–';
  const at = new Date(text);
  return Number.isNaN(at.getTime()) ? String(text) : at.toLocaleString([], { hour12: false });
}

export function ago(ms) {
  return `${duration(Math.max(0, Date.now() - ms)).replace(/\.\d+ s$/, ' s')} ago`;
}

// One word of a shell's command line.
function quoted(word) {
  return /^[A-Za-z0-9_./:=,@%+-]+$/.test(word) ? word : `'${word.replaceAll("'", "'\\''")}'`;
}

// The line that does in a terminal what the console asks the router for.
export function commandLine(group, command, args = [], options = {}) {
  const named = Object.entries(options).map(([name, value]) => `--${name}=${value}`);
  return ['heddle', group, command, ...args.map(String), ...named].map(quoted).join(' ');
}
