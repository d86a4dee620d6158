// SPDX-License-Identifier: Apache-2.0
// Files: every way in and out, what is known of them, what changes, by whom.
import assert from 'node:assert/strict';
import { createHash, randomBytes } from 'node:crypto';
import { e2b } from './load.mjs';
import { fails, until } from './world.mjs';

const { FileNotFoundError, FileType, InvalidArgumentError, AuthenticationError, NotEnoughSpaceError } = e2b;
const sha = (data) => createHash('sha256').update(data).digest('hex');

async function text(world) {
  const [sandbox, dir] = await world.place();
  const made = await sandbox.files.write(`${dir}/deep/er/a.txt`, 'grüße\r\n"quoted"\n');
  assert.deepEqual([made.name, made.path, made.type], ['a.txt', `${dir}/deep/er/a.txt`, FileType.FILE]);
  assert.equal(await sandbox.files.read(`${dir}/deep/er/a.txt`), 'grüße\r\n"quoted"\n');
  await sandbox.files.write(`${dir}/deep/er/a.txt`, 'shorter');
  assert.equal(await sandbox.files.read(`${dir}/deep/er/a.txt`), 'shorter');
}

async function bytes(world) {
  const [sandbox, dir] = await world.place();
  const data = Uint8Array.from({ length: 256 }, (_, i) => i);
  await sandbox.files.write(`${dir}/b`, data.buffer);
  assert.deepEqual(await sandbox.files.read(`${dir}/b`, { format: 'bytes' }), data);
  const blob = await sandbox.files.read(`${dir}/b`, { format: 'blob' });
  assert.deepEqual(new Uint8Array(await blob.arrayBuffer()), data);
  await sandbox.files.write(`${dir}/c`, new Blob([data]));
  assert.equal((await sandbox.files.getInfo(`${dir}/c`)).size, 256);
}

async function stream(world) {
  const [sandbox, dir] = await world.place();
  const part = randomBytes(50_000);
  let left = 20;
  const source = new ReadableStream({
    pull: (controller) => (left-- > 0 ? controller.enqueue(part) : controller.close()),
  });
  await sandbox.files.write(`${dir}/s`, source);
  const hash = createHash('sha256');
  let size = 0;
  for await (const chunk of await sandbox.files.read(`${dir}/s`, { format: 'stream' })) {
    hash.update(chunk);
    size += chunk.length;
  }
  assert.deepEqual([size, hash.digest('hex')], [1_000_000, sha(Buffer.concat(Array(20).fill(part)))]);
}

async function empty(world) {
  const [sandbox, dir] = await world.place();
  await sandbox.files.write(`${dir}/empty`, '');
  assert.equal(await sandbox.files.read(`${dir}/empty`), '');
  assert.equal((await sandbox.files.read(`${dir}/empty`, { format: 'bytes' })).length, 0);
  assert.equal((await sandbox.files.getInfo(`${dir}/empty`)).size, 0);
  assert.match(await sandbox.files.read('/proc/version'), /^Linux version/); // its size is said to be 0
}

async function large(world) {
  const [sandbox, dir] = await world.place();
  const data = randomBytes(20_000_000);
  await sandbox.files.write(`${dir}/large`, new Blob([data]));
  const sum = (await sandbox.commands.run('sha256sum < large', { cwd: dir })).stdout.split(' ')[0];
  assert.equal(sum, sha(data));
  assert.equal(sha(await sandbox.files.read(`${dir}/large`, { format: 'bytes' })), sha(data));
}

async function names(world) {
  const [sandbox, dir] = await world.place();
  const all = ['größe.txt', '日本語', '🚀 rocket', 'sp ace', 'plus+and&=%41', "quote's", 'semi;colon', '#hash?'];
  for (const name of all) {
    await sandbox.files.write(`${dir}/${name}`, name);
    assert.equal(await sandbox.files.read(`${dir}/${name}`), name);
  }
  const found = await sandbox.files.list(dir);
  assert.deepEqual(found.map((e) => e.name).sort(), [...all].sort());
  for (const name of all) await sandbox.files.remove(`${dir}/${name}`);
  assert.deepEqual(await sandbox.files.list(dir), []);
}

async function many(world) {
  const [sandbox, dir] = await world.place();
  const entries = Array.from({ length: 20 }, (_, i) => ({ path: `${dir}/d${i % 3}/f${i}`, data: `content ${i}` }));
  const made = await sandbox.files.writeFiles(entries);
  assert.deepEqual(made.map((e) => e.path), entries.map((e) => e.path));
  for (const { path, data } of entries) assert.equal(await sandbox.files.read(path), data);
  assert.deepEqual(await sandbox.files.write([]), []);
}

async function entries(world) {
  const [sandbox, dir] = await world.place();
  assert.equal(await sandbox.files.makeDir(`${dir}/a/b`), true);
  assert.equal(await sandbox.files.makeDir(`${dir}/a/b`), false);
  await sandbox.files.write(`${dir}/a/b/f`, '12345');
  await sandbox.commands.run('ln -s a/b/f link; chmod 640 a/b/f', { cwd: dir });
  const info = await sandbox.files.getInfo(`${dir}/a/b/f`);
  assert.deepEqual([info.name, info.type, info.size, info.mode, info.permissions, info.owner, info.group],
    ['f', FileType.FILE, 5, 0o640, '-rw-r-----', 'user', 'user']);
  assert.ok(Math.abs(info.modifiedTime - Date.now()) < 600_000);
  assert.equal((await sandbox.files.getInfo(`${dir}/link`)).symlinkTarget, `${dir}/a/b/f`);
  const shallow = await sandbox.files.list(dir);
  assert.deepEqual(shallow.map((e) => [e.name, e.type]).sort(), [['a', FileType.DIR], ['link', FileType.FILE]]);
  const deep = await sandbox.files.list(dir, { depth: 3 });
  assert.deepEqual(deep.map((e) => e.path).sort(), ['/a', '/a/b', '/a/b/f', '/link'].map((p) => dir + p));
  const moved = await sandbox.files.rename(`${dir}/a/b/f`, `${dir}/new/g`);
  assert.equal(moved.path, `${dir}/new/g`);
  assert.deepEqual([await sandbox.files.exists(`${dir}/a/b/f`), await sandbox.files.exists(`${dir}/new/g`)], [false, true]);
  await sandbox.files.remove(`${dir}/a`);
  assert.equal(await sandbox.files.exists(`${dir}/a`), false);
}

async function relative(world) {
  const [sandbox, dir] = await world.place();
  const name = dir.split('/').pop();
  await sandbox.files.write(`${name}/r`, 'of the home');
  assert.equal(await sandbox.files.read(`/home/user/${name}/r`), 'of the home');
  assert.equal(await sandbox.files.read(`~/${name}/r`), 'of the home');
  await sandbox.files.write('of-root', 'r', { user: 'root' });
  assert.equal((await sandbox.files.getInfo('/root/of-root', { user: 'root' })).owner, 'root');
}

async function watch(world) {
  const [sandbox, dir] = await world.place();
  const seen = [];
  const handle = await sandbox.files.watchDir(dir, (event) => seen.push(`${event.type} ${event.name}`));
  await sandbox.files.write(`${dir}/f`, 'x');
  await sandbox.files.rename(`${dir}/f`, `${dir}/g`);
  await sandbox.commands.run(`chmod 600 ${dir}/g`);
  await sandbox.files.remove(`${dir}/g`);
  const all = ['create f', 'write f', 'rename f', 'create g', 'chmod g', 'remove g'];
  await until(() => all.every((event) => seen.includes(event)), `events: ${seen}`).catch((e) => {
    throw new Error(`${e.message}; seen: ${seen}`);
  });
  await handle.stop();
  await sandbox.files.write(`${dir}/after`, 'x');
  assert.ok(!seen.some((event) => event.endsWith(' after')));
}

async function watchRecursive(world) {
  const [sandbox, dir] = await world.place();
  const seen = [];
  const handle = await sandbox.files.watchDir(dir, (event) => seen.push(event), { recursive: true, includeEntry: true });
  const find = (type, size) => seen.find((e) => e.name === 'sub/deep/f' && e.type === type && e.entry?.size === size);
  await sandbox.files.write(`${dir}/sub/deep/f`, '');
  await until(() => find('create', 0), 'what a new directory has already');
  await sandbox.files.write(`${dir}/sub/deep/f`, '12345');
  const event = await until(() => find('write', 5), 'a write there');
  assert.deepEqual([event.entry.path, event.entry.type], [`${dir}/sub/deep/f`, FileType.FILE]);
  await handle.stop();
}

async function watchErrors(world) {
  const [sandbox, dir] = await world.place();
  await sandbox.files.write(`${dir}/f`, '');
  await fails(sandbox.files.watchDir(`${dir}/none`, () => {}), FileNotFoundError);
  await fails(sandbox.files.watchDir(`${dir}/f`, () => {}), InvalidArgumentError);
}

async function metadata(world) {
  const [sandbox, dir] = await world.place();
  const made = await sandbox.files.write(`${dir}/m`, 'x', { metadata: { author: 'Ada L.', kind: 'draft' } });
  assert.deepEqual(made.metadata, { author: 'Ada L.', kind: 'draft' });
  assert.deepEqual((await sandbox.files.getInfo(`${dir}/m`)).metadata, { author: 'Ada L.', kind: 'draft' });
  assert.deepEqual((await sandbox.files.list(dir))[0].metadata, { author: 'Ada L.', kind: 'draft' });
  await sandbox.files.write(`${dir}/m`, 'y');
  assert.equal((await sandbox.files.getInfo(`${dir}/m`)).metadata, undefined);
}

async function gzip(world) {
  const [sandbox, dir] = await world.place();
  const data = 'compressible '.repeat(50_000);
  await sandbox.files.write(`${dir}/z`, data, { gzip: true });
  assert.equal((await sandbox.files.getInfo(`${dir}/z`)).size, data.length);
  assert.equal(await sandbox.files.read(`${dir}/z`, { gzip: true }), data);
  await sandbox.files.write(`${dir}/o`, data, { useOctetStream: true });
  assert.equal(await sandbox.files.read(`${dir}/o`), data);
}

async function signedUrls(world) {
  const [sandbox, dir] = await world.place();
  await sandbox.files.write(`${dir}/s`, 'signed content');
  const get = await fetch(await sandbox.downloadUrl(`${dir}/s`));
  assert.deepEqual([get.status, await get.text()], [200, 'signed content']);
  const expiring = await fetch(await sandbox.downloadUrl(`${dir}/s`, { useSignatureExpiration: 600, user: 'user' }));
  assert.equal(await expiring.text(), 'signed content');
  const form = new FormData();
  form.append('file', new Blob(['uploaded']), 'up');
  const put = await fetch(await sandbox.uploadUrl(`${dir}/up`, { useSignatureExpiration: 600 }), { method: 'POST', body: form });
  assert.equal(put.status, 200, await put.text());
  assert.equal(await sandbox.files.read(`${dir}/up`), 'uploaded');
  const late = new URL(await sandbox.downloadUrl(`${dir}/s`, { useSignatureExpiration: -10 }));
  const refused = await fetch(late);
  assert.equal(refused.status, 401);
  const forged = new URL(await sandbox.downloadUrl(`${dir}/s`));
  forged.searchParams.set('path', `${dir}/other`);
  const wrong = await fetch(forged);
  assert.ok([400, 401].includes(wrong.status), String(wrong.status));
}

async function errors(world) {
  const [sandbox, dir] = await world.place();
  await sandbox.files.write(`${dir}/f`, 'x');
  await fails(sandbox.files.read(`${dir}/none`), FileNotFoundError, /none/);
  await fails(sandbox.files.read(dir), InvalidArgumentError, /directory/);
  await fails(sandbox.files.getInfo(`${dir}/none`), FileNotFoundError);
  await fails(sandbox.files.list(`${dir}/none`), FileNotFoundError);
  await fails(sandbox.files.list(`${dir}/f`), InvalidArgumentError);
  await fails(sandbox.files.rename(`${dir}/none`, `${dir}/x`), FileNotFoundError);
  await fails(sandbox.files.makeDir(`${dir}/f`), InvalidArgumentError);
  await fails(sandbox.files.write(dir, 'x'), InvalidArgumentError);
  await fails(sandbox.files.read(`${dir}/f`, { user: 'nobody-here' }), AuthenticationError);
  await fails(sandbox.files.list(dir, { user: 'nobody-here' }), AuthenticationError);
  await sandbox.files.remove(`${dir}/none`); // is no error
}

async function space(world) {
  const [sandbox, dir] = await world.place();
  await sandbox.commands.run(`mount -t tmpfs -o size=64k,mode=777 tmpfs ${dir}`, { user: 'root' });
  await fails(sandbox.files.write(`${dir}/big`, 'x'.repeat(200_000)), NotEnoughSpaceError);
  await sandbox.commands.run(`umount ${dir}`, { user: 'root' });
}

export const files = {
  files_text: text, files_bytes: bytes, files_stream: stream, files_empty: empty, files_large: large,
  files_names: names, files_many: many, files_entries: entries, files_relative: relative, files_watch: watch,
  files_watch_recursive: watchRecursive, files_watch_errors: watchErrors, files_metadata: metadata,
  files_gzip: gzip, files_signed_urls: signedUrls, files_errors: errors, files_space: space,
};
