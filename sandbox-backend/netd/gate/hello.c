// SPDX-License-Identifier: Apache-2.0
// The first bytes of a client.
#include "sandbox-backend/netd/gate/hello.h"

#include <stdbool.h>
#include <string.h>

// ---- the server name in a TLS ClientHello (RFC 8446, 4.1.2; RFC 6066, 3), over one record or more
//
// The parser accepts only messages that every server understands in the same way: one list of names
// with one name, and nothing after the message in its last record. With Encrypted ClientHello this
// is the outer name, which is all that a program between client and server can see.

#define TLS_HELLO_MAX      16384 // of the message, and of the bytes that carry it
#define TLS_RECORD_TYPE    22    // the first byte: handshake
#define RECORD_HEAD_BYTES  5
#define RECORD_MOST_BYTES  16384
#define MESSAGE_HEAD_BYTES 4
#define CLIENT_HELLO       1
#define EXT_SERVER_NAME    0
#define NAME_TYPE_HOST     0
#define RANDOM_BYTES       32
#define SESSION_ID_MAX     32

enum tls_hello_state {
    TLS_HELLO_MORE, // incomplete
    TLS_HELLO_BAD,  // see *why
    TLS_HELLO_DONE, // `name` is set; "" when the client sends none
};

// The bytes that are still to be read. Once a field did not fit, no later field fits.
struct cursor {
    const uint8_t *at;
    size_t left;
    bool is_short;
};

static const uint8_t *take(struct cursor *c, size_t n)
{
    const uint8_t *at = c->at;
    if (c->is_short || n > c->left) {
        c->is_short = true;
        return NULL;
    }
    c->at += n;
    c->left -= n;
    return at;
}

static size_t take_number(struct cursor *c, size_t bytes)
{
    const uint8_t *at = take(c, bytes);
    size_t n = 0;
    for (size_t i = 0; at && i < bytes; i++)
        n = n << 8 | at[i];
    return n;
}

// Take a part that follows its length, which has `length_bytes` bytes.
static struct cursor take_part(struct cursor *c, size_t length_bytes)
{
    size_t n = take_number(c, length_bytes);
    const uint8_t *at = take(c, n);
    return (struct cursor){.at = at, .left = at ? n : 0, .is_short = !at};
}

// ---- the message

static const char *take_name(struct server_name *name, struct cursor extension)
{
    struct cursor list = take_part(&extension, 2);
    size_t type = take_number(&list, 1);
    struct cursor host = take_part(&list, 2);
    if (host.is_short || list.left > 0 || extension.left > 0 || type != NAME_TYPE_HOST)
        return "a server name list without exactly one host";
    return server_name_set(name, host.at, host.left) ? NULL : "an invalid server name";
}

static const char *take_extensions(struct server_name *name, struct cursor list)
{
    bool has_name = false;
    while (list.left > 0) {
        size_t type = take_number(&list, 2);
        struct cursor extension = take_part(&list, 2);
        if (list.is_short)
            return "a TLS extension with a wrong length";
        if (type != EXT_SERVER_NAME)
            continue;
        const char *why = has_name ? "two server names" : take_name(name, extension);
        if (why)
            return why;
        has_name = true;
    }
    return NULL;
}

static const char *take_message(struct server_name *name, struct cursor c)
{
    take(&c, 2 + RANDOM_BYTES);
    struct cursor session = take_part(&c, 1);
    struct cursor ciphers = take_part(&c, 2);
    struct cursor compression = take_part(&c, 1);
    if (c.is_short || session.left > SESSION_ID_MAX || ciphers.left < 2 || compression.left < 1)
        return "a malformed ClientHello";
    if (c.left == 0)
        return NULL; // no extensions, as in TLS 1.0
    struct cursor extensions = take_part(&c, 2);
    if (c.is_short || c.left > 0)
        return "a ClientHello with a wrong length";
    return take_extensions(name, extensions);
}

// ---- the records

struct message {
    uint8_t bytes[TLS_HELLO_MAX];
    size_t len;
};

// Return the length of the whole message, once its head is there.
static size_t whole_length(const struct message *m)
{
    return MESSAGE_HEAD_BYTES +
           ((size_t)m->bytes[1] << 16 | (size_t)m->bytes[2] << 8 | m->bytes[3]);
}

static const char *check_message(const struct message *m)
{
    if (m->len > 0 && m->bytes[0] != CLIENT_HELLO)
        return "TLS that does not begin with ClientHello";
    if (m->len < MESSAGE_HEAD_BYTES)
        return NULL;
    if (whole_length(m) > TLS_HELLO_MAX)
        return "a ClientHello of more than 16 KiB";
    return m->len > whole_length(m) ? "bytes after the ClientHello in its record" : NULL;
}

static const char *check_record_head(const uint8_t *head, size_t len)
{
    if (len > 0 && head[0] != TLS_RECORD_TYPE)
        return "another record within the ClientHello";
    if (len > 1 && head[1] != 3)
        return "a TLS record of an unknown version";
    if (len < RECORD_HEAD_BYTES)
        return NULL;
    size_t length = (size_t)head[3] << 8 | head[4];
    return length == 0 || length > RECORD_MOST_BYTES ? "a TLS record of an invalid length" : NULL;
}

static bool is_whole(const struct message *m)
{
    return m->len >= MESSAGE_HEAD_BYTES && m->len == whole_length(m);
}

// Take the received bytes of the first record, whose head was checked. *is_cut: the record is
// incomplete, so it is unknown whether bytes follow the message.
static const char *take_record(struct message *m, struct cursor *c, bool *is_cut)
{
    size_t length = take_number(c, RECORD_HEAD_BYTES) & 0xffff;
    size_t n = length < c->left ? length : c->left;
    if (n > sizeof(m->bytes) - m->len)
        return "a ClientHello of more than 16 KiB";
    memcpy(m->bytes + m->len, take(c, n), n);
    m->len += n;
    *is_cut = n < length;
    return check_message(m);
}

// Parse the first bytes of a client; the first one is TLS_RECORD_TYPE.
static enum tls_hello_state tls_hello_parse(struct server_name *name, const uint8_t *data,
                                            size_t len, const char **why)
{
    struct message m = {.len = 0};
    struct cursor c = {.at = data, .left = len};
    bool is_cut = false;
    name->text[0] = '\0';
    *why = NULL;
    while (!is_whole(&m) || is_cut) {
        *why = check_record_head(c.at, c.left);
        if (!*why && (is_cut || c.left < RECORD_HEAD_BYTES))
            return TLS_HELLO_MORE;
        if (!*why)
            *why = take_record(&m, &c, &is_cut);
        if (*why)
            return TLS_HELLO_BAD;
    }
    *why = take_message(name, (struct cursor){.at = m.bytes + MESSAGE_HEAD_BYTES,
                                              .left = m.len - MESSAGE_HEAD_BYTES});
    if (*why)
        name->text[0] = '\0';
    return *why ? TLS_HELLO_BAD : TLS_HELLO_DONE;
}

// ---- either protocol

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
        h->why = "16 KiB of an unknown protocol";
    }
}
