// SPDX-License-Identifier: Apache-2.0
// Snapshots, sandboxes and forks as a tree: what was made from what.

import { api, apiList } from './api.js';
import { ask, button, field, h, name, shown, sure, toast, when } from './dom.js';
import { known, stateOf, title } from './list.js';

// The daemon names the snapshot that a sandbox was made from, or the sandbox that was forked.
function parentOf(sandbox, ids) {
  return ids.has(sandbox.templateID) ? sandbox.templateID : sandbox.parentSandboxID;
}

async function loadTree() {
  const [snapshots, sandboxes] = await Promise.all([apiList('/snapshots?limit=100'), apiList('/v2/sandboxes?state=running,paused&limit=100')]);
  const nodes = new Map();
  for (const s of snapshots) nodes.set(s.snapshotID, { kind: 'snapshot', id: s.snapshotID, parent: s.sandboxID, data: s, children: [] });
  const ids = new Set(nodes.keys());
  for (const s of sandboxes) nodes.set(s.sandboxID, { kind: 'sandbox', id: s.sandboxID, parent: parentOf(s, ids), data: s, children: [] });
  const roots = [];
  const newest = (a, b) => String(a.data.createdAt ?? a.data.startedAt).localeCompare(String(b.data.createdAt ?? b.data.startedAt));
  for (const node of [...nodes.values()].sort(newest)) {
    // The sandbox of a snapshot may have ended, and one that was rolled back is older than its parent.
    const parent = nodes.get(node.parent);
    if (parent && !isBelow(nodes, node, parent)) parent.children.push(node);
    else roots.push(node);
  }
  return roots;
}

function isBelow(nodes, node, other) {
  for (let at = other, steps = 0; at && steps < 1000; at = nodes.get(at.parent), steps++) if (at === node) return true;
  return false;
}

export function snapshotsTab(where, sandbox, page) {
  const id = sandbox.sandboxID;
  const tree = h('div', { class: 'tree' });
  where.append(h('div', { class: 'strip' },
    button('Snapshot this sandbox', () => snapshot(), { class: 'main' }), button('Fork this sandbox', () => fork()), button('Reload', () => look())), tree);

  async function snapshot() {
    const hint = 'For you; may be empty. Letters, digits, - and _.';
    const values = await ask('Snapshot', [field('Name', h('input', { name: 'name', pattern: '[a-zA-Z0-9_\\-]*', maxlength: 60, autocomplete: 'off' }), hint)],
      { confirm: 'Snapshot', text: 'Keeps its memory, programs and files as they are now.' });
    if (!values) return;
    await api('POST', `/sandboxes/${id}/snapshots`, values.name ? { name: values.name } : {});
    toast('Snapshot made');
    await look();
  }

  async function fork() {
    const values = await ask('Fork', [field('Copies', h('input', { name: 'count', type: 'number', min: 1, max: 20, value: 1, required: true }))],
      { confirm: 'Fork', text: 'Each copy goes on from this moment, with the same memory, programs and files.' });
    if (!values) return;
    const results = await api('POST', `/sandboxes/${id}/fork`, { count: Number(values.count) });
    const failed = results.filter(r => r?.error);
    if (failed.length) toast(`${failed.length} of ${results.length} forks failed: ${failed[0].error.message}`, true);
    else toast(results.length === 1 ? 'Forked' : `${results.length} forks made`);
    await look();
  }

  async function rollBack(node, target) {
    const text = 'Its memory, programs and files become those of the snapshot. What it did since then is lost.';
    if (!await sure(`Roll ${shown(title(target))} back?`, text, 'Roll back')) return;
    await api('POST', `/sandboxes/${target.sandboxID}/rollback`, { snapshotID: node.id });
    toast('Rolled back');
    await look();
  }

  async function makeFrom(node) {
    const made = await api('POST', '/v2/sandboxes', { templateID: node.id, timeout: 3600 });
    toast(`Sandbox ${made.sandboxID.slice(0, 8)} runs`);
    await look();
  }

  async function remove(node) {
    if (!await sure('Delete this snapshot?', 'Sandboxes that were made from it stay.', 'Delete')) return;
    await api('DELETE', `/templates/${encodeURIComponent(node.id)}`);
    toast('Snapshot deleted');
    await look();
  }

  function label(node) {
    if (node.kind === 'snapshot') {
      const text = node.data.names?.[0]?.replace(/:default$/, '') || 'snapshot';
      return [h('span', { class: 'kind' }, 'snapshot'), name(text),
        h('span', { class: 'quiet' }, [shown(node.data.tier), when(node.data.createdAt)].filter(Boolean).join(', ')),
        h('span', { class: 'row-actions' },
          known.has(id) && button('Roll back', () => rollBack(node, sandbox), { 'aria-label': `Roll back to ${shown(text)}` }),
          button('New sandbox', () => makeFrom(node), { 'aria-label': `New sandbox from ${shown(text)}` }),
          button('Delete', () => remove(node), { 'aria-label': `Delete ${shown(text)}` }))];
    }
    const s = known.get(node.id) ?? node.data;
    return [h('span', { class: 'kind' }, 'sandbox'),
      node.id === id ? h('strong', {}, name(title(s))) : button(name(title(s)), () => page.go(node.id, 'snapshots'), { class: 'link' }),
      h('code', { class: 'quiet' }, node.id.slice(0, 8)), h('span', { class: 'quiet' }, node.id === id ? `${stateOf(s)}, this one` : stateOf(s))];
  }

  function branch(nodes) {
    return h('ul', {}, nodes.map(node => h('li', { class: node.kind, 'data-node': node.id }, h('div', { class: 'node' }, label(node)),
      node.children.length ? branch(node.children) : null)));
  }

  async function look() {
    const roots = await loadTree();
    tree.replaceChildren(branch(roots));
  }
  look().catch(error => tree.replaceChildren(h('p', { class: 'error' }, shown(error.message))));
  return {};
}

