// SPDX-License-Identifier: Apache-2.0
// TypeScript to JavaScript: by Node.js itself where it can, else by esbuild.
'use strict'
const childProcess = require('child_process')
const module_ = require('module')

// Without preserveValueImports, an import that only a later run uses would be dropped.
const SETTINGS = '{"compilerOptions":{"preserveValueImports":true,"isolatedModules":true,"useDefineForClassFields":true}}'
const ARGUMENTS = ['--loader=ts', '--target=esnext', '--format=esm', '--log-level=error', '--color=false',
  `--tsconfig-raw=${SETTINGS}`]
const OUTPUT_BYTES_MAX = 64 * 1024 * 1024

function syntaxError (text) {
  const e = new SyntaxError(text)
  e.stack = `SyntaxError: ${text}`
  return e
}

function byNode (code) {
  try {
    return module_.stripTypeScriptTypes(code, { mode: 'transform' })
  } catch (e) {
    throw syntaxError(e.message)
  }
}

function byEsbuild (code) {
  const done = childProcess.spawnSync('esbuild', ARGUMENTS, { input: code, encoding: 'utf8', maxBuffer: OUTPUT_BYTES_MAX })
  if (done.error && done.error.code === 'ENOENT') {
    throw new Error('TypeScript needs Node.js 22.13 or esbuild, and this sandbox has neither. Install one: ' +
      'sudo apt-get install esbuild')
  }
  if (done.error) throw done.error
  if (done.signal === 'SIGINT') throw Object.assign(new Error('interrupted'), { code: 'ERR_SCRIPT_EXECUTION_INTERRUPTED' })
  if (done.status !== 0) throw syntaxError(done.stderr.replace('✘ [ERROR] ', '').trim() || `esbuild ended with ${done.signal || done.status}`)
  return done.stdout
}

function toJavaScript (code) {
  return module_.stripTypeScriptTypes ? byNode(code) : byEsbuild(code)
}

module.exports = { toJavaScript }
