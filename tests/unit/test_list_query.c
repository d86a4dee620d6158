// SPDX-License-Identifier: Apache-2.0
// The filter by metadata, the order, and the tokens of pages.
#include "sandbox-backend/daemon/list_query.h"

#include <stdlib.h>
#include <string.h>

#include "sandbox-backend/base/json.h"
#include "sandbox-backend/base/mem.h"
#include "sandbox-backend/daemon/sandbox.h"
#include "tests/lib/tap.h"

static void metadata_is(const char *text, const char *want)
{
    struct err e = ERR_INIT;
    json_t *got = list_query_metadata(text, &e);
    char *shown auto_free = got ? json_to_string(got) : xstrdup(e.msg);
    if (want)
        is_str(shown, want, "\"%s\"", text);
    else
        ok(!got && e.code == ERR_INVALID, "\"%s\" is refused: %s", text, shown);
    json_decref(got);
}

static void test_metadata(void)
{
    metadata_is("a%2520b=c%2526d", "{\"a b\":\"c&d\"}");
    metadata_is("a=b", "{\"a\":\"b\"}");
    metadata_is("a=b%26c=d", "{\"a\":\"b\",\"c\":\"d\"}");
    metadata_is("a=", "{\"a\":\"\"}");
    metadata_is("", "{}");
    metadata_is("a=b&&", NULL);
    metadata_is("foo", NULL);
    metadata_is("a=b=c", NULL);
    metadata_is("a=%25FF", NULL);
    metadata_is("%25FF=a", NULL);
    metadata_is("a=%00b", NULL);
    metadata_is("a=%2500b", NULL);
}

static struct sandbox one(const char *id, int64_t started_ns)
{
    struct sandbox sb = {.state = SANDBOX_RUNNING, .started_ns = started_ns};
    memcpy(sb.id, id, SANDBOX_ID_LEN);
    return sb;
}

static void test_order(void)
{
    struct list_query newest = {.running = true, .after_ns = INT64_MIN};
    struct list_query oldest = {.running = true, .after_ns = INT64_MIN, .ascending = true};
    struct sandbox a = one("aaaaaaaaaaaaaaaaaaaa", 1);
    struct sandbox b = one("bbbbbbbbbbbbbbbbbbbb", 1);
    struct sandbox later = one("cccccccccccccccccccc", 2);
    ok(list_query_before(&newest, &later, &a) && !list_query_before(&newest, &a, &later), "newest");
    ok(list_query_before(&oldest, &a, &later) && !list_query_before(&oldest, &later, &a), "oldest");
    ok(list_query_before(&oldest, &a, &b) && list_query_before(&newest, &b, &a), "same instant");
}

static void test_cursor(void)
{
    struct sandbox a = one("aaaaaaaaaaaaaaaaaaaa", 1);
    struct sandbox b = one("bbbbbbbbbbbbbbbbbbbb", 1);
    struct list_query q = {.running = true,
                           .after_ns = INT64_MIN,
                           .ascending = true,
                           .has_cursor = true,
                           .cursor_ns = 1};
    memcpy(q.cursor_id, a.id, sizeof a.id);
    ok(!list_query_matches(&q, &a), "the last of the page before is not repeated");
    ok(list_query_matches(&q, &b), "its sibling of the same instant is not lost");
    q.ascending = false;
    ok(!list_query_matches(&q, &b), "nor is it repeated backwards");
    a.state = SANDBOX_KILLING;
    q.has_cursor = false;
    ok(!list_query_matches(&q, &a), "one that is being ended is not shown");
    char *token auto_free = list_query_token(&b);
    ok(strspn(token, "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789-_") ==
           strlen(token),
       "a token needs no escaping: %s", token);
}

int main(void)
{
    test_metadata();
    test_order();
    test_cursor();
    return tap_done();
}
