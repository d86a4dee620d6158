// SPDX-License-Identifier: Apache-2.0
// Fuzz the parser of QMP, because a guest that has broken into QEMU can send any bytes.
#include <signal.h>
#include <stdint.h>
#include <stdlib.h>
#include <sys/socket.h>
#include <unistd.h>

#include "sandbox-backend/drivers/microvm/qemu/console.h"
#include "sandbox-backend/drivers/microvm/qemu/qmp.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static int pending;

static void on_event(struct qmp *q, const char *name, const json_t *data, void *ctx)
{
    (void)q;
    (void)ctx;
    if (!name || !json_is_object(data))
        abort();
}

static void on_lost(struct qmp *q, const struct err *e, void *ctx)
{
    (void)q;
    (void)ctx;
    if (!err_is(e))
        abort();
}

static void on_reply(struct qmp *q, const json_t *value, const struct err *e, void *ctx)
{
    (void)q;
    (void)ctx;
    pending--;
    if ((value == NULL) == (e == NULL))
        abort();
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    static const struct qmp_events events = {.on_event = on_event, .on_lost = on_lost};
    uv_loop_t loop;
    int ends[2];
    signal(SIGPIPE, SIG_IGN);
    if (uv_loop_init(&loop) != 0 ||
        socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0, ends) != 0)
        abort();
    struct qmp *q = qmp_open(&loop, ends[0], &events, NULL);
    for (pending = 0; pending < 3; pending++)
        qmp_execute(q, "query-status", NULL, 60000, on_reply, NULL);
    for (size_t at = 0; at < size;) {
        ssize_t n = write(ends[1], data + at, size - at);
        at += n > 0 ? (size_t)n : 0;
        uv_run(&loop, UV_RUN_NOWAIT);
        if (n < 0 && pending == 0)
            break; // it hung up
    }
    close(ends[1]);
    uv_run(&loop, UV_RUN_NOWAIT);
    qmp_close(q, NULL, NULL);
    uv_run(&loop, UV_RUN_DEFAULT);
    if (pending != 0 || uv_loop_close(&loop) != 0)
        abort(); // each command ends exactly once, and nothing is left
    free(console_panic((const char *)data, size));
    return 0;
}
