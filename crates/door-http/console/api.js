// Asks the router: commands by their names, with the bearer token of whoever signed in.
//
// The token is kept for this tab alone and sent in a header that only this script sets, so no other page can use it.

const KEPT = 'heddle-token';

let token = sessionStorage.getItem(KEPT) ?? '';
const watchers = new Set();

export function signedIn() {
  return token !== '';
}

export function signIn(given) {
  token = given.trim();
  if (token) sessionStorage.setItem(KEPT, token);
  else sessionStorage.removeItem(KEPT);
  for (const watcher of watchers) watcher();
}

// Calls back whenever somebody signs in or out.
export function onSign(watcher) {
  watchers.add(watcher);
}

export function headers(more = {}) {
  return token ? { authorization: `Bearer ${token}`, ...more } : more;
}

// What the router refused, with its cure.
export class Refused extends Error {
  constructor(status, answer) {
    super(answer.error ?? `the router answered ${status}`);
    this.status = status;
    this.cure = answer.cure ?? '';
  }
}

async function answered(response) {
  const answer = await response.json().catch(() => ({}));
  if (!response.ok) throw new Refused(response.status, answer);
  return answer;
}

// Rows of a command that changes nothing.
export async function read(group, command, args = [], options = {}, signal) {
  const query = new URLSearchParams();
  for (const arg of args) query.append('arg', arg);
  for (const [name, value] of Object.entries(options)) query.append(name, value);
  const asked = query.toString();
  const path = `/v1/${group}/${command}${asked ? `?${asked}` : ''}`;
  return answered(await fetch(path, { headers: headers(), cache: 'no-store', credentials: 'omit', signal }));
}

// Carries out a command that may change something.
export async function act(group, command, args = [], options = {}) {
  return answered(await fetch(`/v1/${group}/${command}`, {
    method: 'POST',
    headers: headers({ 'content-type': 'application/json', 'heddle-by': 'console' }),
    credentials: 'omit',
    body: JSON.stringify({ args, options }),
  }));
}

// Asks again and again while somebody looks: not in a hidden tab, not while paused, one question at a time.
export class Asking {
  constructor(periodMs, question, told, failed) {
    this.periodMs = periodMs;
    this.question = question;
    this.told = told;
    this.failed = failed;
    this.round = 0;
  }

  start() {
    this.round += 1;
    this.go(this.round);
  }

  stop() {
    this.round += 1;
    clearTimeout(this.timer);
  }

  // Asks at once: something was changed.
  again() {
    if (this.running) this.wantsAgain = true;
    else this.start();
  }

  async go(round) {
    clearTimeout(this.timer);
    if (!document.hidden && !Asking.paused) {
      this.running = true;
      try {
        const rows = await this.question();
        if (round === this.round) this.told(rows);
      } catch (error) {
        if (round === this.round) this.failed(error);
      }
      this.running = false;
    }
    if (round !== this.round) return;
    const next = this.wantsAgain ? 0 : this.periodMs;
    this.wantsAgain = false;
    this.timer = setTimeout(() => this.go(round), next);
  }
}
Asking.paused = false;
