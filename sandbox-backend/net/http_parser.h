// SPDX-License-Identifier: Apache-2.0
// A parser of HTTP/1.1 messages, for net/ and egress/: a strict check of each head's raw bytes,
// then llhttp. The caller asks for one event at a time. The parser never calls the caller back, so
// the caller may end the connection at any event.
#pragma once
#include <llhttp.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "sandbox-backend/base/buf.h"
#include "sandbox-backend/net/http.h"
#include "sandbox-backend/net/http_body.h"

enum http_event {
    HTTP_EV_MORE, // all bytes were consumed; more are needed
    HTTP_EV_HEAD, // head is valid until http_parser_next
    HTTP_EV_BODY, // body and body_len point into the given bytes
    HTTP_EV_END,  // the message is complete; call http_parser_next before anything else
    HTTP_EV_BAD,  // see bad_status and bad; nothing more can be parsed
};

struct http_span {
    size_t name, value; // offsets
};

struct http_parser {
    llhttp_t llhttp;
    enum http_event event; // set by llhttp's callbacks
    const char *body;
    size_t body_len;
    int bad_status;  // the status that a server answers with: 400, 431, 501, 505
    const char *bad; // the reason, a sentence

    // ---- the head's scan
    size_t head_max;  // longest head (else 431); LIMIT_HTTP_HEAD_BYTES unless set after
                      // http_parser_init
    bool in_head;     // the head is not complete
    bool started;     // the first line has a byte
    bool failed;      // HTTP_EV_BAD was returned
    char previous;    // byte
    size_t line_len;  // length of the current line, without CR LF
    size_t head_len;  // bytes of the head so far
    size_t extra_len; // bytes of trailers and chunk extensions

    // ---- the head
    struct buf text;         // the target, then name and value of each header, each ended by NUL
    struct http_span *spans; // offsets into `text`; owned
    struct http_header *headers; // the same as pointers, once the head is complete; owned
    size_t count;
    size_t room;        // allocated elements, HTTP_HEADERS_MAX at most
    bool in_name;       // the header at `count` has begun
    const char *target; // of a request
    int64_t length;     // Content-Length; -1: chunked; -2: an answer that ends with the connection
    bool keep_alive;
    bool is_offer; // the request offers another protocol (Connection, Upgrade)
    bool no_body;  // of answers: set it before the head comes if the request was HEAD; the parser
                   // sets it for statuses that never have a body

    struct http_trailers trailers; // complete at HTTP_EV_END
};

void http_parser_init(struct http_parser *p, llhttp_type_t type);
void http_parser_fini(struct http_parser *p);
void http_parser_next(struct http_parser *p); // begins the next message

// Return the next event in `*data`; move `*data` and `*len` past what was consumed.
enum http_event http_parser_step(struct http_parser *p, const char **data, size_t *len);
// Report that the peer has ended. Return HTTP_EV_END if that ends the message, HTTP_EV_MORE if no
// message has begun.
enum http_event http_parser_eof(struct http_parser *p);

bool http_parser_is_fresh(const struct http_parser *p); // no byte of the next message has come
