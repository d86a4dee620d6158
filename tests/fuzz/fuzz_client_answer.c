// SPDX-License-Identifier: Apache-2.0
// Fuzz the client library's parsers of answers: errors, sandboxes, process events. The first byte
// chooses the parser.
#include <stdint.h>

#include "sandbox-backend/base/json.h"
#include "sandbox-backend/client/access.h"
#include "sandbox-backend/client/answer.h"

static void take_sandbox(const char *text, size_t len)
{
    static struct access_cache cache;
    json_t *sandbox = json_parse(text, len, NULL);
    const struct access *a = access_cache_put(&cache, sandbox);
    if (a)
        access_envd_older(a, 0, 4, 0);
    json_decref(sandbox);
    access_cache_fini(&cache);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);
int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    if (size == 0)
        return 0;
    const char *text = (const char *)data + 1;
    size_t len = size - 1;
    struct err e = ERR_INIT;
    struct process_event ev = {0};
    switch (data[0]) {
    case 'a':
        answer_api_error(&e, 404, text, len);
        break;
    case 'e':
        answer_envd_error(&e, len & 1, 502, text, len);
        break;
    case 'c':
        answer_envd_error(&e, false, 400, text, len);
        break;
    case 's':
        take_sandbox(text, len);
        break;
    default:
        (void)process_event_parse(text, len, &ev, &e);
        buf_fini(&ev.data);
    }
    return 0;
}
