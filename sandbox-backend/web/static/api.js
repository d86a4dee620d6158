// SPDX-License-Identifier: Apache-2.0
// Requests to the server of this page: signing in, the daemon's API, envd, and its streams.

const STORE = 'cubby-key';
const LOOK_EVERY_MS = 2000;
let key = null;
export let session = null; // {"nonce", "version", "terminal", "backend"}

// An answer that is an error. `status` is 0 if no answer came.
export class Failure extends Error {
  constructor(status, message) {
    super(message);
    this.status = status;
  }
}

async function send(method, path, { body = null, headers = {}, signal } = {}) {
  let answer;
  try {
    answer = await fetch(path, { method, body, signal, headers: { ...headers, ...(key && { 'Cubby-Web-Key': key }) } });
  } catch (error) {
    if (error.name === 'AbortError') throw error;
    throw new Failure(0, 'cubby web does not answer. Start it again in a terminal, and open the link that it prints.');
  }
  if (answer.ok) return answer;
  const text = await answer.text();
  let message = text;
  try {
    message = JSON.parse(text).message ?? text;
  } catch { /* not JSON: as it is */ }
  if (answer.status === 401 && path !== '/session') dispatchEvent(new Event('signed-out'));
  throw new Failure(answer.status, message || `the server answered ${answer.status}`);
}

function json(method, path, body, more = {}) {
  const headers = body === undefined ? {} : { 'Content-Type': 'application/json' };
  return send(method, path, { body: body === undefined ? null : JSON.stringify(body), headers: { ...headers, ...more } });
}

// ---- signing in: by the token of the link, or by the key that this browser has kept

function keep(answer) {
  key = answer.key;
  session = answer;
  try {
    localStorage.setItem(STORE, key);
  } catch { /* a browser that stores nothing needs a new link after each reload */ }
}

// on_key is called as soon as there is a key, which may turn out to be an old one.
export async function signIn(onKey) {
  const token = location.hash.slice(1);
  if (/^[0-9a-f]{64}$/.test(token)) {
    history.replaceState(null, '', '/');
    try {
      keep(await (await json('POST', '/session', { token })).json());
      return;
    } catch (error) {
      if (error.status !== 401 || !kept()) throw error; // the same link again in the same browser
    }
  }
  key = kept();
  if (!key) throw new Failure(401, 'this browser is not signed in');
  onKey();
  keep(await (await send('GET', '/session')).json());
}

function kept() {
  try {
    return localStorage.getItem(STORE);
  } catch {
    return null;
  }
}

export async function checkSession() {
  try {
    await send('GET', '/session');
  } catch (error) {
    if (error.status === 401) dispatchEvent(new Event('signed-out'));
    throw error;
  }
}

export function signOut() {
  session = null;
}

// ---- the daemon's API

export async function api(method, path, body) {
  const answer = await json(method, `/api${path}`, body);
  const text = await answer.text();
  return text ? JSON.parse(text) : null;
}

export async function apiText(path) {
  return (await send('GET', `/api${path}`)).text();
}

// All pages of a list.
export async function apiList(path) {
  const all = [];
  for (let next = null; ;) {
    const mark = path.includes('?') ? '&' : '?';
    const answer = await send('GET', `/api${path}${next ? `${mark}nextToken=${encodeURIComponent(next)}` : ''}`);
    all.push(...await answer.json());
    next = answer.headers.get('X-Next-Token');
    if (!next) return all;
  }
}

// Looks at something every two seconds while the page is visible, until leave(). `look` gets the watch
// itself, whose `over` says that nobody waits for the answer any more.
export function watch(look, onError) {
  const made = { over: false, again, leave };
  let timer = null;
  let looking = false; // one look at a time: two could take the same lines
  let wanted = false; // another one, as soon as this has ended

  async function again() {
    clearTimeout(timer);
    if (made.over || document.hidden) return;
    wanted = looking;
    if (looking) return;
    looking = true;
    await look(made).catch(onError);
    looking = false;
    if (made.over) return;
    if (wanted) again();
    else timer = setTimeout(again, LOOK_EVERY_MS);
  }

  function leave() {
    made.over = true;
    clearTimeout(timer);
    document.removeEventListener('visibilitychange', again);
  }

  document.addEventListener('visibilitychange', again);
  again();
  return made;
}

// ---- envd

const tokens = new Map();

export async function tokenOf(id) {
  if (!tokens.has(id)) tokens.set(id, (await api('GET', `/sandboxes/${id}`)).envdAccessToken ?? '');
  return tokens.get(id);
}

async function access(id) {
  const token = await tokenOf(id);
  return token ? { 'X-Access-Token': token } : {};
}

export async function rpc(id, method, message) {
  const answer = await json('POST', `/box/${id}/${method}`, message, { ...await access(id), 'Connect-Protocol-Version': '1' });
  return answer.json();
}

export function fileTarget(id, path) {
  return `/box/${id}/files?path=${encodeURIComponent(path)}`;
}

export async function readFile(id, path) {
  return send('GET', fileTarget(id, path), { headers: await access(id) });
}

// Uploads a Blob with progress, which fetch does not tell. on_progress gets a part of 1.
export async function writeFile(id, path, blob, onProgress = () => {}, signal = null) {
  const headers = { ...await access(id), 'Content-Type': 'application/octet-stream', 'Cubby-Web-Key': key };
  return new Promise((resolve, reject) => {
    const request = new XMLHttpRequest();
    request.open('POST', fileTarget(id, path));
    for (const [name, value] of Object.entries(headers)) request.setRequestHeader(name, value);
    request.upload.onprogress = e => e.lengthComputable && onProgress(e.loaded / e.total);
    request.onerror = () => reject(new Failure(0, `the upload of ${path} broke off`));
    request.onabort = () => reject(new DOMException('canceled', 'AbortError'));
    request.onload = () => {
      if (request.status < 300) return resolve();
      let message = request.responseText;
      try {
        message = JSON.parse(message).message ?? message;
      } catch { /* as it is */ }
      reject(new Failure(request.status, message || `the server answered ${request.status}`));
    };
    signal?.addEventListener('abort', () => request.abort());
    request.send(blob);
  });
}

// Lets the browser download a file, of any size.
export async function download(id, path) {
  const want = { target: fileTarget(id, path), token: await tokenOf(id), name: path.split('/').pop() };
  const { url } = await (await json('POST', '/download', want)).json();
  const link = Object.assign(document.createElement('a'), { href: url, download: '' });
  document.body.append(link);
  link.click();
  link.remove();
}

// ---- WebSockets

export function socket(path) {
  const scheme = location.protocol === 'https:' ? 'wss' : 'ws';
  const made = new WebSocket(`${scheme}://${location.host}${path}`, ['cubby', `key.${key}`]);
  made.binaryType = 'arraybuffer';
  return made;
}

// A stream of envd. on_event gets each message and a function to call when it was used; that lets
// the next ones come. on_end gets null, or why the stream ended.
export async function openStream(id, method, message, { onEvent, onEnd }) {
  const token = await tokenOf(id);
  const ws = socket('/stream');
  let pending = new Uint8Array(0);
  let last = null;
  const finish = reason => {
    if (!onEnd) return;
    const end = onEnd;
    onEnd = null;
    end(reason);
  };
  ws.onopen = () => ws.send(JSON.stringify({ target: `/box/${id}/${method}`, message, ...(token && { token }) }));
  ws.onmessage = ({ data }) => {
    if (typeof data === 'string') {
      last = JSON.parse(data);
      return;
    }
    const joined = new Uint8Array(pending.length + data.byteLength);
    joined.set(pending);
    joined.set(new Uint8Array(data), pending.length);
    pending = envelopes(joined, (flags, body, size) => {
      const used = () => ws.readyState === WebSocket.OPEN && ws.send(`{"taken":${size}}`);
      if (flags & 2) {
        used();
        last = { status: 200, message: body.error?.message ?? '', error: body.error };
      } else {
        onEvent(body, used);
      }
    });
  };
  ws.onclose = () => {
    if (!last) return finish(new Failure(0, 'the connection to cubby web broke'));
    if (last.status !== 200) return finish(new Failure(last.status, messageOf(last.message)));
    finish(last.error || last.message ? new Failure(502, last.message) : null);
  };
  return { close: () => { onEnd = null; ws.close(); } };
}

function messageOf(text) {
  try {
    return JSON.parse(text).message ?? text;
  } catch {
    return text;
  }
}

// Calls `take` for each complete Connect envelope, and returns the rest.
function envelopes(data, take) {
  let at = 0;
  while (data.length - at >= 5) {
    const size = new DataView(data.buffer, data.byteOffset + at + 1, 4).getUint32(0);
    if (data.length - at - 5 < size) break;
    const text = new TextDecoder().decode(data.subarray(at + 5, at + 5 + size));
    take(data[at], text ? JSON.parse(text) : {}, size + 5);
    at += 5 + size;
  }
  return data.slice(at);
}
