// SPDX-License-Identifier: Apache-2.0
// What an answer that is not a success means, as an error.
#include "sandbox-backend/client/answer.h"

#include <errno.h>
#include <string.h>

#include "sandbox-backend/base/json.h"
#include "sandbox-backend/base/str.h"
#include "sandbox-backend/connect/connect.h"
#include "sandbox-backend/net/http.h"

#define PLAIN_TEXT_MAX 200 // shown of an answer that is not JSON

// 502 is ERR_GONE in the table of codes, because a proxy says so of a sandbox; from anything else
// it is a gateway's trouble. 409 is the state that something is in, never that a name is taken.
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

// What a server says in a line of plain text, as CubeAPI does of a body that it cannot use. A page
// in HTML says nothing that is not in its status.
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
    const char *message = text_of(object, "message");
    size_t plain = object ? 0 : plain_length(body, len);
    if (message)
        err_set(e, code, "%s", message);
    else if (plain)
        err_set(e, code, "the server answered %d %s: %.*s", status, http_status_text(status),
                (int)plain, body);
    else
        err_set(e, code, "the server answered %d %s", status, http_status_text(status));
}

void answer_api_error(struct err *e, int status, const char *body, size_t len)
{
    json_t *object = object_of(body, len);
    const char *error_code = text_of(object, "error_code");
    enum err_code code = code_of_status(status);
    if (error_code && strcmp(error_code, "sandbox_ended") == 0)
        code = ERR_GONE;
    else if (str_eq(error_code, "host_full"))
        code = ERR_BUSY;
    else if (str_eq(error_code, "port_exposed") || str_eq(error_code, "host_port_taken"))
        code = ERR_EXISTS; // whatever state the sandbox is in
    set_plain(e, code, status, object, body, len);
    json_decref(object);
}

static bool is_not_found(const json_t *object)
{
    return str_eq(text_of(object, "error_code"), "sandbox_not_found") ||
           str_eq(text_of(object, "message"), "The sandbox was not found");
}

// A proxy that only says 502 may have passed the request on: then nothing is known of its fate.
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
    if (str_eq(text_of(object, "error_code"), "sandbox_paused")) { // whatever E2B's text says
        answer_paused(e);
        return;
    }
    set_plain(e, code_of_proxy(object, existed), status, object, body, len);
    if (str_eq(text_of(object, "message"), "The sandbox is running but port is not open"))
        e->sys = ECONNREFUSED;
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
