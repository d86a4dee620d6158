// SPDX-License-Identifier: Apache-2.0
// The filter by metadata, the order, and the tokens of pages.
#include "sandbox-backend/daemon/api/api_list.h"

#include <stdlib.h>
#include <string.h>

#include "sandbox-backend/base/json.h"
#include "sandbox-backend/base/mem.h"
#include "sandbox-backend/daemon/sandbox/sandbox.h"
#include "tests/lib/harness/tap.h"

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
    struct page newest = {0};
    struct page oldest = {.ascending = true};
    ok(page_is_before(&newest, 2, "c", 1, "a") && !page_is_before(&newest, 1, "a", 2, "c"),
       "newest");
    ok(page_is_before(&oldest, 1, "a", 2, "c") && !page_is_before(&oldest, 2, "c", 1, "a"),
       "oldest");
    ok(page_is_before(&oldest, 1, "a", 1, "b") && page_is_before(&newest, 1, "b", 1, "a"),
       "same instant");
    ok(!page_is_before(&oldest, 1, "a", 1, "a") && !page_is_before(&newest, 1, "a", 1, "a"),
       "nothing is before itself");
}

static void test_cursor(void)
{
    struct sandbox a = one("aaaaaaaaaaaaaaaaaaaa", 1);
    struct sandbox b = one("bbbbbbbbbbbbbbbbbbbb", 1);
    struct list_query q = {.running = true,
                           .after_ns = INT64_MIN,
                           .page = {.ascending = true, .has_cursor = true, .cursor_ns = 1}};
    memcpy(q.page.cursor_id, a.id, sizeof a.id);
    ok(!list_query_matches(&q, &a), "the last of the page before is not repeated");
    ok(list_query_matches(&q, &b), "its sibling of the same instant is not lost");
    q.page.ascending = false;
    ok(!list_query_matches(&q, &b), "nor is it repeated backwards");
    a.state = SANDBOX_KILLING;
    q.page.has_cursor = false;
    ok(!list_query_matches(&q, &a), "one that is being ended is not shown");
    char *token auto_free = page_token(b.started_ns, b.id);
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
