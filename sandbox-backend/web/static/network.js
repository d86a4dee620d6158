// SPDX-License-Identifier: Apache-2.0
// What a sandbox may connect to, what was refused, with one click to allow it, and what was reached.

import { api, watch } from './api.js';
import { button, bytes, h, name, shown, toast, when } from './dom.js';

const MODES = {
  public: ['The public internet', 'Everything but this host and private networks, and what is denied below.'],
  allow: ['Only what is allowed', 'The names and addresses below, and nothing else.'],
  none: ['Nothing', 'No connection leaves the sandbox.'],
};

// The entry that allows what was refused, and the name of what was reached.
export function entryOf(contact) {
  const to = contact.name || contact.address;
  return contact.port ? `${to}:${contact.port}` : to;
}

function table(columns, rows) {
  return h('table', {}, h('thead', {}, h('tr', {}, columns.map(t => h('th', { scope: 'col' }, t)))), h('tbody', {}, rows));
}

// The cells that a refusal and a connection share.
function target(contact) {
  return h('td', {}, name(entryOf(contact)), ' ', h('span', { class: 'quiet' }, shown(contact.protocol)));
}

function often(contact) {
  return [h('td', { class: 'number' }, String(contact.count)), h('td', {}, when(contact.timestamp))];
}

// The daemon writes an address as a network.
function isAllowed(policy, entry) {
  return policy.allow.some(a => a === entry || a.replace('/32', '') === entry);
}

export function networkTab(where, sandbox) {
  const path = `/sandboxes/${sandbox.sandboxID}/network`;
  const policyView = h('div', { class: 'policy' });
  const refusedView = h('div', { class: 'refused' });
  const reachedView = h('div', { class: 'reached' });
  const sums = h('p', { class: 'quiet' });
  where.append(policyView, h('h3', {}, 'Refused'), refusedView, h('h3', {}, 'Reached'), reachedView, sums);
  let policy = null;
  let wish = null; // a list of allowed entries that is still empty is the same to the daemon as "none"
  let last = '';

  function mode() {
    return policy.mode === 'none' && wish === 'allow' ? 'allow' : policy.mode;
  }

  async function set(change) {
    const next = { mode: mode(), allow: policy.allow, deny: policy.deny, limits: policy.limits, ...change };
    if (next.mode === 'none') next.allow = next.deny = [];
    await api('PUT', path, next);
    await look(watched);
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
    refusedView.replaceChildren(refusals.length ? table(['To', 'Why', 'Times', 'Last', h('span', { class: 'unseen' }, 'Actions')], refusals.map(r => {
      const entry = entryOf(r);
      return h('tr', {}, target(r), h('td', {}, name(r.reason)), often(r),
        h('td', { class: 'row-actions' }, isAllowed(policy, entry) ? h('span', { class: 'quiet' }, 'allowed now')
          : button('Allow', () => allow(entry), { 'aria-label': `Allow ${shown(entry)}` })));
    })) : h('p', { class: 'quiet' }, 'Nothing was refused.'));
  }

  function drawReached(contacts) {
    reachedView.replaceChildren(contacts.length ? table(['To', 'Address', 'Times', 'Last'], contacts.map(c =>
      h('tr', {}, target(c), h('td', {}, name(c.address)), often(c)))) : h('p', { class: 'quiet' }, 'Nothing was reached.'));
  }

  async function look(watched) {
    const answer = await api('GET', path);
    if (watched.over) return;
    const now = JSON.stringify([answer.policy, answer.refusals, answer.allowed]);
    if (now !== last) {
      const samePolicy = policy && JSON.stringify(policy) === JSON.stringify(answer.policy);
      policy = answer.policy;
      if (!samePolicy) drawPolicy();
      drawRefused(answer.refusals);
      drawReached(answer.allowed ?? []);
      last = now;
    }
    const c = answer.counters;
    sums.textContent = c ? `${bytes(c.receivedBytes)} received, ${bytes(c.sentBytes)} sent, ${c.refused} refused, ${c.allowed ?? 0} allowed` : 'The sandbox is paused on the disk.';
  }

  const watched = watch(look, error => { if (!policy) policyView.replaceChildren(h('p', { class: 'error' }, shown(error.message))); });
  return watched;
}
