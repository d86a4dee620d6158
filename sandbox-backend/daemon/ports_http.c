// SPDX-License-Identifier: Apache-2.0
// Requests that come to an exposed port: who may ask, and what of that the guest does not see.
//
//  1. The Host must be one of this port's names, or an address (ports_rules.h): what a page reads
//  by
//     DNS rebinding came by a name of its own.
//  2. A page that a browser is to show at 127.0.0.1 or localhost is sent to the port's own name
//     (<port>-<id>.localhost): cookies, storage and service workers of 127.0.0.1 are those of all
//     servers there, today's and yesterday's.
//  3. A WebSocket is refused to pages of other origins.
//  4. The access token, where there is one: in the query (a browser gets a cookie for it and is
//  sent
//     to the URL without it), in the cookie, or in X-Access-Token.
// What is left is the proxy's: waking, dialing, passing on.
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "sandbox-backend/base/mem.h"
#include "sandbox-backend/base/str.h"
#include "sandbox-backend/daemon/ports_internal.h"
#include "sandbox-backend/daemon/proxy.h"
#include "sandbox-backend/daemon/proxy_error.h"
#include "sandbox-backend/daemon/proxy_head.h"
#include "sandbox-backend/daemon/proxy_stream.h"
#include "sandbox-backend/daemon/sandbox.h"
#include "sandbox-backend/daemon/store.h"
#include "sandbox-backend/net/http_server.h"

// HTTP/1.0 may leave it out, which no browser does.
static enum ports_host host_kind(const struct port *port, const struct http_request *req)
{
    const struct ports_names names = ports__names(port);
    const char *host = http_request_header(req, "Host");
    return host ? ports_rules_host(host, &names) : PORTS_HOST_SHARED;
}

// ---- 1. names
static bool refuse_name(const struct port *port, struct http_request *req)
{
    if (host_kind(port, req) == PORTS_HOST_FOREIGN)
        proxy_error_port_refused(req, 421, "host_not_allowed",
                                 "This port does not answer to the name by which it was asked; use "
                                 "the URL that was given for it");
    else if (*http_request_target(req) != '/' && !str_eq(http_request_target(req), "*"))
        proxy_error_port_refused(req, 400, "bad_target",
                                 "This port is no proxy: a request names a path");
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

// The port is the one that the browser knows: it may come through a tunnel.
static bool send_to_own_name(const struct port *port, struct http_request *req)
{
    const struct ports_place *place = &port->sb->store->ports;
    const char *host = http_request_header(req, "Host");
    if (!place->is_loopback || place->host || !host || !is_navigation(req) ||
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
    const struct ports_names names = ports__names(port);
    const char *origin = http_request_header(req, "Origin");
    const char *host = http_request_header(req, "Host");
    if (!http_request_upgrade(req) || !origin ||
        ports_rules_origin(origin, host ? host : "", &names))
        return false;
    proxy_error_port_refused(req, 403, "origin_not_allowed",
                             "Pages of other origins may not open a WebSocket to this port");
    return true;
}

// ---- 4. the token
static bool wants_page(const struct http_request *req)
{
    const char *accept = http_request_header(req, "Accept");
    return is_navigation(req) || (is_safe(req) && accept && strstr(accept, "text/html"));
}

// A cookie for as long as the browser runs. Lax, as the first visit is a link that somebody
// clicked.
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
            ports_rules_cookie_has(all[i].value, port->want.host_port, port->want.token))
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

// What begins with "//" a browser would take for another host.
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
    char *rest auto_free = ports_rules_take_token(target, &token);
    const char *header = http_request_header(req, PORTS_TOKEN_HEADER);
    if (token && str_eq_secret(token, port->want.token))
        let_in(port, req, rest);
    else if ((header && str_eq_secret(header, port->want.token)) || has_cookie(port, req))
        pass_on(port, req, rest ? rest : target);
    else
        proxy_error_port_refused(
            req, 401, "token_missing",
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

// ---- what the guest sees, and may set

// A browser that shows another server's page at this address has that one's cookies for it.
bool ports_take_cookies(const struct port *port, const struct http_request *req)
{
    return host_kind(port, req) == PORTS_HOST_OWN || !http_request_header(req, "Sec-Fetch-Site") ||
           !port->sb->store->ports.is_loopback;
}

static bool is_token(const struct port *port, const struct http_header *h)
{
    return port->want.token && http_name_is(h->name, PORTS_TOKEN_HEADER) &&
           str_eq_secret(h->value, port->want.token);
}

// All Cookie headers become one.
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
    head->cookie = take ? ports_rules_cookie_rest(buf_str(&cookies)) : NULL;
    if (head->cookie)
        head->headers[head->count++] = (struct http_header){"Cookie", head->cookie};
}
