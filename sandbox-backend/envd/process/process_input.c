// SPDX-License-Identifier: Apache-2.0
// The methods of process.Process that write to a process.
//
// A stream of input has one message in the process's queue at a time, and envd reads the next one
// when that is written. So a process that does not read its stdin makes its client wait.
#include "sandbox-backend/envd/process/process_rpc.h"

#include "sandbox-backend/base/mem.h"
#include "sandbox-backend/envd/process/process.h"
#include "sandbox-backend/envd/rpc/pjson.h"

// Decode a ProcessInput. ERR_INTERNAL if the process has no such input.
static int read_input(const struct process *p, const json_t *input, struct buf *out, struct err *e)
{
    bool is_stdin = pjson_get(input, "stdin", NULL);
    bool present;
    if (!is_stdin && !pjson_get(input, "pty", NULL))
        return err_set(e, ERR_UNIMPLEMENTED, "the input must be stdin or pty");
    if (is_stdin && process_is_pty(p))
        return err_set(e, ERR_INTERNAL,
                       "tty assigned to process: send the input as pty, not as stdin");
    if (!is_stdin && !process_is_pty(p))
        return err_set(e, ERR_INTERNAL, "tty not assigned to process");
    return pjson_bytes(input, is_stdin ? "stdin" : "pty", out, &present, e);
}

// Queue the "input" of `message`; `cb` as for process_write.
static int feed(struct process *p, const json_t *message, process_written_cb cb, void *ctx,
                struct err *e)
{
    struct buf bytes auto_buf = BUF_INIT;
    const json_t *input;
    if (pjson_message(message, "input", &input, e) < 0 || read_input(p, input, &bytes, e) < 0)
        return -1;
    return process_write(p, buf_str(&bytes), bytes.len, cb, ctx, e);
}

// ---- SendInput

// A call whose bytes are in the queue. `process` is needed if the call ends before they are
// written.
struct input {
    struct rpc *call;
    struct process *process;
};

static void on_written(const struct err *e, void *ctx)
{
    struct input *input = ctx;
    input->call->on_closed = NULL;
    if (e)
        rpc_fail(input->call, e);
    else
        rpc_reply_text(input->call, "{}");
    free(input);
}

static void on_input_closed(struct rpc *call)
{
    struct input *input = call->ctx;
    process_forget_write(input->process, input);
    free(input);
}

void process_input_send(struct rpc *call, const json_t *request)
{
    struct err e = ERR_INIT;
    struct process *p = process_select(call, request, false, &e);
    struct input *input = xmalloc(sizeof *input);
    *input = (struct input){.call = call, .process = p};
    if (!p || feed(p, request, on_written, input, &e) < 0) {
        free(input);
        rpc_fail(call, &e);
        return;
    }
    call->ctx = input;
    call->on_closed = on_input_closed;
}

// ---- StreamInput

struct input_stream {
    struct process_listener listener; // only detached at the process's end
    struct rpc *call;
    bool selected; // a process was selected
    bool writing;  // a message waits in the process's queue
};

static void on_output(struct process_listener *l, enum process_stream stream, const char *data,
                      size_t len)
{
    (void)l;
    (void)stream;
    (void)data;
    (void)len;
}

// If another message comes, it gets an error: a client may send its last bytes late.
static void on_end(struct process_listener *l, const struct process_end *end)
{
    (void)l;
    (void)end;
}

static void release(struct input_stream *s)
{
    if (s->writing && s->listener.process)
        process_forget_write(s->listener.process, s);
    process_detach(&s->listener);
    s->call->on_closed = NULL;
    free(s);
}

static void on_stream_closed(struct rpc *call)
{
    release(call->ctx);
}

static void fail(struct input_stream *s, const struct err *e)
{
    rpc_fail(s->call, e);
    release(s);
}

static void on_stream_written(const struct err *e, void *ctx)
{
    struct input_stream *s = ctx;
    s->writing = false;
    if (e)
        fail(s, e);
    else
        rpc_resume_input(s->call);
}

static int select_once(struct input_stream *s, const json_t *start, struct err *e)
{
    if (s->selected)
        return err_set(e, ERR_INVALID, "start may be sent only once");
    struct process *p = process_select(s->call, start, false, e);
    if (!p)
        return -1;
    s->selected = true;
    process_attach(p, &s->listener);
    return 0;
}

static int write_data(struct input_stream *s, const json_t *data, struct err *e)
{
    if (!s->selected)
        return err_set(e, ERR_INVALID, "start must come before data, to select the process");
    if (!s->listener.process)
        return err_set(e, ERR_INTERNAL, "the process has ended");
    if (feed(s->listener.process, data, on_stream_written, s, e) < 0)
        return -1;
    s->writing = true;
    rpc_pause_input(s->call);
    return 0;
}

static void on_message(struct rpc *call, const json_t *message)
{
    struct input_stream *s = call->ctx;
    struct err e = ERR_INIT;
    const json_t *start;
    const json_t *data;
    const json_t *keepalive;
    if (pjson_message(message, "start", &start, &e) < 0 ||
        pjson_message(message, "data", &data, &e) < 0 ||
        pjson_message(message, "keepalive", &keepalive, &e) < 0)
        ; // `e` has the error
    else if (start)
        select_once(s, start, &e);
    else if (data)
        write_data(s, data, &e);
    else if (!keepalive)
        err_set(&e, ERR_UNIMPLEMENTED, "the event must be start, data or keepalive");
    if (err_is(&e))
        fail(s, &e);
}

static void on_input_end(struct rpc *call)
{
    rpc_reply_text(call, "{}");
    release(call->ctx);
}

void process_input_stream(struct rpc *call, const json_t *request)
{
    (void)request; // the messages come one by one
    struct input_stream *s = xcalloc(1, sizeof *s);
    s->call = call;
    s->listener = (struct process_listener){.on_output = on_output, .on_end = on_end};
    call->ctx = s;
    call->on_message = on_message;
    call->on_input_end = on_input_end;
    call->on_closed = on_stream_closed;
}

// ---- CloseStdin

void process_input_close(struct rpc *call, const json_t *request)
{
    struct err e = ERR_INIT;
    struct process *p = process_select(call, request, false, &e);
    if (p && process_close_stdin(p, &e) == 0)
        rpc_reply_text(call, "{}");
    else
        rpc_fail(call, &e);
}
