// SPDX-License-Identifier: Apache-2.0
// Elements, and texts for people. Text of sandboxes becomes text nodes only, never HTML.

const SVG = 'http://www.w3.org/2000/svg';

function fill(element, attributes, children) {
  for (const [name, value] of Object.entries(attributes)) {
    if (name.startsWith('on')) element.addEventListener(name.slice(2), value);
    else if (value === true) element.setAttribute(name, '');
    else if (value !== false && value !== null && value !== undefined) element.setAttribute(name, value);
  }
  for (const child of children.flat()) if (child !== null && child !== undefined && child !== false) element.append(child);
  return element;
}

export function h(tag, attributes = {}, ...children) {
  return fill(document.createElement(tag), attributes, children);
}

export function svg(tag, attributes = {}, ...children) {
  return fill(document.createElementNS(SVG, tag), attributes, children);
}

// Characters that control a line instead of being in it: controls, and marks that change the
// direction of text or are not visible at all.
const HIDDEN = /[\u0000-\u001f\u007f-\u009f\u00ad\u061c\u180e\u200b-\u200f\u2028-\u202e\u2060-\u2069\ufeff\ufff9-\ufffb]/g;

// Text that somebody else chose, on one line: each hidden character is shown by its number.
export function shown(text) {
  return String(text ?? '').replace(HIDDEN, c => `\\u{${c.charCodeAt(0).toString(16)}}`);
}

// The same in an element, with a direction of its own.
export function name(text, attributes = {}) {
  return h('bdi', attributes, shown(text));
}

export function button(label, action, attributes = {}) {
  const made = h('button', { type: 'button', ...attributes }, label);
  made.addEventListener('click', () => during(made, () => action(made)));
  return made;
}

// Runs an action while its button cannot be pressed again, and tells its error.
export async function during(control, action) {
  if (control.getAttribute('aria-busy') === 'true') return;
  control.setAttribute('aria-busy', 'true');
  try {
    await action();
  } catch (error) {
    if (error?.name !== 'AbortError') toast(error.message, true);
  } finally {
    control.removeAttribute('aria-busy');
  }
}

export function toast(text, isError = false) {
  const made = h('p', { class: isError ? 'toast error' : 'toast' }, shown(text),
    h('button', { type: 'button', class: 'plain', 'aria-label': 'Close this message', onclick: () => made.remove() }, '×'));
  document.getElementById('toasts').append(made);
  setTimeout(() => made.remove(), isError ? 15000 : 5000);
}

// ---- dialogs

// Shows a form, and resolves to its values by name, or to null if the person cancels.
export function ask(title, fields, { confirm = 'OK', danger = false, text = null } = {}) {
  return new Promise(resolve => {
    const form = h('form', { method: 'dialog' }, h('h2', { id: 'ask-title' }, title), text && h('p', {}, text), fields,
      h('div', { class: 'actions' }, h('button', { type: 'button', id: 'ask-cancel' }, 'Cancel'),
        h('button', { type: 'submit', class: danger ? 'danger' : 'main' }, confirm)));
    const dialog = h('dialog', { 'aria-labelledby': 'ask-title' }, form);
    let values = null;
    form.addEventListener('submit', () => { values = Object.fromEntries(new FormData(form)); });
    form.querySelector('#ask-cancel').addEventListener('click', () => dialog.close());
    dialog.addEventListener('close', () => { dialog.remove(); resolve(values); });
    document.body.append(dialog);
    dialog.showModal();
  });
}

export async function sure(title, text, confirm) {
  return await ask(title, [], { confirm, text, danger: true }) !== null;
}

export function field(label, control, hint = null) {
  return h('label', { class: 'field' }, h('span', {}, label), control, hint && h('small', {}, hint));
}

export function select(attributes, options) {
  return h('select', attributes, options.map(([value, label, selected]) => h('option', { value, selected }, label)));
}

// ---- numbers

export function bytes(n) {
  if (!Number.isFinite(n)) return '–';
  const units = ['B', 'KB', 'MB', 'GB', 'TB'];
  let i = 0;
  for (n = Math.max(0, n); n >= 1000 && i < units.length - 1; i++) n /= 1000;
  return `${n >= 100 || i === 0 ? Math.round(n) : n.toFixed(1)} ${units[i]}`;
}

export function span(seconds) {
  const s = Math.max(0, Math.round(seconds));
  if (s < 60) return `${s} s`;
  if (s < 3600) return `${Math.floor(s / 60)} min`;
  if (s < 86400) return `${Math.floor(s / 3600)} h ${Math.floor(s % 3600 / 60)} min`;
  return `${Math.floor(s / 86400)} d ${Math.floor(s % 86400 / 3600)} h`;
}

export function when(text) {
  const date = new Date(text);
  return Number.isNaN(date.getTime()) ? '–' : date.toLocaleString(undefined, { dateStyle: 'medium', timeStyle: 'medium' });
}

// A line of the last values. It is a picture of numbers that stand beside it as text.
export function spark(values, { width = 72, height = 20, most = 0 } = {}) {
  const top = Math.max(most, ...values, 1e-9);
  const step = width / Math.max(1, values.length - 1);
  const points = values.map((v, i) => `${(i * step).toFixed(1)},${(height - 1 - v / top * (height - 2)).toFixed(1)}`);
  return svg('svg', { class: 'spark', viewBox: `0 0 ${width} ${height}`, preserveAspectRatio: 'none', 'aria-hidden': 'true' },
    values.length > 1 && svg('polygon', { points: `0,${height} ${points.join(' ')} ${width},${height}` }),
    values.length > 1 && svg('polyline', { points: points.join(' ') }));
}
