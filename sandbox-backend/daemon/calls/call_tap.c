// SPDX-License-Identifier: Apache-2.0
// A tap: a request to a sandbox and its answer, for the call log.
#include "sandbox-backend/daemon/calls/call_tap.h"

#include <stdlib.h>
#include <string.h>
#include <strings.h>

#include "sandbox-backend/base/clock.h"
#include "sandbox-backend/base/json.h"
#include "sandbox-backend/base/limits.h"
#include "sandbox-backend/base/mem.h"
#include "sandbox-backend/base/str.h"
#include "sandbox-backend/connect/connect.h"
#include "sandbox-backend/daemon/calls/call_figure.h"
#include "sandbox-backend/daemon/calls/call_message.h"
#include "sandbox-backend/daemon/calls/call_output.h"
#include "sandbox-backend/daemon/calls/pieces.h"

#define AGENT_BYTES  80
#define ANSWER_BYTES 16384 // of a short answer: the paths of an upload, an error
#define EARLY_BYTES  65536 // of an answer that comes before the request is complete
#define KEEP_BYTES   1024  // of a piece without output
#define KEEP_RESULT  (CALL_FIGURE_CHARS + CALL_LINE_BYTES)
#define KEEP_SCREEN  (LIMIT_PTY_CHUNK_BYTES / 3 * 4 + KEEP_BYTES)
#define RESULT_BYTES 1024
#define RESULT_BEGIN "{\"type\":\"result\"" // of a line of the Python kernel
#define PATHS_MAX    32
#define ERROR_BYTES  1024

enum tap_kind {
    TAP_START, // a command or a terminal
    TAP_JOIN,  // the output of a process that runs
    TAP_CODE,
    TAP_INPUT, // bytes for a process
    TAP_UNARY, // another method of envd
    TAP_READ,  // of a file
    TAP_WRITE,
};

struct call_tap {
    struct call_place place;
    enum tap_kind kind;
    const struct service_method *method; // NULL: none
    bool is_proto, is_gzip, is_terminal;
    bool is_long;       // the request was not collected as a whole
    bool has_ended;     // all of the request has come
    bool is_told;       // the first line is written
    bool is_deaf;       // the answer was not read as a whole
    bool is_blind;      // the request was not read: its environment may be in any output
    json_t *line;       // owned; the line, or the first of two
    json_t *end;        // owned; members that the answer told
    struct buf request; // owned; as it came
    struct buf answer;  // owned; a short one, or what came before the request was complete
    struct masks masks; // owned; the values of this request
    struct pieces pieces;
    struct call_output out, err;
    struct call_screen screen;
    int64_t in, out_bytes; // of the bodies
    int64_t start_ms;      // monotonic
    int64_t n;             // number of the first line; 0: it is not written
    int status;            // of the answer; 0: none yet
};

static void tell_first(struct call_tap *t);
static void read_answer(struct call_tap *t, const char *data, size_t len);

// ---- which requests

static const struct {
    const char *path;
    enum tap_kind kind;
    const char *name; // "kind" of the line
    const char *what; // NULL: none
} METHODS[] = {
    {"/process.Process/Start", TAP_START, "command", NULL},
    {"/process.Process/Connect", TAP_JOIN, "join", NULL},
    {"/process.Process/StreamInput", TAP_INPUT, "input", NULL},
    {"/process.Process/SendInput", TAP_INPUT, "input", NULL},
    {"/process.Process/SendSignal", TAP_UNARY, "signal", NULL},
    {"/process.Process/Update", TAP_UNARY, "resize", NULL},
    {"/filesystem.Filesystem/MakeDir", TAP_UNARY, "file", "mkdir"},
    {"/filesystem.Filesystem/Move", TAP_UNARY, "file", "move"},
    {"/filesystem.Filesystem/Remove", TAP_UNARY, "file", "remove"},
    {"/filesystem.Filesystem/ListDir", TAP_UNARY, "file", "list"},
};

static json_t *line_of(const char *kind, const char *what)
{
    return json_pack("{s:s, s:s*}", "kind", kind, "what", what);
}

// Set the kind of the tap and begin its line. False: such a request is not recorded.
static bool choose(struct call_tap *t, const char *method, int port, const char *path)
{
    bool is_post = str_eq(method, "POST");
    if (port == KERNEL_PORT && is_post && str_eq(path, "/execute")) {
        t->kind = TAP_CODE;
        t->line = line_of("code", NULL);
    } else if (port == ENVD_PORT && str_eq(path, "/files") && (is_post || str_eq(method, "GET"))) {
        t->kind = is_post ? TAP_WRITE : TAP_READ;
        t->line = line_of("file", is_post ? "write" : "read");
    } else if (port == ENVD_PORT && is_post && str_eq(path, "/files/compose")) {
        t->kind = TAP_WRITE;
        t->line = line_of("file", "compose");
    }
    for (size_t i = 0; port == ENVD_PORT && is_post && i < ARRAY_LEN(METHODS); i++)
        if (strcmp(METHODS[i].path, path) == 0) {
            t->kind = METHODS[i].kind;
            t->line = line_of(METHODS[i].name, METHODS[i].what);
            t->method = service_method(path);
        }
    return t->line;
}

// ---- who

// Return the user of the guest that a request names: in Authorization, or for files in the query.
// New string, or NULL.
static char *user_of(struct http_request *req)
{
    struct buf name auto_buf = BUF_INIT;
    const char *basic = http_request_header(req, "Authorization");
    const char *asked = http_request_query(req, "username", NULL);
    if (asked && *asked)
        return xstrdup(asked);
    if (!basic || strncasecmp(basic, "Basic ", 6) != 0 ||
        !base64_decode(&name, basic + 6, strlen(basic + 6)))
        return NULL;
    return xstrndup(buf_str(&name), strcspn(buf_str(&name), ":"));
}

static void hide_token(const struct call_place *p, const char *token)
{
    masks_add(&p->log->recent, p->logs->base, token);
    masks_add(p->request, p->logs->base, token);
}

// The client's own tokens may be in what it sends to the guest.
static void hide_tokens(const struct call_place *p, struct http_request *req)
{
    static const char *const NAMES[] = {"X-Access-Token", "X-API-KEY", "E2b-Traffic-Access-Token"};
    const char *bearer = http_request_header(req, "Authorization");
    for (size_t i = 0; i < ARRAY_LEN(NAMES); i++)
        hide_token(p, http_request_header(req, NAMES[i]));
    if (bearer && strncasecmp(bearer, "Bearer ", 7) == 0)
        hide_token(p, bearer + 7);
}

static void tell_who(struct call_tap *t, struct http_request *req, const char *who)
{
    const char *peer = http_request_peer(req);
    char *user auto_free = user_of(req);
    json_object_set_new(t->line, "who", json_string(who));
    if (!str_eq(peer, "unix"))
        json_object_set_new(t->line, "from", json_string(peer));
    call_set_text(&t->place, t->line, "client", http_request_header(req, "User-Agent"),
                  AGENT_BYTES);
    call_set_text(&t->place, t->line, "user", user, AGENT_BYTES);
}

struct call_tap *call_tap_new(const struct call_place *place, struct http_request *req, int port,
                              const char *path, const char *who)
{
    const char *type = http_request_header(req, "Content-Type");
    struct call_tap chosen = {.place = *place, .start_ms = clock_mono_ms()};
    if (!call_logs_is_on(place->logs) || !choose(&chosen, http_request_method(req), port, path))
        return NULL;
    struct call_tap *t = xmemdup(&chosen, sizeof chosen);
    t->place.request = &t->masks;
    t->end = json_object();
    t->is_proto = type && (str_starts(type, CONNECT_UNARY_PROTO_TYPE) ||
                           str_starts(type, CONNECT_STREAM_PROTO_TYPE));
    t->is_gzip = str_eq(http_request_header(req, "Content-Encoding"), "gzip");
    bool has_figures = t->kind == TAP_CODE && t->place.logs->opts.output_bytes > 0;
    t->pieces.is_lines = t->kind == TAP_CODE;
    t->pieces.longer = has_figures ? RESULT_BEGIN : NULL;
    t->pieces.longer_keep = KEEP_RESULT;
    t->screen.start_ms = t->screen.flushed_ms = t->start_ms;
    hide_tokens(&t->place, req);
    tell_who(t, req, who);
    if (t->kind == TAP_READ || t->kind == TAP_WRITE)
        call_set_text(&t->place, t->line, "path", http_request_query(req, "path", NULL),
                      CALL_PATH_BYTES);
    return t;
}

static void tap_free(struct call_tap *t)
{
    t->place.logs->collected -= (int64_t)t->request.len;
    t->place.log->collected -= (int64_t)t->request.len;
    masks_fini(&t->masks);
    json_decref(t->line);
    json_decref(t->end);
    buf_fini(&t->request);
    buf_fini(&t->answer);
    pieces_fini(&t->pieces);
    call_output_fini(&t->out);
    call_output_fini(&t->err);
    call_screen_fini(&t->screen);
    free(t);
}

// ---- the request

static bool is_collected(const struct call_tap *t)
{
    return t->kind != TAP_READ && t->kind != TAP_WRITE && t->kind != TAP_INPUT;
}

static bool has_room(const struct call_tap *t, size_t len)
{
    size_t all = t->request.len + len;
    if (all <= CALL_TAP_SMALL_BYTES)
        return true;
    return all <= CALL_TAP_REQUEST_BYTES &&
           t->place.log->collected + (int64_t)len <= CALL_TAP_LOG_BYTES &&
           t->place.logs->collected + (int64_t)len <= CALL_TAP_ALL_BYTES;
}

static void collect(struct call_tap *t, const char *data, size_t len)
{
    t->is_long = !has_room(t, len);
    if (t->is_long)
        return;
    buf_add(&t->request, data, len);
    t->place.logs->collected += (int64_t)len;
    t->place.log->collected += (int64_t)len;
}

void call_tap_request(struct call_tap *t, const char *data, size_t len)
{
    if (!t)
        return;
    t->in += (int64_t)len;
    if (!is_collected(t) || t->is_long)
        return;
    collect(t, data, len);
    tell_first(t);
}

void call_tap_request_end(struct call_tap *t)
{
    if (!t)
        return;
    t->has_ended = true;
    tell_first(t);
}

static void tell_unread(struct call_tap *t)
{
    t->is_blind = true;
    json_object_set_new(t->line, "unread", json_true());
}

static void tell_code_request(struct call_tap *t)
{
    json_t *body = json_parse(buf_str(&t->request), t->request.len, NULL);
    if (body)
        call_tell_code(&t->place, body, t->line);
    else
        tell_unread(t);
    t->is_blind = t->is_blind || t->masks.is_full;
    json_decref(body);
}

// Tell of the request, of which all has come.
static void tell_request(struct call_tap *t)
{
    json_t *message = NULL;
    if (t->is_long)
        tell_unread(t);
    if (!is_collected(t) || t->is_long)
        return;
    if (t->kind == TAP_CODE) {
        tell_code_request(t);
        return;
    }
    message = call_message(t->method, t->is_proto, t->is_gzip, &t->request);
    t->is_terminal = json_object_get(message, "pty") && t->kind == TAP_START;
    if (t->is_terminal)
        json_object_set_new(t->line, "kind", json_string("terminal"));
    if (!message)
        tell_unread(t);
    else if (t->kind == TAP_START)
        call_tell_command(&t->place, message, t->line);
    else
        call_tell_other(&t->place, message, t->line);
    t->is_blind = t->is_blind || t->masks.is_full; // not all of its values can be hidden
    json_decref(message);
}

static bool has_two_lines(const struct call_tap *t)
{
    return t->kind == TAP_START || t->kind == TAP_JOIN || t->kind == TAP_CODE;
}

// A client may leave its stream open after the one message of a command.
static bool is_complete(const struct call_tap *t)
{
    struct connect_frame frame;
    if (t->has_ended || t->is_long)
        return true;
    return t->kind != TAP_CODE && connect_frame_read(t->request.data, t->request.len,
                                                     LIMIT_ENVELOPE_BYTES, &frame, NULL) != 0;
}

// Write the first of two lines, and read what the guest has answered already.
static void tell_now(struct call_tap *t)
{
    struct buf early auto_buf = t->answer;
    t->answer = (struct buf)BUF_INIT;
    t->is_told = true;
    tell_request(t);
    t->n = call_log_add(&t->place, steal(&t->line));
    if (early.len)
        read_answer(t, early.data, early.len);
}

static void tell_first(struct call_tap *t)
{
    if (has_two_lines(t) && !t->is_told && t->status && is_complete(t))
        tell_now(t);
}

// ---- the answer

void call_tap_head(struct call_tap *t, int status)
{
    if (!t || t->status)
        return;
    t->status = status;
    tell_first(t);
}

// Keep as much of a piece as its output needs: base64 takes four bytes for three.
static size_t wanted(const struct call_tap *t)
{
    size_t output = (size_t)t->place.logs->opts.output_bytes + MASK_PIECE;
    if (output > LIMIT_OUTPUT_CHUNK_BYTES)
        output = LIMIT_OUTPUT_CHUNK_BYTES;
    if (t->kind == TAP_CODE)
        return CALL_LINE_BYTES;
    if (t->is_terminal || t->screen.bytes || (t->kind == TAP_JOIN && !t->out.bytes))
        return t->screen.kept < CALL_SCREEN_BYTES ? KEEP_SCREEN : KEEP_BYTES;
    if (call_output_is_full(&t->out, &t->place) && call_output_is_full(&t->err, &t->place))
        return KEEP_BYTES;
    return output / 3 * 4 + KEEP_BYTES;
}

static void on_envelope(const struct piece *piece, void *ctx)
{
    struct call_tap *t = ctx;
    struct call_data data = {0};
    bool is_data = call_read_data(piece, t->is_proto, &data);
    if (t->is_blind)
        buf_clear(&data.bytes); // it is counted only
    if (!is_data)
        call_tell_event(&t->place, piece, t->is_proto, t->method, t->end);
    else if (str_eq(data.stream, "pty"))
        call_screen_add(&t->screen, &t->place, t->n, buf_str(&data.bytes), data.bytes.len,
                        data.all);
    else
        call_output_add(str_eq(data.stream, "stdout") ? &t->out : &t->err, &t->place,
                        buf_str(&data.bytes), data.bytes.len, data.all);
    buf_fini(&data.bytes);
    t->pieces.keep = wanted(t);
}

static void note_error(struct call_tap *t, const json_t *line)
{
    const char *name = json_string_value(json_object_get(line, "name"));
    const char *value = json_string_value(json_object_get(line, "value"));
    char *text auto_free =
        str_printf("%s%s%s", name ? name : "", name && value ? ": " : "", value ? value : "");
    call_set_text(&t->place, t->end, "error", text, ERROR_BYTES);
}

static void count_member(json_t *object, const char *key)
{
    json_int_t n = json_integer_value(json_object_get(object, key));
    json_object_set_new(object, key, json_integer(n + 1));
}

static void note_figure(struct call_tap *t, const json_t *line, bool is_cut)
{
    json_int_t before = json_integer_value(json_object_get(t->end, "figures"));
    if (!t->n || !t->pieces.longer || !call_figure_tell(&t->place, t->n, line, is_cut))
        return;
    count_member(t->end, "figures");
    if (before + 1 == CALL_FIGURES_MAX)
        t->pieces.longer = NULL;
}

static void on_line(const struct piece *piece, void *ctx)
{
    struct call_tap *t = ctx;
    json_t *line = t->is_blind ? NULL : call_kernel_line(piece);
    const char *type = json_string_value(json_object_get(line, "type"));
    const json_t *text = json_object_get(line, "text");
    if (str_eq(type, "stdout") || str_eq(type, "stderr")) {
        int64_t len = (int64_t)json_string_length(text);
        call_output_add(str_eq(type, "stdout") ? &t->out : &t->err, &t->place,
                        json_string_value(text), (size_t)len,
                        piece->kept < piece->len ? (int64_t)piece->len : len);
    } else if (str_eq(type, "result")) {
        count_member(t->end, "results");
        call_set_text(&t->place, t->end, "result", json_string_value(text), RESULT_BYTES);
        note_figure(t, line, piece->kept < piece->len);
    } else if (str_eq(type, "error")) {
        note_error(t, line);
    } else if (str_eq(type, "unexpected_end_of_execution")) {
        json_object_set_new(t->end, "status", json_string("unexpected end"));
    }
    json_decref(line);
}

static void keep_answer(struct call_tap *t, const char *data, size_t len, size_t max)
{
    size_t room = max - t->answer.len;
    buf_add(&t->answer, data, len < room ? len : room);
    t->is_deaf = t->is_deaf || (len > room && has_two_lines(t) && t->status == 200);
}

static void read_answer(struct call_tap *t, const char *data, size_t len)
{
    if (has_two_lines(t) && t->status == 200) {
        t->pieces.keep = t->pieces.keep ? t->pieces.keep : wanted(t);
        pieces_feed(&t->pieces, data, len, t->kind == TAP_CODE ? on_line : on_envelope, t);
    } else if (t->kind != TAP_READ || t->status >= 400) {
        keep_answer(t, data, len, ANSWER_BYTES);
    }
}

void call_tap_answer(struct call_tap *t, const char *data, size_t len)
{
    if (!t)
        return;
    t->out_bytes += (int64_t)len;
    if (has_two_lines(t) && !t->is_told)
        keep_answer(t, data, len, EARLY_BYTES);
    else if (!t->is_deaf)
        read_answer(t, data, len);
}

// ---- the end

static void add_paths(struct call_tap *t, const json_t *list)
{
    json_t *paths = json_array();
    size_t i;
    const json_t *one;
    json_array_foreach (list, i, one) {
        bool cut = false;
        const json_t *path = json_object_get(one, "path");
        if (json_is_string(path) && i < PATHS_MAX)
            json_array_append_new(paths,
                                  call_text(&t->place, json_string_value(path),
                                            json_string_length(path), CALL_PATH_BYTES, &cut));
    }
    if (json_array_size(paths) && !json_object_get(t->line, "path"))
        json_object_set(t->line, "paths", paths);
    json_decref(paths);
}

// A short answer tells the paths of an upload, or what was wrong.
static void tell_answer(struct call_tap *t, json_t *line)
{
    json_t *answer = json_parse_few(buf_str(&t->answer), t->answer.len, JSON_VALUES_MAX, NULL);
    if (t->kind == TAP_WRITE && t->status == 200)
        add_paths(t, answer);
    if (t->status >= 400)
        call_set_text(&t->place, line, "error",
                      json_string_value(json_object_get(answer, "message")), ERROR_BYTES);
    json_decref(answer);
}

static void tell_end(struct call_tap *t, json_t *line, const char *fate)
{
    tell_answer(t, line);
    if (t->status && t->status != 200)
        json_object_set_new(line, "http", json_integer(t->status));
    json_object_set_new(line, "ms", json_integer(clock_mono_ms() - t->start_ms));
    json_object_set_new(line, "in", json_integer(t->in));
    if (fate)
        json_object_set_new(line, "fate", json_string(fate));
}

static void end_two_lines(struct call_tap *t, const char *fate)
{
    json_t *line = json_pack("{s:s, s:I}", "kind", "end", "of", (json_int_t)t->n);
    call_screen_end(&t->screen, &t->place, t->n);
    if (t->screen.bytes)
        json_object_set_new(line, "out", json_integer(t->screen.bytes));
    if (t->screen.bytes > CALL_SCREEN_BYTES || t->is_deaf)
        json_object_set_new(line, "cut", json_true());
    call_output_tell(&t->out, &t->place, "stdout", "out", line);
    call_output_tell(&t->err, &t->place, "stderr", "err", line);
    bool has_end = json_object_get(t->end, "exit") || t->kind == TAP_CODE;
    json_object_update(line, t->end);
    tell_end(t, line, fate && has_end && t->kind != TAP_CODE ? NULL : fate);
    call_log_add(&t->place, line);
}

static void end_one_line(struct call_tap *t, const char *fate)
{
    tell_request(t);
    tell_end(t, t->line, fate);
    if (t->kind == TAP_READ)
        json_object_set_new(t->line, "out", json_integer(t->out_bytes));
    call_log_add(&t->place, steal(&t->line));
}

void call_tap_end(struct call_tap *t, const char *fate)
{
    if (!t)
        return;
    if (has_two_lines(t) && !t->is_told)
        tell_now(t);
    if (has_two_lines(t))
        end_two_lines(t, fate);
    else
        end_one_line(t, fate);
    tap_free(t);
}
