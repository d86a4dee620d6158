// SPDX-License-Identifier: Apache-2.0
// The server name in a TLS ClientHello.
#include "sandbox-backend/netd/tls_hello.h"

#include <stdbool.h>
#include <string.h>

#define RECORD_HEAD_BYTES  5
#define RECORD_MOST_BYTES  16384
#define MESSAGE_HEAD_BYTES 4
#define CLIENT_HELLO       1
#define EXT_SERVER_NAME    0
#define NAME_TYPE_HOST     0
#define RANDOM_BYTES       32
#define SESSION_ID_MAX     32

// What is left to read. Once something did not fit, nothing does.
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

// What a length of so many bytes announces.
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
        return "a server name that is not one host";
    return server_name_set(name, host.at, host.left) ? NULL : "a server name that is no name";
}

static const char *take_extensions(struct server_name *name, struct cursor list)
{
    bool has_name = false;
    while (list.left > 0) {
        size_t type = take_number(&list, 2);
        struct cursor extension = take_part(&list, 2);
        if (list.is_short)
            return "a TLS extension that does not fit";
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
        return "a ClientHello that is none";
    if (c.left == 0)
        return NULL; // no extensions: as old as TLS 1.0
    struct cursor extensions = take_part(&c, 2);
    if (c.is_short || c.left > 0)
        return "a ClientHello that does not end where it says";
    return take_extensions(name, extensions);
}

// ---- the records

struct message {
    uint8_t bytes[TLS_HELLO_MAX];
    size_t len;
};

// The length that the message has as a whole, once its head is there.
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
    return m->len > whole_length(m) ? "more behind the ClientHello in its record" : NULL;
}

static const char *check_record_head(const uint8_t *head, size_t len)
{
    if (len > 0 && head[0] != TLS_RECORD_TYPE)
        return "another record within the ClientHello";
    if (len > 1 && head[1] != 3)
        return "a TLS record of no known version";
    if (len < RECORD_HEAD_BYTES)
        return NULL;
    size_t length = (size_t)head[3] << 8 | head[4];
    return length == 0 || length > RECORD_MOST_BYTES ? "a TLS record of no valid length" : NULL;
}

static bool is_whole(const struct message *m)
{
    return m->len >= MESSAGE_HEAD_BYTES && m->len == whole_length(m);
}

// Takes what is there of the record at the front; its head was checked. `is_cut` when that is not
// all of it: then nothing is sure about what may be behind the message.
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

enum tls_hello_state tls_hello_parse(struct server_name *name, const uint8_t *data, size_t len,
                                     const char **why)
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
