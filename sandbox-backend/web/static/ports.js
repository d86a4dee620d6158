// SPDX-License-Identifier: Apache-2.0
// Exposed ports: open one, follow its link, close it.

import { api } from './api.js';
import { button, during, field, h, shown, toast } from './dom.js';

export function portsTab(where, sandbox) {
  const path = `/sandboxes/${sandbox.sandboxID}/ports`;
  const list = h('div', {});
  const number = h('input', { type: 'number', name: 'port', min: 1, max: 65535, required: true, inputmode: 'numeric' });
  const token = h('input', { type: 'checkbox', name: 'token', checked: true });
  const send = h('button', { type: 'submit', class: 'main' }, 'Expose');
  const form = h('form', { class: 'inline' }, field('Port in the sandbox', number), h('label', { class: 'check' }, token, 'Only with the link'), send);
  where.append(form, h('p', { class: 'quiet' }, 'A port of this computer then leads to it. Programs in the sandbox choose what the page there shows.'), list);

  form.addEventListener('submit', event => {
    event.preventDefault();
    during(send, async () => {
      await api('POST', path, { port: Number(number.value), token: token.checked });
      number.value = '';
      await look();
    });
  });

  function row(port) {
    const url = port.browserUrl ?? port.url;
    const opens = /^https?:\/\//.test(url);
    return h('tr', {}, h('td', { class: 'number' }, String(port.port)), h('td', {}, shown(port.protocol)),
      h('td', {}, opens ? h('a', { href: url, target: '_blank', rel: 'noopener noreferrer' }, shown(port.url)) : h('code', {}, shown(port.url))),
      h('td', { class: 'row-actions' }, button('Close', async () => {
        await api('DELETE', `${path}?port=${port.port}`);
        toast(`Port ${port.port} is closed`);
        await look();
      }, { 'aria-label': `Close port ${port.port}` })));
  }

  async function look() {
    const ports = await api('GET', path);
    list.replaceChildren(ports.length ? h('table', {}, h('thead', {}, h('tr', {}, ['Port', 'Protocol', 'Address'].map(t => h('th', { scope: 'col' }, t)),
      h('th', { scope: 'col' }, h('span', { class: 'unseen' }, 'Actions')))), h('tbody', {}, ports.map(row)))
      : h('p', { class: 'quiet' }, 'No port is exposed.'));
  }
  look().catch(error => list.replaceChildren(h('p', { class: 'error' }, shown(error.message))));
  return {};
}
