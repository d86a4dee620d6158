// SPDX-License-Identifier: Apache-2.0
// Messages of envd and of the Python kernel, as far as the call log tells of them.
#include "sandbox-backend/daemon/calls/call_message.h"

#include <string.h>

#include "sandbox-backend/base/json.h"
#include "sandbox-backend/base/limits.h"
#include "sandbox-backend/base/mem.h"
#include "sandbox-backend/base/str.h"
#include "sandbox-backend/connect/connect.h"
#include "sandbox-backend/daemon/calls/call_output.h"
#include "sandbox-backend/net/gzip.h"

#define ARGS_MAX     256
#define NAMES_MAX    64
#define NAME_BYTES   128
#define ERROR_BYTES  1024
#define VALUES_MAX   20000 // of a request
#define EVENT_VALUES 64    // of an answer
#define LINE_VALUES  4096  // of a line of the Python kernel

// ---- requests

static json_t *decode(const struct service_method *m, bool is_proto, const char *data, size_t len)
{
    if (is_proto)
        return proto_decode(m->request, data, len, NULL);
    json_t *message = json_parse_few(data, len, VALUES_MAX, NULL);
    if (message && proto_normalize(m->request, message, NULL) < 0)
        json_decref(steal(&message));
    return message;
}

json_t *call_message(const struct service_method *m, bool is_proto, bool is_gzip,
                     const struct buf *body)
{
    struct buf plain auto_buf = BUF_INIT;
    struct connect_frame frame = {.payload = body->data, .len = body->len};
    if (m->kind == SERVICE_SERVER_STREAM) {
        if (connect_frame_read(body->data, body->len, LIMIT_ENVELOPE_BYTES, &frame, NULL) != 1)
            return NULL;
        is_gzip = frame.flags & CONNECT_FLAG_COMPRESSED;
    }
    if (!is_gzip)
        return decode(m, is_proto, frame.len ? frame.payload : "", frame.len);
    if (gzip_decompress(&plain, frame.payload, frame.len, LIMIT_ENVELOPE_BYTES, NULL) < 0)
        return NULL;
    return decode(m, is_proto, buf_str(&plain), plain.len);
}

void call_set_text(const struct call_place *p, json_t *line, const char *key, const char *text,
                   size_t max)
{
    bool cut = false;
    if (!text)
        return;
    json_object_set_new(line, key, call_text(p, text, strlen(text), max, &cut));
    if (cut)
        json_object_set_new(line, "cut", json_true());
}

void call_hide_environment(const struct call_place *p, const json_t *variables)
{
    masks_add_values(&p->log->recent, p->logs->base, variables);
    if (p->request)
        masks_add_values(p->request, p->logs->base, variables);
}

// The names of variables are told, their values never.
static void tell_names(const struct call_place *p, const json_t *variables, json_t *line)
{
    json_t *names = json_array();
    const char *name;
    json_t *value;
    json_object_foreach ((json_t *)(uintptr_t)variables, name, value) {
        bool cut = false;
        if (json_array_size(names) < NAMES_MAX)
            json_array_append_new(names, call_text(p, name, strlen(name), NAME_BYTES, &cut));
    }
    if (json_array_size(names))
        json_object_set(line, "env", names);
    json_decref(names);
}

static void tell_args(const struct call_place *p, const json_t *args, json_t *line)
{
    json_t *list = json_array();
    size_t left = CALL_TEXT_BYTES;
    bool cut = json_array_size(args) > ARGS_MAX;
    for (size_t i = 0; i < json_array_size(args) && i < ARGS_MAX; i++) {
        const json_t *arg = json_array_get(args, i);
        json_t *text = call_text(p, json_string_value(arg), json_string_length(arg), left, &cut);
        left -= json_string_length(text) < left ? json_string_length(text) : left;
        json_array_append_new(list, text);
    }
    if (json_array_size(list))
        json_object_set(line, "args", list);
    json_decref(list);
    if (cut)
        json_object_set_new(line, "cut", json_true());
}

static void copy_member(const json_t *from, const char *key, json_t *line)
{
    json_t *value = json_object_get(from, key);
    if (json_is_integer(value))
        json_object_set(line, key, value);
}

static void tell_size(const json_t *message, json_t *line)
{
    const json_t *size = json_object_get(json_object_get(message, "pty"), "size");
    copy_member(size, "cols", line);
    copy_member(size, "rows", line);
}

static const char *text_of(const json_t *object, const char *key)
{
    return json_string_value(json_object_get(object, key));
}

void call_tell_command(const struct call_place *p, const json_t *message, json_t *line)
{
    const json_t *config = json_object_get(message, "process");
    const json_t *variables = json_object_get(config, "envs");
    call_hide_environment(p, variables);
    call_set_text(p, line, "cmd", text_of(config, "cmd"), CALL_PATH_BYTES);
    tell_args(p, json_object_get(config, "args"), line);
    call_set_text(p, line, "cwd", text_of(config, "cwd"), CALL_PATH_BYTES);
    tell_names(p, variables, line);
    call_set_text(p, line, "tag", text_of(message, "tag"), NAME_BYTES);
    tell_size(message, line);
}

void call_tell_code(const struct call_place *p, const json_t *body, json_t *line)
{
    const json_t *variables = json_object_get(body, "env_vars");
    call_hide_environment(p, variables);
    call_set_text(p, line, "language", text_of(body, "language"), NAME_BYTES);
    call_set_text(p, line, "context", text_of(body, "context_id"), NAME_BYTES);
    call_set_text(p, line, "code", text_of(body, "code"), CALL_TEXT_BYTES);
    tell_names(p, variables, line);
}

void call_tell_other(const struct call_place *p, const json_t *message, json_t *line)
{
    static const char *const PATHS[] = {"path", "source", "destination"};
    const json_t *process = json_object_get(message, "process");
    for (size_t i = 0; i < ARRAY_LEN(PATHS); i++)
        call_set_text(p, line, PATHS[i], text_of(message, PATHS[i]), CALL_PATH_BYTES);
    copy_member(process, "pid", line);
    call_set_text(p, line, "tag", text_of(process, "tag"), NAME_BYTES);
    call_set_text(p, line, "signal", text_of(message, "signal"), NAME_BYTES);
    tell_size(message, line);
}

// ---- output in JSON: {"event":{"data":{"stdout":"<base64>"}}}, as envd writes it

static const char *const STREAMS[] = {"stdout", "stderr", "pty"};

static size_t json_prefix(const struct piece *p, const char **stream)
{
    static const char BEGIN[] = "{\"event\":{\"data\":{\"";
    size_t begin = sizeof BEGIN - 1;
    if (p->kept < begin || memcmp(p->data, BEGIN, begin) != 0)
        return 0;
    for (size_t i = 0; i < ARRAY_LEN(STREAMS); i++) {
        size_t len = strlen(STREAMS[i]);
        *stream = STREAMS[i];
        if (p->kept >= begin + len + 3 && memcmp(p->data + begin, STREAMS[i], len) == 0 &&
            memcmp(p->data + begin + len, "\":\"", 3) == 0)
            return begin + len + 3;
    }
    return 0;
}

static bool read_json_data(const struct piece *p, struct call_data *out)
{
    static const char END[] = "\"}}}";
    size_t end = sizeof END - 1;
    size_t begin = json_prefix(p, &out->stream);
    if (!begin || p->len < begin + end || p->tail_len < PIECE_TAIL)
        return false;
    size_t coded = p->len - begin - end;
    size_t have = p->kept - begin < coded ? p->kept - begin : coded;
    size_t padding = 0;
    while (padding < 2 && coded >= 4 && p->tail[PIECE_TAIL - end - 1 - padding] == '=')
        padding++;
    if (!base64_decode(&out->bytes, p->data + begin, have / 4 * 4))
        buf_clear(&out->bytes); // another peer than our envd; the number is still right
    out->all = (int64_t)(coded / 4 * 3) - (int64_t)padding;
    return true;
}

// ---- output as Protocol Buffers: three fields of bytes, each in the one before

static bool read_field(const struct piece *p, size_t *at, unsigned char *tag, size_t *len)
{
    if (*at >= p->kept)
        return false;
    *tag = (unsigned char)p->data[(*at)++];
    *len = 0;
    for (int shift = 0; *at < p->kept && shift < 35; shift += 7) {
        unsigned char byte = (unsigned char)p->data[(*at)++];
        *len |= (size_t)(byte & 0x7f) << shift;
        if (!(byte & 0x80))
            return true;
    }
    return false;
}

static bool read_proto_data(const struct piece *p, struct call_data *out)
{
    static const unsigned char TAGS[] = {0x0a, 0x12}; // event, data
    size_t at = 0, len = 0;
    unsigned char tag = 0;
    for (size_t i = 0; i < sizeof TAGS; i++)
        if (!read_field(p, &at, &tag, &len) || tag != TAGS[i])
            return false;
    if (!read_field(p, &at, &tag, &len) || len > p->len - at)
        return false;
    unsigned stream = tag >> 3;
    if ((tag & 7) != 2 || stream < 1 || stream > ARRAY_LEN(STREAMS))
        return false;
    out->stream = STREAMS[stream - 1];
    buf_add(&out->bytes, p->data + at, p->kept - at < len ? p->kept - at : len);
    out->all = (int64_t)len;
    return true;
}

bool call_read_data(const struct piece *p, bool is_proto, struct call_data *out)
{
    if (p->flags)
        return false;
    return is_proto ? read_proto_data(p, out) : read_json_data(p, out);
}

// ---- other answers

static void tell_exit(const json_t *end, json_t *line)
{
    const json_t *code = json_object_get(end, "exitCode");
    if (!end)
        return;
    json_object_set_new(line, "exit", json_integer(json_integer_value(code)));
    const char *status = text_of(end, "status");
    if (status)
        json_object_set_new(line, "status", json_lossy_string(status, strnlen(status, NAME_BYTES)));
}

void call_tell_event(const struct call_place *p, const struct piece *piece, bool is_proto,
                     const struct service_method *m, json_t *line)
{
    bool is_last = piece->flags & CONNECT_FLAG_END; // always JSON
    json_t *message = NULL;
    if (piece->kept < piece->len)
        return;
    if (is_proto && !is_last)
        message = proto_decode(m->response, piece->data, piece->len, NULL);
    else
        message = json_parse_few(piece->data, piece->len, EVENT_VALUES, NULL);
    const json_t *event = json_object_get(message, "event");
    const json_t *started = json_object_get(event, "start");
    if (is_last)
        call_set_text(p, line, "error", text_of(json_object_get(message, "error"), "message"),
                      ERROR_BYTES);
    copy_member(started, "pid", line);
    tell_exit(json_object_get(event, "end"), line);
    json_decref(message);
}

// ---- the Python kernel

// A line that was cut ends within a string: close it, without half an escape.
static json_t *parse_cut(const char *data, size_t len)
{
    struct buf text auto_buf = BUF_INIT;
    for (size_t back = 0; back < 6 && back < len; back++) { // "\u1234" is the longest escape
        buf_clear(&text);
        buf_add(&text, data, len - back);
        buf_adds(&text, "\"}");
        json_t *line = json_parse_few(buf_str(&text), text.len, EVENT_VALUES, NULL);
        if (line)
            return line;
    }
    return NULL;
}

json_t *call_kernel_line(const struct piece *p)
{
    json_t *line = p->kept == p->len ? json_parse_few(p->data, p->len, LINE_VALUES, NULL) : NULL;
    if (!line && p->kept < p->len)
        line = parse_cut(p->data, p->kept);
    if (!line && p->kept > CALL_LINE_BYTES)
        line = parse_cut(p->data, CALL_LINE_BYTES);
    return line;
}
