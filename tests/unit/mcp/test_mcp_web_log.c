// SPDX-License-Identifier: Apache-2.0
// The events of a stream that are kept so that they can be sent again.
#include <string.h>

#include "mcp-server/web/web_log.h"
#include "sandbox-backend/base/mem.h"
#include "tests/lib/harness/tap.h"

static void test_order(void)
{
    struct web_log l = {0};
    ok(!web_log_after(&l, 0), "nothing yet");
    web_log_add(&l, 1, "one", 3);
    web_log_add(&l, 3, "three", 5);
    const struct web_event *e = web_log_after(&l, 0);
    ok(e && e->number == 1 && e->len == 3 && memcmp(e->text, "one", 3) == 0, "the first");
    e = web_log_after(&l, 1);
    ok(e && e->number == 3, "numbers may have gaps");
    e = web_log_after(&l, 2);
    ok(e && e->number == 3, "after one that is not there");
    ok(!web_log_after(&l, 3), "nothing after the last");
    is_int(l.bytes, 8, "bytes are counted");
    web_log_fini(&l);
    ok(!l.first && !l.last && l.bytes == 0 && l.count == 0, "empty and usable");
}

static void test_bounds(void)
{
    struct web_log l = {0};
    for (unsigned i = 1; i <= WEB_LOG_EVENTS + 10; i++)
        web_log_add(&l, i, "x", 1);
    is_int(l.count, WEB_LOG_EVENTS, "so many events");
    is_int(l.first->number, 11, "the oldest went");
    char *half auto_free = xcalloc(1, WEB_LOG_BYTES);
    web_log_add(&l, 9000, half, WEB_LOG_BYTES / 2 + 1);
    web_log_add(&l, 9001, half, WEB_LOG_BYTES / 2 + 1);
    ok(l.count == 1 && l.first->number == 9001, "so many bytes");
    web_log_add(&l, 9002, half, WEB_LOG_BYTES);
    web_log_add(&l, 9003, "y", 1);
    ok(l.count == 1 && l.first->number == 9003, "a large one goes when another comes");
    char *huge auto_free = xcalloc(1, 2 * WEB_LOG_BYTES);
    web_log_add(&l, 9004, huge, 2 * WEB_LOG_BYTES);
    ok(l.count == 1 && l.first->number == 9004, "but the newest stays, however large");
    web_log_add(&l, 9005, "z", 1);
    web_log_add(&l, 9006, "z", 1);
    web_log_keep_last(&l);
    ok(l.count == 1 && l.bytes == 1 && l.first == l.last && l.first->number == 9006, "the last");
    web_log_fini(&l);
}

int main(void)
{
    test_order();
    test_bounds();
    return tap_done();
}
