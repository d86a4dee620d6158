// SPDX-License-Identifier: Apache-2.0
// What scenarios share: a sandbox that lives through all of them, a directory in it for each, and
// waiting for what comes in its own time.
import assert from 'node:assert/strict';

export class World {
  constructor(Sandbox, plan) {
    this.Sandbox = Sandbox;
    this.template = plan.bare; // of sandboxes that run no code
    this.runsCode = plan.template;
    this.made = [];
    this.count = 0;
  }

  // A new sandbox that ends with the program at the latest.
  async create(options = {}, template = this.template) {
    const sandbox = await this.Sandbox.create(template, { timeoutMs: 600_000, ...options });
    this.made.push(sandbox);
    return sandbox;
  }

  // The sandbox that scenarios share.
  async sandbox() {
    this.shared ??= this.create({ envs: { SHARED: 'yes' } }, this.runsCode);
    return await this.shared;
  }

  // The shared sandbox, and a fresh directory in it.
  async place() {
    const sandbox = await this.sandbox();
    const dir = `/home/user/place-${++this.count}`;
    await sandbox.files.makeDir(dir);
    return [sandbox, dir];
  }

  async close() {
    await Promise.allSettled(this.made.map((sandbox) => sandbox.kill()));
  }
}

// Polls until `condition` gives something, and gives that.
export async function until(condition, what, seconds = 30) {
  const end = Date.now() + seconds * 1000;
  for (;;) {
    const value = await condition();
    if (value) return value;
    if (Date.now() > end) throw new Error(`${what}: not within ${seconds} s`);
    await new Promise((resolve) => setTimeout(resolve, 20));
  }
}

// Checks that it fails with this class, and gives the error.
export async function fails(promise, kind, message) {
  let error;
  try {
    await promise;
  } catch (e) {
    error = e;
  }
  assert.ok(error, `nothing was thrown, where a ${kind.name} belongs`);
  if (error.constructor !== kind) throw new Error(`not a ${kind.name}: ${error.stack}`, { cause: error });
  if (message) assert.match(error.message, message);
  return error;
}
