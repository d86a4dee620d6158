// SPDX-License-Identifier: Apache-2.0
// Builds templates with every method of the official JavaScript SDK's builder, by its public API alone. The environment
// is a user's. The argument is the directory with the files to copy. Prints a line of JSON: {template: what the SDK
// threw, or null}. builder.py builds the same templates.
import { e2b } from './load.mjs';

const { Template, waitForFile, waitForPort, waitForProcess, waitForTimeout, waitForURL } = e2b;
const context = process.argv[2];
const DOCKERFILE = 'FROM python:3.12\nENV A=b\nRUN id\nCOPY page.html /srv/\nWORKDIR /srv\nUSER app\nCMD sleep 5';

const TEMPLATES = {
  'from-template': (t) => t.fromTemplate('default'),
  'from-image': (t) => t.fromImage('ghcr.io/own/app:1'),
  'from-image-private': (t) => t.fromImage('ghcr.io/own/app:1', { username: 'robot', password: 'secret' }),
  'from-debian-image': (t) => t.fromDebianImage('bookworm'),
  'from-ubuntu-image': (t) => t.fromUbuntuImage('24.04'),
  'from-fedora-image': (t) => t.fromFedoraImage('44'),
  'from-alpine-image': (t) => t.fromAlpineImage('3.24'),
  'from-arch-image': (t) => t.fromArchImage(),
  'from-python-image': (t) => t.fromPythonImage('3.12'),
  'from-node-image': (t) => t.fromNodeImage('24'),
  'from-bun-image': (t) => t.fromBunImage('1.3'),
  'from-base-image': (t) => t.fromBaseImage(),
  'from-gcp-registry': (t) => t.fromGCPRegistry('gcr.io/own/app:1', { serviceAccountJSON: { client_email: 'robot@own' } }),
  'from-aws-registry': (t) => t.fromAWSRegistry('1.dkr.ecr.eu-west-1.amazonaws.com/app:1',
    { accessKeyId: 'id', secretAccessKey: 'secret', region: 'eu-west-1' }),
  'from-dockerfile': (t) => t.fromDockerfile(DOCKERFILE),
  steps: (t) => t.fromTemplate('default')
    .copy('page.html', '/srv/', { user: 'root', mode: 0o644 })
    .copyItems([{ src: 'page.html', dest: 'a' }, { src: 'site', dest: 'b' }])
    .remove('/srv/old', { recursive: true, force: true })
    .rename('/srv/a', '/srv/b', { force: true })
    .makeDir(['/srv/a', '/srv/b'], { mode: 0o755 })
    .makeSymlink('/srv/a', '/srv/link')
    .runCmd(['id', 'pwd'], { user: 'root' })
    .setWorkdir('/srv')
    .setUser('app')
    .setEnvs({ A: 'b', C: 'd e' })
    .pipInstall(['flask', 'httpx'])
    .pipInstall('flask', { g: false })
    .npmInstall('typescript', { g: true })
    .bunInstall('tsx', { dev: true })
    .aptInstall(['git', 'curl'], { noInstallRecommends: true })
    .gitClone('https://example.org/a.git', '/srv/a', { branch: 'main', depth: 1 })
    .skipCache()
    .runCmd('id')
    .setReadyCmd(waitForTimeout(2000)),
  'mcp-servers': (t) => t.fromTemplate('mcp-gateway').addMcpServer(['exa', 'brave']),
  'wait-for-port': (t) => t.fromTemplate('default').setStartCmd('serve', waitForPort(80)),
  'wait-for-url': (t) => t.fromTemplate('default').setStartCmd('serve', waitForURL('http://localhost/', 204)),
  'wait-for-process': (t) => t.fromTemplate('default').setStartCmd('serve', waitForProcess('serve')),
  'wait-for-file': (t) => t.fromTemplate('default').setStartCmd('serve', waitForFile('/run/ready')),
};

const thrown = {};
await Promise.all(Object.entries(TEMPLATES).map(async ([name, make]) => {
  try {
    await Template.build(make(Template({ fileContextPath: context })), name);
    thrown[name] = null;
  } catch (error) {
    thrown[name] = `${error.constructor.name}: ${error.message}`;
  }
}));
console.log(JSON.stringify(thrown));
process.exit(0); // the SDK's connection pool would keep the process for a while
