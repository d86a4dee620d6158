// SPDX-License-Identifier: Apache-2.0
// One message of a process.Process/Start stream, taken apart.
#include "sandbox-backend/client/process_event.h"

#include <string.h>

#include "sandbox-backend/base/json.h"
#include "sandbox-backend/base/str.h"

// A member that is an object; NULL when it is absent or something else.
static const json_t *child(const json_t *object, const char *key)
{
    const json_t *value = json_object_get(object, key);
    return json_is_object(value) ? value : NULL;
}

static int parse_data(const json_t *data, struct process_event *out, struct err *e)
{
    const char *key = json_object_get(data, "stdout") ? "stdout" : "stderr";
    const char *text = NULL;
    if (json_get_string(data, key, &text, NULL, e) < 0)
        return -1;
    if (!text)
        return 0; // a pty's, which nobody asked for
    out->kind = strcmp(key, "stdout") == 0 ? PROCESS_STDOUT : PROCESS_STDERR;
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
