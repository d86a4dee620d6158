// SPDX-License-Identifier: Apache-2.0
// The agent of a proxy.
#include "sandbox-backend/daemon/agent.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "sandbox-backend/base/mem.h"
#include "sandbox-backend/daemon/sandbox/store.h"
#include "sandbox-backend/log/log.h"
#include "sandbox-backend/net/listen_address.h"

#define BACKLOG    16
#define LINE_BYTES 32

struct answer {
    uv_tcp_t tcp;
    uv_write_t write;
    char line[LINE_BYTES];
};

static void on_closed(uv_handle_t *handle)
{
    free(container_of((uv_tcp_t *)handle, struct answer, tcp));
}

static void on_written(uv_write_t *write, int status)
{
    (void)status; // a proxy that is gone asks again
    uv_close((uv_handle_t *)write->handle, on_closed);
}

static void make_line(const struct store *store, char line[LINE_BYTES])
{
    int load = admission_load_percent(&store->admission);
    if (store->draining || store->stopping)
        snprintf(line, LINE_BYTES, "drain\n");
    else // a full node stays in use, because only a create of the right size knows
        snprintf(line, LINE_BYTES, "ready up %d%%\n", load < 99 ? 100 - load : 1);
}

static void on_connection(uv_stream_t *server, int status)
{
    struct agent *a = container_of((uv_tcp_t *)server, struct agent, tcp);
    if (status < 0)
        return;
    struct answer *one = xcalloc(1, sizeof *one);
    uv_tcp_init(server->loop, &one->tcp);
    uv_stream_t *stream = (uv_stream_t *)&one->tcp;
    make_line(a->store, one->line);
    uv_buf_t buf = uv_buf_init(one->line, (unsigned)strlen(one->line));
    if (uv_accept(server, stream) < 0 || uv_write(&one->write, stream, &buf, 1, on_written) < 0)
        uv_close((uv_handle_t *)&one->tcp, on_closed);
}

int agent_open(struct agent *a, struct store *store, uv_loop_t *loop, const char *address,
               struct err *e)
{
    struct sockaddr_storage parsed;
    *a = (struct agent){.store = store};
    if (!address)
        return 0;
    if (listen_address_parse(address, &parsed, e) < 0)
        return err_wrap(e, "--agent");
    uv_tcp_init(loop, &a->tcp);
    a->listens = true;
    int status = uv_tcp_bind(&a->tcp, (const struct sockaddr *)&parsed, 0);
    if (status == 0)
        status = uv_listen((uv_stream_t *)&a->tcp, BACKLOG, on_connection);
    if (status < 0)
        return err_sys(e, -status, "listen on --agent %s", address);
    log_info("daemon.agent", "address=%s", address);
    return 0;
}

void agent_close(struct agent *a)
{
    if (a->listens)
        uv_close((uv_handle_t *)&a->tcp, NULL);
    a->listens = false;
}
