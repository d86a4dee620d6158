// SPDX-License-Identifier: Apache-2.0
// Code that is run: results of every kind, what comes meanwhile, errors, contexts, languages.
import assert from 'node:assert/strict';
import { Buffer } from 'node:buffer';
import { e2b } from './load.mjs';
import { fails, until } from './world.mjs';

const { NotFoundError, SandboxError, TimeoutError, InvalidArgumentError } = e2b;

// Checks that it went without an error, and gives the execution.
async function ran(sandbox, code, options) {
  const execution = await sandbox.runCode(code, options);
  assert.equal(execution.error, undefined, JSON.stringify(execution.error));
  return execution;
}

async function text(world) {
  const sandbox = await world.sandbox();
  const execution = await ran(sandbox, '1 + 1');
  assert.equal(execution.text, '2');
  assert.equal(execution.results.length, 1);
  assert.equal(execution.results[0].isMainResult, true);
  assert.ok(execution.executionCount >= 1);
  assert.equal((await ran(sandbox, "'gr\\u00fc\\u00dfe \\U0001f680'")).text, 'grüße 🚀');
  assert.equal((await ran(sandbox, 'x = 1')).text, undefined);
  assert.equal((await ran(sandbox, 'import asyncio\nawait asyncio.sleep(0)\n"awaited"')).text, 'awaited');
  assert.deepEqual((await ran(sandbox, '%%bash\necho magic')).logs.stdout.join(''), 'magic\n');
}

async function state(world) {
  const sandbox = await world.sandbox();
  const first = await ran(sandbox, 'kept = 41\nimport math\ndef f(n): return n + 1');
  const second = await ran(sandbox, 'f(kept) + math.floor(0.5)');
  assert.equal(second.text, '42');
  assert.equal(second.executionCount, first.executionCount + 1);
  await ran(sandbox, "open('of-code', 'w').write('seen')");
  assert.equal(await sandbox.files.read('/home/user/of-code'), 'seen');
}

async function logs(world) {
  const sandbox = await world.sandbox();
  const execution = await ran(sandbox, "import sys, os\nprint('out €')\nprint('err', file=sys.stderr)\n" +
    "os.system('echo child')\nNone");
  const out = execution.logs.stdout.join('');
  assert.ok(out.includes('out €\n') && out.includes('child\n'), out);
  assert.equal(execution.logs.stderr.join(''), 'err\n');
  assert.deepEqual(execution.results, []);
}

async function callbacks(world) {
  const sandbox = await world.sandbox();
  const seen = { out: '', err: '', results: [], errors: [], at: 0 };
  const done = sandbox.runCode(
    "import sys, time, os\nprint('first')\n" +
    "while not os.path.exists('/home/user/callbacks-go'): time.sleep(0.01)\n" +
    "print('e', file=sys.stderr)\ndisplay('shown')\n1/0", {
      onStdout: (m) => {
        seen.out += m.line;
        seen.at = m.timestamp;
      },
      onStderr: (m) => (seen.err += m.line),
      onResult: (r) => void seen.results.push(r.text),
      onError: (e) => void seen.errors.push(e.name),
    });
  await until(() => seen.out === 'first\n', 'output before the end');
  await sandbox.files.write('callbacks-go', '');
  const execution = await done;
  await sandbox.files.remove('callbacks-go');
  assert.deepEqual([seen.out, seen.err, seen.results, seen.errors], ['first\n', 'e\n', ['shown'], ['ZeroDivisionError']]);
  assert.equal(execution.results[0].isMainResult, false);
  assert.ok(Number(seen.at) > 0);
}

async function error(world) {
  const sandbox = await world.sandbox();
  const execution = await sandbox.runCode("def g():\n    raise ValueError('bad \\u2026 value')\ng()");
  assert.deepEqual([execution.error.name, execution.error.value], ['ValueError', 'bad … value']);
  assert.match(execution.error.traceback, /ValueError/);
  assert.equal((await sandbox.runCode('1 +')).error.name, 'SyntaxError');
  assert.equal((await ran(sandbox, '"goes on"')).text, 'goes on');
}

const SHOWN = `
from IPython.display import *
class Rich:
    def _repr_markdown_(self): return '**bold**'
    def _repr_javascript_(self): return 'alert(1)'
    def _repr_html_(self): return '<b>bold</b>'
    def _repr_latex_(self): return '$x^2$'
    def _repr_svg_(self): return '<svg xmlns="http://www.w3.org/2000/svg"></svg>'
    def _repr_json_(self): return {'k': [1, 2]}
    def _repr_pdf_(self): return b'%PDF-1.4 pretend'
    def _repr_jpeg_(self): return b'\\xff\\xd8\\xff\\xe0 pretend'
Rich()`;

async function everyKind(world) {
  const sandbox = await world.sandbox();
  const [result] = (await ran(sandbox, SHOWN)).results;
  assert.equal(result.markdown, '**bold**');
  assert.equal(result.javascript, 'alert(1)');
  assert.equal(result.html, '<b>bold</b>');
  assert.equal(result.latex, '$x^2$');
  assert.match(result.svg, /^<svg/);
  assert.deepEqual(result.json, { k: [1, 2] });
  assert.equal(Buffer.from(result.pdf, 'base64').toString(), '%PDF-1.4 pretend');
  assert.equal(Buffer.from(result.jpeg, 'base64').subarray(0, 3).toString('hex'), 'ffd8ff');
  assert.match(result.text, /Rich/);
  assert.ok(['html', 'markdown', 'svg', 'jpeg', 'pdf', 'latex', 'json', 'javascript'].every((f) => result.formats().includes(f)));
}

const PLOT = `
import matplotlib.pyplot as plt
plt.figure()
plt.plot([1, 2, 3], [4, 5, 6], label='rise')
plt.title('A line'); plt.xlabel('time (s)'); plt.ylabel('height (m)')
plt.show()`;

async function chart(world) {
  const sandbox = await world.sandbox();
  const execution = await ran(sandbox, PLOT);
  const result = execution.results.find((r) => r.png);
  assert.equal(Buffer.from(result.png, 'base64').subarray(1, 4).toString(), 'PNG');
  const drawn = result.chart;
  assert.deepEqual([drawn.type, drawn.title, drawn.x_label, drawn.y_label], ['line', 'A line', 'time (s)', 'height (m)']);
  assert.deepEqual(drawn.elements.map((e) => [e.label, e.points]), [['rise', [[1, 4], [2, 5], [3, 6]]]]);
}

async function data(world) {
  const sandbox = await world.sandbox();
  const execution = await ran(sandbox, "import pandas as pd\npd.DataFrame({'a': [1, 2], 'b': ['x', 'y']})");
  assert.deepEqual(execution.results[0].data, { a: [1, 2], b: ['x', 'y'] });
  assert.match(execution.results[0].html, /<table/);
  assert.match(execution.text, /a\s+b/);
}

async function contexts(world) {
  const [sandbox, dir] = await world.place();
  const one = await sandbox.createCodeContext({ cwd: dir });
  const two = await sandbox.createCodeContext({ language: 'python' });
  assert.deepEqual([one.language, one.cwd, two.cwd], ['python', dir, '/home/user']);
  await ran(sandbox, 'v = 1', { context: one });
  assert.equal((await sandbox.runCode('v', { context: two })).error.name, 'NameError');
  assert.equal((await ran(sandbox, 'import os; os.getcwd()', { context: one })).text, dir);
  const known = (await sandbox.listCodeContexts()).map((c) => c.id);
  assert.ok(known.includes(one.id) && known.includes(two.id));
  await sandbox.restartCodeContext(one);
  assert.equal((await sandbox.runCode('v', { context: one })).error.name, 'NameError');
  assert.equal((await ran(sandbox, 'import os; os.getcwd()', { context: one })).text, dir);
  await sandbox.removeCodeContext(one);
  await sandbox.removeCodeContext(two.id);
  const left = (await sandbox.listCodeContexts()).map((c) => c.id);
  assert.ok(!left.includes(one.id) && !left.includes(two.id));
  await fails(sandbox.runCode('1', { context: one }), NotFoundError);
  await fails(sandbox.restartCodeContext('no-such-context'), NotFoundError);
  await fails(sandbox.removeCodeContext('no-such-context'), NotFoundError);
  await fails(sandbox.runCode('1', { context: two, language: 'python' }), InvalidArgumentError);
}

async function bash(world) {
  const sandbox = await world.sandbox();
  const first = await ran(sandbox, 'w=kept; echo "in $BASH"', { language: 'bash' });
  assert.match(first.logs.stdout.join(''), /^in \/(usr\/)?bin\/bash\n$/);
  assert.equal((await ran(sandbox, 'echo $w', { language: 'bash' })).logs.stdout.join(''), 'kept\n');
  const context = await sandbox.createCodeContext({ language: 'bash', cwd: '/tmp' });
  assert.equal((await ran(sandbox, 'pwd', { context })).logs.stdout.join(''), '/tmp\n');
  assert.equal((await ran(sandbox, 'echo w=$w', { context })).logs.stdout.join(''), 'w=\n');
  await sandbox.removeCodeContext(context);
  await assert.rejects(sandbox.runCode('1', { language: 'cobol' }), SandboxError);
}

async function envs(world) {
  const sandbox = await world.sandbox();
  const code = "import os; [os.environ.get(k) for k in ('SHARED', 'OWN')]";
  assert.equal((await ran(sandbox, code, { envs: { OWN: 'run' } })).text, "['yes', 'run']");
  assert.equal((await ran(sandbox, code, { envs: { SHARED: 'other' } })).text, "['other', None]");
  assert.equal((await ran(sandbox, code)).text, "['yes', None]");
}

async function timeout(world) {
  const sandbox = await world.sandbox();
  await ran(sandbox, 'kept = 7');
  await fails(sandbox.runCode('import time\ntime.sleep(600)', { timeoutMs: 1_000 }), TimeoutError);
  // What was left is interrupted, and the context with its state serves the next.
  assert.equal((await ran(sandbox, 'kept')).text, '7');
}

export const interpreter = {
  code_text: text, code_state: state, code_logs: logs, code_callbacks: callbacks, code_error: error,
  code_every_kind: everyKind, code_chart: chart, code_data: data, code_contexts: contexts, code_bash: bash,
  code_envs: envs, code_timeout: timeout,
};
