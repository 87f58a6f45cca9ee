// Makes and changes elements. Texts become text nodes, never markup: whatever a statement holds, it stays a text.

const SVG = 'http://www.w3.org/2000/svg';

// An element with properties (class, text, on: {event: handler}, anything else as an attribute) and children.
export function h(tag, properties = {}, ...children) {
  return filled(document.createElement(tag), properties, children);
}

// The same of SVG.
export function svg(tag, properties = {}, ...children) {
  return filled(document.createElementNS(SVG, tag), properties, children);
}

function filled(element, properties, children) {
  for (const [name, value] of Object.entries(properties)) {
    if (value === undefined || value === null || value === false) continue;
    if (name === 'text') element.textContent = value;
    else if (name === 'on') for (const [event, handler] of Object.entries(value)) element.addEventListener(event, handler);
    else element.setAttribute(name, value === true ? '' : value);
  }
  element.append(...children.flat(Infinity).filter((child) => child !== undefined && child !== null && child !== false));
  return element;
}

// Sets a text only where it differs, so that a selection and a screen reader are left alone.
export function setText(element, text) {
  const wanted = text === undefined || text === null ? '' : String(text);
  if (element.textContent !== wanted) element.textContent = wanted;
}

export function setAttribute(element, name, value) {
  if (value === undefined || value === null || value === false) element.removeAttribute(name);
  else if (element.getAttribute(name) !== String(value)) element.setAttribute(name, value);
}

export function setClass(element, names) {
  if (element.getAttribute('class') !== names) element.setAttribute('class', names);
}

// Keeps the children of `parent` equal to `items`: one element per key. An element is made once, moved only when its
// place differs, and updated only when its item is another value than before.
export function keyed(parent, items, keyOf, make, update) {
  const before = parent.keyedRows ?? new Map();
  const now = new Map();
  let place = parent.firstElementChild;
  for (const item of items) {
    const key = keyOf(item);
    let row = before.get(key);
    if (!row) {
      row = { element: make(item), item: undefined };
    }
    before.delete(key);
    now.set(key, row);
    if (row.item !== item) {
      update(row.element, item);
      row.item = item;
    }
    if (row.element === place) {
      place = place.nextElementSibling;
    } else {
      parent.insertBefore(row.element, place);
    }
  }
  for (const row of before.values()) row.element.remove();
  parent.keyedRows = now;
}
