// SPDX-License-Identifier: Apache-2.0
// Requests and answers of a tunnel: parsed, searched, framed again.
//
// A request's body passes unchanged. A placeholder in it is deliberately not replaced: hosts keep
// bodies and show them again, and a guest could read the value back from there. A placeholder that
// may not go to this host ends the request.
#include <stdio.h>
#include <string.h>
#include <strings.h>

#include "sandbox-backend/base/limits.h"
#include "sandbox-backend/base/mem.h"
#include "sandbox-backend/egress/tunnel_internal.h"
#include "sandbox-backend/net/http.h"

#define PENDING_MAX_BYTES (2 * LIMIT_HTTP_HEAD_BYTES)

static bool is_over(const struct tunnel *t)
{
    return t->state == TUNNEL_LINGER || t->state == TUNNEL_CLOSED;
}

static void update_reading(struct tunnel *t)
{
    if (t->state == TUNNEL_CLOSED)
        return;
    link_read(&t->guest, !t->guest_ended && t->from_guest.len < PENDING_MAX_BYTES);
    if (t->host.is_ready)
        link_read(&t->host, !t->host_ended && t->from_host.len < PENDING_MAX_BYTES);
}

// Add a piece of a body; with `last` also its end.
static void add_piece(struct buf *out, const struct buf *piece, bool chunked, bool last)
{
    if (chunked && piece->len)
        buf_printf(out, "%zx\r\n", piece->len);
    buf_add(out, piece->data, piece->len);
    if (chunked && piece->len)
        buf_adds(out, "\r\n");
    if (chunked && last)
        buf_adds(out, "0\r\n");
}

// Go on to the next request, or end, when the request and its answer are complete.
static void settle(struct tunnel *t)
{
    if (!t->answer_whole || is_over(t))
        return;
    if (!t->request_whole || t->is_last || t->host_ended) {
        tunnel__linger(t);
        return;
    }
    http_parser_next(&t->request);
    t->answer_begun = false;
    tunnel__set_state(t, TUNNEL_HEAD);
}

// ---- the request

// A host that echoes the header echoes the code as written, perhaps without its padding.
static void mask_code(struct tunnel *t)
{
    while (t->code.len && t->code.data[t->code.len - 1] == '=')
        t->code.data[--t->code.len] = '\0';
    if (t->code.len)
        mask_add(&t->mask, buf_str(&t->code));
}

static void on_head(struct tunnel *t)
{
    struct refusal r;
    mask_keep(&t->mask, t->mask_fixed);
    tunnel__wipe(&t->code);
    t->request_whole = t->answer_whole = t->answer_begun = false;
    if (!judge_request(&t->judge, &t->request, &t->head, &r)) {
        tunnel__wipe(&t->head);
        tunnel__refuse(t, &r);
        return;
    }
    mask_code(t);
    if (t->host.is_ready) {
        tunnel_http__begin(t);
    } else {
        tunnel__connect(t);
    }
}

static void await_answer(struct tunnel *t)
{
    http_parser_next(&t->answer);
    t->answer.no_body = llhttp_get_method(&t->request.llhttp) == HTTP_HEAD;
}

void tunnel_http__begin(struct tunnel *t)
{
    tunnel__set_state(t, TUNNEL_PASS);
    await_answer(t);
    bool sent = link_send(&t->host, &t->head);
    tunnel__wipe(&t->head);
    if (!sent)
        tunnel__fail(t, 502, "the connection to the host was lost");
}

static bool check_trailers(struct tunnel *t, struct buf *out)
{
    const struct http_trailers *trailers = &t->request.trailers;
    struct refusal r;
    size_t at;
    size_t from = out->len;
    for (size_t i = 0; i < trailers->count; i++)
        http_trailers_append(out, trailers->list[i].name, trailers->list[i].value);
    const struct secret *secret =
        secrets_find(t->room->secrets, out->data + from, out->len - from, &at);
    if (!secret || judge_body(&t->judge, secret, &r))
        return true;
    tunnel__refuse(t, &r);
    return false;
}

// Pass on more of the body; with `last` also its end.
static void pass_request(struct tunnel *t, const char *data, size_t len, bool last)
{
    struct buf plain auto_buf = BUF_INIT, framed auto_buf = BUF_INIT;
    bool chunked = t->request.length < 0;
    struct refusal r;
    int found = scan_feed(&t->search, data, len, last, &plain);
    if (found >= 0 && !judge_body(&t->judge, t->sought[found], &r)) {
        tunnel__refuse(t, &r);
        return;
    }
    add_piece(&framed, &plain, chunked, last);
    if (chunked && last && !check_trailers(t, &framed))
        return;
    if (chunked && last)
        buf_adds(&framed, "\r\n");
    if (!link_send(&t->host, &framed))
        tunnel__fail(t, 502, "the connection to the host was lost");
}

static void on_request_whole(struct tunnel *t)
{
    pass_request(t, NULL, 0, true);
    if (is_over(t))
        return;
    t->request_whole = true;
    settle(t);
}

static void on_bad_request(struct tunnel *t)
{
    struct refusal r = {.status = t->request.bad_status, .what = "a malformed HTTP/1.1 request"};
    snprintf(r.why, sizeof r.why, "%s", t->request.bad);
    tunnel__refuse(t, &r);
}

// Process one event. Return false when no event is there, or none may be processed now.
static bool step_guest(struct tunnel *t, const char **data, size_t *len)
{
    bool in_head = t->state == TUNNEL_HEAD;
    if (!in_head && (t->state != TUNNEL_PASS || t->request_whole ||
                     link_unsent(&t->host) > LIMIT_STREAM_QUEUE_BYTES))
        return false;
    switch (http_parser_step(&t->request, data, len)) {
    case HTTP_EV_MORE:
        return false;
    case HTTP_EV_HEAD:
        on_head(t);
        break;
    case HTTP_EV_BODY:
        pass_request(t, t->request.body, t->request.body_len, false);
        break;
    case HTTP_EV_END:
        on_request_whole(t);
        break;
    case HTTP_EV_BAD:
        on_bad_request(t);
        break;
    }
    return !is_over(t);
}

static void pass_raw(struct buf *from, bool ended, struct link *to)
{
    if (link_unsent(to) > LIMIT_STREAM_QUEUE_BYTES)
        return;
    if (!link_send(to, from))
        ended = true;
    buf_clear(from);
    if (ended)
        link_shut(to);
}

// Return whether the guest has ended within a request or between two.
static bool is_cut_short(const struct tunnel *t)
{
    return t->guest_ended && !t->from_guest.len &&
           (t->state == TUNNEL_HEAD || (t->state == TUNNEL_PASS && !t->request_whole) ||
            (t->state == TUNNEL_LINGER && !link_unsent(&t->guest)));
}

void tunnel_http__guest(struct tunnel *t)
{
    if (t->state == TUNNEL_RAW) {
        pass_raw(&t->from_guest, t->guest_ended, &t->host);
    } else if (!is_over(t)) {
        const char *data = t->from_guest.data;
        size_t len = t->from_guest.len;
        while (step_guest(t, &data, &len))
            ;
        if (!is_over(t))
            buf_consume(&t->from_guest, t->from_guest.len - len);
    }
    if (is_cut_short(t))
        tunnel__close(t);
    update_reading(t);
}

// ---- the answer

static bool is_passed_on(const char *name)
{
    // Other ways to this host (Alt-Svc) would not pass cubby-egress.
    return !http_header_is_hop_by_hop(name) && !http_name_is(name, "Content-Length") &&
           !http_name_is(name, "Alt-Svc");
}

static void add_fields(const struct tunnel *t, struct buf *out)
{
    const struct http_parser *p = &t->answer;
    for (size_t i = 0; i < p->count; i++)
        if (is_passed_on(p->headers[i].name))
            buf_printf(out, "%s: %s\r\n", p->headers[i].name, p->headers[i].value);
}

static void send_head(struct tunnel *t, int status)
{
    struct buf head auto_buf = BUF_INIT;
    const struct http_parser *p = &t->answer;
    buf_printf(&head, "HTTP/1.%d %d %s\r\n", p->llhttp.http_minor, status,
               http_status_text(status));
    add_fields(t, &head);
    if (status == 101)
        buf_adds(&head, "Connection: Upgrade\r\nUpgrade: websocket\r\n");
    else if (t->answer_chunked)
        buf_adds(&head, "Transfer-Encoding: chunked\r\n");
    else if (p->length >= 0 && status >= 200)
        buf_printf(&head, "Content-Length: %lld\r\n", (long long)p->length);
    if (status >= 200 && t->is_last)
        buf_adds(&head, "Connection: close\r\n");
    else if (status >= 200 && p->llhttp.http_minor == 0)
        buf_adds(&head, "Connection: keep-alive\r\n");
    buf_adds(&head, "\r\n");
    mask_text(&t->mask, head.data, head.len);
    if (!link_send(&t->guest, &head))
        tunnel__close(t);
}

static void on_answer_head(struct tunnel *t)
{
    int status = llhttp_get_status_code(&t->answer.llhttp);
    t->interim = status < 200;
    if (status == 101 && !t->request.is_offer) {
        tunnel__fail(t, 502, "the host changed the protocol without being asked");
        return;
    }
    if (!t->interim) {
        t->answer_begun = true;
        t->answer_chunked = t->answer.length == -1;
        t->is_last = !t->request.keep_alive || !t->answer.keep_alive;
    }
    send_head(t, status);
    if (status == 101 && !is_over(t)) {
        t->answer_begun = true;
        tunnel__set_state(t, TUNNEL_RAW);
    }
}

static void send_piece(struct tunnel *t, const struct buf *plain, bool last)
{
    struct buf framed auto_buf = BUF_INIT;
    const struct http_trailers *trailers = &t->answer.trailers;
    bool chunked = t->answer_chunked && !t->answer.no_body;
    add_piece(&framed, plain, chunked, last);
    if (chunked && last) {
        size_t from = framed.len;
        for (size_t i = 0; i < trailers->count; i++)
            http_trailers_append(&framed, trailers->list[i].name, trailers->list[i].value);
        mask_text(&t->mask, framed.data + from, framed.len - from);
        buf_adds(&framed, "\r\n");
    }
    if (!link_send(&t->guest, &framed))
        tunnel__close(t);
}

static void pass_answer(struct tunnel *t, const char *data, size_t len, bool last)
{
    struct buf plain auto_buf = BUF_INIT;
    mask_feed(&t->mask, data, len, last, &plain);
    if (mask_waits(&t->mask))
        deadline_arm(&t->pause, MASK_PAUSE_MS);
    else
        deadline_disarm(&t->pause);
    send_piece(t, &plain, last);
}

void tunnel_http__pause(struct tunnel *t)
{
    struct buf plain auto_buf = BUF_INIT;
    if (t->state != TUNNEL_PASS || t->answer_whole)
        return;
    mask_pause(&t->mask, &plain);
    send_piece(t, &plain, false);
}

static void on_answer_end(struct tunnel *t)
{
    if (t->interim) {
        await_answer(t);
        return;
    }
    pass_answer(t, NULL, 0, true);
    t->answer_whole = true;
    settle(t);
}

static bool step_host(struct tunnel *t, const char **data, size_t *len)
{
    if (t->state != TUNNEL_PASS || link_unsent(&t->guest) > LIMIT_STREAM_QUEUE_BYTES)
        return false;
    switch (http_parser_step(&t->answer, data, len)) {
    case HTTP_EV_MORE:
        return false;
    case HTTP_EV_HEAD:
        on_answer_head(t);
        break;
    case HTTP_EV_BODY:
        pass_answer(t, t->answer.body, t->answer.body_len, false);
        break;
    case HTTP_EV_END:
        on_answer_end(t);
        break;
    case HTTP_EV_BAD:
        tunnel__fail(t, 502, "the host's answer is not valid HTTP/1.1");
        break;
    }
    return t->state == TUNNEL_PASS;
}

// Act on the end of the host's bytes, after all of them have been processed.
static void on_all_read(struct tunnel *t)
{
    enum http_event event = http_parser_eof(&t->answer);
    if (event == HTTP_EV_END && t->answer_begun)
        on_answer_end(t);
    else if (t->answer_begun)
        tunnel__close(t); // a truncated answer must be truncated for the guest, too
    else
        tunnel__fail(t, 502, "the host closed the connection without an answer");
}

// Return whether the host sent bytes that no request asked for.
static bool is_unasked(const struct tunnel *t)
{
    return t->state == TUNNEL_HEAD && t->from_host.len;
}

void tunnel_http__host(struct tunnel *t)
{
    const char *data = t->from_host.data;
    size_t len = t->from_host.len;
    while (step_host(t, &data, &len))
        ;
    if (!is_over(t))
        buf_consume(&t->from_host, t->from_host.len - len);
    if (t->state == TUNNEL_RAW)
        pass_raw(&t->from_host, false, &t->guest);
    if (t->host_ended && t->state == TUNNEL_PASS && !t->from_host.len)
        on_all_read(t);
    if (is_unasked(t) ||
        (t->host_ended && !t->from_host.len && (t->state == TUNNEL_RAW || t->state == TUNNEL_HEAD)))
        tunnel__linger(t);
    if (t->state == TUNNEL_HEAD || t->state == TUNNEL_RAW)
        tunnel_http__guest(t); // the next request may be waiting
    update_reading(t);
}

void tunnel_http__host_ended(struct tunnel *t)
{
    if (t->state == TUNNEL_CONNECT)
        tunnel__fail(t, 502, "the host closed the connection");
    else if (!is_over(t))
        tunnel_http__host(t);
}
