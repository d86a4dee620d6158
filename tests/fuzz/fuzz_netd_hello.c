// SPDX-License-Identifier: Apache-2.0
// Fuzz the first bytes of a hostile guest's connection. A verdict about them must still hold when
// more bytes arrive. Otherwise the filter could judge one beginning and the server understand
// another.
#include <ctype.h>
#include <stdlib.h>
#include <string.h>

#include "sandbox-backend/netd/gate/hello.h"
#include "sandbox-backend/netd/gate/http_head.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static void require(bool promise)
{
    if (!promise)
        abort();
}

static void check(const struct hello *h)
{
    size_t len = strlen(h->name.text);
    require(len <= NET_NAME_MAX && (len == 0 || h->name.text[len - 1] != '.'));
    for (size_t i = 0; i < len; i++)
        require(h->name.text[i] == tolower((unsigned char)h->name.text[i]) &&
                h->name.text[i] > ' ' && h->name.text[i] < 0x7f);
    require(h->kind != HELLO_BAD || h->why);
}

// In a block of its own, so that a sanitizer sees its end.
static struct hello parse(const uint8_t *data, size_t size)
{
    struct hello h;
    uint8_t *copy = malloc(size + 1);
    if (!copy)
        abort();
    memcpy(copy, data, size);
    hello_parse(&h, copy, size);
    free(copy);
    check(&h);
    return h;
}

// Once something was said, more bytes do not change it.
static void check_pieces(const uint8_t *data, size_t size)
{
    struct hello first = {.kind = HELLO_MORE};
    size_t step = 1 + size / 32;
    for (size_t n = size % step; n <= size; n += step) {
        struct hello h = parse(data, n);
        if (first.kind == HELLO_MORE) {
            first = h;
            continue;
        }
        require(h.kind == first.kind && strcmp(h.name.text, first.name.text) == 0);
    }
}

static void check_watch(const uint8_t *data, size_t size)
{
    struct http_watch w = {0};
    size_t at = 0;
    enum http_watch_step step = HTTP_WATCH_PASS;
    while (at < size && (step == HTTP_WATCH_PASS || step == HTTP_WATCH_ASK)) {
        struct http_head head = {.why = NULL};
        size_t used;
        step = http_watch_next(&w, &head, data + at, size - at, &used);
        require(used <= size - at &&
                (used > 0) == (step <= HTTP_WATCH_ASK && step > HTTP_WATCH_MORE));
        require(step != HTTP_WATCH_BAD || head.why);
        at += used;
    }
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    if (size > 32768)
        return 0;
    check_pieces(data, size);
    check_watch(data, size);
    return 0;
}
