// SPDX-License-Identifier: Apache-2.0
// What the first bytes of a client say.
#include "sandbox-backend/netd/hello.h"

static void parse_tls(struct hello *h, const uint8_t *data, size_t len)
{
    switch (tls_hello_parse(&h->name, data, len, &h->why)) {
    case TLS_HELLO_MORE:
        h->kind = HELLO_MORE;
        break;
    case TLS_HELLO_BAD:
        h->kind = HELLO_BAD;
        break;
    case TLS_HELLO_DONE:
        h->kind = HELLO_TLS;
        break;
    }
}

static void parse_http(struct hello *h, const uint8_t *data, size_t len)
{
    struct http_head head;
    switch (http_head_parse(&head, data, len)) {
    case HTTP_HEAD_MORE:
        h->kind = HELLO_MORE;
        break;
    case HTTP_HEAD_OTHER:
        h->kind = HELLO_OTHER;
        break;
    case HTTP_HEAD_BAD:
        h->kind = HELLO_BAD;
        h->why = head.why;
        break;
    case HTTP_HEAD_DONE:
        h->kind = head.is_connect ? HELLO_CONNECT : HELLO_HTTP;
        h->name = head.host;
        h->has_upgrade = head.has_upgrade;
        break;
    }
}

void hello_parse(struct hello *h, const uint8_t *data, size_t len)
{
    *h = (struct hello){.kind = HELLO_MORE};
    if (len == 0)
        return;
    if (data[0] == TLS_RECORD_TYPE)
        parse_tls(h, data, len);
    else
        parse_http(h, data, len);
    if (h->kind == HELLO_MORE && len >= HELLO_MAX) {
        h->kind = HELLO_BAD;
        h->why = "16 KiB that do not say what they are";
    }
}
