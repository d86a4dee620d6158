// SPDX-License-Identifier: Apache-2.0
#include "sandbox-backend/web/socket.h"

#include <openssl/sha.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>
#include <wslay/wslay.h>

#include "sandbox-backend/base/buf.h"
#include "sandbox-backend/base/limits.h"
#include "sandbox-backend/base/mem.h"
#include "sandbox-backend/base/str.h"

#define GUID "258EAFA5-E914-47DA-95CA-C5AB0DC85B11" // RFC 6455, 1.3

struct web_socket {
    struct http_request *req;
    wslay_event_context_ptr frames;
    struct web_socket_events events;
    void *ctx;
    struct buf in;   // received, and not read by wslay yet
    bool is_reading; // wslay is on the stack: the object must not be freed
    bool is_closed;  // by web_socket_close while it reads
};

static void on_data(struct http_request *req, const char *data, size_t len, void *ctx);
static void on_end(struct http_request *req, void *ctx);

static void socket_free(struct web_socket *ws)
{
    wslay_event_context_free(ws->frames);
    buf_fini(&ws->in);
    free(ws);
}

// ---- wslay's callbacks

static ssize_t on_recv(wslay_event_context_ptr frames, uint8_t *into, size_t room, int flags,
                       void *ctx)
{
    (void)flags;
    struct web_socket *ws = ctx;
    size_t len = ws->in.len < room ? ws->in.len : room;
    if (!len) {
        wslay_event_set_error(frames, WSLAY_ERR_WOULDBLOCK);
        return -1;
    }
    memcpy(into, ws->in.data, len);
    buf_consume(&ws->in, len);
    return (ssize_t)len;
}

static ssize_t on_send(wslay_event_context_ptr frames, const uint8_t *data, size_t len, int flags,
                       void *ctx)
{
    (void)frames;
    (void)flags;
    struct web_socket *ws = ctx;
    http_response_write(ws->req, data, len);
    return (ssize_t)len;
}

static void on_message(wslay_event_context_ptr frames,
                       const struct wslay_event_on_msg_recv_arg *message, void *ctx)
{
    (void)frames;
    struct web_socket *ws = ctx;
    if (!wslay_is_ctrl_frame(message->opcode) && !ws->is_closed)
        ws->events.on_message((const char *)message->msg, message->msg_length, ws->ctx);
}

// ---- the connection

// The peer is told to stop, and gets what is queued.
static void end(struct web_socket *ws)
{
    struct http_request *req = ws->req;
    http_request_on_close(req, NULL, NULL);
    http_response_on_drain(req, NULL, NULL);
    socket_free(ws);
    http_response_end(req);
}

static void on_data(struct http_request *req, const char *data, size_t len, void *ctx)
{
    (void)req;
    struct web_socket *ws = ctx;
    buf_add(&ws->in, data, len);
    ws->is_reading = true;
    bool failed = wslay_event_recv(ws->frames) < 0;
    ws->is_reading = false;
    wslay_event_send(ws->frames); // pongs, and the answer to a close frame
    bool peer_ends = failed || wslay_event_get_close_received(ws->frames) ||
                     !wslay_event_get_read_enabled(ws->frames);
    if (!ws->is_closed && !peer_ends)
        return;
    if (!ws->is_closed)
        ws->events.on_close(ws->ctx);
    end(ws);
}

static void on_end(struct http_request *req, void *ctx)
{
    (void)req;
    struct web_socket *ws = ctx;
    ws->events.on_close(ws->ctx);
    end(ws);
}

static void on_gone(void *ctx)
{
    struct web_socket *ws = ctx;
    ws->events.on_close(ws->ctx);
    socket_free(ws);
}

static void on_drain(void *ctx)
{
    struct web_socket *ws = ctx;
    ws->events.on_drain(ws->ctx);
}

// ---- for the users

static bool offers_protocol(const char *offered)
{
    size_t len = strlen(WEB_SOCKET_PROTOCOL);
    while (offered && *offered) {
        offered += strspn(offered, ", \t");
        size_t n = strcspn(offered, ", \t");
        if (n == len && strncmp(offered, WEB_SOCKET_PROTOCOL, len) == 0)
            return true;
        offered += n;
    }
    return false;
}

static void add_accept(struct http_request *req, const char *key)
{
    unsigned char digest[SHA_DIGEST_LENGTH];
    struct buf text auto_buf = BUF_INIT;
    char *whole auto_free = str_printf("%s" GUID, key);
    SHA1((const unsigned char *)whole, strlen(whole), digest);
    base64_encode(&text, digest, sizeof digest);
    http_response_header(req, "Sec-WebSocket-Accept", buf_str(&text));
    http_response_header(req, "Sec-WebSocket-Protocol", WEB_SOCKET_PROTOCOL);
}

struct web_socket *web_socket_accept(struct http_request *req,
                                     const struct web_socket_events *events, void *ctx)
{
    static const struct wslay_event_callbacks CALLBACKS = {
        .recv_callback = on_recv, .send_callback = on_send, .on_msg_recv_callback = on_message};
    static const struct http_body_events BODY = {on_data, on_end};
    const char *upgrade = http_request_upgrade(req);
    const char *key = http_request_header(req, "Sec-WebSocket-Key");
    const char *version = http_request_header(req, "Sec-WebSocket-Version");
    if (!upgrade || strcasecmp(upgrade, "websocket") != 0 || !str_eq(version, "13")) {
        http_response_header(req, "Upgrade", "websocket");
        http_response_header(req, "Sec-WebSocket-Version", "13");
        http_respond_error(req, 426, "this path is for a WebSocket of version 13");
        return NULL;
    }
    if (!key || !offers_protocol(http_request_header(req, "Sec-WebSocket-Protocol"))) {
        http_respond_error(req, 400,
                           "the WebSocket has no key, or does not offer the protocol "
                           "\"" WEB_SOCKET_PROTOCOL "\"");
        return NULL;
    }
    struct web_socket *ws = xcalloc(1, sizeof *ws);
    *ws = (struct web_socket){.req = req, .events = *events, .ctx = ctx};
    if (wslay_event_context_server_init(&ws->frames, &CALLBACKS, ws) != 0)
        abort(); // out of memory
    wslay_event_config_set_max_recv_msg_length(ws->frames, WEB_SOCKET_MESSAGE_MAX);
    add_accept(req, key);
    http_request_on_close(req, on_gone, ws);
    http_response_on_drain(req, on_drain, ws);
    http_response_upgrade(req, "websocket", &BODY, ws);
    return ws;
}

bool web_socket_send(struct web_socket *ws, bool is_text, const void *data, size_t len)
{
    const struct wslay_event_msg message = {
        .opcode = is_text ? WSLAY_TEXT_FRAME : WSLAY_BINARY_FRAME, .msg = data, .msg_length = len};
    if (!ws->is_closed && wslay_event_queue_msg(ws->frames, &message) == 0)
        wslay_event_send(ws->frames);
    return !web_socket_is_full(ws);
}

bool web_socket_is_full(const struct web_socket *ws)
{
    return http_response_unsent(ws->req) > LIMIT_STREAM_QUEUE_BYTES;
}

void web_socket_close(struct web_socket *ws, enum web_socket_code code)
{
    wslay_event_queue_close(ws->frames, (uint16_t)code, NULL, 0);
    ws->is_closed = true;
    if (ws->is_reading)
        return; // on_data sends and ends
    wslay_event_send(ws->frames);
    end(ws);
}
