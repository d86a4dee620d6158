// SPDX-License-Identifier: Apache-2.0
// Sandboxes: made, found, kept, paused, reached from outside, ended; what fails, and how.
import assert from 'node:assert/strict';
import { readFileSync } from 'node:fs';
import http from 'node:http';
import { e2b, Sandbox, WebSocket } from './load.mjs';
import { fails, until } from './world.mjs';

const { AuthenticationError, CommandExitError, SandboxError, SandboxNotFoundError, TimeoutError } = e2b;
const SERVER = readFileSync(new URL('../server.py', import.meta.url), 'utf8');
let marks = 0;
const mark = () => `js-${process.pid}-${++marks}`; // of this program's own sandboxes

async function create(world) {
  const metadata = { 'a b': 'c&d=e', mark: mark() };
  const sandbox = await world.create({ metadata, envs: { X: '1 2' }, timeoutMs: 300_000 });
  const info = await sandbox.getInfo();
  assert.match(sandbox.sandboxId, /^[a-z0-9]+$/);
  assert.deepEqual([info.sandboxId, info.state, info.metadata], [sandbox.sandboxId, 'running', metadata]);
  const lives = (info.endAt - info.startedAt) / 1000;
  assert.ok(lives > 299 && lives < 330, `${lives} s`);
  assert.ok(info.cpuCount > 0 && info.memoryMB > 0 && info.templateId && info.envdVersion);
  assert.equal((await sandbox.commands.run('echo $X')).stdout, '1 2\n');
  assert.equal(await sandbox.kill(), true);
}

async function timeout(world) {
  const sandbox = await world.create({ timeoutMs: 60_000 });
  await sandbox.setTimeout(900_000);
  const { endAt } = await sandbox.getInfo();
  assert.ok(endAt - Date.now() > 600_000);
  await sandbox.setTimeout(1_000);
  await until(async () => !(await sandbox.isRunning()), 'its end');
  await fails(sandbox.getInfo(), SandboxNotFoundError);
}

async function kill(world) {
  const sandbox = await world.create();
  assert.equal(await sandbox.isRunning(), true);
  assert.equal(await sandbox.kill(), true);
  assert.equal(await sandbox.isRunning(), false);
  assert.equal(await Sandbox.kill(sandbox.sandboxId), false);
  await fails(sandbox.commands.run('true'), SandboxNotFoundError);
  await fails(sandbox.files.read('/etc/hostname'), TimeoutError);
  await fails(Sandbox.connect(sandbox.sandboxId), SandboxNotFoundError);
  await fails(sandbox.setTimeout(1000), SandboxNotFoundError);
}

async function killedDuringRun(world) {
  const sandbox = await world.create();
  const handle = await sandbox.commands.run('sleep 600', { background: true });
  assert.equal(await sandbox.kill(), true);
  await fails(handle.wait(), TimeoutError, /killed or reached its end of life/);
}

async function connect(world) {
  const sandbox = await world.create({ timeoutMs: 300_000 });
  await sandbox.files.write('kept', 'yes');
  const { endAt } = await sandbox.getInfo();
  const same = await Sandbox.connect(sandbox.sandboxId, { timeoutMs: 10_000 });
  assert.equal(await same.files.read('kept'), 'yes');
  assert.equal(+(await same.getInfo()).endAt, +endAt, 'never made shorter');
  await same.connect({ timeoutMs: 900_000 });
  assert.ok((await same.getInfo()).endAt > endAt);
  await sandbox.kill();
}

async function pause(world) {
  const sandbox = await world.create();
  await sandbox.files.write('kept', 'yes');
  const before = await sandbox.commands.run('sleep 600', { background: true });
  await before.disconnect();
  assert.equal(await sandbox.pause(), true);
  assert.equal(await sandbox.pause(), false);
  assert.equal((await Sandbox.getInfo(sandbox.sandboxId)).state, 'paused');
  const again = await Sandbox.connect(sandbox.sandboxId);
  assert.equal((await again.getInfo()).state, 'running');
  assert.equal(await again.files.read('kept'), 'yes');
  assert.ok((await again.commands.list()).some((p) => p.pid === before.pid), 'what ran goes on');
  const asked = Date.now() / 1000;
  const clock = Number((await again.commands.run('date +%s.%N')).stdout);
  assert.ok(asked - 1 < clock && clock < Date.now() / 1000 + 1, 'the clock is right');
  assert.equal(await again.commands.kill(before.pid), true);
  await again.pause();
  assert.equal(await again.kill(), true, 'a paused one can be killed');
  assert.equal(await again.pause().catch((e) => e.constructor), SandboxNotFoundError);
}

async function autoPause(world) {
  const sandbox = await world.create({ timeoutMs: 1_000, lifecycle: { onTimeout: 'pause' } });
  await until(async () => (await sandbox.getInfo()).state === 'paused', 'it pauses at its end');
  assert.deepEqual((await sandbox.getInfo()).lifecycle, { onTimeout: 'pause', autoResume: false });
  await sandbox.connect({ timeoutMs: 300_000 });
  assert.equal((await sandbox.commands.run('echo back')).stdout, 'back\n');
  await sandbox.kill();
}

async function autoResume(world) {
  const sandbox = await world.create({ lifecycle: { onTimeout: 'pause', autoResume: true } });
  await sandbox.pause();
  assert.equal((await sandbox.commands.run('echo woken')).stdout, 'woken\n');
  assert.equal((await sandbox.getInfo()).state, 'running');
  await sandbox.kill();
}

async function ids(paginator) {
  const found = [];
  while (paginator.hasNext) found.push(...(await paginator.nextItems()));
  return found.map((s) => s.sandboxId);
}

async function list(world) {
  const own = { mark: mark(), 'a b': 'c&d' };
  const one = await world.create({ metadata: { ...own, n: '1' } });
  const two = await world.create({ metadata: { ...own, n: '2' } });
  const newest = [two.sandboxId, one.sandboxId];
  const query = { metadata: own };
  assert.deepEqual(await ids(Sandbox.list({ query })), newest);
  assert.deepEqual(await ids(Sandbox.list({ query, order: 'asc' })), [...newest].reverse());
  assert.deepEqual(await ids(Sandbox.list({ query: { metadata: { ...own, n: '2' } } })), [two.sandboxId]);
  assert.deepEqual(await ids(Sandbox.list({ query: { metadata: { ...own, n: '3' } } })), []);
  const paged = Sandbox.list({ query, limit: 1 });
  const first = await paged.nextItems();
  assert.deepEqual([first.length, first[0].sandboxId, paged.hasNext], [1, two.sandboxId, true]);
  const rest = Sandbox.list({ query, limit: 1, nextToken: paged.nextToken });
  assert.deepEqual(await ids(rest), [one.sandboxId]);
  await one.pause();
  assert.deepEqual(await ids(Sandbox.list({ query: { ...query, state: ['paused'] } })), [one.sandboxId]);
  assert.deepEqual(await ids(Sandbox.list({ query: { ...query, state: ['running'] } })), [two.sandboxId]);
  const { startedAt, templateId } = await two.getInfo();
  assert.deepEqual(await ids(Sandbox.list({ query: { ...query, startedAfter: new Date(+startedAt + 60_000) } })), []);
  assert.deepEqual(await ids(Sandbox.list({ query: { ...query, template: templateId } })), newest);
  await Promise.all([one.kill(), two.kill()]);
}

async function metrics(world) {
  const sandbox = await world.sandbox();
  const found = await until(async () => {
    const all = await sandbox.getMetrics();
    return all.length && all;
  }, 'a first sample');
  const last = found.at(-1);
  assert.ok(last.cpuCount > 0 && last.memTotal > last.memUsed && last.memUsed > 0 && last.diskTotal > 0, JSON.stringify(last));
  assert.ok(Math.abs(last.timestamp - Date.now()) < 120_000);
  await fails(Sandbox.getMetrics('nosuchsandbox'), SandboxNotFoundError);
}

// A server in the sandbox, listening on this address.
async function serve(sandbox, address, port) {
  await sandbox.files.write('server.py', SERVER);
  const handle = await sandbox.commands.run(`python3 server.py ${address} ${port}`, { background: true, timeoutMs: 0 });
  await until(() => handle.stdout.includes('listening') || handle.exitCode !== undefined, 'the server');
  assert.equal(handle.exitCode, undefined, handle.stderr);
  return handle;
}

// A request for a host name that getHost gave, to where its wildcard would lead.
const origin = new URL(process.env.E2B_SANDBOX_URL ?? 'http://unset');
function get(host, path) {
  return new Promise((resolve, reject) => {
    http.get({ host: origin.hostname, port: origin.port, path, headers: { Host: host } }, (res) => {
      let body = '';
      res.on('data', (d) => (body += d)).on('end', () => resolve([res.statusCode, body]));
    }).on('error', reject);
  });
}

async function host(world) {
  const sandbox = await world.sandbox();
  for (const [address, port] of [['0.0.0.0', 8000], ['127.0.0.1', 8001]]) {
    const server = await serve(sandbox, address, port);
    const name = sandbox.getHost(port);
    assert.ok(name.startsWith(`${port}-${sandbox.sandboxId}.`), name);
    const [status, body] = await get(name, '/some/path?q=1');
    assert.deepEqual([status, JSON.parse(body)], [200, { path: '/some/path?q=1', host: name }]);
    await server.kill();
  }
  const [status, body] = await get(sandbox.getHost(3999), '/');
  assert.equal(status, 502);
  assert.equal(JSON.parse(body).port, 3999);
}

async function websocket(world) {
  const sandbox = await world.sandbox();
  const server = await serve(sandbox, '127.0.0.1', 8002);
  const socket = new WebSocket(`ws://${origin.host}/chat`, { headers: { Host: sandbox.getHost(8002) } });
  const got = [];
  await new Promise((resolve, reject) => socket.on('open', resolve).on('error', reject));
  socket.on('message', (data) => got.push(data.toString()));
  for (const word of ['one', 'zwei', '三']) socket.send(word);
  await until(() => got.length === 3, 'the echoes');
  assert.deepEqual(got, ['one', 'zwei', '三']);
  const closed = new Promise((resolve) => socket.on('close', resolve));
  socket.close(1000);
  assert.equal(await closed, 1000);
  await server.kill();
}

async function errors(world) {
  await fails(Sandbox.create(world.template, { apiKey: 'e2b_' + '0'.repeat(40) }), AuthenticationError);
  await fails(Sandbox.create('no-such-template'), SandboxError, /404.*no-such-template/);
  await fails(Sandbox.create(world.template, { timeoutMs: -1000 }), SandboxError, /400.*Timeout must be greater than 0/);
  await fails(Sandbox.getInfo('nosuchsandbox'), SandboxNotFoundError);
  const sandbox = await world.sandbox();
  const error = await fails(sandbox.commands.run('exit 1'), CommandExitError);
  assert.ok(error instanceof SandboxError);
}

async function snapshot(world) {
  const [sandbox, place] = await world.place();
  await sandbox.files.write(`${place}/state`, 'kept');
  const taken = await sandbox.createSnapshot({ name: 'sdk-js' });
  try {
    assert.deepEqual(taken.names, ['sdk-js:default']);
    const pages = Sandbox.listSnapshots({ limit: 1 });
    const seen = [];
    while (pages.hasNext) seen.push(...await pages.nextItems());
    assert.ok(seen.some((s) => s.snapshotId === taken.snapshotId));
    assert.deepEqual((await sandbox.listSnapshots().nextItems()).map((s) => s.snapshotId), [taken.snapshotId]);
    assert.deepEqual(await Sandbox.listSnapshots({ name: 'sdk-js-not' }).nextItems(), []);
    const others = await Promise.all([taken.snapshotId, 'sdk-js'].map((name) => world.create({}, name)));
    await others[0].files.write(`${place}/state`, 'changed');
    assert.equal(await others[1].files.read(`${place}/state`), 'kept');
    assert.equal(await sandbox.files.read(`${place}/state`), 'kept');
    await Promise.all(others.map((other) => other.kill()));
  } finally {
    assert.equal(await Sandbox.deleteSnapshot(taken.snapshotId), true);
  }
  assert.equal(await Sandbox.deleteSnapshot(taken.snapshotId), false);
}

async function fork(world) {
  const [sandbox, place] = await world.place();
  await sandbox.files.write(`${place}/state`, 'before');
  const children = await sandbox.fork({ count: 2, timeoutMs: 120_000 });
  world.made.push(...children);
  assert.equal(new Set([sandbox, ...children].map((s) => s.sandboxId)).size, 3);
  for (const child of children) assert.ok(child instanceof Sandbox);
  await children[0].files.write(`${place}/state`, 'after');
  assert.equal(await children[1].files.read(`${place}/state`), 'before');
  assert.equal(await sandbox.files.read(`${place}/state`), 'before');
  for (const child of children) assert.equal(await child.isRunning(), true);
  await Promise.all(children.map((child) => child.kill()));
  const ended = await world.create();
  await ended.kill();
  await fails(ended.fork(), SandboxNotFoundError);
}

async function git(world) {
  const [sandbox, place] = await world.place();
  const { git, files } = sandbox;
  const [work, bare, copy] = ['work', 'bare.git', 'copy'].map((name) => `${place}/${name}`);
  await git.init(work, { initialBranch: 'main' });
  await git.init(bare, { bare: true, initialBranch: 'main' });
  await git.configureUser('A Name', 'a@example.com', { scope: 'local', path: work });
  await git.setConfig('cubby.key', 'value', { scope: 'local', path: work });
  assert.equal(await git.getConfig('cubby.key', { scope: 'local', path: work }), 'value');
  await files.write(`${work}/a`, 'one');
  assert.equal((await git.status(work)).hasUntracked, true);
  await git.add(work);
  await git.commit(work, 'the first');
  await git.remoteAdd(work, 'origin', bare);
  assert.equal(await git.remoteGet(work, 'origin'), bare);
  await git.push(work, { remote: 'origin', branch: 'main' });
  await git.clone(bare, { path: copy });
  assert.equal(await files.read(`${copy}/a`), 'one');
  await git.createBranch(work, 'other');
  await git.checkoutBranch(work, 'main');
  assert.deepEqual((await git.branches(work)).branches.toSorted(), ['main', 'other']);
  await git.deleteBranch(work, 'other', { force: true });
  await files.write(`${work}/a`, 'two');
  await git.restore(work, { paths: ['a'] });
  assert.equal(await files.read(`${work}/a`), 'one');
  await files.write(`${work}/a`, 'three');
  await git.add(work);
  await git.reset(work, { mode: 'hard' });
  assert.equal((await git.status(work)).isClean, true);
  await files.write(`${work}/b`, 'new');
  await git.add(work);
  await git.commit(work, 'the second');
  await git.push(work, { remote: 'origin', branch: 'main' });
  await git.pull(copy, { remote: 'origin', branch: 'main' });
  assert.equal(await files.read(`${copy}/b`), 'new');
}

export const lifecycle = {
  sandbox_create: create, sandbox_timeout: timeout, sandbox_kill: kill,
  sandbox_killed_during_run: killedDuringRun, sandbox_connect: connect, sandbox_pause: pause,
  sandbox_auto_pause: autoPause, sandbox_auto_resume: autoResume, sandbox_list: list,
  sandbox_metrics: metrics, sandbox_host: host, sandbox_websocket: websocket, sandbox_errors: errors,
  sandbox_snapshot: snapshot, sandbox_fork: fork, sandbox_git: git,
};
