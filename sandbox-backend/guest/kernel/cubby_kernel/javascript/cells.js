// SPDX-License-Identifier: Apache-2.0
// Turn the code of a run into a script whose declarations persist.
//
// A script is a program of its own: its const and let could not be declared again, and it has no
// import and no await at its top. So the text is changed in place, and keeps its lines:
//   const, let, class  become var, so that a later run can declare them again
//   import, import()   load relative to the working directory
//   await              the code goes into an async function, whose declarations become assignments
'use strict'
const acorn = require('internal/deps/acorn/acorn/dist/acorn')

const LOAD = '__cubby.load'
const FUNCTIONS = new Set(['FunctionDeclaration', 'FunctionExpression', 'ArrowFunctionExpression'])
const OPTIONS = {
  ecmaVersion: 'latest',
  sourceType: 'script',
  allowAwaitOutsideFunction: true,
  allowImportExportEverywhere: true,
  allowHashBang: true
}

// Edits of a text: each [start, end, replacement]. Of two insertions at a place, the first is before.
class Edits {
  constructor (text) {
    this.text = text
    this.list = []
  }

  replace (start, end, by) {
    const lines = this.text.slice(start, end).split('\n').length - by.split('\n').length
    this.list.push([start, end, by + '\n'.repeat(Math.max(0, lines))])
  }

  insert (at, text) {
    this.list.push([at, at, text])
  }

  apply () {
    let out = ''
    let at = 0
    for (const [start, end, by] of this.list.sort((a, b) => a[0] - b[0] || a[1] - b[1])) {
      out += this.text.slice(at, start) + by
      at = end
    }
    return out + this.text.slice(at)
  }
}

function * children (node) {
  for (const key of Object.keys(node)) {
    for (const child of Array.isArray(node[key]) ? node[key] : [node[key]]) {
      if (child && typeof child.type === 'string') yield child
    }
  }
}

// Replace each import() of the code. Return true if it awaits outside its functions.
function walk (node, edits, inFunction) {
  let awaits = !inFunction && (node.type === 'AwaitExpression' || (node.type === 'ForOfStatement' && node.await))
  if (node.type === 'ImportExpression') edits.replace(node.start, node.start + 'import'.length, LOAD)
  const inner = inFunction || FUNCTIONS.has(node.type) || node.type === 'PropertyDefinition' || node.type === 'StaticBlock'
  for (const child of children(node)) awaits = walk(child, edits, inner) || awaits
  return awaits
}

// Append the names that a pattern binds: `a`, `[a, b]`, `{a, b: [c]}`.
function bind (pattern, names) {
  if (!pattern) return
  if (pattern.type === 'Identifier') names.push(pattern.name)
  else if (pattern.type === 'ObjectPattern') pattern.properties.forEach(p => bind(p.value || p.argument, names))
  else if (pattern.type === 'ArrayPattern') pattern.elements.forEach(p => bind(p, names))
  else bind(pattern.left || pattern.argument, names)
}

function changeImport (node, edits, names) {
  const parts = []
  let whole = null
  for (const s of node.specifiers) {
    names.push(s.local.name)
    if (s.type === 'ImportNamespaceSpecifier') whole = s.local.name
    else parts.push(`${s.type === 'ImportDefaultSpecifier' ? 'default' : s.imported.raw || s.imported.name}: ${s.local.name}`)
  }
  const load = `await ${LOAD}(${node.source.raw})`
  let text = whole ? `${whole} = ${load}` : load
  if (parts.length) text = `({${parts.join(', ')}} = ${whole ? `(${text})` : text})`
  edits.replace(node.start, node.end, `;${text};`)
}

// In an async function a declaration becomes an assignment to the global variable.
function changeVariables (node, edits, names, isAsync) {
  for (const d of node.declarations) bind(d.id, names)
  edits.replace(node.start, node.start + node.kind.length, isAsync ? ';void (' : 'var')
  for (const d of node.declarations) {
    if (isAsync && d.id.type === 'ObjectPattern') edits.insert(d.start, '(')
    if (!d.init && (isAsync || node.kind !== 'var')) edits.insert(d.end, '=undefined')
    if (isAsync && d.id.type === 'ObjectPattern') edits.insert(d.end, ')')
  }
  const last = node.declarations[node.declarations.length - 1]
  if (isAsync) edits.insert(last.end, ')')
}

function changeClass (node, edits, names, isAsync) {
  names.push(node.id.name)
  edits.insert(node.start, `${isAsync ? ';' : 'var '}${node.id.name} = `)
  edits.insert(node.end, ';')
}

function changeExport (node, edits) {
  const inner = node.declaration
  edits.replace(node.start, inner ? inner.start : node.end, '')
  return inner
}

function changeStatement (statement, edits, names, functions, isAsync) {
  const node = /^Export(Named|Default)/.test(statement.type) ? changeExport(statement, edits) : statement
  if (!node) return
  if (node.type === 'ImportDeclaration') changeImport(node, edits, names)
  else if (node.type === 'VariableDeclaration') changeVariables(node, edits, names, isAsync)
  else if (node.type === 'ClassDeclaration' && node.id) changeClass(node, edits, names, isAsync)
  else if (node.type === 'FunctionDeclaration' && node.id) functions.push(node.id.name)
}

// An async function returns the value of its last statement.
function returnLast (body, edits) {
  const last = body[body.length - 1]
  if (!last || last.type !== 'ExpressionStatement') return
  edits.insert(last.start, 'return (')
  edits.insert(last.expression.end, ')')
}

// Return {text, names, isAsync, hasValue}. names: the global variables that the code declares.
// Throws a SyntaxError with the member `loc`.
function prepare (code) {
  const program = acorn.parse(code, OPTIONS)
  const edits = new Edits(code)
  const names = []
  const functions = []
  const imports = program.body.some(node => node.type === 'ImportDeclaration')
  const isAsync = walk(program, edits, false) || imports
  if (isAsync) returnLast(program.body, edits)
  for (const node of program.body) changeStatement(node, edits, names, functions, isAsync)
  const last = program.body[program.body.length - 1]
  const hasValue = last !== undefined && last.type === 'ExpressionStatement'
  let text = edits.apply()
  if (isAsync) {
    const kept = functions.map(name => `globalThis.${name} = ${name};`).join('')
    text = `(async () => {${kept}${text}\n})()`
  }
  return { text, names: [...names, ...functions], isAsync, hasValue }
}

module.exports = { prepare }
