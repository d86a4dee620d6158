// SPDX-License-Identifier: Apache-2.0
// Fuzz a client's lines through the session, in both eras. There is no tool to call.
#include <assert.h>
#include <string.h>

#include "mcp-server/methods/receive.h"
#include "mcp-server/tools/call/tools.h"
#include "sandbox-backend/base/mem.h"
#include "sandbox-backend/base/str.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static void check_one(const json_t *message)
{
    const json_t *id = json_object_get(message, "id");
    assert(str_eq(json_string_value(json_object_get(message, "jsonrpc")), "2.0"));
    assert(!id || json_is_string(id) || json_is_integer(id));
    assert(!(id && json_object_get(message, "method")));
}

static void on_send(struct outlet *o, const json_t *message)
{
    (void)o;
    assert(json_is_object(message) || json_array_size(message) > 0);
    if (json_is_object(message))
        check_one(message);
    size_t i;
    json_t *one;
    json_array_foreach (message, i, one) {
        check_one(one);
    }
}

static bool on_is_busy(struct outlet *o)
{
    (void)o;
    return false;
}

static void on_idle(void *ctx)
{
    *(bool *)ctx = true;
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    static const struct config CONFIG = {
        .profile = "default",
        .disabled = {.items = {"run_command", "run_python_code", "create_sandbox",
                               "upload_file_from_local_to_sandbox",
                               "download_file_from_internet_to_sandbox",
                               "download_file_from_sandbox_to_local"},
                     .count = 6}};
    struct outlet outlet = {.send = on_send, .is_busy = on_is_busy};
    struct context context;
    uv_loop_t loop;
    bool idle = false;
    uv_loop_init(&loop);
    context_init(&context, &loop, &CONFIG);
    struct caller *caller = caller_new(NULL, 0);
    struct session *s = session_new(&loop, &context, caller);
    caller_release(caller);
    const char *at = (const char *)data;
    const char *end = at + size;
    while (at < end) {
        const char *newline = memchr(at, '\n', (size_t)(end - at));
        size_t len = newline ? (size_t)(newline - at) : (size_t)(end - at);
        receive_message(s, &outlet, at, len);
        at += len + 1;
    }
    session_close(s, on_idle, &idle);
    uv_run(&loop, UV_RUN_DEFAULT);
    assert(idle);
    session_free(s);
    tools_fini(&context);
    context_fini(&context);
    assert(uv_loop_close(&loop) == 0);
    return 0;
}
