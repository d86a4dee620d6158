// SPDX-License-Identifier: Apache-2.0
// stdout and stderr of a context. A write returns when the pipe has all of it, so that no message of
// the context overtakes it. The streams of Node.js would also make the pipes non-blocking, for the
// programs that the code starts too.
'use strict'
const fs = require('fs')
const stream = require('stream')

function output (fd) {
  const write = (chunk, encoding, done) => {
    for (let rest = chunk; rest.length;) rest = rest.subarray(fs.writeSync(fd, rest))
    done()
  }
  return Object.assign(new stream.Writable({ write, decodeStrings: true }), { fd, _type: 'pipe', isTTY: false })
}

module.exports = { output }
