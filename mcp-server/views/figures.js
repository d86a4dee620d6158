// SPDX-License-Identifier: Apache-2.0
// The view of code: its figures, and below them what it printed.

import { h } from '../../sandbox-backend/web/static/dom.js';
import { bytesOf, pictureOf } from '../../sandbox-backend/web/static/figure.js';
import { start, text, textsOf, view } from './host.js';
import { terminalText } from './terminal_text.js';

const FIGURES_MAX = 16;

function figure(block) {
  const picture = pictureOf(bytesOf(String(block.data ?? '')));
  if (!picture) return h('p', { class: 'quiet' }, 'A figure that is not shown: it is not PNG or JPEG, or too large.');
  return h('img', { class: 'figure', alt: `Figure, ${picture.width} by ${picture.height} pixels`, width: picture.width, height: picture.height,
    src: `data:${picture.type};base64,${block.data}` });
}

function draw(result) {
  const blocks = Array.isArray(result.content) ? result.content : [];
  const figures = blocks.filter(block => block?.type === 'image').slice(0, FIGURES_MAX).map(figure);
  const error = result.structuredContent?.error?.traceback;
  const parts = ['stdout', 'displayed', 'result'].map(member => text(result, member)).filter(Boolean).map(t => terminalText(t));
  const failed = [text(result, 'stderr'), typeof error === 'string' ? error : null].filter(Boolean).map(t => terminalText(t, { class: 'error' }));
  const rest = result.structuredContent ? [] : textsOf(result).map(t => terminalText(t, result.isError ? { class: 'error' } : {}));
  const all = [...figures, ...parts, ...failed, ...rest];
  view.replaceChildren(...all.length ? all : [h('p', { class: 'quiet' }, 'No output')]);
}

start('Figures', { input: () => view.replaceChildren(h('p', { class: 'quiet' }, 'Running …')), result: draw });
