// SPDX-License-Identifier: Apache-2.0
// The process of a JavaScript or TypeScript context: does one run after another.
//
// The messages are those of a Python context (worker.py). Timers and servers of earlier runs go on
// between runs; what they print belongs to the next run. SIGINT ends code that does not return, and
// a run that waits. Code that does not return after an await cannot be interrupted; the server then
// kills the process.
'use strict'
const Module = require('module')
const path = require('path')
const url = require('url')
const util = require('util')
const vm = require('vm')
const { prepare } = require('./cells')
const { Channel } = require('./channel')
const { output } = require('./output')
const { bundleOf, fromBundle, representations, textOf } = require('./shown')
const { toJavaScript } = require('./typescript')

const ERROR_CHARACTERS_MAX = 1024 * 1024
const GLOBAL_MODULES = ['/usr/local/lib/node_modules', '/usr/lib/node_modules', '/usr/share/nodejs']
const INTERRUPTED = 'ERR_SCRIPT_EXECUTION_INTERRUPTED'
const RELATIVE = /^(\.{0,2}\/|[a-z]+:)/

const channel = new Channel(Number(process.argv[2]))
const isTypeScript = process.argv[3] === 'typescript'
let count = 1
let running = null // the present run: its request, and `interrupt`, which ends its wait

class Interrupted extends Error {}

// ---- modules, found from the working directory as in a script there
let loader = { cwd: null }

function atCwd () {
  const cwd = process.cwd()
  if (loader.cwd !== cwd) {
    const file = path.join(cwd, 'cell.js')
    const parent = new Module(file)
    parent.filename = file
    parent.paths = [...Module._nodeModulePaths(cwd), ...GLOBAL_MODULES]
    parent._compile('module.exports = specifier => import(specifier)', file)
    loader = { cwd, parent, load: parent.exports, require: Module.createRequire(file) }
  }
  return loader
}

function requireFrom (specifier) {
  return atCwd().parent.require(specifier)
}

// import() does not look into the directories of globally installed packages; require does.
async function load (specifier) {
  const { load, parent } = atCwd()
  try {
    return await load(specifier)
  } catch (e) {
    if (e.code !== 'ERR_MODULE_NOT_FOUND' || RELATIVE.test(specifier)) throw e
    let found
    try {
      found = Module._resolveFilename(specifier, parent)
    } catch {
      throw e
    }
    return load(url.pathToFileURL(found).href)
  }
}

// ---- what the code can call
function show (bundle, isMain) {
  const [result, notes] = fromBundle(bundle, isMain)
  for (const note of notes) channel.send({ note })
  const waits = running !== null && !isMain
  channel.send({ result, waits })
  if (waits) channel.receive() // else later output could overtake the result
}

// display(value), or display(bundle, {raw: true}) with a MIME bundle.
function display (value, options) {
  const bundle = options && options.raw ? value : { 'text/plain': textOf(value, false), ...representations(value) }
  show(bundle, false)
}

const SHORT = {
  mime: bundle => show(bundle, false),
  html: text => show({ 'text/html': String(text) }, false),
  svg: text => show({ 'image/svg+xml': String(text) }, false),
  png: data => show({ 'image/png': data }, false),
  jpeg: data => show({ 'image/jpeg': data }, false)
}

function define (name, value) {
  Object.defineProperty(globalThis, name, { value, writable: true, enumerable: false, configurable: true })
}

function defineGlobals () {
  Object.defineProperty(process, 'stdout', { value: output(1), configurable: true, enumerable: true })
  Object.defineProperty(process, 'stderr', { value: output(2), configurable: true, enumerable: true })
  define('__cubby', { load })
  define('display', display)
  define('$$', SHORT)
  define('require', Object.assign(requireFrom, { resolve: name => Module._resolveFilename(name, atCwd().parent), cache: Module._cache }))
  define('module', { exports: {} })
  define('exports', globalThis.module.exports)
}

// Make a variable that the code declares. It may have the name of a global getter, such as crypto.
function declare (name) {
  const now = Object.getOwnPropertyDescriptor(globalThis, name)
  if (!now || (now.configurable && !now.writable)) define(name, undefined)
}

// ---- errors
function cut (text) {
  return text.length <= ERROR_CHARACTERS_MAX ? text : text.slice(0, ERROR_CHARACTERS_MAX) + '[the rest is left out]'
}

// Return the lines of a stack down to the code's own.
function ownStack (stack) {
  const lines = stack.split('\n')
  const end = lines.findIndex(line => line.includes(__dirname) || /\((?:node:vm|vm\.js|internal\/|node:internal\/(?:vm|process))/.test(line))
  return (end < 0 ? lines : lines.slice(0, end)).join('\n')
}

function codeLine (code, loc) {
  return `${code.split('\n')[loc.line - 1] || ''}\n${' '.repeat(loc.column)}^\n`
}

function describe (e, code) {
  if (e instanceof Interrupted || (e && e.code === INTERRUPTED)) {
    return { name: 'KeyboardInterrupt', value: '', traceback: 'KeyboardInterrupt' }
  }
  if (!util.types.isNativeError(e) && !(e instanceof Error)) {
    const value = textOf(e, true)
    return { name: 'Error', value: cut(value), traceback: cut(`Uncaught ${value}`) }
  }
  let stack = ownStack(String(e.stack || `${e.name}: ${e.message}`))
  if (e.loc && e.name === 'SyntaxError') stack = `${codeLine(code, e.loc)}SyntaxError: ${e.message}`
  return { name: cut(String(e.name)), value: cut(String(e.message)), traceback: cut(stack) }
}

// ---- runs
function setEnvironment (changed) {
  for (const [name, value] of Object.entries(changed)) {
    if (value === null || value === undefined) delete process.env[name]
    else process.env[name] = value
  }
}

async function execute (run) {
  const cell = prepare(isTypeScript ? toJavaScript(run.request.code) : run.request.code)
  const script = new vm.Script(cell.text, { filename: `<cell ${count}>` })
  cell.names.forEach(declare)
  // A SIGINT that came until now is a task of the event loop.
  await new Promise(resolve => setImmediate(resolve))
  if (run.interrupted) throw new Interrupted()
  let value = script.runInThisContext({ breakOnSigint: true, displayErrors: false })
  if (cell.isAsync) value = await Promise.race([value, run.ended])
  if (value === undefined || !cell.hasValue) return
  const bundle = await Promise.race([bundleOf(value, run.request.quotes), run.ended])
  show(bundle, true)
}

function newRun (request) {
  const run = { request, interrupted: false }
  run.ended = new Promise((resolve, reject) => { run.reject = reject })
  run.ended.catch(() => {}) // also when nothing waits for it
  return run
}

async function doRun (request) {
  const before = Object.fromEntries(Object.keys(request.variables).map(name => [name, process.env[name]]))
  setEnvironment(request.changed)
  setEnvironment(request.variables)
  running = newRun(request)
  try {
    await execute(running)
  } catch (e) {
    channel.send({ error: describe(e, request.code) })
  }
  running = null
  setEnvironment(before)
  count += 1
  channel.send({ done: count })
}

function onSigint () {
  if (!running) return
  running.interrupted = true
  running.reject(new Interrupted())
}

function begin (message) {
  setEnvironment(message.environment)
  process.chdir(message.cwd)
}

function onMessage (message) {
  if (message.op === 'begin') begin(message)
  else if (message.op === 'run') doRun(message)
}

function onUncaught (e) {
  process.stderr.write(`Uncaught ${describe(e, '').traceback}\n`)
}

function main () {
  process.on('SIGINT', onSigint)
  process.on('uncaughtException', onUncaught)
  process.on('unhandledRejection', onUncaught)
  process.removeAllListeners('warning')
  defineGlobals()
  channel.listen(onMessage, () => process.exit(0))
}

main()
