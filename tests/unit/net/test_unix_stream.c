// SPDX-License-Identifier: Apache-2.0
// Connecting to a listener that is slow to accept: all connections succeed and work.
#include <errno.h>
#include <fcntl.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

#include "sandbox-backend/base/fd.h"
#include "sandbox-backend/base/mem.h"
#include "sandbox-backend/base/str.h"
#include "sandbox-backend/net/unix_stream.h"
#include "tests/lib/harness/tap.h"

#define CLIENTS 30
#define PORT    49983

static int answered, failed, closed;

static void on_stream_closed(uv_handle_t *handle)
{
    free(handle);
    closed++;
}

static void on_connected(uv_stream_t *stream, const struct err *e, void *ctx)
{
    (void)ctx;
    if (e) {
        failed++;
        ok(false, "connects: %s", e->msg);
        return;
    }
    answered++;
    uv_close((uv_handle_t *)stream, on_stream_closed);
}

static int listen_at(const char *path, int backlog)
{
    struct sockaddr_un address = {.sun_family = AF_UNIX};
    memcpy(address.sun_path, path, strlen(path) + 1);
    int fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
    is_int(bind(fd, (struct sockaddr *)&address, sizeof address), 0, "bind");
    is_int(listen(fd, backlog), 0, "listen");
    return fd;
}

// Takes one client, says OK to its request line, and lets it go when it leaves.
static void serve_one(int listener)
{
    char line[64];
    int fd auto_close = accept4(listener, NULL, NULL, SOCK_CLOEXEC);
    if (fd < 0)
        return;
    ssize_t n = read(fd, line, sizeof line - 1);
    line[n > 0 ? n : 0] = '\0';
    if (strcmp(line, "CONNECT 49983\n") == 0)
        (void)fd_write_all(fd, "OK\n", 3, NULL);
}

int main(void)
{
    char dir[] = "/tmp/cubby-unix-XXXXXX";
    uv_loop_t loop;
    ok(mkdtemp(dir) != NULL, "a directory");
    char *path auto_free = str_printf("%s/s", dir);
    int listener auto_close = listen_at(path, 1);
    uv_loop_init(&loop);
    for (int i = 0; i < CLIENTS; i++)
        vmnet_connect(&loop, path, PORT, 20000, on_connected, NULL);
    for (int turn = 0; turn < 5; turn++) // the backlog is full by now
        uv_run(&loop, UV_RUN_NOWAIT);
    while (answered + failed < CLIENTS) {
        serve_one(listener);
        uv_run(&loop, UV_RUN_NOWAIT);
    }
    uv_run(&loop, UV_RUN_DEFAULT);
    is_int(answered, CLIENTS, "every one was answered");
    is_int(closed, CLIENTS, "and closed");
    is_int(uv_loop_close(&loop), 0, "nothing is left in the loop");
    dir_remove(dir, NULL);
    return tap_done();
}
