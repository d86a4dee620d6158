// SPDX-License-Identifier: Apache-2.0
#include "sandbox-backend/web/stream.h"

#include <stdlib.h>
#include <string.h>

#include "sandbox-backend/base/buf.h"
#include "sandbox-backend/base/json.h"
#include "sandbox-backend/base/mem.h"
#include "sandbox-backend/base/str.h"
#include "sandbox-backend/connect/connect.h"
#include "sandbox-backend/web/socket.h"

#define ERROR_BYTES_MAX 4096 // of an answer that is an error
// Bytes that the page has not taken. A browser reads from the network whatever the page does, so
// the page tells what it has taken.
#define UNTAKEN_MAX (512 * 1024)

struct stream {
    struct streams *owner;
    struct stream *next, **link;
    struct web_socket *ws;    // NULL once the page has gone
    struct http_fetch *fetch; // NULL before the call
    int status;
    int64_t untaken;  // bytes
    struct buf error; // of an answer that is an error
};

static void unlink_stream(struct stream *s)
{
    *s->link = s->next;
    if (s->next)
        s->next->link = s->link;
}

static void stream_free(struct stream *s)
{
    unlink_stream(s);
    buf_fini(&s->error);
    free(s);
}

static void say_end(struct stream *s, const char *message)
{
    struct buf text auto_buf = BUF_INIT;
    json_t *end = json_pack("{s:i, s:o}", "status", s->status, "message",
                            json_lossy_string(message, strlen(message)));
    json_to_buf(&text, end);
    json_decref(end);
    web_socket_send(s->ws, true, text.data, text.len);
    web_socket_close(steal(&s->ws), WEB_SOCKET_DONE);
}

// ---- the answer

static void on_head(int status, const struct http_header *headers, size_t count, const char *url,
                    void *ctx)
{
    (void)headers;
    (void)count;
    (void)url;
    struct stream *s = ctx;
    s->status = status;
}

static bool on_data(const char *data, size_t len, void *ctx)
{
    struct stream *s = ctx;
    if (!s->ws)
        return true;
    if (s->status != 200) {
        if (s->error.len < ERROR_BYTES_MAX)
            buf_add(&s->error, data, len);
        return true;
    }
    if (s->untaken > UNTAKEN_MAX || web_socket_is_full(s->ws))
        return false;
    s->untaken += (int64_t)len;
    web_socket_send(s->ws, false, data, len);
    return true;
}

static void on_end(const struct err *e, void *ctx)
{
    struct stream *s = ctx;
    struct err why = e ? *e : ERR_INIT;
    s->fetch = NULL;
    if (e)
        backend_explain(s->owner->backend, &why);
    if (s->ws)
        say_end(s, e ? why.msg : buf_str(&s->error));
    stream_free(s);
}

// ---- the page

static void refuse(struct stream *s, const char *why)
{
    s->status = 400;
    say_end(s, why);
    stream_free(s);
}

static void call(struct stream *s, const json_t *want)
{
    static const struct http_fetch_events EVENTS = {on_head, on_data, on_end, NULL};
    const char *target = json_string_value(json_object_get(want, "target"));
    const char *token = json_string_value(json_object_get(want, "token"));
    const char *user = json_string_value(json_object_get(want, "authorization"));
    const json_t *message = json_object_get(want, "message");
    struct backend_request r = {.method = "POST"};
    struct buf body auto_buf = BUF_INIT;
    if (!target || !backend_target_parse(target, &r.to) || !json_is_object(message) ||
        (token && strpbrk(token, "\r\n")) || (user && strpbrk(user, "\r\n"))) {
        refuse(s, "the first message of a stream must have a target and a message");
        return;
    }
    connect_envelope_json(&body, message);
    r.body = body.data;
    r.body_len = body.len;
    backend_header(&r, "Content-Type", CONNECT_STREAM_TYPE);
    backend_header(&r, "Connect-Protocol-Version", "1");
    backend_header(&r, "Keepalive-Ping-Interval", "30");
    backend_header(&r, "X-Access-Token", token);
    backend_header(&r, "Authorization", user);
    s->fetch = backend_fetch(s->owner->backend, &r, &EVENTS, s);
}

static void take_taken(struct stream *s, const json_t *message)
{
    s->untaken -= json_integer_value(json_object_get(message, "taken"));
    if (s->untaken < 0) // the page counts wrong
        s->untaken = 0;
    http_fetch_resume_download(s->fetch);
}

static void on_message(const char *data, size_t len, void *ctx)
{
    struct stream *s = ctx;
    struct err e = ERR_INIT;
    json_t *message = json_parse(data, len, &e);
    if (s->fetch)
        take_taken(s, message);
    else if (message)
        call(s, message);
    else
        refuse(s, e.msg);
    json_decref(message);
}

static void on_drain(void *ctx)
{
    struct stream *s = ctx;
    if (s->fetch)
        http_fetch_resume_download(s->fetch);
}

static void on_close(void *ctx)
{
    struct stream *s = ctx;
    s->ws = NULL;
    if (s->fetch)
        http_fetch_cancel(s->fetch); // on_end frees
    else
        stream_free(s);
}

void streams_accept(struct streams *owner, struct http_request *req)
{
    static const struct web_socket_events EVENTS = {on_message, on_drain, on_close};
    struct stream *s = xcalloc(1, sizeof *s);
    s->owner = owner;
    s->ws = web_socket_accept(req, &EVENTS, s);
    if (!s->ws) {
        free(s);
        return;
    }
    s->link = &owner->first;
    s->next = owner->first;
    if (s->next)
        s->next->link = &s->next;
    owner->first = s;
}

void streams_close(struct streams *owner)
{
    for (struct stream *s = owner->first, *next = NULL; s; s = next) {
        next = s->next;
        if (s->ws)
            web_socket_close(steal(&s->ws), WEB_SOCKET_LEAVING);
        if (s->fetch)
            http_fetch_cancel(s->fetch);
        else
            stream_free(s);
    }
}
