// SPDX-License-Identifier: Apache-2.0
// What was done in a sandbox, the newest first, from its record. A call, its end and its output are
// one entry.

import { apiText, watch } from './api.js';
import { bytes, h, name, select, shown, when } from './dom.js';
import { bytesOf, pictureOf } from './figure.js';

const MOST = 500; // entries on the page
const GROUPS = { command: 'run', terminal: 'run', code: 'run', join: 'run', input: 'run', signal: 'run', file: 'files', refused: 'network', allowed: 'network' };
const FILTERS = [['', 'All calls'], ['run', 'Commands and code'], ['files', 'Files'], ['network', 'Network'], ['life', 'The sandbox itself']];
const OWN = new Set(['n', 'at', 'sandbox', 'kind', 'what', 'prev', 'who', 'from', 'client', 'user', 'ms', 'in', 'out', 'cut']);

// A shell with -c is shown as its command alone, as `cubby record` does.
function command(line) {
  const args = line.args ?? [];
  const isShell = /(^|\/)(ba)?sh$/.test(line.cmd) && ['-c', '-lc'].includes(args.at(-2));
  return isShell ? args.at(-1) : [line.cmd, ...args].join(' ');
}

// Members that the line has beside those of every line.
function members(line) {
  return Object.entries(line).filter(([k, v]) => !OWN.has(k) && typeof v !== 'object').map(([k, v]) => `${k} ${v}`).join(', ');
}

// A host that was reached, or what was refused.
function contact(line) {
  const to = `${line.name ?? line.address ?? ''}${line.port ? `:${line.port}` : ''} (${line.protocol})`;
  return [to, line.why && `: ${line.why}`, `, ${line.count}×`, line.others && ', and others'].filter(Boolean).join('');
}

function titleOf(line) {
  switch (line.kind) {
    case 'command': case 'terminal': return command(line);
    case 'code': return (line.code ?? '').split('\n')[0];
    case 'file': return `${line.what} ${line.path ?? line.paths?.join(', ') ?? [line.source, line.destination].filter(Boolean).join(' → ')}`;
    case 'refused': case 'allowed': return contact(line);
    default: return [line.what, members(line)].filter(Boolean).join(': ');
  }
}

// Text of more lines, each of which stays on its own.
function block(text, attributes) {
  return h('pre', attributes, String(text).split('\n').map(shown).join('\n'));
}

function resultOf(end) {
  const code = end.fate ?? (end.exit === undefined ? 'done' : end.exit ? end.status ?? `exit ${end.exit}` : 'ok');
  return [code, `${end.ms} ms`, end.out && `${bytes(end.out)} out`, end.in && `${bytes(end.in)} in`].filter(Boolean).join(' · ');
}

class Entry {
  constructor(line) {
    this.group = GROUPS[line.kind] ?? 'life';
    this.state = h('span', { class: 'quiet' });
    this.output = h('div', { class: 'output' });
    const who = [line.who, line.user && `as ${line.user}`, line.cwd && `in ${line.cwd}`].filter(Boolean).join(', ');
    this.element = h('li', { 'data-kind': line.kind }, h('time', { datetime: line.at }, when(line.at)), h('span', { class: 'kind' }, shown(line.kind)),
      h('div', {}, name(titleOf(line), { class: 'call' }), ' ', h('small', { class: 'quiet' }, shown(who)), ' ', this.state, this.output));
    const more = line.kind === 'code' ? line.code : command(line);
    if (/\n/.test(more ?? '')) this.add('Code', more);
    if (line.ms !== undefined) this.end(line);
    else if (['command', 'terminal', 'code', 'join'].includes(line.kind)) this.state.textContent = 'running';
  }

  add(label, text, attributes = {}) {
    if (text) this.output.append(h('details', { open: text.length < 400 && label !== 'Code' }, h('summary', {}, label), block(text, attributes)));
  }

  // The picture is a copy of the bytes, which the browser reads as the type that they have.
  figure(line) {
    const data = bytesOf(line.data ?? '');
    const picture = pictureOf(data);
    if (!picture) {
      this.output.append(h('p', { class: 'quiet' }, `A figure that is not shown: ${shown(line.why ?? 'not a picture')}`));
      return;
    }
    const url = URL.createObjectURL(new Blob([data], { type: picture.type }));
    const done = () => URL.revokeObjectURL(url);
    this.output.append(h('img', { class: 'figure', src: url, alt: `Figure, ${picture.width} by ${picture.height} pixels`, width: picture.width,
      height: picture.height, onload: done, onerror: done }));
  }

  end(line) {
    this.state.textContent = resultOf(line);
    if (line.exit || line.error || line.fate) this.element.dataset.failed = 'true';
    this.add('Output', line.stdout);
    this.add('Errors', line.stderr, { class: 'error' });
    this.add('Result', line.result);
    if (line.error && this.element.dataset.kind !== 'file') this.add('Error', line.error, { class: 'error' });
  }
}

export function callsTab(where, sandbox) {
  const filter = select({ 'aria-label': 'Calls' }, FILTERS);
  const list = h('ol', { class: 'log calls' });
  const entries = new Map(); // by number
  where.append(h('div', { class: 'strip' }, filter), list);
  let after = 0;

  function take(line) {
    after = line.n;
    if (line.kind === 'end') entries.get(line.of)?.end(line);
    if (line.kind === 'figure') entries.get(line.of)?.figure(line);
    if (['end', 'figure', 'head', 'screen'].includes(line.kind)) return;
    const entry = new Entry(line);
    entry.element.hidden = filter.value !== '' && filter.value !== entry.group;
    entries.set(line.n, entry);
    list.prepend(entry.element);
    if (entries.size <= MOST) return;
    const [oldest] = entries.keys();
    entries.get(oldest).element.remove();
    entries.delete(oldest);
  }

  async function look(watched) {
    for (;;) {
      const text = await apiText(`/sandboxes/${sandbox.sandboxID}/record?after=${after}`);
      if (watched.over || !text) break;
      if (!entries.size) list.replaceChildren();
      text.split('\n').filter(Boolean).forEach(line => take(JSON.parse(line)));
    }
    if (!entries.size && !watched.over) list.replaceChildren(h('li', { class: 'quiet' }, 'Nothing yet.'));
  }

  filter.addEventListener('change', () => entries.forEach(e => { e.element.hidden = filter.value !== '' && filter.value !== e.group; }));
  return watch(look, error => { if (!entries.size) list.replaceChildren(h('li', { class: 'error' }, shown(error.message))); });
}
