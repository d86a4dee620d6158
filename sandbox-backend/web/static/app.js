// SPDX-License-Identifier: Apache-2.0
// The page: signs in, listens for the live figures, and shows the list and the chosen sandbox.

import { api, apiList, checkSession, Failure, session, signIn, signOut, socket } from './api.js';
import { Detail } from './detail.js';
import { ask, button, during, field, h, select, shown, toast } from './dom.js';
import { draw, hostLine, known, take } from './list.js';

const listView = document.getElementById('list');
const detailView = document.getElementById('detail');
const banner = document.getElementById('banner');
let detail = null;
let live = null;
let heard = false; // the first figures have come

// ---- where the page is: "#/ID/TAB"

function place() {
  const [, id = null, tab = 'overview'] = location.hash.split('/');
  return { id, tab };
}

function go(id, tab = place().tab) {
  const hash = id ? `#/${id}/${tab}` : '#/';
  if (location.hash !== hash) location.hash = hash;
  else show();
}

function show() {
  const { id, tab } = place();
  const s = known.get(id);
  drawList();
  if (s && detail?.id !== id) {
    detail?.leave();
    detail = new Detail(detailView, s, { go, fork: made => go(made) });
  }
  if (s) {
    detail.choose(tab);
    return;
  }
  detail?.leave();
  detail = null;
  if (!heard) return;
  if (id) {
    const why = h('p', { class: 'quiet' }, h('code', {}, shown(id)));
    detailView.replaceChildren(h('div', { class: 'empty' }, h('p', {}, 'This sandbox has ended.'), why));
    if (/^[a-z0-9-]{1,64}$/.test(id)) api('GET', `/sandboxes/${id}`).catch(error => { why.textContent = shown(error.message); });
  } else {
    detailView.replaceChildren(h('div', { class: 'empty' },
      h('p', {}, known.size ? 'Choose a sandbox.' : 'Sandboxes appear here as soon as they exist.')));
  }
}

function drawList() {
  if (heard) draw(listView, place().id, id => go(id), newSandbox);
}

// ---- live figures

function figures() {
  return api('GET', '/sandboxes/stats');
}

// A page asks for its first figures by itself: a browser takes longer to open a WebSocket.
function firstFigures() {
  return document.hidden ? null : figures().catch(({ message }) => ({ message }));
}

function say(text) {
  banner.hidden = !text;
  banner.textContent = text ?? '';
}

function listen() {
  if (live || document.hidden) return;
  let opened = false;
  live = socket('/live');
  live.onopen = () => { opened = true; };
  live.onmessage = ({ data }) => { if (session) onFigures(JSON.parse(data)); };
  live.onclose = () => {
    live = null;
    if (document.hidden || !session) return;
    say('cubby web does not answer. Start it again in a terminal, and open the link that it prints.');
    setTimeout(retry, opened ? 500 : 2000);
  };
}

// A WebSocket does not tell why it was refused: perhaps another cubby web is at this port now.
async function retry() {
  try {
    await checkSession();
  } catch { /* no answer: the banner says so */ }
  if (session) listen();
}

function onFigures(answer) {
  if (!answer.sandboxes) {
    say(answer.message);
    return;
  }
  say(null);
  const changed = take(answer);
  const first = !heard;
  heard = true;
  document.getElementById('host').textContent = hostLine(answer.host, session.backend);
  if (first || changed) show();
  else drawList();
  const s = known.get(place().id);
  if (s && detail) detail.update(s);
}

// A page that nobody sees asks for nothing.
document.addEventListener('visibilitychange', () => {
  if (!document.hidden) listen();
  else if (live) live.close();
});

// ---- a new sandbox

const LIVES = [['900', '15 minutes'], ['3600', '1 hour', true], ['14400', '4 hours'], ['86400', '1 day']];
const NETWORKS = [['public', 'the public internet'], ['none', 'no network']];

async function newSandbox() {
  const templates = (await apiList('/v2/templates')).map(t => t.names?.[0] ?? t.templateID);
  if (!templates.length) throw new Failure(404, 'There is no template yet. Make one in a terminal: cubby setup');
  const values = await ask('New sandbox', [
    field('Name', h('input', { name: 'name', maxlength: 80, autocomplete: 'off' }), 'For you; may be empty.'),
    field('Template', select({ name: 'template' }, templates.map(t => [t, shown(t)]))),
    field('Ends after', select({ name: 'timeout' }, LIVES)),
    field('May connect to', select({ name: 'network' }, NETWORKS)),
  ], { confirm: 'Create' });
  if (!values) return;
  const made = await api('POST', '/v2/sandboxes', {
    templateID: values.template, timeout: Number(values.timeout), network: { mode: values.network },
    metadata: values.name ? { name: values.name } : {},
  });
  toast(`Sandbox ${made.sandboxID.slice(0, 8)} runs`);
  await soon(made.sandboxID);
  go(made.sandboxID, 'terminal');
}

// The figures of a new sandbox, before the next turn of the live ones.
async function soon() {
  onFigures(await figures());
}

// ---- colours

const THEMES = ['system', 'light', 'dark'];
const SIGNS = { system: '◐', light: '○', dark: '●' };

function setTheme(theme) {
  const control = document.getElementById('theme');
  if (theme === 'system') delete document.documentElement.dataset.theme;
  else document.documentElement.dataset.theme = theme;
  control.textContent = SIGNS[theme];
  control.setAttribute('aria-label', { system: "Colours: as the system's", light: 'Colours: light', dark: 'Colours: dark' }[theme]);
  control.title = control.getAttribute('aria-label');
  dispatchEvent(new Event('theme'));
}

function storedTheme() {
  try {
    return THEMES.includes(localStorage.getItem('theme')) ? localStorage.getItem('theme') : 'system';
  } catch {
    return 'system';
  }
}

document.getElementById('theme').addEventListener('click', () => {
  const next = THEMES[(THEMES.indexOf(storedTheme()) + 1) % THEMES.length];
  try {
    localStorage.setItem('theme', next);
  } catch { /* for this page only */ }
  setTheme(next);
});

// ---- the beginning

function signedOut(error) {
  signOut();
  detail?.leave();
  detail = null;
  heard = false;
  if (live) live.close();
  say(null);
  listView.replaceChildren();
  document.getElementById('new').disabled = true;
  const known = error.status === 401;
  detailView.replaceChildren(h('div', { class: 'empty' },
    h('p', {}, known ? 'This browser is not signed in.' : shown(error.message)),
    known && h('p', { class: 'quiet' }, 'Open the link that ', h('code', {}, 'cubby web'), ' printed. A link works once: press Enter where ',
      h('code', {}, 'cubby web'), ' runs for another one.'),
    button('Try again', () => begin())));
}

async function begin() {
  let first = null;
  try {
    await signIn(() => { first = firstFigures(); });
    first ??= firstFigures();
  } catch (error) {
    signedOut(error);
    return;
  }
  const make = document.getElementById('new');
  make.disabled = false;
  if (!make.onclick) make.onclick = () => during(make, newSandbox);
  detailView.replaceChildren();
  Promise.resolve(first).then(answer => { if (answer && session && !heard) onFigures(answer); }).finally(listen);
  setTimeout(listen, 1000); // a daemon may take long
}

setTheme(storedTheme());
addEventListener('hashchange', () => {
  if (/^#[0-9a-f]{64}$/.test(location.hash)) begin(); // another link, opened in this tab
  else show();
});
addEventListener('signed-out', () => signedOut(new Failure(401, '')));
begin();
