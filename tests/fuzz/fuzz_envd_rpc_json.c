// SPDX-License-Identifier: Apache-2.0
// Fuzz requests to envd: envelopes, JSON, and the parsers of every kind of member.
#include <stdint.h>
#include <stdlib.h>

#include "sandbox-backend/base/json.h"
#include "sandbox-backend/connect/connect.h"
#include "sandbox-backend/envd/core/paths.h"
#include "sandbox-backend/envd/process/process_rpc.h"
#include "sandbox-backend/envd/rpc/pjson.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static const struct user USER = {.name = "user", .home = "/home/user"};

static void read_process(const json_t *process)
{
    struct err e = ERR_INIT;
    const char *s;
    const json_t *args;
    const json_t *envs;
    uint32_t pid;
    pjson_string(process, "cmd", &s, "", &e);
    pjson_strings(process, "args", &args, &e);
    pjson_uint32(process, "pid", &pid, 0, &e);
    pjson_string(process, "cwd", &s, "", &e);
    if (s)
        free(path_resolve(s, &USER, NULL, &e));
    struct environment env;
    json_t *none = json_object();
    if (pjson_string_map(process, "envs", &envs, &e) == 0 &&
        environment_init(&env, &USER, none, envs, &e) == 0)
        environment_fini(&env);
    json_decref(none);
}

static void read_message(const json_t *message)
{
    static const struct pjson_enum SIGNALS[] = {{"SIGNAL_SIGKILL", 9}};
    struct err e = ERR_INIT;
    struct buf bytes auto_buf = BUF_INIT;
    const json_t *inner;
    bool b;
    int n;
    pjson_bool(message, "stdin", &b, true, &e);
    pjson_enum(message, "signal", SIGNALS, 1, &n, &e);
    if (pjson_message(message, "input", &inner, &e) == 0)
        pjson_bytes(inner, "stdin", &bytes, &b, &e);
    if (pjson_message(message, "process", &inner, &e) == 0 && inner)
        read_process(inner);
}

static int on_envelope(uint8_t flags, const char *payload, size_t len, void *ctx)
{
    (void)flags;
    (void)ctx;
    struct err e = ERR_INIT;
    json_t *message = json_parse(payload, len, &e);
    if (json_is_object(message))
        read_message(message);
    json_decref(message);
    return 0;
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    struct connect_reader reader;
    struct err e = ERR_INIT;
    connect_reader_init(&reader, 1 << 20);
    connect_reader_feed(&reader, (const char *)data, size, on_envelope, NULL, &e);
    connect_reader_fini(&reader);
    on_envelope(0, (const char *)data, size, NULL); // as the body of a unary call
    return 0;
}
