// SPDX-License-Identifier: Apache-2.0
// network.egressProxy.
#include "sandbox-backend/daemon/secrets/egress_proxy.h"

#include <arpa/inet.h>
#include <string.h>

#include "sandbox-backend/base/json.h"
#include "sandbox-backend/base/mem.h"
#include "sandbox-backend/base/str.h"
#include "sandbox-backend/keys/authority.h"
#include "sandbox-backend/net/fetch_guard.h"

#define HOST_MAX_BYTES 253
#define TEXT_MAX_BYTES 255 // RFC 1929
#define CA_MAX_BYTES   8192
#define HOST_CHARS     "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789.-:"

static int wrong_address(struct err *e)
{
    return err_set(
        e, ERR_INVALID,
        "network.egressProxy.address must be the host and port of a SOCKS5 proxy, such as "
        "proxy.example.com:1080");
}

// Split "host:port" or "[address]:port". *host is a new string.
static int split(const char *address, char **host, int64_t *port, struct err *e)
{
    const char *colon = address ? strrchr(address, ':') : NULL;
    size_t len = colon ? (size_t)(colon - address) : 0;
    bool bracketed = len > 2 && address[0] == '[' && address[len - 1] == ']';
    if (!colon || !str_to_int(colon + 1, 1, 65535, port))
        return wrong_address(e);
    *host = bracketed ? xstrndup(address + 1, len - 2) : xstrndup(address, len);
    len = strlen(*host);
    if (!len || len > HOST_MAX_BYTES || strspn(*host, HOST_CHARS) != len ||
        (strchr(*host, ':') != NULL) != bracketed)
        return wrong_address(e);
    return 0;
}

// An address in digits is known now. A name is resolved by cubby-egress, which checks it then.
static bool is_private(const char *host)
{
    static const struct fetch_guard PUBLIC;
    struct sockaddr_in v4 = {.sin_family = AF_INET};
    struct sockaddr_in6 v6 = {.sin6_family = AF_INET6};
    const struct sockaddr *address = (const struct sockaddr *)&v4;
    if (inet_pton(AF_INET6, host, &v6.sin6_addr) == 1)
        address = (const struct sockaddr *)&v6;
    else if (inet_pton(AF_INET, host, &v4.sin_addr) != 1)
        return false;
    return !fetch_guard_allows(&PUBLIC, address) || fetch_guard_is_own(address);
}

static int check_members(const json_t *proxy, struct err *e)
{
    const char *name;
    json_t *value;
    if (!json_is_object(proxy))
        return err_set(e, ERR_INVALID, "network.egressProxy must be an object");
    json_object_foreach ((json_t *)(uintptr_t)proxy, name, value)
        if (!str_eq(name, "address") && !str_eq(name, "username") && !str_eq(name, "password") &&
            !str_eq(name, "tls"))
            return err_set(e, ERR_INVALID, "unknown member network.egressProxy.%.60s", name);
    return 0;
}

static int check_login(const char *username, const char *password, struct err *e)
{
    if (password && !username)
        return err_set(e, ERR_INVALID, "network.egressProxy.password needs a username");
    if ((username && (!*username || strlen(username) > TEXT_MAX_BYTES)) ||
        (password && strlen(password) > TEXT_MAX_BYTES))
        return err_set(e, ERR_INVALID,
                       "network.egressProxy: username and password may have %d bytes",
                       TEXT_MAX_BYTES);
    return 0;
}

// *out is `tls` as the record keeps it, or NULL when it is not enabled. New reference.
static int parse_tls(const json_t *tls, json_t **out, struct err *e)
{
    const char *name = NULL, *ca = NULL, *key;
    json_t *value;
    bool enabled;
    *out = NULL;
    if (!tls || json_is_null(tls))
        return 0;
    json_object_foreach ((json_t *)(uintptr_t)tls, key, value)
        if (!str_eq(key, "enabled") && !str_eq(key, "serverName") && !str_eq(key, "caCert"))
            return err_set(e, ERR_INVALID, "unknown member network.egressProxy.tls.%.60s", key);
    if (json_get_bool(tls, "enabled", &enabled, false, e) < 0 ||
        json_get_string(tls, "serverName", &name, NULL, e) < 0 ||
        json_get_string(tls, "caCert", &ca, NULL, e) < 0)
        return err_wrap(e, "network.egressProxy.tls");
    size_t len = name ? strlen(name) : 0;
    if (!json_is_object(tls) || (!enabled && (name || ca)))
        return err_set(e, ERR_INVALID, "network.egressProxy.tls needs enabled: true");
    if (name && (!len || len > HOST_MAX_BYTES || strspn(name, HOST_CHARS) != len))
        return err_set(e, ERR_INVALID, "network.egressProxy.tls.serverName must be a host");
    if (ca && (strlen(ca) > CA_MAX_BYTES || !authority_is_certificates(ca)))
        return err_set(e, ERR_INVALID,
                       "network.egressProxy.tls.caCert must be certificates in PEM form of at most "
                       "%d bytes",
                       CA_MAX_BYTES);
    if (enabled)
        *out = json_pack("{s:b, s:s*, s:s*}", "enabled", true, "serverName", name, "caCert", ca);
    return 0;
}

int egress_proxy_parse(const json_t *proxy, bool special, json_t **out, struct err *e)
{
    const char *address = NULL, *username = NULL, *password = NULL;
    char *host auto_free = NULL;
    json_t *tls;
    int64_t port;
    *out = NULL;
    if (!proxy || json_is_null(proxy))
        return 0;
    if (check_members(proxy, e) < 0 || json_get_string(proxy, "address", &address, NULL, e) < 0 ||
        json_get_string(proxy, "username", &username, NULL, e) < 0 ||
        json_get_string(proxy, "password", &password, NULL, e) < 0 ||
        check_login(username, password, e) < 0 || split(address, &host, &port, e) < 0)
        return -1;
    if (!special && is_private(host))
        return err_set(e, ERR_INVALID,
                       "network.egressProxy.address is not a public address; the daemon allows "
                       "others with --allow-private-network");
    if (parse_tls(json_object_get(proxy, "tls"), &tls, e) < 0)
        return -1;
    *out = json_pack("{s:s, s:s*, s:s*, s:o*}", "address", address, "username", username,
                     "password", password, "tls", tls);
    return 0;
}

json_t *egress_proxy_for_egress(const json_t *proxy, bool special)
{
    char *host auto_free = NULL;
    int64_t port = 0;
    struct err e = ERR_INIT;
    const json_t *tls = json_object_get(proxy, "tls");
    if (!proxy)
        return NULL;
    split(json_string_value(json_object_get(proxy, "address")), &host, &port, &e);
    json_t *out = json_copy((json_t *)(uintptr_t)proxy);
    json_object_del(out, "address");
    json_object_set_new(out, "host", json_string(host ? host : ""));
    json_object_set_new(out, "port", json_integer((json_int_t)port));
    json_object_set_new(out, "special", json_boolean(special));
    if (tls)
        json_object_set_new(out, "tls",
                            json_pack("{s:O*, s:O*}", "name", json_object_get(tls, "serverName"),
                                      "ca", json_object_get(tls, "caCert")));
    return out;
}

json_t *egress_proxy_view(const json_t *proxy)
{
    if (!proxy)
        return NULL;
    json_t *tls = json_copy(json_object_get(proxy, "tls"));
    json_object_del(tls, "caCert");
    return json_pack("{s:O, s:O*, s:o*}", "address", json_object_get(proxy, "address"), "username",
                     json_object_get(proxy, "username"), "tls", tls);
}
