// Dialogs: what changes the farm asks first, and shows the command that does the same in a terminal.

import { act, read, signIn } from './api.js';
import { h, setText } from './dom.js';
import { commandLine } from './format.js';

// Opens a modal dialog; it leaves the page when it closes, and the focus goes back to where it was.
function open(title, parts) {
  const dialog = h('dialog', { 'aria-labelledby': 'dialog-title' }, h('h2', { id: 'dialog-title', text: title }), ...parts);
  const before = document.activeElement;
  dialog.addEventListener('close', () => {
    dialog.remove();
    if (before?.isConnected) before.focus();
  });
  document.body.append(dialog);
  dialog.showModal();
  return dialog;
}

// Copies a text. Where the browser keeps its clipboard from us (plain HTTP from elsewhere), the text is selected.
async function copy(text, element, button) {
  try {
    await navigator.clipboard.writeText(text);
    setText(button, 'Copied');
  } catch {
    getSelection().selectAllChildren(element);
    setText(button, 'Press Ctrl+C');
  }
  setTimeout(() => setText(button, 'Copy'), 2000);
}

// A command line with a button that copies it. `set(line)` changes it.
export function commandBox(line) {
  const code = h('code', { text: line });
  const button = h('button', { type: 'button', class: 'small', text: 'Copy', 'aria-label': 'Copy the command' });
  button.addEventListener('click', () => copy(code.textContent, code, button));
  const element = h('span', { class: 'command' }, code, button);
  return { element, set: (next) => setText(code, next) };
}

// Asks whether a command shall run, runs it, and tells what became of it.
//   title, what: for people; group, command, args, options: the command; verb: the button; done(rows): afterwards
export function confirm({ title, what, group, command, args = [], options = {}, verb = 'Do it', risky = true, done }) {
  const outcome = h('p', { role: 'alert' });
  const cancel = h('button', { type: 'button', text: 'Cancel', on: { click: () => dialog.close() } });
  const go = h('button', { type: 'button', class: risky ? 'risky' : '', text: verb });
  go.addEventListener('click', async () => {
    go.disabled = true;
    setText(outcome, 'The router works on it…');
    try {
      const rows = await act(group, command, args, options);
      done?.(rows);
      dialog.close();
    } catch (error) {
      setText(outcome, told(error));
      go.disabled = false;
    }
  });
  const dialog = open(title, [
    h('p', { text: what }),
    h('p', { class: 'note', text: 'The same in a terminal:' }),
    h('p', {}, commandBox(commandLine(group, command, args, options)).element),
    outcome,
    h('div', { class: 'row' }, cancel, go),
  ]);
  cancel.focus();
}

// A button whose answer, a text, takes its place.
function asking({ text, ask }) {
  const outcome = h('pre', { class: 'plan', role: 'status', hidden: true });
  const button = h('button', { type: 'button', class: 'small', text });
  button.addEventListener('click', async () => {
    button.disabled = true;
    outcome.hidden = false;
    setText(outcome, 'A server is asked…');
    try {
      setText(outcome, await ask());
      button.remove();
    } catch (error) {
      setText(outcome, told(error));
      button.disabled = false;
    }
  });
  return [h('p', {}, button), outcome];
}

// Shows facts about one thing, as pairs of a name and a text; more: what else may be asked of it, {text, ask()}.
export function details(title, facts, line, more) {
  const list = h('dl', { class: 'facts' });
  for (const [name, value] of facts) list.append(h('dt', { text: name }), h('dd', { class: 'mono', text: String(value ?? '') }));
  const close = h('button', { type: 'button', text: 'Close', on: { click: () => dialog.close() } });
  const parts = more ? [list, ...asking(more)] : [list];
  if (line) parts.push(h('p', { class: 'note', text: 'The same in a terminal:' }), h('p', {}, commandBox(line).element));
  const dialog = open(title, [...parts, h('div', { class: 'row' }, close)]);
  close.focus();
}

// Takes a token. It is tried before it is kept.
export function askForToken(why) {
  const input = h('input', { type: 'password', autocomplete: 'off', spellcheck: 'false', id: 'token' });
  const outcome = h('p', { role: 'alert', text: why ?? '' });
  const form = h(
    'form',
    { method: 'dialog' },
    h('p', { text: 'A token says what you may do: DIR/token everything, DIR/monitor-token look. DIR is heddle-data for `heddle up`, the state directory for `heddle serve`.' }),
    h('p', {}, commandBox('cat heddle-data/token').element),
    h('label', { for: 'token', text: 'Token' }, input),
    outcome,
    h(
      'div',
      { class: 'row' },
      h('button', { type: 'button', text: 'Cancel', on: { click: () => dialog.close() } }),
      h('button', { type: 'submit', text: 'Sign in' }),
    ),
  );
  form.addEventListener('submit', async (event) => {
    event.preventDefault();
    signIn(input.value);
    try {
      await read('manage', 'help', [], { group: 'manage' });
      dialog.close();
    } catch (error) {
      signIn('');
      setText(outcome, told(error));
    }
  });
  const dialog = open('Sign in', [form]);
  input.focus();
}

// An error and its cure.
export function told(error) {
  return error.cure ? `${error.message}. ${error.cure}.` : `${error.message}.`;
}

export { open as openDialog };
