// SPDX-License-Identifier: Apache-2.0
// Builds templates with the official JavaScript SDK as a user does, by its public API alone. The
// environment is a user's: E2B_API_KEY, E2B_API_URL, E2B_SANDBOX_URL. The argument is the directory with
// the files to copy. Prints a line of JSON: what the test checks.
import { e2b } from './load.mjs';

const { Sandbox, Template, waitForURL } = e2b;
const context = process.argv[2];

function plan() {
  return Template({ fileContextPath: context })
    .fromTemplate('default')
    // A template without Python has no kernel to warm up, which takes a minute under TCG.
    .runCmd('rm /usr/bin/python3', { user: 'root' })
    .setEnvs({ COLOUR: 'green' })
    .copy('site', '/home/user/site', { user: 'root', mode: 0o644 })
    .runCmd('id -un > made-by; echo "$COLOUR" >> made-by')
    .runCmd('id -un > /root/made-by', { user: 'root' })
    .makeDir('/home/user/work')
    .setWorkdir('/home/user/work')
    .setStartCmd('python3.11 -m http.server 8000 --directory /home/user/site', waitForURL('http://localhost:8000/'));
}

const seen = {};
const info = await Template.buildInBackground(plan(), 'js-shop');
let status;
do {
  await new Promise((resolve) => setTimeout(resolve, 200));
  status = await Template.getBuildStatus(info);
} while (['building', 'waiting'].includes(status.status));
seen.status = status.status;

const sandbox = await Sandbox.create('js-shop');
const output = async (command) => (await sandbox.commands.run(command)).stdout;
seen.probe = {
  page: await output('curl -s http://localhost:8000/page.html'),
  'made by': (await output('cat /home/user/made-by; sudo cat /root/made-by')).trim().split(/\s+/),
  at: (await output('pwd; echo $COLOUR; id -un')).trim().split(/\s+/),
  mode: (await output("stat -c '%U %a' /home/user/site/page.html")).trim(),
};
await sandbox.kill();

seen.exists = [await Template.exists('js-shop'), await Template.exists('js-nothing')];
await Template.assignTags('js-shop', ['stable']);
seen.tags = (await Template.getTags('js-shop')).map((tag) => tag.tag).sort();
try {
  await Template.build(Template().fromTemplate('default').runCmd('exit 3'), 'js-broken', { skipCache: true });
} catch (error) {
  seen.failure = String(error);
}
console.log(JSON.stringify(seen));
process.exit(0); // the SDK's connection pool would keep the process for a while
