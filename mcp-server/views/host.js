// SPDX-License-Identifier: Apache-2.0
// A view's side of MCP Apps (revision 2026-01-26): JSON-RPC with the host, which is the parent
// window. A view only listens: it calls no tool, opens no link and sends no message.

const PROTOCOL = '2026-01-26';
const INITIALIZE = 1; // the only request of a view
const root = document.documentElement;

export const view = document.getElementById('view');

function post(message) {
  parent.postMessage({ jsonrpc: '2.0', ...message }, '*');
}

function applyContext({ theme, styles } = {}) {
  if (theme === 'light' || theme === 'dark') root.dataset.theme = theme;
  for (const [name, value] of Object.entries(styles?.variables ?? {}))
    if (/^--[a-z0-9-]+$/.test(name) && typeof value === 'string') root.style.setProperty(name, value);
}

function followSize() {
  let last = '';
  new ResizeObserver(() => {
    const params = { width: Math.ceil(root.scrollWidth), height: Math.ceil(view.getBoundingClientRect().height) };
    const now = JSON.stringify(params);
    if (now !== last) post({ method: 'ui/notifications/size-changed', params });
    last = now;
  }).observe(view);
}

function answer({ id, method }) {
  const known = ['ping', 'ui/resource-teardown'].includes(method);
  post(known ? { id, result: {} } : { id, error: { code: -32601, message: `this view has no method ${method}` } });
}

// Runs a view. Its functions get the arguments and the result of a tool, as they come.
export function start(name, { input, result }) {
  const heard = {
    'ui/notifications/tool-input': params => input(params.arguments ?? {}),
    'ui/notifications/tool-result': params => result(params),
    'ui/notifications/tool-cancelled': () => result({ content: [{ type: 'text', text: 'The call was cancelled.' }], isError: true }),
    'ui/notifications/host-context-changed': applyContext,
  };
  addEventListener('message', ({ source, data }) => {
    if (source !== parent || data?.jsonrpc !== '2.0') return;
    if (data.method === undefined && data.id === INITIALIZE && data.result) {
      applyContext(data.result.hostContext);
      post({ method: 'ui/notifications/initialized' });
      followSize();
    } else if (data.method !== undefined && data.id !== undefined) {
      answer(data);
    } else {
      heard[data.method]?.(data.params ?? {});
    }
  });
  post({ id: INITIALIZE, method: 'ui/initialize',
    params: { protocolVersion: PROTOCOL, appInfo: { name, version: '1' }, appCapabilities: { availableDisplayModes: ['inline'] } } });
}

// The texts of a result that has no structured content, such as an error.
export function textsOf(result) {
  return (Array.isArray(result.content) ? result.content : []).filter(block => block?.type === 'text').map(block => String(block.text ?? ''));
}

// A member of the structured content, if it is a text that says something.
export function text(result, member) {
  const value = result.structuredContent?.[member];
  return typeof value === 'string' && value !== '' ? value : null;
}
