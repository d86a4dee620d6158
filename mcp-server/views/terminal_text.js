// SPDX-License-Identifier: Apache-2.0
// Output of a command as elements: the colours and weights that it asks for, and text. Other escape
// sequences are left out, and characters that are not visible are shown by their numbers.

import { h, shown } from '../../sandbox-backend/web/static/dom.js';

const TEXT_MAX = 200000; // characters that are shown of one text
const RUNS_MAX = 4000; // pieces of different looks; what follows is plain
const ESCAPE = /\x1b(?:\[([0-?]*)[ -/]*[@-~]|[\]PX^_][^\x07\x1b]*(?:\x07|\x1b\\)?|[ -/]*[0-~])?/g;
const FLAGS = { 1: 'bold', 2: 'dim', 3: 'italic', 4: 'underline' };
const ENDS = { 22: ['bold', 'dim'], 23: ['italic'], 24: ['underline'] };

// Takes the numbers of one "select graphic rendition". Backgrounds, and colours beyond 16, are left out.
function restyle(look, parameters) {
  const codes = parameters.split(';').map(Number);
  for (let i = 0; i < codes.length; i++) {
    const code = codes[i];
    if (code === 38 || code === 48) i += codes[i + 1] === 2 ? 4 : 2;
    else if (!code) look = { colour: '' };
    else if (FLAGS[code]) look = { ...look, [FLAGS[code]]: true };
    else if (ENDS[code]) look = { ...look, ...Object.fromEntries(ENDS[code].map(flag => [flag, false])) };
    else if (code >= 30 && code <= 37 || code >= 90 && code <= 97) look = { ...look, colour: `c${code % 10}` };
    else if (code === 39) look = { ...look, colour: '' };
  }
  return look;
}

function run(text, look) {
  const plain = text.split('\n').map(line => line.split('\t').map(shown).join('\t')).join('\n');
  const classes = [look.colour, ...Object.values(FLAGS).filter(flag => look[flag])].filter(Boolean).join(' ');
  return classes ? h('span', { class: classes }, plain) : plain;
}

// A progress bar writes its line again and again: the last one stays.
function lastOfLines(text) {
  return text.replace(/\r+\n/g, '\n').split('\n').map(line => line.split('\r').filter(Boolean).at(-1) ?? '').join('\n');
}

export function terminalText(whole, attributes = {}) {
  const text = lastOfLines(String(whole).slice(0, TEXT_MAX));
  const parts = [];
  let look = { colour: '' };
  let at = 0;
  for (const found of text.matchAll(ESCAPE)) {
    if (found.index > at) parts.push(run(text.slice(at, found.index), look));
    at = found.index + found[0].length;
    if (found[0].endsWith('m') && found[1] !== undefined) look = parts.length < RUNS_MAX ? restyle(look, found[1]) : { colour: '' };
  }
  parts.push(run(text.slice(at), look));
  if (whole.length > TEXT_MAX) parts.push('\n…');
  return h('pre', attributes, parts);
}
