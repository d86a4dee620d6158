// SPDX-License-Identifier: Apache-2.0
// What happened to a sandbox, the newest first: entries of the daemon, and lines of its console.

import { api, watch } from './api.js';
import { h, name, shown, when } from './dom.js';

export function logTab(where, sandbox) {
  const level = h('select', { 'aria-label': 'Entries' }, [['info', 'All entries'], ['warn', 'Warnings and errors'], ['debug', 'With details']]
    .map(([value, label]) => h('option', { value }, label)));
  const list = h('ol', { class: 'log' });
  where.append(h('div', { class: 'strip' }, level), list);
  let last = '';

  async function look(watched) {
    const { logs } = await api('GET', `/v2/sandboxes/${sandbox.sandboxID}/logs?direction=backward&limit=500&level=${level.value}`);
    const now = JSON.stringify(logs);
    if (watched.over || now === last) return;
    last = now;
    list.replaceChildren(...logs.map(entry => h('li', { 'data-level': entry.level }, h('time', { datetime: entry.timestamp }, when(entry.timestamp)),
      h('span', { class: 'quiet' }, shown(entry.fields?.source)), name(entry.message))));
    if (!logs.length) list.replaceChildren(h('li', { class: 'quiet' }, 'Nothing yet.'));
  }

  const made = watch(look, error => { if (!last) list.replaceChildren(h('li', { class: 'error' }, shown(error.message))); });
  level.addEventListener('change', made.again);
  return made;
}
