# SPDX-License-Identifier: Apache-2.0
"""One MCP server made of many: what each offers is listed together, and asked of the one that has it.

A tool or prompt keeps its name. If several servers have the same name, each of these gets the name
of its server in front: time_now, clock_now. A resource is read from the server that lists it, or
else from the first that can.
"""

import re
import sys

import anyio
import mcp_types as types
from mcp.server.lowlevel import Server
from mcp.shared.exceptions import MCPError

LIST_S = 30
PAGES_MAX = 100
LISTS = {
    "tools": (types.ListToolsRequest, types.ListToolsResult),
    "prompts": (types.ListPromptsRequest, types.ListPromptsResult),
    "resources": (types.ListResourcesRequest, types.ListResourcesResult),
    "resource_templates": (types.ListResourceTemplatesRequest, types.ListResourceTemplatesResult),
}


class Router:
    def __init__(self, upstreams):
        self.upstreams = upstreams
        self.routes = {"tools": {}, "prompts": {}}  # public name: (upstream, its own name)
        self.shared = {"tools": set(), "prompts": set()}  # names that several servers have, or had
        self.readers = {}  # URI: upstream

    def server(self):
        return Server("mcp-gateway", version="1", on_list_tools=self.list_tools, on_call_tool=self.call_tool,
                      on_list_prompts=self.list_prompts, on_get_prompt=self.get_prompt,
                      on_list_resources=self.list_resources, on_list_resource_templates=self.list_templates,
                      on_read_resource=self.read_resource)

    # ---- lists
    async def all_of(self, kind):
        """Each server's whole list, as (upstream, item). A server that fails has none."""
        offered = "resources" if kind == "resource_templates" else kind
        lists = {}

        async def fetch(upstream):
            try:
                lists[upstream] = await whole_list(upstream, kind)
            except MCPError as error:
                print(f"{upstream.name}: no list of {kind}: {error}", file=sys.stderr, flush=True)

        async with anyio.create_task_group() as tasks:
            for upstream in self.upstreams:
                if getattr(upstream.offers, offered):
                    tasks.start_soon(fetch, upstream)
        return [(upstream, item) for upstream in self.upstreams for item in lists.get(upstream, [])]

    async def named(self, kind):
        """The items of a list under their public names."""
        items = await self.all_of(kind)
        names = [item.name for _, item in items]
        self.shared[kind] |= {name for name in names if names.count(name) > 1}
        routes, out = {}, []
        for upstream, item in items:
            name = item.name
            if name in self.shared[kind]:
                name = re.sub("[^A-Za-z0-9_-]", "_", f"{upstream.name}_{name}")
            name = free(name, routes)
            routes[name] = upstream, item.name
            out.append(item.model_copy(update={"name": name}))
        self.routes[kind] = routes
        return out

    async def list_tools(self, context, params):
        return types.ListToolsResult(tools=await self.named("tools"))

    async def list_prompts(self, context, params):
        return types.ListPromptsResult(prompts=await self.named("prompts"))

    async def list_resources(self, context, params):
        items = await self.all_of("resources")
        self.readers = {str(item.uri): upstream for upstream, item in reversed(items)}
        return types.ListResourcesResult(resources=[item for _, item in items])

    async def list_templates(self, context, params):
        items = await self.all_of("resource_templates")
        return types.ListResourceTemplatesResult(resource_templates=[item for _, item in items])

    # ---- requests for one item
    async def route(self, kind, name):
        if name not in self.routes[kind]:
            await self.named(kind)
        if name not in self.routes[kind]:
            ended = "".join(f"; {upstream.ended}" for upstream in self.upstreams if upstream.ended)
            raise MCPError(types.INVALID_PARAMS, f"no server has {name!r} among its {kind}{ended}")
        return self.routes[kind][name]

    async def call_tool(self, context, params):
        upstream, own = await self.route("tools", params.name)
        request = types.CallToolRequest(params=types.CallToolRequestParams(name=own, arguments=params.arguments))
        return await upstream.ask(request, types.CallToolResult, context.session.report_progress)

    async def get_prompt(self, context, params):
        upstream, own = await self.route("prompts", params.name)
        request = types.GetPromptRequest(params=types.GetPromptRequestParams(name=own, arguments=params.arguments))
        return await upstream.ask(request, types.GetPromptResult)

    async def read_resource(self, context, params):
        uri = str(params.uri)
        request = types.ReadResourceRequest(params=types.ReadResourceRequestParams(uri=uri))
        if uri in self.readers:
            return await self.readers[uri].ask(request, types.ReadResourceResult)
        failed = MCPError(types.INVALID_PARAMS, f"no server has the resource {uri}")
        for upstream in self.upstreams:
            if upstream.offers.resources:
                try:
                    return await upstream.ask(request, types.ReadResourceResult)
                except MCPError as error:
                    failed = error
        raise failed


def free(name, taken):
    """The name, or the name with a number if it is taken."""
    number, out = 1, name
    while out in taken:
        number += 1
        out = f"{name}_{number}"
    return out


async def whole_list(upstream, kind):
    """All pages of a list. A server that offers resources need not know their templates."""
    request, result = LISTS[kind]
    items, cursor = [], None
    for _ in range(PAGES_MAX):
        try:
            page = await upstream.ask(request(params=types.PaginatedRequestParams(cursor=cursor)), result, seconds=LIST_S)
        except MCPError as error:
            if kind == "resource_templates" and error.code == types.METHOD_NOT_FOUND:
                return items
            raise
        items += getattr(page, kind)
        cursor = page.next_cursor
        if not cursor:
            break
    return items
