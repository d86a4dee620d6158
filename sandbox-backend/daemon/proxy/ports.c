// SPDX-License-Identifier: Apache-2.0
// Exposed ports: what may be exposed, their life, and how they are shown and kept.
#include "sandbox-backend/daemon/proxy/ports.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "sandbox-backend/base/json.h"
#include "sandbox-backend/base/limits.h"
#include "sandbox-backend/base/mem.h"
#include "sandbox-backend/base/str.h"
#include "sandbox-backend/daemon/proxy/ports_internal.h"
#include "sandbox-backend/daemon/sandbox/admit.h"
#include "sandbox-backend/daemon/sandbox/ending.h"
#include "sandbox-backend/daemon/sandbox/record.h"
#include "sandbox-backend/daemon/sandbox/sandbox.h"
#include "sandbox-backend/daemon/sandbox/store.h"
#include "sandbox-backend/log/log.h"
#include "sandbox-backend/net/http_server.h"
#include "sandbox-backend/net/listen_address.h"
#include "sandbox-backend/net/tls.h"

#define DEFAULT_IP  "127.0.0.1"
#define HOST_CHARS  "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789-."
#define TOKEN_BYTES 20
#define IDLE_MS     75000 // for a connection without a request

static const char *const PROTOCOLS[] = {[PORT_HTTP] = "http", [PORT_TCP] = "tcp"};

// ---- 1. the listen address
int ports__address(const char *ip, int port, struct sockaddr_storage *out)
{
    int rc = uv_ip4_addr(ip, port, (struct sockaddr_in *)out);
    return rc < 0 ? uv_ip6_addr(ip, port, (struct sockaddr_in6 *)out) : rc;
}

static bool is_any(const struct sockaddr_storage *address)
{
    if (address->ss_family == AF_INET)
        return ((const struct sockaddr_in *)address)->sin_addr.s_addr == INADDR_ANY;
    return IN6_IS_ADDR_UNSPECIFIED(&((const struct sockaddr_in6 *)address)->sin6_addr);
}

int ports_listen_check(const struct ports_opts *opts, struct err *e)
{
    struct sockaddr_storage address;
    const char *ip = opts->address ? opts->address : DEFAULT_IP;
    if (strchr(ip, '%') || ports__address(ip, 0, &address) < 0)
        return err_set(e, ERR_INVALID,
                       "--ports-address must be an IP address such as 127.0.0.1, not \"%.60s\"",
                       ip);
    if (opts->host && (!*opts->host || opts->host[strspn(opts->host, HOST_CHARS)]))
        return err_set(e, ERR_INVALID,
                       "--ports-host must be a host name without a port, not \"%.60s\"",
                       opts->host);
    if (is_any(&address) && !opts->host)
        return err_set(
            e, ERR_INVALID,
            "--ports-address %s cannot be used in a URL: give --ports-host, the name by which "
            "clients reach this host",
            ip);
    if (listen_address_is_loopback(&address) || opts->tls_cert || opts->allow_plaintext)
        return 0;
    return err_set(e, ERR_INVALID,
                   "--ports-address %s is not a loopback address, so tokens and pages would travel "
                   "unencrypted: give --tls-cert and --tls-key, or --allow-plaintext-network if a "
                   "proxy in front of cubbyd does TLS",
                   ip);
}

int ports_listen_open(struct ports_listen *listen, const struct ports_opts *opts, struct err *e)
{
    struct sockaddr_storage address;
    const char *ip = opts->address ? opts->address : DEFAULT_IP;
    if (ports__address(ip, 0, &address) < 0)
        return err_set(e, ERR_INVALID, "\"%.60s\" is not an IP address", ip);
    *listen = (struct ports_listen){.ip = xstrdup(ip),
                                    .is_loopback = listen_address_is_loopback(&address),
                                    .host = opts->host,
                                    .domain = opts->domain};
    if (listen->is_loopback || !opts->tls_cert)
        return 0;
    listen->tls = tls_new(opts->tls_cert, opts->tls_key, e);
    return listen->tls ? 0 : -1;
}

void ports_listen_fini(struct ports_listen *listen)
{
    tls_free(listen->tls);
    free(listen->ip);
    *listen = (struct ports_listen){0};
}

// ---- 2. what may be exposed

// Ports of Cubby's own services in the guest, which are guarded by other tokens.
static bool is_reserved(int number)
{
    return number == ENVD_PORT || number == ENVD_RELAY_PORT || number == KERNEL_PORT ||
           (number >= MOUNT_PORT_FIRST && number <= MOUNT_PORT_LAST);
}

bool ports_need_token(const struct sandbox *sb)
{
    return sb->traffic_token || !sb->store->ports_listen->is_loopback;
}

static size_t count_of(const struct sandbox *sb)
{
    size_t count = 0;
    const struct port *port;
    LIST_FOREACH (port, &sb->ports, link)
        count++;
    return count;
}

static int check_room(const struct sandbox *sb, struct err *e)
{
    size_t all = 0, owned = 0;
    for (const struct sandbox *s = store_first(sb->store); s; s = store_next(s)) {
        size_t count = count_of(s);
        all += count;
        owned += str_eq(s->owner, sb->owner) ? count : 0;
    }
    if (count_of(sb) >= PORTS_MAX)
        return err_set(e, ERR_LIMIT,
                       "the sandbox exposes %d ports, which is the limit; close one of them",
                       PORTS_MAX);
    if (all >= PORTS_ALL_MAX)
        return err_set(
            e, ERR_LIMIT,
            "the daemon exposes %d ports, which is the limit; close ports, or end sandboxes",
            PORTS_ALL_MAX);
    struct quota q = admit_quota(sb->store, sb->owner);
    return quota_check_ports(&q, sb->owner, owned, e);
}

int ports_check(const struct sandbox *sb, const struct port_want *want, struct err *e)
{
    if (is_reserved(want->number))
        return err_set(e, ERR_INVALID,
                       "port %d belongs to Cubby's own service in the sandbox and cannot be "
                       "exposed; choose another port",
                       want->number);
    if (want->protocol == PORT_TCP && want->token)
        return err_set(
            e, ERR_INVALID,
            "protocol tcp cannot carry an access token: expose port %d with protocol http, or "
            "without a token",
            want->number);
    if (!want->token && ports_need_token(sb))
        return err_set(e, ERR_INVALID,
                       "port %d needs an access token, because %s: ask for protocol http with "
                       "\"token\": true",
                       want->number,
                       sb->traffic_token
                           ? "the sandbox was created with allowPublicTraffic false"
                           : "the daemon exposes ports beyond loopback (--ports-address)");
    return ports_find(sb, want->number) ? 0 : check_room(sb, e);
}

char *ports_new_token(void)
{
    return random_hex(TOKEN_BYTES);
}

struct port *ports_find(const struct sandbox *sb, int number)
{
    struct port *port;
    LIST_FOREACH (port, &sb->ports, link)
        if (port->want.number == number)
            return port;
    return NULL;
}

bool ports_is_as(const struct port *port, const struct port_want *want)
{
    return port->want.protocol == want->protocol && !port->want.token == !want->token &&
           (!want->host_port || want->host_port == port->want.host_port);
}

// ---- 3. life

// Insert by number, so that the order of the list is stable.
static struct port *add(struct sandbox *sb, const struct port_want *want)
{
    struct port *port = xcalloc(1, sizeof *port);
    struct port *other, *before = NULL;
    port->sb = sb;
    port->want = *want;
    port->want.token = want->token ? xstrdup(want->token) : NULL;
    LIST_FOREACH (other, &sb->ports, link)
        before = other->want.number < want->number ? other : before;
    if (before)
        LIST_INSERT_AFTER(before, port, link);
    else
        LIST_INSERT_HEAD(&sb->ports, port, link);
    return port;
}

static void port_free(struct port *port)
{
    free((char *)(uintptr_t)port->want.token);
    free(port);
}

static int open_http(struct port *port, struct err *e)
{
    struct sandbox *sb = port->sb;
    const struct http_server_opts opts = {
        .on_request = ports__on_request,
        .ctx = port,
        .max_connections = PORT_CONNECTIONS_MAX,
        .idle_timeout_ms = IDLE_MS,
        .tls = sb->store->ports_listen->tls,
    };
    struct http_server *server = http_server_new(sb->store->loop, &opts);
    if (http_server_listen_tcp(server, sb->store->ports_listen->ip, port->want.host_port, e) < 0) {
        http_server_close(server, NULL, NULL);
        return -1;
    }
    port->server = server;
    port->want.host_port = http_server_port(server);
    return 0;
}

static int open_tcp(struct port *port, struct err *e)
{
    port->tcp = ports_tcp_open(port, e);
    if (!port->tcp)
        return -1;
    port->want.host_port = ports_tcp_port(port->tcp);
    return 0;
}

static int listen_at(struct port *port, struct err *e)
{
    int status = port->want.protocol == PORT_HTTP ? open_http(port, e) : open_tcp(port, e);
    if (status < 0) {
        if (e->sys == EADDRINUSE)
            e->code = ERR_EXISTS;
        return -1;
    }
    ending_hold(port->sb);
    return 0;
}

struct port *ports_open(struct sandbox *sb, const struct port_want *want, struct err *e)
{
    const struct call_place place = sandbox_calls(sb);
    struct port *port = add(sb, want);
    call_log_hide(&place, want->token);
    if (listen_at(port, e) < 0) {
        LIST_REMOVE(port, link);
        port_free(port);
        return NULL;
    }
    log_info("port.open", "id=%s port=%d host_port=%d protocol=%s token=%s", sb->id, want->number,
             port->want.host_port, PROTOCOLS[want->protocol], want->token ? "yes" : "no");
    return port;
}

void ports__closed(void *ctx)
{
    struct port *port = ctx;
    struct sandbox *sb = port->sb;
    port_free(port);
    ending_unhold(sb);
}

void ports_close(struct port *port)
{
    LIST_REMOVE(port, link);
    log_info("port.close", "id=%s port=%d host_port=%d", port->sb->id, port->want.number,
             port->want.host_port);
    if (port->server)
        http_server_close(port->server, ports__closed, port);
    else if (port->tcp)
        ports_tcp_close(port->tcp);
    else
        port_free(port); // it was read from the record and never opened
}

void ports_close_all(struct sandbox *sb)
{
    struct port *next;
    for (struct port *port = LIST_FIRST(&sb->ports); port; port = next) {
        next = LIST_NEXT(port, link);
        ports_close(port);
    }
}

void ports_cut(struct sandbox *sb)
{
    struct port *port;
    LIST_FOREACH (port, &sb->ports, link)
        if (port->tcp)
            ports_tcp_cut(port->tcp);
}

// ---- 4. how they are shown
// Return the URL of a port of the host, such as "http://127.0.0.1:43211" (scheme NULL: http or
// https), a new string.
static char *url_of(const struct ports_listen *listen, const char *scheme, int host_port)
{
    bool is_v6 = !listen->host && strchr(listen->ip, ':');
    const char *spoken = listen->tls ? "https" : "http";
    return str_printf("%s://%s%s%s:%d", scheme ? scheme : spoken, is_v6 ? "[" : "",
                      listen->host ? listen->host : listen->ip, is_v6 ? "]" : "", host_port);
}

// On loopback each port has a name of its own, as cookies are shared between ports. Beyond loopback
// it has the name that the daemon was given.
static json_t *browser_url(const struct port *port)
{
    const struct ports_listen *listen = port->sb->store->ports_listen;
    char *beyond auto_free = url_of(listen, NULL, port->want.host_port);
    char *own auto_free = str_printf("http://%d-%s.localhost:%d", port->want.number, port->sb->id,
                                     port->want.host_port);
    const char *base = listen->is_loopback && !listen->host ? own : beyond;
    const char *token = port->want.token;
    char *url auto_free =
        str_printf("%s/%s%s", base, token ? "?" PORTS_TOKEN_QUERY "=" : "", token ? token : "");
    return json_string(url);
}

json_t *ports_view(const struct port *port)
{
    bool is_http = port->want.protocol == PORT_HTTP;
    char *url auto_free =
        url_of(port->sb->store->ports_listen, is_http ? NULL : "tcp", port->want.host_port);
    return json_pack("{s:i, s:i, s:s, s:s, s:o, s:s?}", "port", port->want.number, "hostPort",
                     port->want.host_port, "protocol", PROTOCOLS[port->want.protocol], "url", url,
                     "browserUrl", is_http ? browser_url(port) : json_null(), "token",
                     port->want.token);
}

json_t *ports_view_all(const struct sandbox *sb)
{
    json_t *list = json_array();
    const struct port *port;
    LIST_FOREACH (port, &sb->ports, link)
        json_array_append_new(list, ports_view(port));
    return list;
}

// ---- 5. how they are kept
json_t *ports_to_json(const struct sandbox *sb)
{
    json_t *list = json_array();
    const struct port *port;
    LIST_FOREACH (port, &sb->ports, link)
        json_array_append_new(list,
                              json_pack("{s:i, s:i, s:s, s:s?}", "port", port->want.number,
                                        "hostPort", port->want.host_port, "protocol",
                                        PROTOCOLS[port->want.protocol], "token", port->want.token));
    return list;
}

static int read_one(struct sandbox *sb, const json_t *one, struct err *e)
{
    struct port_want want = {0};
    const char *protocol = NULL;
    int64_t number = 0, host_port = 0;
    if (json_get_int(one, "port", 1, UINT16_MAX, &number, 0, e) < 0 ||
        json_get_int(one, "hostPort", 1, UINT16_MAX, &host_port, 0, e) < 0 ||
        json_get_string(one, "token", &want.token, NULL, e) < 0 ||
        json_get_string(one, "protocol", &protocol, "http", e) < 0)
        return -1;
    want.number = (int)number;
    want.host_port = (int)host_port;
    want.protocol = str_eq(protocol, PROTOCOLS[PORT_TCP]) ? PORT_TCP : PORT_HTTP;
    if (!number || ports_find(sb, want.number))
        return err_set(e, ERR_INVALID, "the exposed ports of the sandbox are malformed");
    add(sb, &want);
    return 0;
}

int ports_from_json(struct sandbox *sb, const json_t *list, struct err *e)
{
    size_t i;
    json_t *one;
    json_array_foreach (list, i, one) {
        if (read_one(sb, one, e) < 0)
            return -1;
    }
    return 0;
}

// The daemon may have been restarted with other options.
static int may_reopen(const struct port *port, struct err *e)
{
    if (port->want.token || !ports_need_token(port->sb))
        return 0;
    return err_set(e, ERR_DENIED,
                   "the port has no access token, which this sandbox's ports now need");
}

static bool reopen(struct port *port)
{
    struct err e = ERR_INIT;
    int before = port->want.host_port;
    if (may_reopen(port, &e) == 0 && listen_at(port, &e) == 0)
        return true;
    if (e.code == ERR_EXISTS) {
        port->want.host_port = 0;
        e = ERR_INIT;
        if (listen_at(port, &e) == 0) {
            log_warn("port.moved", "id=%s port=%d host_port=%d was=%d", port->sb->id,
                     port->want.number, port->want.host_port, before);
            return true;
        }
    }
    log_warn("port.lost", "id=%s port=%d host_port=%d error=\"%s\"", port->sb->id,
             port->want.number, before, e.msg);
    return false;
}

void ports_reopen(struct sandbox *sb)
{
    bool as_before = true;
    struct port *next;
    for (struct port *port = LIST_FIRST(&sb->ports); port; port = next) {
        next = LIST_NEXT(port, link);
        int was = port->want.host_port;
        if (!port->server && !port->tcp && !reopen(port))
            ports_close(port);
        else if (port->want.host_port == was)
            continue;
        as_before = false;
    }
    if (!as_before)
        record_write_or_log(sb);
}
