// SPDX-License-Identifier: Apache-2.0
// Where the ports that sandboxes expose are reached on the host.
#include "sandbox-backend/daemon/ports_place.h"

#include <arpa/inet.h>
#include <stdlib.h>
#include <string.h>

#include "sandbox-backend/base/mem.h"
#include "sandbox-backend/base/str.h"
#include "sandbox-backend/net/listen_address.h"
#include "sandbox-backend/net/tls.h"

#define DEFAULT_IP "127.0.0.1"
#define HOST_CHARS "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789-."

static int parse(const char *ip, struct sockaddr_storage *out)
{
    memset(out, 0, sizeof *out);
    if (inet_pton(AF_INET, ip, &((struct sockaddr_in *)out)->sin_addr) == 1)
        out->ss_family = AF_INET;
    else if (inet_pton(AF_INET6, ip, &((struct sockaddr_in6 *)out)->sin6_addr) == 1)
        out->ss_family = AF_INET6;
    else
        return -1;
    return 0;
}

static bool is_any(const struct sockaddr_storage *address)
{
    if (address->ss_family == AF_INET)
        return ((const struct sockaddr_in *)address)->sin_addr.s_addr == INADDR_ANY;
    return IN6_IS_ADDR_UNSPECIFIED(&((const struct sockaddr_in6 *)address)->sin6_addr);
}

int ports_place_check(const struct ports_opts *opts, struct err *e)
{
    struct sockaddr_storage address;
    const char *ip = opts->address ? opts->address : DEFAULT_IP;
    if (parse(ip, &address) < 0)
        return err_set(e, ERR_INVALID,
                       "--ports-address takes an IP address such as 127.0.0.1, and \"%.60s\" is "
                       "none",
                       ip);
    if (opts->host && (!*opts->host || opts->host[strspn(opts->host, HOST_CHARS)]))
        return err_set(e, ERR_INVALID,
                       "--ports-host takes a host name, without a port, and \"%.60s\" is none",
                       opts->host);
    if (is_any(&address) && !opts->host)
        return err_set(e, ERR_INVALID,
                       "--ports-address %s is no address that a URL can have: give --ports-host, "
                       "the name by which this machine is reached",
                       ip);
    if (listen_address_is_loopback(&address) || opts->tls_cert || opts->allow_plaintext)
        return 0;
    return err_set(e, ERR_INVALID,
                   "--ports-address %s is not loopback, and tokens and pages would travel "
                   "unencrypted: give --tls-cert and --tls-key, or --allow-plaintext-network when "
                   "something in front does TLS",
                   ip);
}

int ports_place_open(struct ports_place *place, const struct ports_opts *opts, struct err *e)
{
    struct sockaddr_storage address;
    const char *ip = opts->address ? opts->address : DEFAULT_IP;
    if (parse(ip, &address) < 0)
        return err_set(e, ERR_INVALID, "\"%.60s\" is no IP address", ip);
    *place = (struct ports_place){.ip = xstrdup(ip),
                                  .is_loopback = listen_address_is_loopback(&address),
                                  .host = opts->host,
                                  .domain = opts->domain};
    if (place->is_loopback || !opts->tls_cert)
        return 0;
    place->tls = tls_new(opts->tls_cert, opts->tls_key, e);
    return place->tls ? 0 : -1;
}

void ports_place_fini(struct ports_place *place)
{
    tls_free(place->tls);
    free(place->ip);
    *place = (struct ports_place){0};
}

char *ports_place_url(const struct ports_place *place, const char *scheme, int host_port)
{
    bool is_v6 = !place->host && strchr(place->ip, ':');
    return str_printf("%s://%s%s%s:%d",
                      scheme       ? scheme
                      : place->tls ? "https"
                                   : "http",
                      is_v6 ? "[" : "", place->host ? place->host : place->ip, is_v6 ? "]" : "",
                      host_port);
}
