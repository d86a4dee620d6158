// SPDX-License-Identifier: Apache-2.0
// A host that shows a view in a sandboxed frame, with the AppBridge of the official package.

import { AppBridge, PostMessageTransport } from '@modelcontextprotocol/ext-apps/app-bridge';

window.sizes = [];

// Shows a page, and gives it the arguments and the result of a tool.
window.showView = async (html, context) => {
  document.querySelector('iframe')?.remove();
  window.sizes.length = 0;
  const frame = document.createElement('iframe');
  frame.sandbox = 'allow-scripts';
  document.body.append(frame);
  const bridge = new AppBridge(null, { name: 'cubby-tests', version: '1' }, {}, { hostContext: context });
  bridge.onsizechange = ({ width, height }) => {
    window.sizes.push({ width, height });
    frame.style.height = `${height}px`;
  };
  const ready = new Promise(done => { bridge.oninitialized = done; });
  await bridge.connect(new PostMessageTransport(frame.contentWindow, frame.contentWindow));
  frame.srcdoc = html;
  await ready;
  window.bridge = bridge;
  return bridge.getAppVersion?.()?.name ?? '';
};

window.giveInput = input => window.bridge.sendToolInput({ arguments: input });
window.giveResult = result => window.bridge.sendToolResult(result);
window.changeTheme = theme => window.bridge.setHostContext({ theme });
window.tearDown = () => window.bridge.teardownResource({});
