// SPDX-License-Identifier: Apache-2.0
// Terminals: opened, typed into, resized, found again, killed.
import assert from 'node:assert/strict';
import { e2b } from './load.mjs';
import { fails, until } from './world.mjs';

const bytes = (text) => new TextEncoder().encode(text);

// A terminal with a shell that has asked for input, and what it has shown so far.
async function open(sandbox, options = {}) {
  const screen = { text: '' };
  const decoder = new TextDecoder();
  const handle = await sandbox.pty.create({
    cols: 80, rows: 24, timeoutMs: 0, ...options,
    onData: (data) => (screen.text += decoder.decode(data, { stream: true })),
  });
  await until(() => screen.text.includes('$ '), 'the prompt');
  return [handle, screen];
}

async function input(world) {
  const [sandbox, dir] = await world.place();
  const [handle, screen] = await open(sandbox, { cwd: dir, envs: { OWN: 'mine' } });
  await sandbox.pty.sendInput(handle.pid, bytes('stty size; echo "$OWN-$TERM-$PWD-$(tty | cut -c1-9)"\n'));
  await until(() => screen.text.includes('24 80') &&
    screen.text.includes(`mine-xterm-256color-${dir}-/dev/pts/`), 'the answers on the screen');
  await sandbox.pty.sendInput(handle.pid, bytes('exit 5\n'));
  const error = await fails(handle.wait(), e2b.CommandExitError);
  assert.equal(error.exitCode, 5);
}

async function resize(world) {
  const sandbox = await world.sandbox();
  const [handle, screen] = await open(sandbox);
  await sandbox.pty.resize(handle.pid, { cols: 100, rows: 30 });
  await sandbox.pty.sendInput(handle.pid, bytes('stty size\n'));
  await until(() => screen.text.includes('30 100'), 'the new size');
  assert.equal(await sandbox.pty.kill(handle.pid), true);
}

async function kill(world) {
  const sandbox = await world.sandbox();
  const [handle] = await open(sandbox);
  assert.equal(await sandbox.pty.kill(handle.pid), true);
  await fails(handle.wait(), e2b.CommandExitError, /signal: killed/);
  await until(async () => !(await sandbox.pty.kill(handle.pid)), 'it is gone');
}

async function connect(world) {
  const sandbox = await world.sandbox();
  const [first] = await open(sandbox);
  let text = '';
  const second = await sandbox.pty.connect(first.pid,
    { onData: (data) => (text += new TextDecoder().decode(data)), timeoutMs: 0 });
  assert.equal(second.pid, first.pid);
  await first.disconnect();
  await sandbox.pty.sendInput(first.pid, bytes('echo again-$((40 + 2))\n'));
  await until(() => text.includes('again-42'), 'the output after the connection');
  assert.equal(await second.kill(), true);
}

export const pty = { pty_input: input, pty_resize: resize, pty_kill: kill, pty_connect: connect };
