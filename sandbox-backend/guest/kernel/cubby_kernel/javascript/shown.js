// SPDX-License-Identifier: Apache-2.0
// The representations of a value: a MIME bundle, as Jupyter's kernels make it.
'use strict'
const util = require('util')

const BUNDLE = Symbol.for('Jupyter.display')
const RESULT_BYTES_MAX = 16 * 1024 * 1024
const MEMBERS = {
  'text/plain': 'text',
  'text/html': 'html',
  'text/markdown': 'markdown',
  'image/svg+xml': 'svg',
  'image/png': 'png',
  'image/jpeg': 'jpeg',
  'application/pdf': 'pdf',
  'text/latex': 'latex',
  'application/json': 'json',
  'application/javascript': 'javascript'
}

// Methods by which objects of other kernels give their representations.
const METHODS = { _toHtml: 'text/html', _toSvg: 'image/svg+xml', _toPng: 'image/png', _toJpeg: 'image/jpeg' }

function textOf (value, quotes) {
  return typeof value === 'string' && !quotes ? value : util.inspect(value)
}

function representations (value) {
  if (value === null || typeof value !== 'object') return {}
  if (typeof value[BUNDLE] === 'function') return value[BUNDLE]()
  if (typeof value._toMime === 'function') return value._toMime()
  const found = {}
  for (const [method, mime] of Object.entries(METHODS)) {
    if (typeof value[method] === 'function') found[mime] = value[method]()
  }
  return found
}

// Bytes become base64, as in all messages of Jupyter.
function plain (value) {
  return value instanceof Uint8Array ? Buffer.from(value).toString('base64') : value
}

// Return [result, notes]: the members of a result line, and sentences about what is left out.
function fromBundle (bundle, isMain) {
  const result = {}
  const extra = {}
  const notes = []
  let total = 0
  for (const [mime, value] of Object.entries(bundle)) {
    const form = plain(value)
    const json = JSON.stringify(form)
    const size = json === undefined ? 0 : Buffer.byteLength(json)
    if (total + size > RESULT_BYTES_MAX) {
      notes.push(`the ${mime} of a result is left out: its ${size} bytes are too many; print or save a part of it`)
      continue
    }
    total += size
    if (MEMBERS[mime]) result[MEMBERS[mime]] = form
    else if (json !== undefined) extra[mime] = form
  }
  if (Object.keys(extra).length) result.extra = extra
  result.is_main_result = isMain
  return [result, notes]
}

// Return the bundle of a value.
async function bundleOf (value, quotes) {
  const found = await representations(value)
  return { 'text/plain': textOf(value, quotes), ...found }
}

module.exports = { bundleOf, fromBundle, textOf, representations }
