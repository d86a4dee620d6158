// SPDX-License-Identifier: Apache-2.0
// read_output: what a command in the background has printed since a cursor, waiting for it if
// asked.
#include "mcp-server/tools/background.h"
#include "mcp-server/tools/network_hint.h"

#define WAIT_MS_MAX 50000 // clients that hear no progress give a request up after 60 s

static void on_page(struct tool_call *c, const struct background_page *p, void *ctx)
{
    (void)ctx;
    if (p)
        background_finish(c, tool_call_string(c, "command_id"), p, NETWORK_HINT_BACKGROUND_S);
}

static int64_t wait_ms(const struct tool_call *c)
{
    int64_t ms = (int64_t)(json_number_value(json_object_get(c->args, "wait_seconds")) * 1000);
    return ms > WAIT_MS_MAX && !c->takes_progress ? WAIT_MS_MAX : ms;
}

static void start(struct tool_call *c)
{
    const json_t *most = json_object_get(c->args, "max_bytes");
    if (!background_check_id(c) || !tool_call_client(c, wait_ms(c) / 1000 + 60))
        return;
    background_read(c,
                    &(struct background_read){
                        .id = tool_call_string(c, "command_id"),
                        .cursor = json_integer_value(json_object_get(c->args, "cursor")),
                        .max_bytes = (size_t)(most ? json_integer_value(most)
                                                   : c->toolbox->config->output_bytes),
                        .wait_ms = wait_ms(c),
                    },
                    on_page, NULL);
}

const struct tool TOOL_READ_OUTPUT = {"read_output", start, background_text};
