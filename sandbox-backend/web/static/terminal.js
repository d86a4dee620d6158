// SPDX-License-Identifier: Apache-2.0
// Terminals: xterm.js on pseudo terminals of envd. A shell has a name, by which it is found again
// after a reload, and by `cubby shell --name`. It runs on when its page is closed.

import { openStream, rpc, session } from './api.js';
import { ask, button, h, shown, sure } from './dom.js';

const MANY = 262144; // bytes of one SendInput
const SHELL = { cmd: '/bin/bash', args: ['-i', '-l'], envs: { TERM: 'xterm-256color', COLORTERM: 'truecolor', LANG: 'C.UTF-8' } };
// xterm.js does some steps as often as a number in an escape sequence says. No screen needs that many,
// and 2147483647 would stop the browser's tab.
const REPEATS_MAX = 10000;
const REPEATING = [...[...'@bILMPSTXZ'].map(final => ({ final })), { intermediates: ' ', final: '@' }, { intermediates: ' ', final: 'A' },
  { intermediates: "'", final: '}' }, { intermediates: "'", final: '~' }];
const panels = new Map(); // by sandbox: its terminals run on while another tab is shown
let library = null; // a promise of xterm.js

// xterm.js makes style elements. The policy of this page allows those that have its nonce.
function giveNonces() {
  const create = document.createElement.bind(document);
  document.createElement = (tag, options) => {
    const made = create(tag, options);
    if (tag === 'style') made.nonce = session.nonce;
    return made;
  };
}

async function loadLibrary() {
  giveNonces();
  document.head.append(h('link', { rel: 'stylesheet', href: '/xterm/xterm.css' }));
  const [{ Terminal }, { FitAddon }] = await Promise.all([import('/xterm/xterm.mjs'), import('/xterm/addon-fit.mjs')]);
  return { Terminal, FitAddon };
}

function theLibrary() {
  library ??= loadLibrary().catch(error => {
    library = null; // the next try loads it again
    throw error;
  });
  return library;
}

function colours() {
  const style = getComputedStyle(document.documentElement);
  const of = key => style.getPropertyValue(key).trim();
  const isDark = of('--dark') === '1';
  return {
    background: of('--terminal'), foreground: of('--text'), cursor: of('--accent'), cursorAccent: of('--terminal'),
    selectionBackground: isDark ? '#2f5f5a' : '#b7e0da',
    ...(!isDark && { yellow: '#8a6100', brightYellow: '#946800', green: '#1a7f37', brightGreen: '#1f883d', cyan: '#0e7490',
      brightCyan: '#0891b2', white: '#57606a', brightWhite: '#24292f', brightBlack: '#6e7781' }),
  };
}

// A link in a program's output: the person sees where it leads before it is opened.
async function openLink(event, uri) {
  if (!/^https?:\/\//i.test(uri)) return;
  if (await ask('Open this address?', [h('p', {}, h('code', { class: 'wrap' }, shown(uri)))], { confirm: 'Open' })) {
    window.open(uri, '_blank', 'noopener,noreferrer');
  }
}

function base64(data) {
  let text = '';
  for (let i = 0; i < data.length; i += 32768) text += String.fromCharCode(...data.subarray(i, i + 32768));
  return btoa(text);
}

function fromBase64(text) {
  return Uint8Array.from(atob(text), c => c.charCodeAt(0));
}

class Shell {
  constructor(id, tag, onEnd) {
    this.id = id;
    this.tag = tag;
    this.onEnd = onEnd;
    this.pid = null;
    this.input = [];
    this.place = h('div', { class: 'screen' });
    this.note = h('p', { class: 'note quiet', hidden: true });
    this.element = h('div', { class: 'shell' }, this.place, this.note);
  }

  start(Terminal, FitAddon, joins) {
    this.term = new Terminal({
      theme: colours(), fontSize: 13, lineHeight: 1.15, scrollback: 5000, allowProposedApi: false,
      fontFamily: 'ui-monospace, "SF Mono", "Cascadia Code", "DejaVu Sans Mono", Menlo, Consolas, monospace',
      screenReaderMode: stored('reader') === '1', linkHandler: { activate: openLink }, cursorBlink: false, macOptionIsMeta: true,
    });
    this.fit = new FitAddon();
    this.term.loadAddon(this.fit);
    for (const sequence of REPEATING) this.term.parser.registerCsiHandler(sequence, numbers => numbers.flat().some(n => n > REPEATS_MAX));
    this.term.open(this.place);
    this.fit.fit();
    const encoder = new TextEncoder();
    this.term.onData(text => this.type(encoder.encode(text)));
    this.term.onBinary(text => this.type(Uint8Array.from(text, c => c.charCodeAt(0) & 255)));
    this.term.onResize(() => this.resize());
    this.observer = new ResizeObserver(() => this.place.clientWidth && this.fit.fit());
    this.observer.observe(this.place);
    this.onTheme = () => { this.term.options.theme = colours(); };
    addEventListener('theme', this.onTheme);
    matchMedia('(prefers-color-scheme: dark)').addEventListener('change', this.onTheme);
    return this.connect(joins);
  }

  say(text, ...more) {
    this.note.hidden = !text;
    this.note.replaceChildren(text ? shown(text) : '', ' ', ...more);
  }

  async connect(joins) {
    this.say(null);
    this.over = false;
    this.joins = joins;
    const size = { cols: this.term.cols, rows: this.term.rows };
    const [method, message] = joins ? ['process.Process/Connect', { process: { tag: this.tag } }]
      : ['process.Process/Start', { process: SHELL, pty: { size }, tag: this.tag }];
    try {
      this.stream = await openStream(this.id, method, message, { onEvent: (e, used) => this.take(e, used), onEnd: why => this.end(why) });
    } catch (error) {
      this.end(error);
    }
  }

  take({ event }, used) {
    if (event?.start) {
      this.pid = event.start.pid;
      if (this.joins) this.redraw();
      this.flush();
      used();
    } else if (event?.data?.pty) {
      this.term.write(fromBase64(event.data.pty), used); // the next output comes when this is drawn
    } else {
      if (event?.end) this.ended = event.end;
      used();
    }
  }

  // A program that is told of another size draws itself again.
  async redraw() {
    await this.send('process.Process/Update', { pty: { size: { cols: this.term.cols, rows: Math.max(1, this.term.rows - 1) } } });
    await this.resize();
  }

  send(method, message) {
    return rpc(this.id, method, { process: { pid: this.pid }, ...message }).catch(error => {
      if (!this.over) this.say(error.message);
    });
  }

  resize() {
    if (this.pid && !this.over) return this.send('process.Process/Update', { pty: { size: { cols: this.term.cols, rows: this.term.rows } } });
  }

  type(data) {
    if (this.over) return;
    this.input.push(data);
    this.flush();
  }

  // Keys go out one request at a time, so that they arrive in order; what is typed meanwhile goes together.
  async flush() {
    if (this.sending || !this.pid) return;
    this.sending = true;
    while (this.input.length && !this.over) {
      let size = 0;
      const parts = [];
      while (this.input.length && size < MANY) size += parts[parts.push(this.input.shift()) - 1].length;
      const whole = new Uint8Array(size);
      parts.reduce((at, part) => (whole.set(part, at), at + part.length), 0);
      await this.send('process.Process/SendInput', { input: { pty: base64(whole) } });
    }
    this.sending = false;
  }

  end(why) {
    this.over = true;
    const pid = this.pid;
    this.pid = null;
    if (this.ended) {
      this.say(`The shell has ended (${this.ended.status ?? 'exit status 0'}).`);
      this.onEnd(this);
    } else if (!pid && this.joins && why?.status === 404) {
      this.connect(false); // it is gone, for example with a reboot: a new one
    } else {
      this.say(why ? why.message : 'The connection ended.', button('Connect again', () => this.connect(Boolean(pid) || this.joins)));
    }
  }

  close() {
    this.over = true;
    this.stream?.close();
    this.observer?.disconnect();
    removeEventListener('theme', this.onTheme);
    this.term?.dispose();
    this.element.remove();
  }
}

// ---- what this browser keeps

function stored(key) {
  try {
    return localStorage.getItem(key);
  } catch {
    return null;
  }
}

function store(key, value) {
  try {
    localStorage.setItem(key, value);
  } catch { /* for this page only */ }
}

// ---- the tab

function newTag() {
  return `web-${crypto.getRandomValues(new Uint32Array(1))[0].toString(16).padStart(8, '0')}`;
}

// The shells that pages of this kind have started. One of `cubby shell` keeps its own size.
async function runningTags(id) {
  const { processes = [] } = await rpc(id, 'process.Process/List', {});
  return processes.map(p => p.tag).filter(tag => /^web-[0-9a-f]{8}$/.test(tag ?? ''));
}

class Panel {
  constructor(id) {
    this.id = id;
    this.shells = [];
    this.strip = h('div', { class: 'strip', role: 'group', 'aria-label': 'Terminals' });
    this.body = h('div', { class: 'shells' });
    this.element = h('div', { class: 'terminals' }, this.strip, this.body);
  }

  async open(tag, joins) {
    const { Terminal, FitAddon } = await theLibrary();
    const shell = new Shell(this.id, tag, () => this.draw());
    this.shells.push(shell);
    this.body.append(shell.element);
    this.choose(shell);
    await shell.start(Terminal, FitAddon, joins);
    shell.term.focus();
  }

  choose(shell) {
    this.current = shell;
    for (const other of this.shells) other.element.hidden = other !== shell;
    this.draw();
    shell?.term?.focus();
  }

  draw() {
    this.strip.replaceChildren(...this.shells.map((shell, i) => h('span', { class: 'pair' },
      button(`Terminal ${i + 1}`, () => this.choose(shell), { 'aria-pressed': shell === this.current, title: `cubby shell --name ${shell.tag} ${this.id}` }),
      button('×', () => this.close(shell), { class: 'plain', 'aria-label': `End terminal ${i + 1}` }))),
    button('New terminal', () => this.open(newTag(), false)),
    h('label', { class: 'check' }, this.readerBox(), 'Screen reader'));
  }

  readerBox() {
    const box = h('input', { type: 'checkbox', checked: stored('reader') === '1' });
    box.addEventListener('change', () => {
      store('reader', box.checked ? '1' : '0');
      for (const shell of this.shells) if (shell.term) shell.term.options.screenReaderMode = box.checked;
    });
    return box;
  }

  async close(shell) {
    if (shell.pid && !await sure('End this terminal?', 'Its shell ends with the programs in it.', 'End')) return;
    if (shell.pid) await rpc(this.id, 'process.Process/SendSignal', { process: { pid: shell.pid }, signal: 'SIGNAL_SIGKILL' });
    shell.close();
    this.shells.splice(this.shells.indexOf(shell), 1);
    this.choose(this.shells[0] ?? null);
  }

  async begin() {
    const [tags] = await Promise.all([runningTags(this.id), theLibrary()]);
    for (const tag of tags) await this.open(tag, true);
    if (!tags.length) await this.open(newTag(), false);
    this.choose(this.shells[0]);
  }
}

export function terminalTab(where, sandbox) {
  const id = sandbox.sandboxID;
  if (!session.terminal) {
    where.append(h('div', { class: 'empty' }, h('p', {}, 'This build of Cubby has no terminal for the page.'),
      h('p', { class: 'quiet' }, 'Get it where Cubby was built: ', h('code', {}, 'make xterm && make'), '. Until then: ',
        h('code', {}, `cubby shell ${id}`))));
    return {};
  }
  if (sandbox.state !== 'running' && !panels.has(id)) {
    where.append(h('div', { class: 'empty' }, h('p', {}, 'The sandbox is paused. Resume it to open a terminal.')));
    return { update: s => s.state === 'running' && (where.replaceChildren(), terminalTab(where, s)) };
  }
  let panel = panels.get(id);
  if (panel) {
    where.append(panel.element);
    panel.current?.fit?.fit();
    panel.current?.term?.focus();
    return {};
  }
  panel = new Panel(id);
  panels.set(id, panel);
  where.append(panel.element);
  panel.begin().catch(error => {
    panels.delete(id);
    where.replaceChildren(h('p', { class: 'error' }, shown(error.message)), button('Try again', () => (where.replaceChildren(), terminalTab(where, sandbox))));
  });
  return {};
}
