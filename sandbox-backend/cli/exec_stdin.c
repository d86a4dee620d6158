// SPDX-License-Identifier: Apache-2.0
// Our standard input, passed on to a command in a sandbox.
#include "sandbox-backend/cli/exec_stdin.h"

#include <errno.h>
#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include "sandbox-backend/base/buf.h"
#include "sandbox-backend/base/json.h"
#include "sandbox-backend/base/str.h"

#define PIECE_BYTES 262144 // of one SendInput; a pipe gives 64 KiB at most

static void next(struct exec_stdin *in);

bool exec_stdin_is_wanted(void)
{
    struct stat st;
    return fstat(STDIN_FILENO, &st) == 0 && !isatty(STDIN_FILENO);
}

static json_t *selector(const struct exec_stdin *in)
{
    return json_pack("{s:{s:I}}", "process", "pid", (json_int_t)in->pid);
}

// A command that has ended, or has closed its stdin, takes no more: not an error of ours.
static void on_sent(const json_t *answer, const struct err *e, void *ctx)
{
    (void)answer;
    struct exec_stdin *in = ctx;
    in->op = NULL;
    if (e)
        in->over = true;
    next(in);
}

static void send_piece(struct exec_stdin *in, const char *data, size_t len)
{
    struct buf text auto_buf = BUF_INIT;
    json_t *request = selector(in);
    base64_encode(&text, data, len);
    json_object_set_new(request, "input", json_pack("{s:s}", "stdin", buf_str(&text)));
    in->op =
        client_rpc(in->client, in->id, "process.Process/SendInput", request, in->user, on_sent, in);
    json_decref(request);
}

static void send_end(struct exec_stdin *in)
{
    json_t *request = selector(in);
    in->over = true;
    in->op = client_rpc(in->client, in->id, "process.Process/CloseStdin", request, in->user,
                        on_sent, in);
    json_decref(request);
}

static void read_piece(struct exec_stdin *in)
{
    char data[PIECE_BYTES];
    ssize_t n = read(in->fd, data, sizeof data);
    if (n < 0 && (errno == EINTR || (errno == EAGAIN && in->waits)))
        next(in);
    else if (n > 0)
        send_piece(in, data, (size_t)n);
    else
        send_end(in);
}

static void on_readable(uv_poll_t *poll, int status, int events)
{
    (void)status;
    (void)events;
    struct exec_stdin *in = poll->data;
    uv_poll_stop(poll);
    read_piece(in);
}

static void next(struct exec_stdin *in)
{
    if (in->over)
        return;
    if (in->waits)
        uv_poll_start(&in->poll, UV_READABLE | UV_DISCONNECT, on_readable);
    else
        read_piece(in);
}

// libuv makes a descriptor that it polls non-blocking, for all who share it. A pipe can be opened
// again, as one that is ours alone; all else is left as it was found by exec_stdin_stop.
static void open_own(struct exec_stdin *in, mode_t type)
{
    in->flags = fcntl(STDIN_FILENO, F_GETFL);
    in->own = S_ISFIFO(type) ? open("/proc/self/fd/0", O_RDONLY | O_NONBLOCK | O_CLOEXEC) : -1;
    if (in->own >= 0)
        in->fd = in->own;
    in->poll_open = in->waits = uv_poll_init(in->loop, &in->poll, in->fd) == 0;
    in->poll.data = in;
}

static void on_poll_closed(uv_handle_t *handle)
{
    const struct exec_stdin *in = handle->data;
    if (in->own >= 0)
        close(in->own);
    else
        fcntl(STDIN_FILENO, F_SETFL, in->flags);
}

// What cannot be polled (regular files, /dev/null) does not make its reader wait.
void exec_stdin_start(struct exec_stdin *in, int64_t pid)
{
    struct stat st;
    in->pid = pid;
    in->fd = STDIN_FILENO;
    if (fstat(in->fd, &st) == 0 && !S_ISREG(st.st_mode))
        open_own(in, st.st_mode);
    next(in);
}

void exec_stdin_stop(struct exec_stdin *in)
{
    in->over = true;
    if (in->op)
        client_cancel(in->op);
    if (in->poll_open) {
        in->poll_open = in->waits = false;
        uv_close((uv_handle_t *)&in->poll, on_poll_closed);
    }
}
