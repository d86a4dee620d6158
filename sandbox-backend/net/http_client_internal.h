// SPDX-License-Identifier: Apache-2.0
// What the files of the HTTP client share: the client (http_client.c: curl's multi handle on the
// loop) and its fetches (http_client_fetch.c).
#pragma once
#include <curl/curl.h>

#include "sandbox-backend/base/buf.h"
#include "sandbox-backend/net/http_client.h"

struct http_client {
    uv_loop_t *loop;
    CURLM *multi; // made with the first fetch
    uv_timer_t timer;
    uv_idle_t idle; // does what callers asked for on the next turn
    struct http_fetch *fetches;
    struct client_socket *sockets;
    unsigned handles; // not closed yet: timer, idle, sockets
    bool in_curl;     // curl is on the stack: its handles must not be removed
    bool closing;
    void (*on_closed)(void *ctx);
    void *on_closed_ctx;
};

struct http_fetch {
    struct http_client *client;
    struct http_fetch *next, **link; // of client->fetches
    CURL *easy;
    struct curl_slist *header_list;
    struct curl_slist *connect_list;
    struct http_fetch_events events;
    ssize_t (*read_body)(void *into, size_t room, void *ctx);
    bool (*allow_address)(const struct sockaddr *address, void *ctx);
    void *ctx;
    bool added; // to curl
    bool ended; // on_end was called; freed as soon as curl lets go of it
    bool canceled;
    bool resume_upload;
    bool resume_download;
    bool upload_paused;
    bool download_paused;
    struct err e; // why one of our callbacks stopped it
    char curl_error[CURL_ERROR_SIZE];

    // ---- a request that must not run twice
    bool is_safe; // GET and HEAD may
    long sent_at; // the redirect count at which it was sent; -1 before

    // ---- the head of the answer being read
    bool follows; // redirects
    bool headed;  // on_head was called
    struct buf text;
    size_t *at; // offsets of names and values in `text`, by turns
    size_t count;
};

// ---- http_client.c
void http_client_kick(struct http_client *c);
void http_fetch_end(struct http_fetch *f, const struct err *e); // removes it from the client

// ---- http_client_fetch.c
void http_fetch_setup(struct http_fetch *f, const struct http_fetch_opts *opts);
void http_fetch_result(const struct http_fetch *f, CURLcode code, struct err *e);
void http_fetch_free(struct http_fetch *f);
