// SPDX-License-Identifier: Apache-2.0
// The baseline of the start-up figure: the smallest server made with the official TypeScript SDK.
import { McpServer } from "@modelcontextprotocol/sdk/server/mcp.js";
import { StdioServerTransport } from "@modelcontextprotocol/sdk/server/stdio.js";

const server = new McpServer({ name: "baseline", version: "1.0.0" });
server.registerTool("hello", { description: "Says hello" }, async () => ({
  content: [{ type: "text", text: "hello" }],
}));
await server.connect(new StdioServerTransport());
