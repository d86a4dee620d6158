// SPDX-License-Identifier: Apache-2.0
// The list of sandboxes, with their live figures.

import { bytes, h, name, spark, shown } from './dom.js';

const KEPT = 60; // seconds of history
const STATES = { running: 'running', freeze: 'paused', hibernate: 'paused on disk' };

// What is known of each sandbox: the last figures, and the lines of the last minute.
export const known = new Map();

export function title(s) {
  return s.metadata?.name || s.templateID || s.sandboxID;
}

export function stateOf(s) {
  return s.state === 'running' ? (s.depth ? 'asleep' : 'running') : STATES[s.depth] ?? 'paused';
}

function remember(s, now) {
  const before = known.get(s.sandboxID);
  const history = before?.history ?? { cpu: [], memory: [], net: [] };
  const seconds = before ? (now - before.at) / 1000 : 0;
  const sum = s.netInBytes + s.netOutBytes;
  const rate = seconds > 0 ? Math.max(0, (sum - before.sum) / seconds) : 0;
  const push = (list, value) => { list.push(value); if (list.length > KEPT) list.shift(); };
  push(history.cpu, s.cpuPercent ?? 0);
  push(history.memory, s.memoryBytes);
  push(history.net, rate);
  known.set(s.sandboxID, { ...s, history, sum, rate, at: now });
}

// Takes an answer of the daemon; returns whether the list changed, not only figures.
export function take(answer) {
  const now = performance.now();
  const before = [...known.values()].map(s => s.sandboxID + stateOf(s)).join();
  const ids = new Set(answer.sandboxes.map(s => s.sandboxID));
  for (const s of answer.sandboxes) remember(s, now);
  for (const id of known.keys()) if (!ids.has(id)) known.delete(id);
  return before !== [...known.values()].map(s => s.sandboxID + stateOf(s)).join();
}

// ---- the view

const rows = new Map();

function makeRow(s, onChoose) {
  const parts = {
    title: name('', { class: 'title' }), state: h('span', { class: 'state' }), graph: h('span', { class: 'graph' }),
    cpu: h('span', { class: 'figure' }), memory: h('span', { class: 'figure' }), net: h('span', { class: 'figure' }),
  };
  const row = h('li', {}, h('button', { type: 'button', class: 'row', 'data-id': s.sandboxID, onclick: () => onChoose(s.sandboxID) },
    h('span', { class: 'line' }, parts.title, parts.state),
    h('span', { class: 'line quiet' }, h('code', {}, s.sandboxID.slice(0, 8)), parts.graph),
    h('span', { class: 'line figures' }, parts.cpu, parts.memory, parts.net)));
  return { row, button: row.firstChild, parts };
}

function put(element, text) {
  if (element.textContent !== text) element.textContent = text;
}

function fillRow({ button, parts }, s, isChosen) {
  const state = stateOf(s);
  put(parts.title, shown(title(s)));
  put(parts.state, state);
  parts.state.dataset.state = s.state === 'running' ? state : 'paused';
  parts.graph.replaceChildren(spark(s.history.cpu, { most: 100 }));
  put(parts.cpu, state === 'running' ? `${Math.round(s.cpuPercent ?? 0)}% CPU` : '0% CPU');
  put(parts.memory, bytes(s.memoryBytes));
  put(parts.net, `${bytes(s.rate)}/s`);
  if (isChosen) button.setAttribute('aria-current', 'true');
  else button.removeAttribute('aria-current');
}

export function draw(where, chosen, onChoose, onNew) {
  const all = [...known.values()].sort((a, b) => a.ageSeconds - b.ageSeconds);
  let list = where.querySelector('ul');
  if (!all.length) {
    rows.clear();
    if (where.querySelector('.empty')) return;
    where.replaceChildren(h('div', { class: 'empty' }, h('p', {}, 'No sandboxes yet.'),
      h('p', { class: 'quiet' }, 'An agent makes one with its first command, or you do:'),
      h('button', { type: 'button', onclick: onNew }, 'New sandbox')));
    return;
  }
  if (!list) {
    list = h('ul');
    rows.clear();
    where.replaceChildren(list);
    list.addEventListener('keydown', e => move(e, list));
  }
  const ids = new Set(all.map(s => s.sandboxID));
  for (const [id, made] of rows) if (!ids.has(id)) { made.row.remove(); rows.delete(id); }
  all.forEach((s, i) => {
    if (!rows.has(s.sandboxID)) rows.set(s.sandboxID, makeRow(s, onChoose));
    const made = rows.get(s.sandboxID);
    fillRow(made, s, s.sandboxID === chosen);
    if (list.children[i] !== made.row) list.insertBefore(made.row, list.children[i] ?? null);
  });
}

// Arrow keys go through the list, as through a menu.
function move(event, list) {
  const step = { ArrowDown: 1, ArrowUp: -1 }[event.key];
  if (!step) return;
  const buttons = [...list.querySelectorAll('.row')];
  const next = buttons[buttons.indexOf(document.activeElement) + step];
  if (next) next.focus();
  event.preventDefault();
}

export function hostLine(host, backend) {
  if (!host || host.memoryTotalBytes === undefined) return `on ${backend}`;
  const paused = host.frozen + host.hibernated;
  return [`on ${backend}`, `${host.running} running`, paused && `${paused} paused`, `${bytes(host.memoryFreeBytes)} free for more`]
    .filter(Boolean).join(' · ');
}

