// SPDX-License-Identifier: Apache-2.0
// Shared by the files of the HTTP client: the client (http_client.c, curl's multi handle on the
// loop), its fetches (http_client_fetch.c), and curl's library (http_client_curl.c).
#pragma once
#include <curl/curl.h>

#include "sandbox-backend/base/buf.h"
#include "sandbox-backend/net/http_client.h"

struct http_client {
    uv_loop_t *loop;
    CURLM *multi; // created with the first fetch
    uv_timer_t timer;
    uv_idle_t idle; // carries out the callers' requests on the next turn
    struct http_fetch *fetches;
    struct client_socket *sockets;
    unsigned handles; // open handles: timer, idle, sockets
    bool in_curl;     // curl is on the stack: no handle may be removed
    bool closing;
    void (*on_closed)(void *ctx);
    void *on_closed_ctx;
};

struct http_fetch {
    struct http_client *client;
    struct http_fetch *next, **link; // of client->fetches
    CURL *easy;                      // NULL when curl's library cannot be loaded
    struct curl_slist *header_list;
    struct curl_slist *connect_list;
    struct http_fetch_events events;
    ssize_t (*read_body)(void *into, size_t room, void *ctx);
    bool (*allow_address)(const struct sockaddr *address, void *ctx);
    void *ctx;
    bool added; // curl has it
    bool ended; // on_end was called; freed as soon as curl releases it
    bool canceled;
    bool resume_upload;
    bool resume_download;
    bool upload_paused;
    bool download_paused;
    struct err e; // why one of our callbacks stopped the fetch
    char curl_error[CURL_ERROR_SIZE];

    // ---- a request that must not run twice
    bool is_safe; // may be repeated: GET or HEAD
    long sent_at; // redirect count when it was sent; -1 before

    // ---- the head of the answer being read
    bool follows; // follows redirects
    bool headed;  // on_head was called
    struct buf text;
    size_t *at; // offsets into `text`: name, value, name, ...
    size_t count;
};

// ---- http_client_curl.c
// Load curl's library, once for the process. On failure `e` says which package to install, and no
// function of curl may be called but curl_slist_free_all.
int http_client_load(struct err *e);

// ---- http_client_fetch.c
void http_fetch_setup(struct http_fetch *f, const struct http_fetch_opts *opts);
void http_fetch_result(const struct http_fetch *f, CURLcode code, struct err *e);
void http_fetch_free(struct http_fetch *f);
