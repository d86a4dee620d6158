// SPDX-License-Identifier: Apache-2.0
// Subscribers and their notifications of changes. The catalogue's lists change, its source answers
// when the test says so, and outlets may be busy or gone.
#include <string.h>
#include <uv.h>

#include "mcp-server/context/catalog.h"
#include "mcp-server/methods/receive.h"
#include "mcp-server/resources/prompts.h"
#include "mcp-server/resources/resources.h"
#include "mcp-server/resources/subscriber.h"
#include "mcp-server/resources/subscription.h"
#include "mcp-server/tools/call/tools.h"
#include "sandbox-backend/base/json.h"
#include "sandbox-backend/base/mem.h"
#include "sandbox-backend/base/str.h"
#include "tests/lib/harness/tap.h"

#define META                                                      \
    "\"_meta\":{\"io.modelcontextprotocol/protocolVersion\":"     \
    "\"2026-07-28\",\"io.modelcontextprotocol/clientCapabilities" \
    "\":{}}"

// ---- a source: test:now is watched at once, test:later when `later` is told so, test:never not
static struct subscription *later, *now;
static int unwatched;

static void watch(struct subscription *s)
{
    struct err e = ERR_INIT;
    if (str_eq(subscription_uri(s), "test:later")) {
        later = s;
    } else if (str_eq(subscription_uri(s), "test:never")) {
        err_set(&e, ERR_NOT_FOUND, "there is none");
        subscription_ended(s, &e);
    } else {
        now = s;
        subscription_started(s);
    }
}

static void unwatch(struct subscription *s)
{
    (void)s;
    unwatched++;
}

static const struct resource_source SOURCE = {.scheme = "test", .watch = watch, .unwatch = unwatch};
const struct catalog CATALOG = {.resources = {&SOURCE}, .changes = {true, true, true}};

// ---- an outlet
struct out {
    struct outlet base;
    struct buf text; // a message a line, ids and texts only
    bool is_busy;
    int ended;
};

static void send_message(struct outlet *o, const json_t *message)
{
    struct out *out = container_of(o, struct out, base);
    json_to_buf(&out->text, message);
    buf_addc(&out->text, '\n');
}

static bool is_busy(struct outlet *o)
{
    return container_of(o, struct out, base)->is_busy;
}

static void on_end(struct outlet *o)
{
    container_of(o, struct out, base)->ended++;
}

static struct out *out_new(bool is_one_message)
{
    struct out *out = xcalloc(1, sizeof *out);
    out->base = (struct outlet){send_message, is_busy, on_end, .is_one_message = is_one_message};
    return out;
}

static void out_free(struct out *out)
{
    buf_fini(&out->text);
    free(out);
}

static int count(const struct out *out, const char *what)
{
    int n = 0;
    for (const char *at = buf_str(&out->text); (at = strstr(at, what)); at++)
        n++;
    return n;
}

// ---- a session
static uv_loop_t loop;
static struct context box;
static struct config config;
static bool was_idle;

static void on_idle(void *ctx)
{
    (void)ctx;
    was_idle = true;
}

static struct session *session_begin(struct out *out)
{
    struct caller *caller = caller_new(NULL, 0);
    struct session *s = session_new(&loop, &box, caller);
    caller_release(caller);
    s->outlet = &out->base;
    return s;
}

static void say(struct session *s, struct out *out, const char *message)
{
    receive_message(s, &out->base, message, strlen(message));
}

static void initialize(struct session *s, struct out *out)
{
    say(s, out,
        "{\"jsonrpc\":\"2.0\",\"id\":0,\"method\":\"initialize\",\"params\":{\"protocolVersion\":"
        "\"2025-11-25\",\"capabilities\":{},\"clientInfo\":{\"name\":\"t\",\"version\":\"1\"}}}");
    buf_clear(&out->text);
}

static void subscribe(struct session *s, struct out *out, int id, const char *uri)
{
    char *message auto_free = str_printf("{\"jsonrpc\":\"2.0\",\"id\":%d,\"method\":"
                                         "\"resources/subscribe\",\"params\":{\"uri\":\"%s\"}}",
                                         id, uri);
    say(s, out, message);
}

static void listen_to(struct session *s, struct out *out, int id, const char *wanted)
{
    char *message auto_free =
        str_printf("{\"jsonrpc\":\"2.0\",\"id\":%d,\"method\":\"subscriptions/listen\",\"params\":{"
                   "\"notifications\":%s," META "}}",
                   id, wanted);
    say(s, out, message);
}

static void session_end(struct session *s)
{
    was_idle = false;
    session_close(s, on_idle, NULL);
    while (!was_idle)
        uv_run(&loop, UV_RUN_ONCE);
    session_free(s);
}

static void run_for(uint64_t ms)
{
    uint64_t end = uv_hrtime() + ms * 1000000;
    while (uv_hrtime() < end) {
        uv_run(&loop, UV_RUN_NOWAIT);
        uv_sleep(2);
    }
    uv_update_time(&loop);
}

// ---- the tests
static void test_lists(void)
{
    struct out *out = out_new(false);
    struct session *s = session_begin(out);
    subscriber_list_changed(&box, CATALOG_TOOLS);
    is_int(out->text.len, 0, "one who has not said hello is told nothing");
    initialize(s, out);
    subscriber_list_changed(&box, CATALOG_TOOLS);
    is_int(count(out, "notifications/tools/list_changed"), 1, "a legacy session is told");
    ok(!strstr(buf_str(&out->text), "_meta"), "without a tag");
    listen_to(s, out, 7, "{\"promptsListChanged\":true,\"toolsListChanged\":false}");
    ok(strstr(buf_str(&out->text), "{\"promptsListChanged\":true}"), "only what was asked for");
    buf_clear(&out->text);
    subscriber_list_changed(&box, CATALOG_PROMPTS);
    is_int(count(out, "notifications/prompts/list_changed"), 2, "the session and the listen");
    is_int(count(out, "subscriptionId\":7"), 1, "of which one is tagged");
    subscriber_list_changed(&box, CATALOG_RESOURCES);
    is_int(count(out, "notifications/resources/list_changed"), 1, "the listen did not ask");
    session_end(s);
    out_free(out);
}

static void test_busy_and_absent(void)
{
    struct out *out = out_new(false);
    struct session *s = session_begin(out);
    initialize(s, out);
    subscribe(s, out, 1, "test:now");
    is_int(count(out, "\"result\":{}"), 1, "subscribed");
    buf_clear(&out->text);
    out->is_busy = true;
    for (int i = 0; i < 10; i++)
        subscriber_resource_changed(&box, "test:now");
    subscriber_resource_changed(&box, "test:other");
    run_for(100);
    is_int(out->text.len, 0, "one who does not read is not told");
    out->is_busy = false;
    run_for(1100);
    is_int(count(out, "resources/updated"), 1, "until it does, and then once");
    s->outlet = NULL;
    subscriber_resource_changed(&box, "test:now");
    run_for(1200);
    s->outlet = &out->base;
    run_for(1100);
    is_int(count(out, "resources/updated"), 2, "the same without a stream");
    session_end(s);
    out_free(out);
}

static void test_sources(void)
{
    struct out *out = out_new(false);
    struct session *s = session_begin(out);
    initialize(s, out);
    subscribe(s, out, 1, "test:never");
    is_int(count(out, "-32002"), 1, "refused by its source");
    subscribe(s, out, 2, "other:x");
    is_int(count(out, "-32002"), 2, "and by nobody");
    subscribe(s, out, 3, "test:later");
    subscription_changed(later);
    run_for(100);
    is_int(count(out, "\"id\":3"), 0, "one that takes its time");
    subscription_started(later);
    is_int(count(out, "\"id\":3"), 1, "is answered then");
    struct err e = ERR_INIT;
    err_set(&e, ERR_GONE, "it ended");
    buf_clear(&out->text);
    subscription_ended(later, &e);
    is_int(count(out, "resources/updated"), 1, "the end is told as a last change");
    unwatched = 0;
    subscribe(s, out, 4, "test:later");
    subscribe(s, out, 5, "test:now");
    session_end(s);
    is_int(unwatched, 2, "nothing is watched for one that is gone");
    is_int(count(out, "\"id\":4"), 0, "who is not answered");
    ok(box.subscribers == NULL, "or kept");
    out_free(out);
}

static void test_listen_waits(void)
{
    struct out *out = out_new(true);
    struct session *s = session_begin(out);
    unwatched = 0;
    listen_to(s, out, 9,
              "{\"resourceSubscriptions\":[\"test:later\",\"test:now\",\"test:never\"]}");
    subscription_changed(now);
    subscriber_list_changed(&box, CATALOG_TOOLS);
    run_for(100);
    is_int(out->text.len, 0, "nothing before the acknowledgement");
    subscription_started(later);
    ok(strstr(buf_str(&out->text), "acknowledged") &&
           strstr(buf_str(&out->text), "[\"test:later\",\"test:now\"]"),
       "which names what is watched");
    run_for(100);
    is_int(count(out, "resources/updated"), 1, "then what changed meanwhile");
    buf_clear(&out->text);
    session_end(s);
    ok(strstr(buf_str(&out->text), "\"id\":9,\"result\":"),
       "a stream of its own ends with a result");
    is_int(count(out, "subscriptionId"), 1, "that is tagged");
    is_int(out->ended, 1, "once");
    is_int(unwatched, 2, "and nothing is watched for it");
    out_free(out);
}

static void test_listen_does_not_wait_forever(void)
{
    struct out *out = out_new(true);
    struct session *s = session_begin(out);
    listen_to(s, out, 9, "{\"resourceSubscriptions\":[\"test:later\",\"test:now\"]}");
    run_for(5200);
    ok(strstr(buf_str(&out->text), "[\"test:now\"]"), "a source that is late is left out");
    session_end(s);
    out_free(out);
}

int main(void)
{
    uv_loop_init(&loop);
    context_init(&box, &loop, &config);
    test_lists();
    test_busy_and_absent();
    test_sources();
    test_listen_waits();
    test_listen_does_not_wait_forever();
    context_close(&box);
    tools_fini(&box);
    context_fini(&box);
    is_int(uv_loop_close(&loop), 0, "nothing is left in the loop");
    return tap_done();
}
