// SPDX-License-Identifier: Apache-2.0
#include "sandbox-backend/cli/input.h"

#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "sandbox-backend/base/fd.h"
#include "sandbox-backend/base/json.h"
#include "sandbox-backend/base/mem.h"
#include "sandbox-backend/base/str.h"

#define PIECE_BYTES 262144 // of one SendInput

static void next(struct input *in);

bool input_is_wanted(void)
{
    struct stat st;
    return fstat(STDIN_FILENO, &st) == 0 && !isatty(STDIN_FILENO);
}

static bool is_terminal(const struct input *in)
{
    return str_eq(in->stream, "pty");
}

static json_t *selector(const struct input *in)
{
    return json_pack("{s:{s:I}}", "process", "pid", (json_int_t)in->pid);
}

// A command that has ended, or has closed its stdin, takes no more input. That is not an error. A
// terminal may have lost its connection only for the moment.
static void on_sent(const json_t *answer, const struct err *e, void *ctx)
{
    (void)answer;
    struct input *in = ctx;
    in->op = NULL;
    if (e && !is_terminal(in))
        in->over = true;
    next(in);
}

static void send_bytes(struct input *in, const char *data, size_t len)
{
    struct buf text auto_buf = BUF_INIT;
    json_t *request = selector(in);
    base64_encode(&text, data, len);
    json_object_set_new(request, "input", json_pack("{s:s}", in->stream, buf_str(&text)));
    in->op =
        client_rpc(in->client, in->id, "process.Process/SendInput", request, in->user, on_sent, in);
    json_decref(request);
}

static void send_piece(struct input *in, const char *data, size_t len)
{
    struct buf kept auto_buf = BUF_INIT;
    if (!in->filter) {
        send_bytes(in, data, len);
        return;
    }
    in->filter(data, len, &kept, in->ctx);
    if (kept.len && !in->over)
        send_bytes(in, kept.data, kept.len);
    else
        next(in);
}

static void send_end(struct input *in)
{
    in->over = true;
    if (is_terminal(in))
        return;
    json_t *request = selector(in);
    in->op = client_rpc(in->client, in->id, "process.Process/CloseStdin", request, in->user,
                        on_sent, in);
    json_decref(request);
}

static void read_piece(struct input *in)
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
    struct input *in = poll->data;
    uv_poll_stop(poll);
    read_piece(in);
}

static void next(struct input *in)
{
    if (in->over)
        return;
    if (in->waits)
        uv_poll_start(&in->poll, UV_READABLE | UV_DISCONNECT, on_readable);
    else
        read_piece(in);
}

// libuv makes the descriptor that it polls non-blocking, also for other processes that share it. A
// pipe or a terminal is opened again, so that only we have it; for others input_stop restores the
// flags.
static void open_own(struct input *in, mode_t type)
{
    bool opens = S_ISFIFO(type) || isatty(STDIN_FILENO);
    int flags = O_RDONLY | O_NONBLOCK | O_CLOEXEC | O_NOCTTY;
    in->flags = fcntl(STDIN_FILENO, F_GETFL);
    in->own = opens ? open("/proc/self/fd/0", flags) : -1;
    if (in->own >= 0)
        in->fd = in->own;
    if (S_ISFIFO(type) && in->own >= 0)
        fcntl(in->own, F_SETPIPE_SZ, PIECE_BYTES); // the next piece gathers during a request
    in->poll_open = in->waits = uv_poll_init(in->loop, &in->poll, in->fd) == 0;
    in->poll.data = in;
}

static void on_poll_closed(uv_handle_t *handle)
{
    struct input *in = handle->data;
    in->poll_closing = false;
    if (in->own >= 0)
        close(in->own);
    else
        fcntl(STDIN_FILENO, F_SETFL, in->flags);
}

void input_start(struct input *in, int64_t pid)
{
    struct stat st;
    in->pid = pid;
    in->fd = STDIN_FILENO;
    if (fstat(in->fd, &st) == 0 && !S_ISREG(st.st_mode))
        open_own(in, st.st_mode);
    next(in);
}

void input_stop(struct input *in)
{
    in->over = true;
    if (in->op)
        client_cancel(in->op);
    if (in->poll_open) {
        in->poll_open = in->waits = false;
        in->poll_closing = true;
        uv_close((uv_handle_t *)&in->poll, on_poll_closed);
    }
}

bool input_is_stopped(const struct input *in)
{
    return !in->op && !in->poll_open && !in->poll_closing;
}

// ---- the signals that end commands, by the names that envd reports (those of Go)

static const struct {
    const char *name;
    int number;
} SIGNALS[] = {
    {"hangup", SIGHUP},
    {"interrupt", SIGINT},
    {"quit", SIGQUIT},
    {"illegal instruction", SIGILL},
    {"trace/breakpoint trap", SIGTRAP},
    {"aborted", SIGABRT},
    {"bus error", SIGBUS},
    {"floating point exception", SIGFPE},
    {"killed", SIGKILL},
    {"user defined signal 1", SIGUSR1},
    {"segmentation fault", SIGSEGV},
    {"user defined signal 2", SIGUSR2},
    {"broken pipe", SIGPIPE},
    {"alarm clock", SIGALRM},
    {"terminated", SIGTERM},
};

int command_signal(const char *status)
{
    int64_t number = 0;
    if (str_starts(status, "signal "))
        return str_to_int(status + 7, 1, 64, &number) ? (int)number : 0;
    const char *name = str_starts(status, "signal: ") ? status + 8 : status;
    if (str_starts(name, "signal ")) // "signal: signal 34"
        return command_signal(name);
    for (size_t i = 0; i < ARRAY_LEN(SIGNALS); i++)
        if (str_starts(name, SIGNALS[i].name))
            return SIGNALS[i].number;
    return 0;
}
