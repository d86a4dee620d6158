// SPDX-License-Identifier: Apache-2.0
// The sandbox's upstream proxy: its settings, and the client side of SOCKS5.
#include "sandbox-backend/egress/proxy.h"

#include <arpa/inet.h>
#include <string.h>

#include "sandbox-backend/base/json.h"
#include "sandbox-backend/base/mem.h"

#define VERSION       5
#define LOGIN_VERSION 1
#define NO_LOGIN      0
#define BY_PASSWORD   2
#define CONNECT       1
#define IPV4          1
#define DOMAIN        3
#define IPV6          4
#define HEAD_BYTES    4 // of a reply: version, result, reserved, kind of the address

// ---- the settings

static int take_tls(struct proxy *p, const json_t *tls, struct err *e)
{
    const char *name = NULL, *ca = NULL;
    if (json_get_string(tls, "name", &name, NULL, e) < 0 ||
        json_get_string(tls, "ca", &ca, NULL, e) < 0)
        return err_wrap(e, "proxy");
    p->tls_name = xstrdup(name ? name : p->host);
    p->ca = ca ? xstrdup(ca) : NULL;
    return 0;
}

int proxy_from_json(struct proxy *p, const json_t *object, struct err *e)
{
    const char *host = NULL, *username = NULL, *password = NULL;
    const json_t *tls = json_object_get(object, "tls");
    int64_t port;
    *p = (struct proxy){0};
    if (!object || json_is_null(object))
        return 0;
    if (json_get_string(object, "host", &host, NULL, e) < 0 ||
        json_get_int(object, "port", 1, 65535, &port, 0, e) < 0 ||
        json_get_string(object, "username", &username, NULL, e) < 0 ||
        json_get_string(object, "password", &password, NULL, e) < 0 ||
        json_get_bool(object, "special", &p->special, false, e) < 0)
        return err_wrap(e, "proxy");
    if (!host || !*host || !port || (username && strlen(username) > PROXY_TEXT_MAX) ||
        (password && strlen(password) > PROXY_TEXT_MAX))
        return err_set(e, ERR_INVALID, "proxy must have a host and a port");
    p->port = (int)port;
    p->host = xstrdup(host);
    p->username = username ? xstrdup(username) : NULL;
    p->password = password ? xstrdup(password) : NULL;
    p->tls = json_is_object(tls);
    return p->tls ? take_tls(p, tls, e) : 0;
}

void proxy_fini(struct proxy *p)
{
    if (p->password)
        explicit_bzero(p->password, strlen(p->password));
    free(p->password);
    free(p->tls_name);
    free(p->ca);
    free(p->username);
    free(p->host);
    *p = (struct proxy){0};
}

// ---- SOCKS5

static void add_text(struct buf *out, const char *text)
{
    size_t len = text ? strlen(text) : 0;
    buf_addc(out, (char)len);
    buf_add(out, text, len);
}

static void add_login(const struct socks *s, struct buf *out)
{
    buf_addc(out, LOGIN_VERSION);
    add_text(out, s->proxy->username);
    add_text(out, s->proxy->password);
}

static void add_request(const struct socks *s, struct buf *out)
{
    unsigned char bytes[16];
    bool is_v4 = inet_pton(AF_INET, s->address, bytes) == 1;
    const char head[HEAD_BYTES] = {VERSION, CONNECT, 0, is_v4 ? IPV4 : IPV6};
    if (!is_v4)
        inet_pton(AF_INET6, s->address, bytes);
    buf_add(out, head, sizeof head);
    buf_add(out, (const char *)bytes, is_v4 ? 4 : 16);
    buf_addc(out, (char)(s->port >> 8));
    buf_addc(out, (char)s->port);
}

void socks_begin(struct socks *s, const struct proxy *p, const char *address, int port,
                 struct buf *out)
{
    const char plain[] = {VERSION, 1, NO_LOGIN}, either[] = {VERSION, 2, NO_LOGIN, BY_PASSWORD};
    *s = (struct socks){.proxy = p, .address = address, .port = port};
    if (p->username)
        buf_add(out, either, sizeof either);
    else
        buf_add(out, plain, sizeof plain);
}

static enum socks_step refused(const char **why, const char *literal)
{
    *why = literal;
    return SOCKS_REFUSED;
}

static enum socks_step take_method(struct socks *s, struct buf *in, struct buf *out,
                                   const char **why)
{
    unsigned char method = (unsigned char)in->data[1];
    if (method != NO_LOGIN && (method != BY_PASSWORD || !s->proxy->username))
        return refused(why, s->proxy->username ? "it takes no password"
                                               : "it asks for a user name and a password");
    if (method == BY_PASSWORD)
        add_login(s, out);
    else
        add_request(s, out);
    s->state = method == BY_PASSWORD ? SOCKS_LOGIN : SOCKS_REPLY;
    buf_consume(in, 2);
    return SOCKS_MORE;
}

static enum socks_step take_login(struct socks *s, struct buf *in, struct buf *out,
                                  const char **why)
{
    if (in->data[1] != 0)
        return refused(why, "the user name or the password is wrong");
    add_request(s, out);
    s->state = SOCKS_REPLY;
    buf_consume(in, 2);
    return SOCKS_MORE;
}

static const char *result_of(unsigned char code)
{
    static const char *const TEXTS[] = {[1] = "general failure",
                                        [2] = "its rules do not allow it",
                                        [3] = "the network is unreachable",
                                        [4] = "the host is unreachable",
                                        [5] = "the host refused the connection",
                                        [6] = "the host did not answer",
                                        [7] = "it does not support the command",
                                        [8] = "it does not support the kind of address"};
    return code < ARRAY_LEN(TEXTS) && TEXTS[code] ? TEXTS[code] : "an unknown failure";
}

// The address that the proxy connected from is of no use.
static enum socks_step take_reply(struct buf *in, const char **why)
{
    if (in->data[1] != 0)
        return refused(why, result_of((unsigned char)in->data[1]));
    if (in->len < HEAD_BYTES + 1)
        return SOCKS_MORE;
    char kind = in->data[3];
    size_t address = kind == IPV4     ? 4
                     : kind == IPV6   ? 16
                     : kind == DOMAIN ? 1 + (size_t)(unsigned char)in->data[HEAD_BYTES]
                                      : SIZE_MAX;
    if (address == SIZE_MAX)
        return refused(why, "it does not speak SOCKS5");
    if (in->len < HEAD_BYTES + address + 2)
        return SOCKS_MORE;
    buf_consume(in, HEAD_BYTES + address + 2);
    return SOCKS_CONNECTED;
}

enum socks_step socks_take(struct socks *s, struct buf *in, struct buf *out, const char **why)
{
    enum socks_step step = SOCKS_MORE;
    while (step == SOCKS_MORE && in->len >= 2) {
        size_t before = in->len;
        if (in->data[0] != (s->state == SOCKS_LOGIN ? LOGIN_VERSION : VERSION))
            return refused(why, "it does not speak SOCKS5");
        if (s->state == SOCKS_METHOD)
            step = take_method(s, in, out, why);
        else if (s->state == SOCKS_LOGIN)
            step = take_login(s, in, out, why);
        else
            step = take_reply(in, why);
        if (in->len == before)
            break;
    }
    return step;
}
