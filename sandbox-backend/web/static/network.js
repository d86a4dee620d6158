// SPDX-License-Identifier: Apache-2.0
// What a sandbox may connect to, what was refused, and one click to allow it.

import { api } from './api.js';
import { button, bytes, h, name, shown, toast, when } from './dom.js';

const EVERY_MS = 2000;
const MODES = {
  public: ['The public internet', 'Everything but this host and private networks, and what is denied below.'],
  allow: ['Only what is allowed', 'The names and addresses below, and nothing else.'],
  none: ['Nothing', 'No connection leaves the sandbox.'],
};

// The entry that allows what was refused.
export function entryOf(refusal) {
  const to = refusal.name || refusal.address;
  return refusal.port ? `${to}:${refusal.port}` : to;
}

// The daemon writes an address as a network.
function isAllowed(policy, entry) {
  return policy.allow.some(a => a === entry || a.replace('/32', '') === entry);
}

export function networkTab(where, sandbox) {
  const path = `/sandboxes/${sandbox.sandboxID}/network`;
  const policyView = h('div', { class: 'policy' });
  const refusedView = h('div', { class: 'refused' });
  const sums = h('p', { class: 'quiet' });
  where.append(policyView, h('h3', {}, 'Refused'), refusedView, sums);
  let policy = null;
  let wish = null; // a list of allowed entries that is still empty is the same to the daemon as "none"
  let last = '';
  let over = false;
  let timer = null;

  function mode() {
    return policy.mode === 'none' && wish === 'allow' ? 'allow' : policy.mode;
  }

  async function set(change) {
    const next = { mode: mode(), allow: policy.allow, deny: policy.deny, limits: policy.limits, ...change };
    if (next.mode === 'none') next.allow = next.deny = [];
    await api('PUT', path, next);
    await look();
  }

  async function allow(entry) {
    if (isAllowed(policy, entry)) throw new Error(`${shown(entry)} is allowed already. It was refused before.`);
    await set({ mode: mode() === 'none' ? 'allow' : mode(), allow: [...policy.allow, entry] });
    toast(`${shown(entry)} is allowed now`);
  }

  function entries(key, label, add) {
    const input = h('input', { placeholder: 'example.com:443', 'aria-label': `${label}: name or address`, autocomplete: 'off' });
    const form = h('form', { class: 'inline' }, input, h('button', { type: 'submit' }, add));
    form.addEventListener('submit', event => {
      event.preventDefault();
      const entry = input.value.trim();
      if (entry) set({ [key]: [...policy[key], entry] }).catch(error => toast(error.message, true));
    });
    return h('div', {}, h('h3', {}, label), policy[key].length
      ? h('ul', { class: 'chips' }, policy[key].map(entry => h('li', {}, name(entry),
        button('×', () => set({ [key]: policy[key].filter(e => e !== entry) }), { class: 'plain', 'aria-label': `Remove ${shown(entry)}` }))))
      : h('p', { class: 'quiet' }, 'Nothing'), form);
  }

  function drawPolicy() {
    const modes = h('fieldset', {}, h('legend', {}, 'May connect to'), Object.entries(MODES).map(([value, [label, hint]]) => {
      const radio = h('input', { type: 'radio', name: 'mode', value, checked: mode() === value });
      radio.addEventListener('change', () => {
        wish = value;
        set({ mode: value }).then(drawPolicy, error => { toast(error.message, true); drawPolicy(); });
      });
      return h('label', { class: 'choice' }, radio, h('span', {}, label, h('small', { class: 'quiet' }, hint)));
    }));
    policyView.replaceChildren(modes, ...mode() === 'none' ? []
      : [entries('allow', mode() === 'allow' ? 'Allowed' : 'Allowed besides', 'Allow'), entries('deny', 'Denied', 'Deny')]);
  }

  function drawRefused(refusals) {
    refusedView.replaceChildren(refusals.length ? h('table', {}, h('thead', {}, h('tr', {},
      ['To', 'Why', 'Times', 'Last'].map(t => h('th', { scope: 'col' }, t)), h('th', { scope: 'col' }, h('span', { class: 'unseen' }, 'Actions')))),
    h('tbody', {}, refusals.map(r => {
      const entry = entryOf(r);
      return h('tr', {}, h('td', {}, name(entry), ' ', h('span', { class: 'quiet' }, shown(r.protocol))), h('td', {}, name(r.reason)),
        h('td', { class: 'number' }, String(r.count)), h('td', {}, when(r.timestamp)),
        h('td', { class: 'row-actions' }, isAllowed(policy, entry) ? h('span', { class: 'quiet' }, 'allowed now')
          : button('Allow', () => allow(entry), { 'aria-label': `Allow ${shown(entry)}` })));
    }))) : h('p', { class: 'quiet' }, 'Nothing was refused.'));
  }

  async function look() {
    const answer = await api('GET', path);
    if (over) return;
    const now = JSON.stringify([answer.policy, answer.refusals]);
    if (now !== last) {
      const samePolicy = policy && JSON.stringify(policy) === JSON.stringify(answer.policy);
      policy = answer.policy;
      if (!samePolicy) drawPolicy();
      drawRefused(answer.refusals);
      last = now;
    }
    const c = answer.counters;
    sums.textContent = c ? `${bytes(c.receivedBytes)} received, ${bytes(c.sentBytes)} sent, ${c.refused} refused` : 'The sandbox is paused on the disk.';
  }

  function again() {
    clearTimeout(timer);
    if (over || document.hidden) return;
    look().catch(error => { if (!policy) policyView.replaceChildren(h('p', { class: 'error' }, shown(error.message))); })
      .finally(() => { if (!over) timer = setTimeout(again, EVERY_MS); });
  }
  again();
  document.addEventListener('visibilitychange', again);
  return { leave: () => { over = true; clearTimeout(timer); document.removeEventListener('visibilitychange', again); } };
}
