// SPDX-License-Identifier: Apache-2.0
// The chosen sandbox: its head with pause, resume and kill, and its tabs.

import { api } from './api.js';
import { callsTab } from './calls.js';
import { button, bytes, h, name, shown, span, spark, sure, toast, when } from './dom.js';
import { filesTab } from './files.js';
import { stateOf, title } from './list.js';
import { logTab } from './log.js';
import { networkTab } from './network.js';
import { portsTab } from './ports.js';
import { snapshotsTab } from './snapshots.js';
import { terminalTab } from './terminal.js';

// Each tab is a function of the place, the sandbox and the page. It returns {update, leave}, both
// optional: what to do with new figures, and when another tab is chosen.
const TABS = [
  ['overview', 'Overview', overviewTab],
  ['terminal', 'Terminal', terminalTab],
  ['files', 'Files', filesTab],
  ['network', 'Network', networkTab],
  ['ports', 'Ports', portsTab],
  ['snapshots', 'Snapshots', snapshotsTab],
  ['calls', 'Calls', callsTab],
  ['log', 'Log', logTab],
];

export class Detail {
  constructor(where, sandbox, page) {
    this.id = sandbox.sandboxID;
    this.sandbox = sandbox;
    this.page = page;
    this.tab = null;
    this.state = h('span', { class: 'state' });
    this.actions = h('div', { class: 'actions' });
    this.bar = h('div', { role: 'tablist', 'aria-label': 'Parts of the sandbox' }, TABS.map(([key, label]) =>
      h('button', { type: 'button', role: 'tab', id: `tab-${key}`, 'aria-controls': 'panel', 'data-tab': key, tabindex: -1,
        onclick: () => page.go(this.id, key) }, label)));
    this.bar.addEventListener('keydown', e => this.move(e));
    this.panel = h('div', { id: 'panel', role: 'tabpanel', tabindex: 0 });
    where.replaceChildren(
      h('div', { class: 'head' }, h('div', {}, h('h2', {}, name(title(sandbox)), ' ', this.state), h('code', { class: 'quiet' }, this.id)), this.actions),
      this.bar, this.panel);
    this.update(sandbox);
  }

  choose(key) {
    const row = TABS.find(t => t[0] === key) ?? TABS[0];
    if (this.tab === row[0]) return;
    this.view?.leave?.();
    this.tab = row[0];
    for (const tab of this.bar.children) {
      const chosen = tab.dataset.tab === this.tab;
      tab.setAttribute('aria-selected', chosen);
      tab.tabIndex = chosen ? 0 : -1;
    }
    this.panel.setAttribute('aria-labelledby', `tab-${this.tab}`);
    this.panel.className = `panel-${this.tab}`;
    this.panel.replaceChildren();
    this.view = row[2](this.panel, this.sandbox, this.page) ?? {};
  }

  move(event) {
    const all = [...this.bar.children];
    const at = all.findIndex(t => t.dataset.tab === this.tab);
    const to = { ArrowRight: at + 1, ArrowLeft: at - 1, Home: 0, End: all.length - 1 }[event.key];
    if (to === undefined || !all[to]) return;
    event.preventDefault();
    all[to].focus();
    all[to].click();
  }

  update(sandbox) {
    const before = this.shownState;
    this.sandbox = sandbox;
    this.shownState = stateOf(sandbox);
    this.state.textContent = this.shownState;
    this.state.dataset.state = sandbox.state === 'running' ? this.shownState : 'paused';
    if (before !== this.shownState) this.drawActions();
    this.view?.update?.(sandbox);
  }

  drawActions() {
    const runs = this.sandbox.state === 'running';
    this.actions.replaceChildren(
      runs ? button('Pause', () => this.pause()) : button('Resume', () => this.resume(), { class: 'main' }),
      button('Kill', () => this.kill(), { class: 'danger' }));
  }

  async pause() {
    await api('POST', `/sandboxes/${this.id}/pause`, {});
    toast('Paused. Its memory and programs are kept.');
  }

  async resume() {
    await api('POST', `/sandboxes/${this.id}/resume`, { timeout: 3600 });
    toast('Runs again');
  }

  async kill() {
    const text = `${shown(title(this.sandbox))} (${this.id.slice(0, 8)}) ends with its programs and files. Its snapshots stay.`;
    if (!await sure('Kill this sandbox?', text, 'Kill')) return;
    await api('DELETE', `/sandboxes/${this.id}`);
    toast('Killed');
  }

  leave() {
    this.view?.leave?.();
    this.view = null;
  }
}

// ---- the overview

function card(label) {
  const value = h('strong', {});
  const graph = h('div', { class: 'graph' });
  const hint = h('small', { class: 'quiet' });
  return { element: h('div', { class: 'card' }, h('h3', {}, label), value, graph, hint), value, graph, hint };
}

function overviewTab(panel, sandbox) {
  const cpu = card('CPU'), memory = card('Memory'), net = card('Network'), disk = card('Disk');
  const facts = h('dl');
  panel.append(h('div', { class: 'cards' }, cpu.element, memory.element, net.element, disk.element), facts);
  const size = { width: 240, height: 48 };
  const update = s => {
    cpu.value.textContent = `${Math.round(s.cpuPercent ?? 0)}%`;
    cpu.graph.replaceChildren(spark(s.history.cpu, { ...size, most: 100 }));
    cpu.hint.textContent = `of ${s.cpuCount} CPU${s.cpuCount > 1 ? 's' : ''} · ${span(s.cpuSeconds)} in all`;
    memory.value.textContent = bytes(s.memoryBytes);
    memory.graph.replaceChildren(spark(s.history.memory, { ...size, most: s.memoryMB * 1048576 }));
    memory.hint.textContent = `of this host's; the sandbox sees ${bytes(s.memoryMB * 1048576)}`;
    net.value.textContent = `${bytes(s.rate)}/s`;
    net.graph.replaceChildren(spark(s.history.net, size));
    net.hint.textContent = `${bytes(s.netInBytes)} in · ${bytes(s.netOutBytes)} out`;
    disk.value.textContent = bytes(s.diskBytes);
    disk.hint.textContent = s.diskFull ? 'The disk is full: remove files, or the sandbox stands still.' : 'beside its template';
  };
  update(sandbox);
  api('GET', `/sandboxes/${sandbox.sandboxID}`).then(d => {
    const rows = [['Template', shown(d.alias ?? d.templateID)], ['Made from', d.templateID !== d.alias && shown(d.templateID)],
      ['Isolation', shown(d.isolation)], ['Warning', d.tierWarning && shown(d.tierWarning)], ['Created', when(d.startedAt)],
      [d.lifecycle?.onTimeout === 'pause' ? 'Pauses at' : 'Ends at', when(d.endAt)], ['Secrets', d.secrets?.map(shown).join(', ')],
      ...Object.entries(d.metadata ?? {}).map(([k, v]) => [shown(k), shown(v)])];
    facts.replaceChildren(...rows.filter(r => r[1]).flatMap(([k, v]) => [h('dt', {}, h('bdi', {}, k)), h('dd', {}, h('bdi', {}, v))]));
  }, error => facts.replaceChildren(h('p', { class: 'error' }, shown(error.message))));
  return { update };
}
