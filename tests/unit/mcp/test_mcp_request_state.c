// SPDX-License-Identifier: Apache-2.0
// A request state that a client sends back is valid only for the request that it was made for.
#include <string.h>

#include "mcp-server/protocol/inputs.h"
#include "sandbox-backend/base/str.h"
#include "tests/lib/client/exchange_peer.h"
#include "tests/lib/harness/tap.h"

#define MODERN "2026-07-28"
#define CALL   "{\"name\":\"t\",\"arguments\":{\"a\":1,\"b\":[2]}}"

// What a request with these parameters, which brings `sealed`, finds in it; new string.
static char *bring(const char *owner, const char *method, const char *params, const char *sealed,
                   struct err *e)
{
    struct exchange_peer peer;
    exchange_peer_init(&peer, owner);
    struct exchange *x = exchange_peer_begin(&peer, method, params, MODERN);
    json_object_set_new(x->params, "requestState", json_string(sealed));
    char *state = request_state_open(x, e);
    exchange_cancel(x);
    exchange_peer_fini(&peer);
    return state;
}

static char *seal(const char *owner, const char *state, int64_t life_s)
{
    struct exchange_peer peer;
    exchange_peer_init(&peer, owner);
    struct exchange *x = exchange_peer_begin(&peer, "tools/call", CALL, MODERN);
    json_t *sealed = request_state_seal(x, state, life_s);
    char *text = xstrdup(json_string_value(sealed));
    json_decref(sealed);
    exchange_cancel(x);
    exchange_peer_fini(&peer);
    return text;
}

static void good(const char *owner, const char *params, const char *sealed, const char *what)
{
    struct err e = ERR_INIT;
    char *state auto_free = bring(owner, "tools/call", params, sealed, &e);
    is_str(state, "what I know", "%s", what);
}

static void bad(const char *owner, const char *method, const char *params, const char *sealed,
                const char *what)
{
    struct err e = ERR_INIT;
    char *state auto_free = bring(owner, method, params, sealed, &e);
    ok(!state && e.code == ERR_DENIED, "%s", what);
}

static void test_binding(void)
{
    char *sealed auto_free = seal("me", "what I know", 60);
    good("me", CALL, sealed, "the same request again");
    good("me", "{\"arguments\":{\"b\":[2],\"a\":1},\"name\":\"t\"}", sealed, "in another order");
    good("me",
         "{\"name\":\"t\",\"arguments\":{\"a\":1,\"b\":[2]},\"_meta\":{\"x\":1},"
         "\"inputResponses\":{\"k\":{}}}",
         sealed, "with what a retry adds");
    bad("you", "tools/call", CALL, sealed, "another caller");
    bad(NULL, "tools/call", CALL, sealed, "nobody");
    bad("me", "prompts/get", CALL, sealed, "another method");
    bad("me", "tools/call", "{\"name\":\"u\",\"arguments\":{\"a\":1,\"b\":[2]}}", sealed,
        "another tool");
    bad("me", "tools/call", "{\"name\":\"t\",\"arguments\":{\"a\":1,\"b\":[3]}}", sealed,
        "other arguments");
    bad("me", "tools/call", "{\"name\":\"t\"}", sealed, "no arguments");
    char *old auto_free = seal("me", "what I know", 0);
    bad("me", "tools/call", CALL, old, "expired");
}

// Each byte changed, each prefix, and what is longer.
static void test_tampering(void)
{
    char *sealed auto_free = seal("me", "what I know", 60);
    size_t len = strlen(sealed);
    for (size_t i = 0; i < len; i++) {
        char *other auto_free = xstrdup(sealed);
        other[i] = other[i] == 'A' ? 'B' : 'A';
        bad("me", "tools/call", CALL, other, "changed");
        other[i] = '\0';
        bad("me", "tools/call", CALL, other, "cut off");
    }
    char *longer auto_free = str_printf("%s-TAMPERED", sealed);
    bad("me", "tools/call", CALL, longer, "longer");
    char *spaced auto_free = str_printf(" %s", sealed);
    bad("me", "tools/call", CALL, spaced, "a space more");
    bad("me", "tools/call", CALL, " ", "a space");
    bad("me", "tools/call", CALL, "  ", "two");
}

static void test_absence(void)
{
    struct err e = ERR_INIT;
    struct exchange_peer peer;
    exchange_peer_init(&peer, "me");
    struct exchange *x = exchange_peer_begin(&peer, "tools/call", CALL, MODERN);
    char *state auto_free = request_state_open(x, &e);
    ok(!state && e.code == ERR_NOT_FOUND, "a request that brings none");
    exchange_cancel(x);
    exchange_peer_fini(&peer);
    char *empty auto_free = seal("me", "", 60);
    struct err none = ERR_INIT;
    char *opened auto_free = bring("me", "tools/call", CALL, empty, &none);
    is_str(opened, "", "an empty state is one");
}

static void shape(const char *params, const char *version, bool want)
{
    struct exchange_peer peer;
    exchange_peer_init(&peer, NULL);
    struct exchange *x = exchange_peer_begin(&peer, "tools/call", params, version);
    bool is_good = inputs_are_good(x);
    ok(is_good == want, "%s in %s", params, version);
    is_int(json_array_size(peer.sent), want ? 0 : 1, "an error, or none");
    if (is_good)
        exchange_cancel(x);
    ok(exchange_peer_fini(&peer) && peer.ended == 1, "ended once");
}

static void test_shapes(void)
{
    shape("{}", MODERN, true);
    shape("{\"inputResponses\":{}}", MODERN, true);
    shape("{\"inputResponses\":{\"a\":{}},\"requestState\":\"\"}", MODERN, true);
    shape("{\"inputResponses\":\"x\"}", MODERN, false);
    shape("{\"inputResponses\":[]}", MODERN, false);
    shape("{\"inputResponses\":null}", MODERN, false);
    shape("{\"inputResponses\":{\"a\":7}}", MODERN, false);
    shape("{\"requestState\":7}", MODERN, false);
    shape("{\"inputResponses\":\"x\",\"requestState\":7}", "2025-11-25", true);
}

int main(void)
{
    test_binding();
    test_tampering();
    test_absence();
    test_shapes();
    return tap_done();
}
