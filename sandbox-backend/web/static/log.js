// SPDX-License-Identifier: Apache-2.0
// What happened to a sandbox, the newest first: entries of the daemon, and lines of its console.

import { api } from './api.js';
import { h, name, shown, when } from './dom.js';

const EVERY_MS = 2000;

export function logTab(where, sandbox) {
  const level = h('select', { 'aria-label': 'Entries' }, [['info', 'All entries'], ['warn', 'Warnings and errors'], ['debug', 'With details']]
    .map(([value, label]) => h('option', { value }, label)));
  const list = h('ol', { class: 'log' });
  where.append(h('div', { class: 'strip' }, level), list);
  let last = '';
  let over = false;
  let timer = null;

  async function look() {
    const { logs } = await api('GET', `/v2/sandboxes/${sandbox.sandboxID}/logs?direction=backward&limit=500&level=${level.value}`);
    const now = JSON.stringify(logs);
    if (over || now === last) return;
    last = now;
    list.replaceChildren(...logs.map(entry => h('li', { 'data-level': entry.level }, h('time', { datetime: entry.timestamp }, when(entry.timestamp)),
      h('span', { class: 'quiet' }, shown(entry.fields?.source)), name(entry.message))));
    if (!logs.length) list.replaceChildren(h('li', { class: 'quiet' }, 'Nothing yet.'));
  }

  function again() {
    clearTimeout(timer);
    if (over || document.hidden) return;
    look().catch(error => { if (!last) list.replaceChildren(h('li', { class: 'error' }, shown(error.message))); })
      .finally(() => { if (!over) timer = setTimeout(again, EVERY_MS); });
  }
  level.addEventListener('change', again);
  document.addEventListener('visibilitychange', again);
  again();
  return { leave: () => { over = true; clearTimeout(timer); document.removeEventListener('visibilitychange', again); } };
}
