// SPDX-License-Identifier: Apache-2.0
// Progress: sent at once, then in batches of limited size and whole characters. A client that does
// not read gets none.
#include <string.h>

#include "mcp-server/methods/receive.h"
#include "mcp-server/protocol/progress.h"
#include "sandbox-backend/base/clock.h"
#include "sandbox-backend/base/str.h"
#include "tests/lib/client/exchange_peer.h"
#include "tests/lib/harness/tap.h"

#define PARAMS "{\"_meta\":{\"progressToken\":\"t\"}}"

#define MESSAGE_MS 100 // between two messages, as in progress.c

struct fixture {
    struct exchange_peer peer;
    struct exchange *x;
    struct progress *progress;
    int told;
};

static char *on_tell(int seconds, void *ctx)
{
    struct fixture *f = ctx;
    f->told++;
    return str_printf("beat after %d s", seconds);
}

static void begin(struct fixture *f, const char *version)
{
    exchange_peer_init(&f->peer, NULL);
    f->x = exchange_peer_begin(&f->peer, "tools/call", PARAMS, version);
    f->progress = progress_start(f->x, on_tell, f);
    f->told = 0;
}

static void end(struct fixture *f)
{
    progress_stop(f->progress);
    exchange_cancel(f->x);
    ok(exchange_peer_fini(&f->peer), "nothing is left");
}

static void print(struct fixture *f, const char *text)
{
    progress_output(f->progress, PROGRESS_STDOUT, text, strlen(text));
}

static size_t count(const struct fixture *f)
{
    return json_array_size(f->peer.sent);
}

static const json_t *params(const struct fixture *f, size_t i)
{
    return json_object_get(json_array_get(f->peer.sent, i), "params");
}

static const char *message(const struct fixture *f, size_t i)
{
    return json_string_value(json_object_get(params(f, i), "message"));
}

// Turns the loop until so many messages were sent.
static void wait_for(struct fixture *f, size_t messages)
{
    int64_t start = clock_mono_ms();
    while (count(f) < messages && clock_mono_ms() - start < 20000)
        uv_run(&f->peer.loop, UV_RUN_ONCE);
}

// Prints three times before the second may be sent, however busy the machine is.
static void begin_with_three(struct fixture *f)
{
    for (;;) {
        begin(f, "2025-11-25");
        int64_t start = clock_mono_ms();
        print(f, "one");
        print(f, "two ");
        print(f, "three");
        if (clock_mono_ms() - start < MESSAGE_MS)
            return;
        end(f);
    }
}

static void test_rate(void)
{
    struct fixture f;
    begin_with_three(&f);
    is_int(count(&f), 1, "the first is sent inside the call, what comes soon after waits");
    is_str(message(&f, 0), "one", "as it is");
    is_str(json_string_value(json_object_get(params(&f, 0), "progressToken")), "t", "its token");
    wait_for(&f, 2);
    is_str(message(&f, 1), "two three", "and comes together");
    print(&f, "four");
    progress_output(f.progress, PROGRESS_STDERR, "\xe2\x82", 2);
    end(&f);
}

static void test_end(void)
{
    struct fixture f;
    begin(&f, "2025-11-25");
    print(&f, "one");
    print(&f, "two\xc3");
    progress_stop(f.progress);
    is_int(count(&f), 2, "what waits is sent at the end");
    is_str(message(&f, 1), "two\xef\xbf\xbd", "half a character is what it is");
    double before = json_number_value(json_object_get(params(&f, 0), "progress"));
    double after = json_number_value(json_object_get(params(&f, 1), "progress"));
    ok(before < after, "progress increases");
    exchange_cancel(f.x);
    ok(exchange_peer_fini(&f.peer), "nothing is left");
}

// Its method winds down later.
static void on_cancel(struct exchange *x)
{
    (void)x;
}

static void test_cancelled(void)
{
    struct fixture f;
    begin(&f, "2025-11-25");
    print(&f, "one");
    print(&f, "two");
    f.x->on_cancel = on_cancel;
    exchange_cancel(f.x);
    progress_stop(f.progress);
    exchange_result(f.x, json_object()); // nobody's any more
    is_int(count(&f), 1, "nothing follows a cancellation");
    ok(exchange_peer_fini(&f.peer), "nothing is left");
}

static void test_bounds(void)
{
    struct fixture f;
    begin(&f, "2025-11-25");
    print(&f, "x");
    for (int i = 0; i < 1000; i++)
        print(&f, "0123456789abcdefghijklmnopqrstuvwxyz0123456789abcdefghijklmnopqrstuvwxyz");
    wait_for(&f, 2);
    const char *text = message(&f, 1);
    ok(strlen(text) < 8300, "at most 8 KiB and a remark");
    ok(strstr(text, "\n[... 63808 bytes left out ...]\n") != NULL, "how much is left out");
    ok(strncmp(text, "0123", 4) == 0 && str_eq(text + strlen(text) - 4, "wxyz"), "the edges");
    end(&f);
}

static void test_reader_that_stops(void)
{
    struct fixture f;
    begin(&f, "2025-11-25");
    f.peer.is_busy = true;
    print(&f, "one ");
    is_int(count(&f), 0, "nothing is sent to who does not read");
    for (int i = 0; i < 3; i++)
        uv_run(&f.peer.loop, UV_RUN_ONCE);
    print(&f, "two");
    is_int(count(&f), 0, "nor later");
    f.peer.is_busy = false;
    wait_for(&f, 1);
    is_str(message(&f, 0), "one two", "it gets it when it reads");
    f.peer.is_busy = true;
    print(&f, "three");
    end(&f);
}

static void test_characters(void)
{
    static const char TEXT[] = "a\xc3\xbc\xe2\x82\xac\xf0\x9f\x98\x80z";
    for (size_t cut = 1; cut < sizeof TEXT - 1; cut++) {
        struct fixture f;
        begin(&f, "2026-07-28");
        progress_output(f.progress, PROGRESS_STDOUT, TEXT, cut);
        progress_output(f.progress, PROGRESS_STDERR, "\xc3", 1);
        progress_output(f.progress, PROGRESS_STDOUT, TEXT + cut, sizeof TEXT - 1 - cut);
        progress_output(f.progress, PROGRESS_STDERR, "\xa4", 1);
        wait_for(&f, 2);
        char *all auto_free = str_printf("%s%s", message(&f, 0), message(&f, 1));
        ok(str_eq(all, "a\xc3\xbc\xe2\x82\xac\xf0\x9f\x98\x80z\xc3\xa4"), "cut at %zu", cut);
        end(&f);
    }
}

static void test_beats(void)
{
    struct fixture f;
    begin(&f, "2025-11-25");
    wait_for(&f, 1);
    ok(strncmp(message(&f, 0), "beat after ", 11) == 0, "a beat says what is told");
    print(&f, "output");
    is_int(count(&f), 2, "output does not wait for one");
    is_int(f.told, 1, "once");
    end(&f);
}

static void test_without_messages(void)
{
    struct fixture f;
    begin(&f, "2024-11-05");
    print(&f, "output");
    is_int(count(&f), 0, "output cannot be told");
    wait_for(&f, 1);
    ok(json_object_get(params(&f, 0), "progress") != NULL, "a number can");
    ok(message(&f, 0) == NULL, "a message cannot");
    end(&f);
}

// Each has a timer, which its session waits for; but a call is one call.
static void test_counts_once(void)
{
    static const char PING[] = "{\"jsonrpc\":\"2.0\",\"id\":7,\"method\":\"ping\"}";
    struct exchange_peer peer;
    struct exchange *x[SESSION_IN_FLIGHT_MAX];
    struct progress *p[SESSION_IN_FLIGHT_MAX];
    exchange_peer_init(&peer, NULL);
    for (int i = 0; i < SESSION_IN_FLIGHT_MAX - 1; i++) {
        x[i] = exchange_peer_begin(&peer, "tools/call", PARAMS, "2025-11-25");
        p[i] = progress_start(x[i], on_tell, NULL);
    }
    receive_message(peer.session, &peer.outlet, PING, sizeof PING - 1);
    ok(json_object_get(json_array_get(peer.sent, 0), "result"), "there is room for one more");
    x[SESSION_IN_FLIGHT_MAX - 1] = exchange_peer_begin(&peer, "tools/call", PARAMS, "2025-11-25");
    receive_message(peer.session, &peer.outlet, PING, sizeof PING - 1);
    ok(json_object_get(json_array_get(peer.sent, 1), "error"), "and then for none");
    for (int i = 0; i < SESSION_IN_FLIGHT_MAX - 1; i++)
        progress_stop(p[i]);
    for (int i = 0; i < SESSION_IN_FLIGHT_MAX; i++)
        exchange_cancel(x[i]);
    ok(exchange_peer_fini(&peer), "nothing is left");
}

int main(void)
{
    test_rate();
    test_end();
    test_cancelled();
    test_bounds();
    test_reader_that_stops();
    test_characters();
    test_beats();
    test_without_messages();
    test_counts_once();
    return tap_done();
}
