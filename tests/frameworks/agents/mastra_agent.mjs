// SPDX-License-Identifier: Apache-2.0
// Mastra, with both of OpenAI's APIs.

import { headers, load, server, task, url, wire } from "./plan.mjs";

const { Agent } = await load("@mastra/core/agent");
const { MCPClient } = await load("@mastra/mcp");
const { createOpenAI } = await load("@ai-sdk/openai");

const one = server.command ? server : { url: new URL(server.url), requestInit: { headers } };
const client = new MCPClient({ servers: { cubby: one }, timeout: 120_000 });
const openai = createOpenAI({ baseURL: `${url}/v1`, apiKey: "none" });
const agent = new Agent({
  id: "fixer",
  name: "fixer",
  instructions: "Fix bugs.",
  model: wire === "chat" ? openai.chat("gpt-5") : openai.responses("gpt-5"),
  tools: await client.listTools(),
});
console.log((await agent.generate(task, { maxSteps: 30 })).text);
await client.disconnect();
process.exit(0);
