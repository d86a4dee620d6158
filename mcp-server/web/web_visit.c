// SPDX-License-Identifier: Apache-2.0
// A request on its way up the ladder.
#include "mcp-server/web/web_visit.h"

#include <stdio.h>
#include <string.h>

#define VALUE_BYTES 64  // of a value or a key
#define TABLE_BYTES 128 // of an array or an object, in addition

void web_visit_free(struct web_visit *v)
{
    web_visit_drop_body(v);
    caller_release(v->caller);
    free(v);
}

bool web_visit_take_body(struct web_visit *v)
{
    return body_claim_take(&v->body, &v->ep->bodies, v->caller->owner, http_request_length(v->req),
                           (size_t)v->ep->config->max_body_bytes);
}

void web_visit_drop_body(struct web_visit *v)
{
    body_claim_give(&v->body);
}

// Estimate the bytes that jansson needs for a value.
static size_t bytes_of(const json_t *value)
{
    size_t sum = VALUE_BYTES + json_string_length(value);
    size_t i;
    const char *key;
    json_t *one;
    json_array_foreach (value, i, one) {
        sum += bytes_of(one);
    }
    json_object_foreach ((json_t *)(uintptr_t)value, key, one) {
        sum += VALUE_BYTES + strlen(key) + bytes_of(one);
    }
    return json_is_array(value) || json_is_object(value) ? sum + TABLE_BYTES : sum;
}

// Take at most the longest body's amount: there may never be room for more.
bool web_visit_take_message(struct web_visit *v, const json_t *message)
{
    size_t bytes = bytes_of(message), most = (size_t)v->ep->config->max_body_bytes;
    return body_claim_take(&v->body, &v->ep->bodies, v->caller->owner,
                           (int64_t)(bytes < most ? bytes : most), most);
}

bool web_visit_bad_version(struct web_visit *v, json_t *id)
{
    if (!v->head.version || era_find(v->head.version))
        return false;
    return web_visit_refuse(v, 400, id, RPC_INVALID_REQUEST,
                            "MCP-Protocol-Version \"%.60s\" is not supported; supported: %s",
                            v->head.version, era_all_versions());
}

struct web_session *web_visit_session(struct web_visit *v, json_t *id)
{
    const struct web_head *h = &v->head;
    const char *repeated = web_head_repeated(h, "mcp-");
    if (repeated) {
        web_visit_refuse(v, 400, id, RPC_INVALID_REQUEST, "the header %s is repeated", repeated);
        return NULL;
    }
    if (!h->session) {
        web_visit_refuse(
            v, 400, id, RPC_INVALID_REQUEST,
            "Mcp-Session-Id is missing: send initialize first, and with each later request the "
            "id from its answer; or name a protocol version from 2026-07-28 on in params._meta");
        return NULL;
    }
    struct web_session *w = web_session_find(&v->ep->sessions, h->session, v->caller);
    if (!w)
        web_visit_refuse(v, 404, id, RPC_INVALID_REQUEST,
                         "the session does not exist or has ended: open a new one with initialize");
    return w;
}

bool web_visit_rate_is_over(struct web_visit *v, json_t *id, int retry_after_s)
{
    if (retry_after_s == 0)
        return false;
    char text[16];
    snprintf(text, sizeof text, "%d", retry_after_s);
    http_response_header(v->req, "Retry-After", text);
    return web_visit_refuse(
        v, 429, id, RPC_INTERNAL,
        "this token's calls of the last minute are used up; try again in %d seconds",
        retry_after_s);
}

bool web_visit_busy(struct web_visit *v, json_t *id, const char *of_what)
{
    http_response_header(v->req, "Retry-After", WEB_RETRY_AFTER);
    return web_visit_refuse(v, 429, id, RPC_INTERNAL,
                            "too many %s are open; try again in %s seconds", of_what,
                            WEB_RETRY_AFTER);
}
