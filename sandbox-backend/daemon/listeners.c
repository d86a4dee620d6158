// SPDX-License-Identifier: Apache-2.0
// The listening sockets of the daemon.
#include "sandbox-backend/daemon/listeners.h"

#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "sandbox-backend/base/fd.h"
#include "sandbox-backend/base/home.h"
#include "sandbox-backend/base/mem.h"
#include "sandbox-backend/base/str.h"
#include "sandbox-backend/log/log.h"
#include "sandbox-backend/net/listen_address.h"
#include "sandbox-backend/net/tls.h"

#define CONNECTIONS_MAX 8192 // of each listener

int listeners_check(const struct listeners_opts *opts, struct err *e)
{
    struct sockaddr_storage address;
    if (!opts->tls_cert != !opts->tls_key)
        return err_set(e, ERR_INVALID, "--tls-cert and --tls-key must be given together: add %s",
                       opts->tls_cert ? "--tls-key" : "--tls-cert");
    if (!opts->listen && opts->tls_cert)
        return err_set(e, ERR_INVALID, "--tls-cert needs --listen: add --listen HOST:PORT");
    if (!opts->listen)
        return 0;
    if (listen_address_parse(opts->listen, &address, e) < 0)
        return err_wrap(e, "--listen");
    if (listen_address_is_loopback(&address) || opts->tls_cert || opts->allow_plaintext)
        return 0;
    return err_set(e, ERR_INVALID,
                   "--listen %s is not a loopback address, so keys and tokens would travel "
                   "unencrypted: give --tls-cert and --tls-key, or --allow-plaintext-network if a "
                   "proxy in front of cubbyd does TLS",
                   opts->listen);
}

static int open_tcp(struct listeners *l, uv_loop_t *loop, const struct listeners_opts *opts,
                    const char *home, struct http_server_opts server, struct err *e)
{
    struct sockaddr_storage address;
    if (listen_address_parse(opts->listen, &address, e) < 0)
        return err_wrap(e, "--listen");
    if (opts->tls_cert && !(l->tls = tls_new(opts->tls_cert, opts->tls_key, e)))
        return -1;
    server.tls = l->tls;
    l->tcp = http_server_new(loop, &server);
    l->url = listen_address_open(&address, l->tcp, l->tls, e);
    if (!l->url)
        return -1;
    char *line auto_free = str_printf("%s\n", l->url);
    l->url_file = home_path(home, LISTENERS_URL_FILE);
    if (file_replace(l->url_file, line, strlen(line), 0600, e) < 0)
        return -1;
    log_info("daemon.listen", "url=%s", l->url);
    return 0;
}

int listeners_open(struct listeners *l, uv_loop_t *loop, const struct listeners_opts *opts,
                   const char *home, http_request_cb on_request, void *ctx, struct err *e)
{
    char *path auto_free = home_path(home, "cubbyd.sock");
    char *stale auto_free = home_path(home, LISTENERS_URL_FILE);
    const struct http_server_opts server = {
        .on_request = on_request, .ctx = ctx, .max_connections = CONNECTIONS_MAX};
    *l = (struct listeners){0};
    unlink(stale); // left by a daemon that was killed
    // The unix socket comes last, as it tells clients that the daemon is there.
    if (opts->listen && open_tcp(l, loop, opts, home, server, e) < 0)
        return -1;
    l->local = http_server_new(loop, &server);
    return http_server_listen_unix(l->local, path, 0600, e);
}

void listeners_close(struct listeners *l)
{
    if (l->url_file)
        unlink(l->url_file);
    if (l->tcp)
        http_server_close(l->tcp, NULL, NULL);
    if (l->local)
        http_server_close(l->local, NULL, NULL);
    l->tcp = l->local = NULL;
}

void listeners_fini(struct listeners *l)
{
    tls_free(l->tls);
    free(l->url_file);
    free(l->url);
    *l = (struct listeners){0};
}
