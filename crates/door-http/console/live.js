// Keeps the live picture of the farm: by server-sent events, or by asking again and again where these do not come.
//
// A picture is never changed: a patch makes a new one in which all that is equal is the same object as before, so a view
// compares by identity.

import { headers } from './api.js';

const PATH = '/v1/live';
const POLL_MS = 2000;
const RETRY_MS = 1000;
// So many streams fail until the picture is asked for instead, and so many answers until a stream is tried again.
const STREAM_TRIES = 2;
const POLLS = 15;

// JSON Merge Patch (RFC 7386).
export function merged(target, patch) {
  const result = { ...target };
  for (const [key, value] of Object.entries(patch)) {
    if (key === '__proto__') continue;
    if (value === null) delete result[key];
    else if (typeof value === 'object' && !Array.isArray(value)) {
      const before = result[key];
      result[key] = merged(before && typeof before === 'object' && !Array.isArray(before) ? before : {}, value);
    } else result[key] = value;
  }
  return result;
}

export class Live {
  // `changed()` is called at most once a frame; `linked(state, why)` when the way of the news changes.
  constructor(changed, linked) {
    this.changed = changed;
    this.linked = linked;
    this.picture = null;
    this.access = 'public';
    this.paused = false;
    this.failures = 0;
    this.drawing = false;
  }

  start() {
    document.addEventListener('visibilitychange', () => this.restart());
    this.restart();
  }

  pause(paused) {
    this.paused = paused;
    this.restart();
  }

  // Ends what runs, and begins anew unless nobody looks.
  restart() {
    this.controller?.abort();
    clearTimeout(this.timer);
    if (this.paused) return this.linked('paused', '');
    if (document.hidden) return undefined;
    this.failures = 0;
    this.controller = new AbortController();
    return this.run(this.controller.signal);
  }

  async run(signal) {
    while (!signal.aborted) {
      try {
        if (this.failures < STREAM_TRIES) await this.stream(signal);
        else await this.poll(signal);
      } catch (error) {
        if (signal.aborted) return;
        if (error.refused) {
          this.linked('refused', error.message);
          return;
        }
        this.failures += 1;
        this.linked('lost', error.message);
      }
      await new Promise((done) => { this.timer = setTimeout(done, RETRY_MS); });
    }
  }

  async ask(accept, signal) {
    const response = await fetch(PATH, { headers: headers({ accept }), cache: 'no-store', credentials: 'omit', signal });
    if (response.ok) return response;
    const answer = await response.json().catch(() => ({}));
    const error = new Error(answer.error ?? `the router answered ${response.status}`);
    error.refused = response.status === 401 || response.status === 403;
    throw error;
  }

  async stream(signal) {
    const response = await this.ask('text/event-stream', signal);
    const reader = response.body.pipeThrough(new TextDecoderStream()).getReader();
    let text = '';
    let events = 0;
    for (;;) {
      const { value, done } = await reader.read();
      if (done) break;
      text += value;
      const parts = text.split('\n\n');
      text = parts.pop();
      for (const part of parts) {
        this.event(part);
        events += 1;
      }
      // One that says something works, whatever becomes of it later.
      if (events > 1) this.failures = 0;
    }
    throw new Error(this.endedBy ?? 'the stream of news ended');
  }

  event(text) {
    let name = '';
    let data = '';
    for (const line of text.split('\n')) {
      if (line.startsWith('event: ')) name = line.slice(7);
      else if (line.startsWith('data: ')) data += line.slice(6);
    }
    const json = JSON.parse(data);
    if (name === 'hello') this.access = json.access;
    else if (name === 'state') this.show(json, 'live');
    else if (name === 'patch') this.show(merged(this.picture ?? {}, json), 'live');
    else if (name === 'end') this.endedBy = json.reason;
  }

  async poll(signal) {
    for (let asked = 0; asked < POLLS && !signal.aborted; asked += 1) {
      const response = await this.ask('application/json', signal);
      const answer = await response.json();
      this.access = answer.access;
      this.show(answer.picture, 'polling');
      await new Promise((done) => { this.timer = setTimeout(done, POLL_MS); });
    }
    this.failures = 0;
  }

  show(picture, how) {
    this.picture = picture;
    this.linked(how, '');
    if (this.drawing) return;
    this.drawing = true;
    requestAnimationFrame(() => {
      this.drawing = false;
      this.changed();
    });
  }
}
