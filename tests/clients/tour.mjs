// SPDX-License-Identifier: Apache-2.0
// What a user of the official TypeScript clients does with cubby-mcp, one thing after the other.
// The first argument is JSON: {client: "sdk1"|"client2", mode, server: {command, args, env, cwd}|{url},
// fixtures: whether the server has those of tests/fixtures}; what was seen is printed as JSON, and
// judged by tests/lib/mcp/clients.py.
import { createRequire } from 'node:module';

const require = createRequire(process.env.CLIENTS + '/');
const plan = JSON.parse(process.argv[2]);
const seen = {};

function load() {
  if (plan.client === 'sdk1')
    return {
      ...require('@modelcontextprotocol/sdk/client/index.js'),
      ...require('@modelcontextprotocol/sdk/client/stdio.js'),
      ...require('@modelcontextprotocol/sdk/client/streamableHttp.js'),
      types: require('@modelcontextprotocol/sdk/types.js'),
    };
  return { ...require('@modelcontextprotocol/client'), ...require('@modelcontextprotocol/client/stdio') };
}

const sdk = load();

function transport() {
  const { url, headers, command, args, env, cwd } = plan.server;
  if (url)
    return new sdk.StreamableHTTPClientTransport(new URL(url), headers && { requestInit: { headers } });
  return new sdk.StdioClientTransport({ command, args, env, cwd, stderr: 'ignore' });
}

async function connect() {
  const options = plan.client === 'sdk1' ? {} : { versionNegotiation: { mode: plan.mode } };
  if (plan.fixtures) options.capabilities = { elicitation: {} };
  const client = new sdk.Client({ name: 'tour', version: '1' }, options);
  if (plan.fixtures)
    client.setRequestHandler(sdk.types?.ElicitRequestSchema ?? 'elicitation/create',
      async () => ({ action: 'accept', content: { name: 'Ada', username: 'ada', email: 'ada@example.org' } }));
  client.onerror = (e) => (seen.errors ??= []).push(String(e));
  const via = transport();
  await client.connect(via);
  seen.server = client.getServerVersion();
  // v1 keeps it to itself on stdio; over HTTP its transport knows.
  seen.version = client.getNegotiatedProtocolVersion?.() ?? via.protocolVersion ?? '2025-11-25';
  seen.era = client.getProtocolEra?.() ?? 'legacy';
  seen.capabilities = client.getServerCapabilities();
  seen.instructions = client.getInstructions();
  return [client, via];
}

const code = async (promise) => {
  try {
    await promise;
    return null;
  } catch (e) {
    return e.code ?? String(e);
  }
};

const tool = (client, name, args, options) =>
  sdk.types
    ? client.callTool({ name, arguments: args }, undefined, options)
    : client.callTool({ name, arguments: args }, options);

async function until(condition, what) {
  for (const end = Date.now() + 20000; ; ) {
    const value = await condition();
    if (value) return value;
    if (Date.now() > end) throw new Error('not in time: ' + what);
  }
}

async function tools(client) {
  seen.tools = (await client.listTools()).tools;
  seen.created = await tool(client, 'create_sandbox', {});
  const sandbox_id = seen.created.structuredContent.sandbox_id;
  seen.command = await tool(client, 'run_command', { sandbox_id, command: 'echo out; echo err >&2; exit 3' });
  seen.python = await tool(client, 'run_python_code', { sandbox_id, code_block: 'print("p")\n6 * 7' });
  seen.tool_error = await tool(client, 'run_command', { sandbox_id: 'nosuchsandbox', command: 'true' });
  seen.wrong_argument = await tool(client, 'run_command', { sandbox_id, command: 7 });
  seen.unknown_tool = await code(tool(client, 'nothing', {}));
  return sandbox_id;
}

// The command ends when its last notification has arrived: these clients take a notification a turn later
// than an answer, so that one which comes in the same piece as the answer is "for an unknown token" to them.
async function progress(client, sandbox_id) {
  seen.progress = [];
  const told = Promise.withResolvers();
  const onprogress = (p) => {
    seen.progress.push(p);
    if (p.message?.includes('second')) told.resolve();
  };
  const call = tool(client, 'run_command',
    { sandbox_id, command: 'echo first; sleep 0.3; echo second; until [ -e told ]; do sleep 0.05; done' }, { onprogress });
  await Promise.race([told.promise, call]);
  await tool(client, 'run_command', { sandbox_id, command: 'touch told' });
  await call;
}

// Stopping a call stops its command, which another call looks for.
async function cancel(client, sandbox_id) {
  const run = async (command) => (await tool(client, 'run_command', { sandbox_id, command })).structuredContent;
  const stop = new AbortController();
  const call = code(tool(client, 'run_command', { sandbox_id, command: 'echo $$ > pid; exec sleep 1000' },
    { signal: stop.signal }));
  const pid = await until(async () => (await run('cat pid || true')).stdout.trim(), 'the command starts');
  stop.abort();
  seen.cancelled = (await call) !== null;
  seen.cancelled_command_gone = await until(
    async () => (await run(`kill -0 ${pid}`)).exit_code !== 0, 'the command is gone');
}

async function resources(client, sandbox_id) {
  if (!seen.capabilities?.resources) return;
  seen.resources = (await client.listResources()).resources;
  seen.templates = (await client.listResourceTemplates()).resourceTemplates;
  await tool(client, 'run_command', { sandbox_id, command: 'echo content > tour.txt' });
  const uri = `sandbox://${sandbox_id}/home/user/tour.txt`;
  seen.resource = (await client.readResource({ uri })).contents;
  seen.unknown_resource = await code(client.readResource({ uri: `sandbox://${sandbox_id}/home/user/none` }));
  if (seen.era === 'legacy' && seen.capabilities.resources.subscribe) {
    await client.subscribeResource({ uri });
    await client.unsubscribeResource({ uri });
    seen.subscribed = true;
  }
}

async function prompts(client) {
  if (seen.capabilities?.prompts) {
    seen.prompts = (await client.listPrompts()).prompts;
    const { name, arguments: wanted } = seen.prompts[0];
    const given = Object.fromEntries((wanted ?? []).map((a) => [a.name, 'value']));
    seen.prompt = await client.getPrompt({ name, arguments: given });
    seen.unknown_prompt = await code(client.getPrompt({ name: 'nothing' }));
  }
  if (seen.capabilities?.completions)
    seen.completion = (await client.complete({
      ref: { type: 'ref/resource', uri: seen.templates[0].uriTemplate },
      argument: { name: 'path', value: 't' },
    })).completion;
}

async function listen(client) {
  if (seen.era !== 'modern') return;
  const subscription = await client.listen({ toolsListChanged: true, resourcesListChanged: true });
  seen.honoured = subscription.honoredFilter;
  await subscription.close();
  seen.listen_closed = await subscription.closed;
}

// Questions that the client answers by itself, and arguments that it repeats in headers.
async function fixtures(client) {
  await client.listTools();
  const asking = seen.era === 'modern' ? 'test_input_required_result_elicitation' : 'test_elicitation';
  seen.asked = await tool(client, asking, seen.era === 'modern' ? {} : { message: 'who?' });
  seen.in_header = await tool(client, 'test_x_mcp_header', { region: 'größe ', query: 'q' });
}

async function tour(client) {
  const sandbox = await tools(client);
  await progress(client, sandbox);
  await cancel(client, sandbox);
  await resources(client, sandbox);
  await prompts(client);
  await listen(client);
}

const [client, via] = await connect();
await (plan.fixtures ? fixtures(client) : tour(client));
if (via.terminateSession && seen.era === 'legacy') await via.terminateSession();
await client.close();
console.log(JSON.stringify(seen));
