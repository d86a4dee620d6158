// SPDX-License-Identifier: Apache-2.0
// Messages between the server and a JavaScript context: four bytes of length, then JSON.
'use strict'
const fs = require('fs')
const net = require('net')

const HEAD_BYTES = 4
const READ_BYTES = 65536
const RETRY_MS = 1
const FRAME_BYTES_MAX = 24 * 1024 * 1024

class TooLong extends Error {}

class Channel {
  constructor (fd) {
    this.fd = fd
    this.unread = Buffer.alloc(0)
    this.cell = new Int32Array(new SharedArrayBuffer(4))
  }

  // Call `onMessage` for each message, one after the other, and `onEnd` when the server has closed.
  listen (onMessage, onEnd) {
    this.socket = new net.Socket({ fd: this.fd, readable: true, writable: false })
    this.socket.on('data', data => {
      this.unread = Buffer.concat([this.unread, data])
      for (let message; (message = this.next());) onMessage(message)
    })
    this.socket.on('close', onEnd)
    this.socket.on('error', onEnd)
  }

  next () {
    if (this.unread.length < HEAD_BYTES) return null
    const end = HEAD_BYTES + this.unread.readUInt32BE(0)
    if (this.unread.length < end) return null
    const body = this.unread.toString('utf8', HEAD_BYTES, end)
    this.unread = this.unread.subarray(end)
    return JSON.parse(body)
  }

  // libuv makes the descriptor non-blocking, and Node.js cannot wait for one descriptor.
  retry (call) {
    for (;;) {
      try {
        return call()
      } catch (e) {
        if (e.code !== 'EAGAIN') throw e
        Atomics.wait(this.cell, 0, 0, RETRY_MS)
      }
    }
  }

  // Send a message. Return when the server's buffer has it.
  send (message) {
    const body = Buffer.from(JSON.stringify(message))
    if (body.length > FRAME_BYTES_MAX) throw new TooLong(`a message of ${body.length} bytes is too long`)
    const head = Buffer.alloc(HEAD_BYTES)
    head.writeUInt32BE(body.length)
    let rest = Buffer.concat([head, body])
    while (rest.length) rest = rest.subarray(this.retry(() => fs.writeSync(this.fd, rest)))
  }

  // Wait for the next message. Return null when the server has closed.
  receive () {
    const part = Buffer.alloc(READ_BYTES)
    for (;;) {
      const message = this.next()
      if (message) return message
      const count = this.retry(() => fs.readSync(this.fd, part))
      if (count === 0) return null
      this.unread = Buffer.concat([this.unread, part.subarray(0, count)])
    }
  }
}

module.exports = { Channel, TooLong }
