// SPDX-License-Identifier: Apache-2.0
// Vercel's AI SDK, with both of OpenAI's APIs.

import { headers, load, server, task, url, wire } from "./plan.mjs";

const { generateText, isStepCount } = await load("ai");
const { createMCPClient } = await load("@ai-sdk/mcp");
const { Experimental_StdioMCPTransport: Stdio } = await load("@ai-sdk/mcp/mcp-stdio");
const { createOpenAI } = await load("@ai-sdk/openai");

const transport = server.command ? new Stdio(server) : { type: "http", url: server.url, headers };
const client = await createMCPClient({ transport });
const openai = createOpenAI({ baseURL: `${url}/v1`, apiKey: "none" });
const { text } = await generateText({
  model: wire === "chat" ? openai.chat("gpt-5") : openai.responses("gpt-5"),
  tools: await client.tools(),
  stopWhen: isStepCount(30),
  prompt: task,
});
console.log(text);
await client.close();
