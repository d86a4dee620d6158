// SPDX-License-Identifier: Apache-2.0
// Prints the public methods of E2B's JavaScript SDKs, one on a line, such as "Sandbox.create" for a
// static method and "sandbox.commands.run" for one of an object.
import { createRequire } from 'node:module'

const here = createRequire(process.env.CLIENTS + '/')
const e2b = here('e2b')
const interpreter = here('@e2b/code-interpreter')

function names(object, base) {
  const found = new Set()
  for (let at = object; at && at !== base; at = Object.getPrototypeOf(at))
    for (const name of Object.getOwnPropertyNames(at)) {
      const { value } = Object.getOwnPropertyDescriptor(at, name)
      if (typeof value === 'function' && name !== 'constructor' && !name.startsWith('_')) found.add(name)
    }
  return [...found]
}

const sandbox = new interpreter.Sandbox({
  sandboxId: 'x', envdVersion: '0.6.13', apiKey: 'e2b_' + '0'.repeat(40), sandboxDomain: 'e2b.app' })
const OBJECTS = {
  'sandbox': Object.getPrototypeOf(sandbox),
  'sandbox.commands': Object.getPrototypeOf(sandbox.commands),
  'sandbox.pty': Object.getPrototypeOf(sandbox.pty),
  'sandbox.files': Object.getPrototypeOf(sandbox.files),
  'sandbox.git': Object.getPrototypeOf(sandbox.git),
  'volume': e2b.Volume.prototype,
  'template': Object.getPrototypeOf(e2b.Template()),
}
const CLASSES = { Sandbox: interpreter.Sandbox, Volume: e2b.Volume, Secret: e2b.Secret, Template: e2b.Template }
for (const [prefix, object] of Object.entries(OBJECTS))
  for (const name of names(object, Object.prototype)) console.log(`${prefix}.${name}`)
for (const [prefix, object] of Object.entries(CLASSES))
  for (const name of names(object, Function.prototype)) console.log(`${prefix}.${name}`)
