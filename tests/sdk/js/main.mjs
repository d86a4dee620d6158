// SPDX-License-Identifier: Apache-2.0
// What a user of the official JavaScript SDKs (e2b, @e2b/code-interpreter) does, by their public API
// alone. The environment is a user's: E2B_API_KEY, E2B_API_URL, E2B_SANDBOX_URL. The first argument is
// JSON: {template, bare, scenarios: [name, ...]}. Prints a line of JSON a scenario: {name, error,
// seconds}, error null when all was as it should be.
import { commands } from './commands.mjs';
import { files } from './files.mjs';
import { interpreter } from './interpreter.mjs';
import { lifecycle } from './lifecycle.mjs';
import { Sandbox } from './load.mjs';
import { pty } from './pty.mjs';
import { World } from './world.mjs';

const plan = JSON.parse(process.argv[2]);
const all = { ...commands, ...files, ...pty, ...lifecycle, ...interpreter };
const world = new World(Sandbox, plan);
const seconds = 60; // of a scenario: far more than any takes

function limited(name, promise) {
  let timer;
  const late = new Promise((_, reject) => {
    timer = setTimeout(() => reject(new Error(`${name} took more than ${seconds} s`)), seconds * 1000);
  });
  return Promise.race([promise, late]).finally(() => clearTimeout(timer));
}

for (const name of plan.scenarios) {
  const began = Date.now();
  let error = null;
  try {
    if (!all[name]) throw new Error('this program has no such scenario');
    await limited(name, all[name](world));
  } catch (e) {
    error = e?.stack ?? String(e);
  }
  console.log(JSON.stringify({ name, error, seconds: (Date.now() - began) / 1000 }));
}
await world.close();
process.exit(0); // the SDK's connection pool would keep the process for a while
