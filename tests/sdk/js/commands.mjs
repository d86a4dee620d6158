// SPDX-License-Identifier: Apache-2.0
// Commands: run, in the background, fed, found again, killed, limited.
import assert from 'node:assert/strict';
import { e2b } from './load.mjs';
import { fails, until } from './world.mjs';

const { CommandExitError, InvalidArgumentError, NotFoundError, TimeoutError, AuthenticationError } = e2b;

async function run(world) {
  const sandbox = await world.sandbox();
  const done = await sandbox.commands.run('echo out; echo err >&2');
  assert.deepEqual([done.exitCode, done.stdout, done.stderr, done.error], [0, 'out\n', 'err\n', undefined]);
}

async function callbacks(world) {
  const [sandbox, dir] = await world.place();
  await sandbox.commands.run('mkfifo go', { cwd: dir });
  const seen = { out: '', err: '' };
  const done = sandbox.commands.run('echo one; read x < go; echo two; echo bad >&2', {
    cwd: dir,
    onStdout: (text) => (seen.out += text),
    onStderr: (text) => (seen.err += text),
  });
  await until(() => seen.out === 'one\n', 'output before the end');
  await sandbox.commands.run('echo go > go', { cwd: dir });
  assert.equal((await done).stdout, 'one\ntwo\n');
  assert.deepEqual(seen, { out: 'one\ntwo\n', err: 'bad\n' });
}

async function background(world) {
  const sandbox = await world.sandbox();
  const handle = await sandbox.commands.run('cat; echo done', { background: true, stdin: true });
  assert.ok(handle.pid > 0);
  assert.equal(handle.exitCode, undefined);
  await handle.closeStdin();
  const done = await handle.wait();
  assert.deepEqual([done.exitCode, done.stdout, handle.exitCode], [0, 'done\n', 0]);
}

async function stdin(world) {
  const [sandbox, dir] = await world.place();
  const handle = await sandbox.commands.run(
    'read a; echo "got $a"; cat; echo closed; while [ ! -e go ]; do sleep 0.02; done',
    { background: true, stdin: true, cwd: dir });
  await handle.sendStdin('first\n');
  await sandbox.commands.sendStdin(handle.pid, new Uint8Array([0x67, 0xc3, 0xb6, 0x0a]));
  await until(() => handle.stdout.includes('gö'), 'the input comes back');
  await handle.closeStdin();
  await until(() => handle.stdout.includes('closed'), 'the end of the input is seen');
  await sandbox.commands.closeStdin(handle.pid); // again is no error
  await sandbox.files.write(`${dir}/go`, '');
  assert.equal((await handle.wait()).stdout, 'got first\ngö\nclosed\n');
}

async function stdinOff(world) {
  const sandbox = await world.sandbox();
  const handle = await sandbox.commands.run('sleep 600', { background: true });
  await assert.rejects(sandbox.commands.sendStdin(handle.pid, 'x'), e2b.SandboxError);
  assert.equal(await handle.kill(), true);
  await fails(sandbox.commands.sendStdin(1_999_999_999, 'x'), NotFoundError, /1999999999/);
}

async function connect(world) {
  const sandbox = await world.sandbox();
  const first = await sandbox.commands.run('while read line; do echo "$line"; done; exit 4',
    { background: true, stdin: true });
  const seen = [];
  const second = await sandbox.commands.connect(first.pid, { onStdout: (text) => seen.push(text) });
  assert.equal(second.pid, first.pid);
  await first.disconnect(); // the command goes on
  await sandbox.commands.sendStdin(first.pid, 'hello\n');
  await until(() => seen.join('') === 'hello\n', 'the output after the connection');
  await second.closeStdin();
  const error = await fails(second.wait(), CommandExitError);
  assert.deepEqual([error.exitCode, error.stdout], [4, 'hello\n']);
  await fails(sandbox.commands.connect(1_999_999_999), NotFoundError);
}

async function kill(world) {
  const sandbox = await world.sandbox();
  const handle = await sandbox.commands.run('sleep 600', { background: true });
  assert.equal(await sandbox.commands.kill(handle.pid), true);
  const error = await fails(handle.wait(), CommandExitError, /signal: killed/);
  assert.equal(error.exitCode, -1);
  await until(async () => !(await sandbox.commands.list()).some((p) => p.pid === handle.pid), 'it leaves the list');
  assert.equal(await sandbox.commands.kill(handle.pid), false);
}

async function list(world) {
  const sandbox = await world.sandbox();
  const handle = await sandbox.commands.run('sleep 600', { background: true, envs: { A: 'b' }, cwd: '/tmp' });
  const found = (await sandbox.commands.list()).find((p) => p.pid === handle.pid);
  assert.equal(found.cmd, '/bin/bash');
  assert.deepEqual(found.args, ['-l', '-c', 'sleep 600']);
  assert.deepEqual([found.envs.A, found.cwd], ['b', '/tmp']);
  await handle.kill();
}

async function timeout(world) {
  const sandbox = await world.sandbox();
  await fails(sandbox.commands.run('sleep 600 # times out', { timeoutMs: 500 }), TimeoutError, /timeoutMs/);
  await until(async () => !(await sandbox.commands.list()).some((p) => p.args.join().includes('times out')),
    'what timed out is ended');
  assert.equal((await sandbox.commands.run('echo free', { timeoutMs: 0 })).stdout, 'free\n');
}

async function environment(world) {
  const sandbox = await world.sandbox();
  const done = await sandbox.commands.run('echo "$SHARED|$OWN|$E2B_SANDBOX|$E2B_SANDBOX_ID|$HOME|$USER"',
    { envs: { OWN: 'sp ace "é"\n2' } });
  assert.equal(done.stdout, `yes|sp ace "é"\n2|true|${sandbox.sandboxId}|/home/user|user\n`);
  assert.equal((await sandbox.commands.run('echo $SHARED', { envs: { SHARED: 'no' } })).stdout, 'no\n');
}

async function cwd(world) {
  const [sandbox, dir] = await world.place();
  assert.equal((await sandbox.commands.run('pwd')).stdout, '/home/user\n');
  assert.equal((await sandbox.commands.run('pwd', { cwd: dir })).stdout, `${dir}\n`);
  await fails(sandbox.commands.run('pwd', { cwd: '/nope' }), InvalidArgumentError, /cwd '\/nope' does not exist/);
}

async function user(world) {
  const sandbox = await world.sandbox();
  const who = async (options) => (await sandbox.commands.run('echo $(id -un) $HOME', options)).stdout;
  assert.equal(await who(), 'user /home/user\n');
  assert.equal(await who({ user: 'root' }), 'root /root\n');
  await fails(sandbox.commands.run('id', { user: 'nobody-here' }), AuthenticationError);
}

async function exitError(world) {
  const sandbox = await world.sandbox();
  const error = await fails(sandbox.commands.run('echo o; echo e >&2; exit 3'), CommandExitError, /exit status 3/);
  assert.deepEqual([error.exitCode, error.stdout, error.stderr, error.error], [3, 'o\n', 'e\n', 'exit status 3']);
  const missing = await fails(sandbox.commands.run('no-such-command-here'), CommandExitError);
  assert.equal(missing.exitCode, 127);
}

async function output(world) {
  const sandbox = await world.sandbox();
  const done = await sandbox.commands.run("seq 1 400000; printf 'é%.0s' $(seq 1 20000)");
  const numbers = Array.from({ length: 400000 }, (_, i) => `${i + 1}\n`).join('');
  assert.ok(done.stdout === numbers + 'é'.repeat(20000), 'nothing lost, doubled or broken');
}

async function parallel(world) {
  const sandbox = await world.sandbox();
  const all = await Promise.all(Array.from({ length: 24 }, (_, i) =>
    sandbox.commands.run(`for j in $(seq 1 200); do echo ${i}-$j; done`)));
  all.forEach((done, i) => assert.equal(done.stdout.split('\n').length, 201, String(i)));
  assert.ok(all.every((done, i) => done.stdout.startsWith(`${i}-1\n`) && done.stdout.endsWith(`${i}-200\n`)));
}

export const commands = {
  commands_run: run, commands_callbacks: callbacks, commands_background: background, commands_stdin: stdin,
  commands_stdin_off: stdinOff, commands_connect: connect, commands_kill: kill, commands_list: list,
  commands_timeout: timeout, commands_environment: environment, commands_cwd: cwd, commands_user: user,
  commands_exit_error: exitError, commands_output: output, commands_parallel: parallel,
};
