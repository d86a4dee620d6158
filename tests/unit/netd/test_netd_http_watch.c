// SPDX-License-Identifier: Apache-2.0
// Finding the start of each request in the bytes of an HTTP/1 client, however they are cut into
// pieces.
#include <stdlib.h>
#include <string.h>

#include "sandbox-backend/netd/gate/http_head.h"
#include "tests/lib/harness/tap.h"

static char hosts[256]; // as they were asked about
static const char *why;

// Feeds `text`, of which at most `step` more bytes are there each time. How much may go before
// something is refused.
static size_t run(const char *text, size_t step)
{
    struct http_watch w = {0};
    size_t at = 0, there = 0, all = strlen(text);
    hosts[0] = '\0';
    why = NULL;
    while (at < all) {
        struct http_head head = {.why = NULL};
        size_t used;
        enum http_watch_step got =
            http_watch_next(&w, &head, (const uint8_t *)text + at, there - at, &used);
        at += used;
        if (got == HTTP_WATCH_BAD) {
            why = head.why;
            break;
        }
        if (got == HTTP_WATCH_ASK) {
            strcat(hosts, head.host.text);
            strcat(hosts, ";");
        }
        if (got == HTTP_WATCH_MORE || at == there) {
            if (there == all)
                break;
            there = all - there < step ? all : there + step;
        }
    }
    return at;
}

static void good(const char *text, const char *want, const char *what)
{
    static const size_t steps[] = {1, 2, 3, 10, 1000};
    for (size_t i = 0; i < sizeof(steps) / sizeof(steps[0]); i++) {
        is_int(run(text, steps[i]), strlen(text), "%s, %zu bytes at a time: all may go", what,
               steps[i]);
        is_str(hosts, want, "and these hosts were asked about");
    }
}

static void bad(const char *text, const char *want, const char *what)
{
    run(text, 1);
    ok(why != NULL, "%s: %s", what, why ? why : "");
    run(text, 1000);
    ok(why != NULL, "%s, at once", what);
    is_str(hosts, want, "the hosts before it");
}

#define HEAD(host, more) "POST / HTTP/1.1\r\nHost: " host "\r\n" more "\r\n"
#define A                HEAD("a.b", "")
#define CHUNKED          HEAD("a.b", "Transfer-Encoding: chunked\r\n")

int main(void)
{
    good(A A HEAD("e.v", ""), "a.b;a.b;e.v;", "three requests");
    good(HEAD("a.b", "Content-Length: 6\r\n") "GET / " A, "a.b;a.b;", "a body that looks like one");
    good(HEAD("a.b", "Content-Length: 0\r\n") A, "a.b;a.b;", "an empty body");
    good(CHUNKED "5\r\nhello\r\nA\r\n0123456789\r\n0\r\n\r\n" A, "a.b;a.b;", "chunks");
    good(CHUNKED "29\r\n" A "\r\n0\r\n\r\n", "a.b;", "a request inside of a chunk");
    bad(CHUNKED "5;x=y\r\nhello\r\n0\r\n\r\n", "a.b;", "an extension of a chunk");
    bad(CHUNKED "5\nhello\r\n0\r\n\r\n", "a.b;", "a bare LF behind a size");
    bad(CHUNKED " 5\r\nhello\r\n0\r\n\r\n", "a.b;", "a space before a size");
    bad(CHUNKED "0x5\r\nhello\r\n0\r\n\r\n", "a.b;", "a size in C's form");
    bad(CHUNKED "-5\r\nhello\r\n0\r\n\r\n", "a.b;", "a negative size");
    bad(CHUNKED "1000000000000000\r\n", "a.b;", "a size of 16 digits");
    bad(CHUNKED "5\r\nhelloX\r\n", "a.b;", "a chunk that is longer than it says");
    bad(CHUNKED "0\r\nX: y\r\n\r\n", "a.b;", "trailers");
    bad(CHUNKED "0\r\n\n", "a.b;", "a bare LF at the end");
    bad(A "\r\n" A, "a.b;", "an empty line between requests");
    bad(A "\x16\x03\x01", "a.b;", "TLS behind a request");
    bad(A "hello\r\n", "a.b;", "something else behind a request");
    bad(HEAD("a.b", "Content-Length: 1\r\n") "x y\r\n" A, "a.b;",
        "a body that is longer than it says");
    return tap_done();
}
