// SPDX-License-Identifier: Apache-2.0
// Requests to an exposed port: who may ask, and what the guest does not see of a request.
//
//  1. The Host must be one of this port's names, or an address. A page on the internet can make its
//     own name lead to this host's loopback (DNS rebinding), and its scripts can then read what
//     answers to that name. An address is safe.
//  2. A browser that opens a page at 127.0.0.1 or localhost is sent to the port's own name
//     (<port>-<id>.localhost, which leads only to loopback). All servers on 127.0.0.1, also earlier
//     ones, share its cookies, storage and service workers. Cookies pass only under the own name.
//  3. Pages of other origins may not open a WebSocket.
//  4. The access token, if the port has one, is in the query, in the cookie, or in X-Access-Token.
//     A browser that sends it in the query gets the cookie, and is sent to the URL without the
//     token.
// The proxy does the rest: it wakes, dials, and passes on.
#include <arpa/inet.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>

#include "sandbox-backend/base/buf.h"
#include "sandbox-backend/base/mem.h"
#include "sandbox-backend/base/str.h"
#include "sandbox-backend/daemon/proxy/ports_internal.h"
#include "sandbox-backend/daemon/proxy/proxy.h"
#include "sandbox-backend/daemon/proxy/proxy_error.h"
#include "sandbox-backend/daemon/proxy/proxy_head.h"
#include "sandbox-backend/daemon/proxy/proxy_stream.h"
#include "sandbox-backend/daemon/sandbox/sandbox.h"
#include "sandbox-backend/daemon/sandbox/store.h"
#include "sandbox-backend/net/http_server.h"

#define LOCALHOST      "localhost"
#define NAME_MAX_BYTES 256

// ---- the rules for names, origins and tokens. Pure.

// Write the name or address of "name:port", "[::1]:port" or "name." without port, brackets and root
// dot. Return false when it is empty or too long.
static bool bare_name(const char *authority, char out[NAME_MAX_BYTES])
{
    bool is_v6 = *authority == '[';
    size_t len = is_v6 ? strcspn(authority + 1, "]") : strcspn(authority, ":/");
    if (len == 0 || len >= NAME_MAX_BYTES)
        return false;
    memcpy(out, authority + is_v6, len);
    out[len] = '\0';
    if (!is_v6 && out[len - 1] == '.')
        out[len - 1] = '\0';
    return true;
}

static bool is_address(const char *name)
{
    unsigned char bytes[sizeof(struct in6_addr)];
    return inet_pton(AF_INET, name, bytes) == 1 || inet_pton(AF_INET6, name, bytes) == 1;
}

static bool is_loopback(const char *name)
{
    struct in_addr v4;
    struct in6_addr v6;
    if (inet_pton(AF_INET, name, &v4) == 1)
        return ntohl(v4.s_addr) >> 24 == IN_LOOPBACKNET;
    return strcasecmp(name, LOCALHOST) == 0 ||
           (inet_pton(AF_INET6, name, &v6) == 1 && IN6_IS_ADDR_LOOPBACK(&v6));
}

// Return whether `name` is "<port>-<id>.<domain>"; with `any_port` for any port.
static bool is_own(const char *name, const struct ports_names *names, const char *domain,
                   bool any_port)
{
    char port[16];
    char zone[NAME_MAX_BYTES];
    snprintf(port, sizeof port, "%d-", names->port);
    size_t digits = strspn(name, "0123456789");
    size_t id_len = strlen(names->id);
    if (!domain || !bare_name(domain, zone) || digits == 0 || name[digits] != '-' ||
        (!any_port && strncmp(name, port, digits + 1) != 0))
        return false;
    const char *id = name + digits + 1;
    return strncasecmp(id, names->id, id_len) == 0 && id[id_len] == '.' &&
           strcasecmp(id + id_len + 1, zone) == 0;
}

enum ports_host ports_http_host(const char *host, const struct ports_names *names)
{
    char name[NAME_MAX_BYTES];
    if (!bare_name(host, name))
        return PORTS_HOST_FOREIGN;
    if (is_own(name, names, LOCALHOST, false) || is_own(name, names, names->domain, false))
        return PORTS_HOST_OWN;
    if (is_address(name) || strcasecmp(name, LOCALHOST) == 0 ||
        (names->host && strcasecmp(name, names->host) == 0))
        return PORTS_HOST_SHARED;
    return PORTS_HOST_FOREIGN;
}

bool ports_http_origin(const char *origin, const char *host, const struct ports_names *names)
{
    char name[NAME_MAX_BYTES];
    char asked[NAME_MAX_BYTES];
    const char *authority = strstr(origin, "://");
    if (!authority || !bare_name(authority + 3, name))
        return false;
    if (bare_name(host, asked) && strcasecmp(name, asked) == 0)
        return true;
    return is_loopback(name) || is_own(name, names, LOCALHOST, true) ||
           is_own(name, names, names->domain, true);
}

char *ports_http_take_token(const char *target, char **token)
{
    static const char NAME[] = PORTS_TOKEN_QUERY "=";
    struct buf rest auto_buf = BUF_INIT;
    const char *query = strchr(target, '?');
    *token = NULL;
    if (!query)
        return NULL;
    buf_add(&rest, target, (size_t)(query - target));
    char joint = '?';
    for (const char *at = query + 1;; at++) {
        size_t len = strcspn(at, "&");
        if (strncmp(at, NAME, sizeof NAME - 1) == 0 && !*token) {
            *token = xstrndup(at + sizeof NAME - 1, len - (sizeof NAME - 1));
        } else if (strncmp(at, NAME, sizeof NAME - 1) != 0) {
            buf_addc(&rest, joint);
            buf_add(&rest, at, len);
            joint = '&';
        }
        at += len;
        if (!*at)
            break;
    }
    if (!*token)
        return NULL;
    return rest.len ? buf_take(&rest) : xstrdup("");
}

// Return the next "name=value" of a Cookie header from *at on, and move *at past it; NULL at the
// end.
static const char *next_cookie(const char **at, size_t *len)
{
    *at += strspn(*at, "; \t");
    const char *cookie = *at;
    *len = strcspn(cookie, ";");
    *at += *len;
    while (*len && (cookie[*len - 1] == ' ' || cookie[*len - 1] == '\t'))
        --*len;
    return *len ? cookie : NULL;
}

bool ports_http_cookie_has(const char *cookies, int host_port, const char *token)
{
    char name[32];
    size_t len;
    bool found = false;
    size_t name_len = (size_t)snprintf(name, sizeof name, PORTS_COOKIE "%d=", host_port);
    for (const char *cookie; (cookie = next_cookie(&cookies, &len));) {
        if (len < name_len || strncmp(cookie, name, name_len) != 0)
            continue;
        char *value auto_free = xstrndup(cookie + name_len, len - name_len);
        found = str_eq_secret(value, token) || found;
    }
    return found;
}

char *ports_http_cookie_rest(const char *cookies)
{
    struct buf rest auto_buf = BUF_INIT;
    size_t len;
    for (const char *cookie; (cookie = next_cookie(&cookies, &len));)
        if (strncmp(cookie, PORTS_COOKIE, sizeof PORTS_COOKIE - 1) != 0) {
            buf_adds(&rest, rest.len ? "; " : "");
            buf_add(&rest, cookie, len);
        }
    return rest.len ? buf_take(&rest) : NULL;
}

// ---- a request

static struct ports_names names_of(const struct port *port)
{
    const struct ports_listen *listen = port->sb->store->ports_listen;
    return (struct ports_names){.port = port->want.number,
                                .id = port->sb->id,
                                .host = listen->host,
                                .domain = listen->domain};
}

// HTTP/1.0 may omit Host; no browser does.
static enum ports_host host_kind(const struct port *port, const struct http_request *req)
{
    const struct ports_names names = names_of(port);
    const char *host = http_request_header(req, "Host");
    return host ? ports_http_host(host, &names) : PORTS_HOST_SHARED;
}

// ---- 1. names
static bool refuse_name(const struct port *port, struct http_request *req)
{
    if (host_kind(port, req) == PORTS_HOST_FOREIGN)
        proxy_error(req, 421, NULL, "host_not_allowed",
                    "This port does not answer under the host name of this request; use the URL "
                    "that expose_port or cubby expose gave");
    else if (*http_request_target(req) != '/' && !str_eq(http_request_target(req), "*"))
        proxy_error(req, 400, NULL, "bad_target",
                    "This port is not a proxy: the request target must be a path");
    else
        return false;
    return true;
}

// ---- 2. pages
static bool is_safe(const struct http_request *req)
{
    const char *method = http_request_method(req);
    return str_eq(method, "GET") || str_eq(method, "HEAD");
}

static bool is_navigation(const struct http_request *req)
{
    return is_safe(req) && str_eq(http_request_header(req, "Sec-Fetch-Mode"), "navigate");
}

static void redirect(struct http_request *req, int status, const char *to)
{
    http_response_header(req, "Location", to);
    http_response_header(req, "Cache-Control", "no-store");
    http_response_header(req, "Referrer-Policy", "no-referrer");
    http_respond(req, status, NULL, NULL, 0);
}

// Keep the port number that the browser knows, as it may come through a tunnel.
static bool send_to_own_name(const struct port *port, struct http_request *req)
{
    const struct ports_listen *listen = port->sb->store->ports_listen;
    const char *host = http_request_header(req, "Host");
    if (!listen->is_loopback || listen->host || !host || !is_navigation(req) ||
        host_kind(port, req) != PORTS_HOST_SHARED)
        return false;
    const char *colon = strchr(*host == '[' ? host + strcspn(host, "]") : host, ':');
    char *to auto_free = str_printf("http://%d-%s.localhost%s%s", port->want.number, port->sb->id,
                                    colon ? colon : "", http_request_target(req));
    redirect(req, 307, to);
    return true;
}

// ---- 3. WebSocket
static bool refuse_origin(const struct port *port, struct http_request *req)
{
    const struct ports_names names = names_of(port);
    const char *origin = http_request_header(req, "Origin");
    const char *host = http_request_header(req, "Host");
    if (!http_request_upgrade(req) || !origin ||
        ports_http_origin(origin, host ? host : "", &names))
        return false;
    proxy_error(req, 403, NULL, "origin_not_allowed",
                "Pages of other origins must not open a WebSocket to this port");
    return true;
}

// ---- 4. the token
static bool wants_page(const struct http_request *req)
{
    const char *accept = http_request_header(req, "Accept");
    return is_navigation(req) || (is_safe(req) && accept && strstr(accept, "text/html"));
}

// Give a cookie for as long as the browser runs. It is Lax because the first visit follows a link.
static void give_cookie(const struct port *port, struct http_request *req, const char *to)
{
    char *cookie auto_free =
        str_printf(PORTS_COOKIE "%d=%s; Path=/; HttpOnly; SameSite=Lax%s", port->want.host_port,
                   port->want.token, http_request_is_tls(req) ? "; Secure" : "");
    http_response_header(req, "Set-Cookie", cookie);
    redirect(req, 303, to);
}

static bool has_cookie(const struct port *port, const struct http_request *req)
{
    size_t count = 0;
    const struct http_header *all = http_request_headers(req, &count);
    for (size_t i = 0; i < count; i++)
        if (http_name_is(all[i].name, "Cookie") &&
            ports_http_cookie_has(all[i].value, port->want.host_port, port->want.token))
            return true;
    return false;
}

static void pass_on(const struct port *port, struct http_request *req, const char *target)
{
    const char *path = http_request_path(req);
    proxy_enter(port->sb, req,
                &(struct proxy_target){
                    .port = port->want.number, .target = target, .path = path, .via = port});
}

// A browser takes a target that begins with "//" for another host.
static const char *without_host(const char *target)
{
    while (target[0] == '/' && target[1] == '/')
        target++;
    return target;
}

// `rest`: the target without the token.
static void let_in(const struct port *port, struct http_request *req, const char *rest)
{
    if (wants_page(req) && !http_request_upgrade(req))
        give_cookie(port, req, without_host(rest));
    else
        pass_on(port, req, rest);
}

static void take_guarded(const struct port *port, struct http_request *req)
{
    char *token auto_free = NULL;
    const char *target = http_request_target(req);
    char *rest auto_free = ports_http_take_token(target, &token);
    const char *header = http_request_header(req, PORTS_TOKEN_HEADER);
    if (token && str_eq_secret(token, port->want.token))
        let_in(port, req, rest);
    else if ((header && str_eq_secret(header, port->want.token)) || has_cookie(port, req))
        pass_on(port, req, rest ? rest : target);
    else
        proxy_error(req, 401, NULL, "token_missing",
                    "This port needs its access token: open the URL that was given for it, "
                    "or send the token as " PORTS_TOKEN_HEADER);
}

void ports__on_request(struct http_request *req, void *ctx)
{
    const struct port *port = ctx;
    if (refuse_name(port, req) || send_to_own_name(port, req) || refuse_origin(port, req))
        return;
    if (port->want.token)
        take_guarded(port, req);
    else
        pass_on(port, req, http_request_target(req));
}

// ---- what the guest sees and may set

// Under a shared name a browser sends the cookies of other servers at this address.
bool ports_take_cookies(const struct port *port, const struct http_request *req)
{
    return host_kind(port, req) == PORTS_HOST_OWN || !http_request_header(req, "Sec-Fetch-Site") ||
           !port->sb->store->ports_listen->is_loopback;
}

static bool is_token(const struct port *port, const struct http_header *h)
{
    return port->want.token && http_name_is(h->name, PORTS_TOKEN_HEADER) &&
           str_eq_secret(h->value, port->want.token);
}

// All Cookie headers become one header.
void ports_edit_head(const struct port *port, struct http_request *req, struct proxy_head *head)
{
    struct buf cookies auto_buf = BUF_INIT;
    bool take = ports_take_cookies(port, req);
    size_t kept = 0;
    for (size_t i = 0; i < head->count; i++) {
        const struct http_header *h = &head->headers[i];
        if (http_name_is(h->name, "Cookie"))
            buf_printf(&cookies, "%s%s", cookies.len ? "; " : "", h->value);
        else if (!is_token(port, h))
            head->headers[kept++] = *h;
    }
    head->count = kept;
    head->cookie = take ? ports_http_cookie_rest(buf_str(&cookies)) : NULL;
    if (head->cookie)
        head->headers[head->count++] = (struct http_header){"Cookie", head->cookie};
}
