// SPDX-License-Identifier: Apache-2.0
// Addresses to listen on.
#include "sandbox-backend/net/listen_address.h"

#include <arpa/inet.h>
#include <netinet/in.h>
#include <string.h>

#include "sandbox-backend/base/mem.h"
#include "sandbox-backend/base/str.h"
#include "sandbox-backend/net/http_server.h"

#define IPV4_LOOPBACK_NET 127

static int refuse(const char *text, struct err *e)
{
    return err_set(
        e, ERR_INVALID,
        "\"%s\" is not an address to listen at; give one such as 127.0.0.1:8700, [::1]:8700 "
        "or localhost:8700, with port 0 for any",
        text);
}

int listen_address_parse(const char *text, struct sockaddr_storage *out, struct err *e)
{
    const char *colon = strrchr(text, ':');
    int64_t port = 0;
    memset(out, 0, sizeof *out);
    if (!colon || colon == text || !str_to_int(colon + 1, 0, UINT16_MAX, &port))
        return refuse(text, e);
    size_t len = (size_t)(colon - text);
    bool bracketed = len > 2 && text[0] == '[' && text[len - 1] == ']';
    char *host auto_free = bracketed ? xstrndup(text + 1, len - 2) : xstrndup(text, len);
    struct sockaddr_in *v4 = (struct sockaddr_in *)out;
    struct sockaddr_in6 *v6 = (struct sockaddr_in6 *)out;
    if (!bracketed &&
        inet_pton(AF_INET, str_eq(host, "localhost") ? "127.0.0.1" : host, &v4->sin_addr) == 1) {
        v4->sin_family = AF_INET;
        v4->sin_port = htons((uint16_t)port);
    } else if (bracketed && inet_pton(AF_INET6, host, &v6->sin6_addr) == 1) {
        v6->sin6_family = AF_INET6;
        v6->sin6_port = htons((uint16_t)port);
    } else {
        return refuse(text, e);
    }
    return 0;
}

bool listen_address_is_loopback(const struct sockaddr_storage *address)
{
    if (address->ss_family == AF_INET) {
        const struct sockaddr_in *v4 = (const struct sockaddr_in *)address;
        return ntohl(v4->sin_addr.s_addr) >> 24 == IPV4_LOOPBACK_NET;
    }
    const struct sockaddr_in6 *v6 = (const struct sockaddr_in6 *)address;
    return IN6_IS_ADDR_LOOPBACK(&v6->sin6_addr);
}

char *listen_address_open(const struct sockaddr_storage *address, struct http_server *server,
                          bool is_tls, struct err *e)
{
    char ip[INET6_ADDRSTRLEN];
    bool is_v6 = address->ss_family == AF_INET6;
    int port = is_v6 ? ntohs(((const struct sockaddr_in6 *)address)->sin6_port)
                     : ntohs(((const struct sockaddr_in *)address)->sin_port);
    uv_ip_name((const struct sockaddr *)address, ip, sizeof ip);
    if (http_server_listen_tcp(server, ip, port, e) < 0)
        return NULL;
    return str_printf("%s://%s%s%s:%d", is_tls ? "https" : "http", is_v6 ? "[" : "", ip,
                      is_v6 ? "]" : "", http_server_port(server));
}
