// SPDX-License-Identifier: Apache-2.0
// Fuzz a client's arguments against the schema of each tool.
#include <assert.h>
#include <stdint.h>
#include <string.h>

#include "mcp-server/tools/call/schema.h"
#include "sandbox-backend/base/json.h"
#include "sandbox-backend/base/str.h"
#include "schemas.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static void apply(const json_t *schema, const json_t *arguments)
{
    struct err e = ERR_INIT;
    json_t *args = schema_apply(schema, NULL, arguments, &e);
    assert((args != NULL) == !err_is(&e));
    assert(args || e.msg[0]);
    size_t i;
    json_t *name;
    json_array_foreach (json_object_get(schema, "required"), i, name) {
        assert(!args || json_object_get(args, json_string_value(name)));
    }
    json_decref(args);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    json_t *tools = json_parse(SCHEMA_tools, sizeof SCHEMA_tools - 1, NULL);
    json_t *arguments = json_parse((const char *)data, size, NULL);
    size_t i;
    json_t *tool;
    json_array_foreach (tools, i, tool) {
        if (json_is_object(arguments))
            apply(json_object_get(tool, "inputSchema"), arguments);
    }
    json_decref(arguments);
    json_decref(tools);
    return 0;
}
