// SPDX-License-Identifier: Apache-2.0
// The view of a command: the command, what it printed, and how it ended, as in a terminal.

import { h, shown } from '../../sandbox-backend/web/static/dom.js';
import { start, text, textsOf, view } from './host.js';
import { terminalText } from './terminal_text.js';

let prompt = null;

function showCommand({ command }) {
  prompt = terminalText(`$ ${command ?? ''}`, { class: 'prompt' });
  view.replaceChildren(prompt);
}

function end({ exit_code: code, status, timed_out: late, duration_ms: ms }) {
  const failed = code !== 0 || late === true;
  return h('p', { class: 'end', 'data-failed': failed && 'true' },
    [shown(status), late === true && 'timed out', Number.isFinite(ms) && `${ms} ms`].filter(Boolean).join(' · '));
}

function draw(result) {
  const out = text(result, 'stdout');
  const err = text(result, 'stderr');
  const parts = result.structuredContent
    ? [out && terminalText(out), err && terminalText(err, { class: 'error' }), end(result.structuredContent)]
    : textsOf(result).map(t => terminalText(t, result.isError ? { class: 'error' } : {}));
  view.replaceChildren(...[prompt, ...parts].filter(Boolean));
}

start('Output', { input: showCommand, result: draw });
