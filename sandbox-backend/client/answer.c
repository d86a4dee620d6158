// SPDX-License-Identifier: Apache-2.0
// Turns an answer that is not a success into an error, and parses a message of a
// process.Process/Start stream.
#include "sandbox-backend/client/answer.h"

#include <string.h>

#include "sandbox-backend/base/json.h"
#include "sandbox-backend/base/str.h"
#include "sandbox-backend/connect/connect.h"
#include "sandbox-backend/net/http.h"

#define PLAIN_TEXT_MAX 200 // shown of an answer that is not JSON

// ---- errors

// 502 is ERR_GONE in the table of codes, for a proxy's answer about a sandbox; otherwise it is a
// failing gateway. 409 is about a state, never about a name that is taken.
static enum err_code code_of_status(int status)
{
    if (status == 502)
        return ERR_UNAVAILABLE;
    return status == 409 ? ERR_CONFLICT : err_from_http_status(status);
}

static json_t *object_of(const char *body, size_t len)
{
    json_t *value = len ? json_parse(body, len, NULL) : NULL;
    if (json_is_object(value))
        return value;
    json_decref(value);
    return NULL;
}

static const char *text_of(const json_t *object, const char *key)
{
    const char *s = json_string_value(json_object_get(object, key));
    return s && *s ? s : NULL;
}

// Return the length of a line of plain text at the start of the body: CubeAPI answers so. 0 for
// HTML, which says no more than the status.
static size_t plain_length(const char *body, size_t len)
{
    size_t n = 0;
    while (n < len && n < PLAIN_TEXT_MAX && (unsigned char)body[n] >= 0x20 && body[n] != 0x7f)
        n++;
    return n == 0 || strchr("<{[", body[0]) ? 0 : utf8_valid_prefix(body, n);
}

static void set_plain(struct err *e, enum err_code code, int status, const json_t *object,
                      const char *body, size_t len)
{
    const char *detail = text_of(object, "detail"); // cubbyd's, where the message is E2B's own
    const char *message = detail ? detail : text_of(object, "message");
    size_t plain = object ? 0 : plain_length(body, len);
    if (message)
        err_set(e, code, "%s", message);
    else if (plain)
        err_set(e, code, "the server answered %d %s: %.*s", status, http_status_text(status),
                (int)plain, body);
    else
        err_set(e, code, "the server answered %d %s", status, http_status_text(status));
}

// CubeAPI passes on CubeMaster's "130400: sandbox not found" as its own failure.
static bool is_unknown_to_cube(const char *message)
{
    return message && str_starts(message, "1304") && strstr(message, "sandbox not found");
}

void answer_api_error(struct err *e, int status, const char *body, size_t len)
{
    json_t *object = object_of(body, len);
    const char *error_code = text_of(object, "error_code");
    enum err_code code = code_of_status(status);
    if (error_code && strcmp(error_code, "sandbox_ended") == 0)
        code = ERR_GONE;
    else if (status == 500 && is_unknown_to_cube(text_of(object, "message")))
        code = ERR_NOT_FOUND;
    else if (str_eq(error_code, "host_full") || str_eq(error_code, "sandbox_in_use"))
        code = ERR_BUSY;
    else if (str_eq(error_code, "port_exposed") || str_eq(error_code, "host_port_taken"))
        code = ERR_EXISTS; // in any state of the sandbox
    set_plain(e, code, status, object, body, len);
    json_decref(object);
}

static bool is_not_found(const json_t *object)
{
    return str_eq(text_of(object, "error_code"), "sandbox_not_found") ||
           str_eq(text_of(object, "message"), "The sandbox was not found");
}

// A bare 502 may come after the proxy passed the request on: its fate is then unknown.
static enum err_code code_of_proxy(const json_t *object, bool existed)
{
    if (text_of(object, "reason") || str_eq(text_of(object, "error_code"), "sandbox_ended"))
        return ERR_GONE;
    if (is_not_found(object))
        return existed ? ERR_GONE : ERR_NOT_FOUND;
    return ERR_UNAVAILABLE;
}

void answer_paused(struct err *e)
{
    err_set(e, ERR_CONFLICT, "the sandbox is paused; its files and processes are kept");
}

bool answer_may_mean_paused(int status, const char *body, size_t len)
{
    json_t *object = status == 502 ? object_of(body, len) : NULL;
    bool vague = !text_of(object, "error_code") && !text_of(object, "reason");
    bool may = vague && is_not_found(object);
    json_decref(object);
    return may;
}

static void set_502(struct err *e, bool existed, int status, const json_t *object, const char *body,
                    size_t len)
{
    if (str_eq(text_of(object, "error_code"), "sandbox_paused")) { // overrides E2B's text
        answer_paused(e);
        return;
    }
    set_plain(e, code_of_proxy(object, existed), status, object, body, len);
    if (str_eq(text_of(object, "message"), "The sandbox is running but port is not open"))
        e->code = ERR_REFUSED;
}

void answer_envd_error(struct err *e, bool existed, int status, const char *body, size_t len)
{
    json_t *object = object_of(body, len);
    if (status == 502)
        set_502(e, existed, status, object, body, len);
    else if (!text_of(object, "code") || connect_error_parse(object, e) == 0)
        set_plain(e, code_of_status(status), status, object, body, len);
    json_decref(object);
}

// ---- a message of a process.Process/Start stream

// Return a member that is an object, else NULL.
static const json_t *child(const json_t *object, const char *key)
{
    const json_t *value = json_object_get(object, key);
    return json_is_object(value) ? value : NULL;
}

static int parse_data(const json_t *data, struct process_event *out, struct err *e)
{
    const char *key = json_object_get(data, "stdout") ? "stdout"
                      : json_object_get(data, "pty")  ? "pty"
                                                      : "stderr";
    const char *text = NULL;
    if (json_get_string(data, key, &text, NULL, e) < 0)
        return -1;
    if (!text)
        return 0;
    out->kind = strcmp(key, "stderr") == 0 ? PROCESS_STDERR : PROCESS_STDOUT;
    if (!base64_decode(&out->data, text, strlen(text)))
        return err_set(e, ERR_INTERNAL, "output is not base64");
    return 0;
}

static void copy_text(char out[PROCESS_STATUS_BYTES], const char *text)
{
    size_t len = strlen(text);
    if (len >= PROCESS_STATUS_BYTES)
        len = PROCESS_STATUS_BYTES - 1;
    len = utf8_valid_prefix(text, len);
    memcpy(out, text, len);
    out[len] = '\0';
}

// proto3's JSON leaves out what is zero, false or empty.
static int parse_end(const json_t *end, struct process_event *out, struct err *e)
{
    int64_t code = 0;
    const char *status = NULL;
    const char *error = NULL;
    if (json_get_int(end, "exitCode", INT32_MIN, INT32_MAX, &code, 0, e) < 0 ||
        json_get_bool(end, "exited", &out->exited, false, e) < 0 ||
        json_get_string(end, "status", &status, "", e) < 0 ||
        json_get_string(end, "error", &error, "", e) < 0)
        return -1;
    out->kind = PROCESS_ENDED;
    out->exit_code = (int)code;
    copy_text(out->status, status);
    copy_text(out->error, error);
    return 0;
}

static int parse_event(const json_t *event, struct process_event *out, struct err *e)
{
    const json_t *part = NULL;
    if ((part = child(event, "data")))
        return parse_data(part, out, e);
    if ((part = child(event, "end")))
        return parse_end(part, out, e);
    if ((part = child(event, "start"))) {
        out->kind = PROCESS_STARTED;
        return json_get_int(part, "pid", 1, UINT32_MAX, &out->pid, 0, e);
    }
    return 0;
}

int process_event_parse(const char *payload, size_t len, struct process_event *out, struct err *e)
{
    out->kind = PROCESS_OTHER;
    out->pid = 0;
    buf_clear(&out->data);
    json_t *message = json_parse(payload, len, e);
    int rc = message ? parse_event(child(message, "event"), out, e) : -1;
    json_decref(message);
    return rc;
}
