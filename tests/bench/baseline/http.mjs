// SPDX-License-Identifier: Apache-2.0
// The baseline of the HTTP figures: a server made with the official TypeScript SDK, as fast as its
// documentation lets one make it: Node's own server, no framework, JSON answers, one tool.
// `node http.mjs session` keeps a transport for each session; `stateless` makes one for each request,
// as the SDK demands there. Prints its port.
import { createServer } from "node:http";
import { randomUUID } from "node:crypto";
import { McpServer } from "@modelcontextprotocol/sdk/server/mcp.js";
import { StreamableHTTPServerTransport } from "@modelcontextprotocol/sdk/server/streamableHttp.js";

const isStateless = process.argv[2] === "stateless";
const sessions = new Map();

async function connect() {
  const server = new McpServer({ name: "baseline", version: "1.0.0" });
  server.registerTool("test_simple_text", { description: "Says something" }, async () => ({
    content: [{ type: "text", text: "This is a simple text response for testing." }],
  }));
  const transport = new StreamableHTTPServerTransport({
    sessionIdGenerator: isStateless ? undefined : randomUUID,
    enableJsonResponse: true,
    onsessioninitialized: (id) => sessions.set(id, transport),
    onsessionclosed: (id) => sessions.delete(id),
  });
  await server.connect(transport);
  return transport;
}

const listener = createServer(async (request, response) => {
  const id = request.headers["mcp-session-id"];
  const transport = id === undefined ? await connect() : sessions.get(id);
  if (transport === undefined) {
    response.writeHead(404).end();
    return;
  }
  if (isStateless) response.on("close", () => transport.close());
  await transport.handleRequest(request, response);
});
listener.listen(0, "127.0.0.1", () => console.log(listener.address().port));
