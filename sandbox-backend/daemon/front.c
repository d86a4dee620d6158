// SPDX-License-Identifier: Apache-2.0
// Where the daemon listens.
#include "sandbox-backend/daemon/front.h"

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

int front_check(const struct front_opts *opts, struct err *e)
{
    struct sockaddr_storage address;
    if (!opts->tls_cert != !opts->tls_key)
        return err_set(e, ERR_INVALID, "--tls-cert and --tls-key need each other");
    if (!opts->listen && opts->tls_cert)
        return err_set(e, ERR_INVALID, "--tls-cert is for --listen, which is not given");
    if (!opts->listen)
        return 0;
    if (listen_address_parse(opts->listen, &address, e) < 0)
        return err_wrap(e, "--listen");
    if (listen_address_is_loopback(&address) || opts->tls_cert || opts->allow_plaintext)
        return 0;
    return err_set(
        e, ERR_INVALID,
        "--listen %s is not loopback, and keys and tokens would travel unencrypted: give "
        "--tls-cert and --tls-key, or --allow-plaintext-network when something in front "
        "does TLS",
        opts->listen);
}

static int open_tcp(struct front *f, uv_loop_t *loop, const struct front_opts *opts,
                    struct http_server_opts server, struct err *e)
{
    struct sockaddr_storage address;
    if (listen_address_parse(opts->listen, &address, e) < 0)
        return err_wrap(e, "--listen");
    if (opts->tls_cert && !(f->tls = tls_new(opts->tls_cert, opts->tls_key, e)))
        return -1;
    server.tls = f->tls;
    f->tcp = http_server_new(loop, &server);
    f->url = listen_address_open(&address, f->tcp, f->tls, e);
    if (!f->url)
        return -1;
    char *line auto_free = str_printf("%s\n", f->url);
    f->url_file = home_path(opts->home, FRONT_URL_FILE);
    if (file_replace(f->url_file, line, strlen(line), 0600, e) < 0)
        return -1;
    log_info("daemon.listen", "url=%s", f->url);
    return 0;
}

int front_open(struct front *f, uv_loop_t *loop, const struct front_opts *opts,
               http_request_cb on_request, void *ctx, struct err *e)
{
    char *path auto_free = home_path(opts->home, "cubbyd.sock");
    char *stale auto_free = home_path(opts->home, FRONT_URL_FILE);
    const struct http_server_opts server = {
        .on_request = on_request, .ctx = ctx, .max_connections = opts->max_connections};
    *f = (struct front){0};
    unlink(stale); // of a daemon that was killed
    // Last comes what says that the daemon is there.
    if (opts->listen && open_tcp(f, loop, opts, server, e) < 0)
        return -1;
    f->local = http_server_new(loop, &server);
    return http_server_listen_unix(f->local, path, 0600, e);
}

void front_close(struct front *f)
{
    if (f->url_file)
        unlink(f->url_file);
    if (f->tcp)
        http_server_close(f->tcp, NULL, NULL);
    if (f->local)
        http_server_close(f->local, NULL, NULL);
    f->tcp = f->local = NULL;
}

void front_fini(struct front *f)
{
    tls_free(f->tls);
    free(f->url_file);
    free(f->url);
    *f = (struct front){0};
}
