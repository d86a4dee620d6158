// SPDX-License-Identifier: Apache-2.0
// Takes HTTP/1.1 messages apart, for net/ only: llhttp behind a strict look at each head's raw
// bytes, turned from callbacks into events that the caller asks for one at a time. Nobody's code
// runs inside the parser, so whatever an event leads to may end the connection.
#pragma once
#include <llhttp.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "sandbox-backend/base/buf.h"
#include "sandbox-backend/net/http.h"
#include "sandbox-backend/net/http_trailers.h"

enum http_event {
    HTTP_EV_MORE, // all was consumed; more bytes are needed
    HTTP_EV_HEAD, // head is valid until http_parser_next
    HTTP_EV_BODY, // body and body_len: into the bytes that were given
    HTTP_EV_END,  // the message is whole; http_parser_next before anything else
    HTTP_EV_BAD,  // see bad_status and bad; nothing more can be read
};

struct http_span {
    size_t name, value; // offsets
};

struct http_parser {
    llhttp_t llhttp;
    enum http_event event; // recorded by the callbacks
    const char *body;
    size_t body_len;
    int bad_status;  // what a server answers: 400, 431, 501, 505
    const char *bad; // a sentence

    // ---- the head's scan
    size_t head_max;  // past it: 431; LIMIT_HTTP_HEAD_BYTES unless set after http_parser_init
    bool in_head;     // no whole head yet
    bool started;     // its first line has a byte
    bool failed;      // HTTP_EV_BAD was given
    char previous;    // byte
    size_t line_len;  // of the line being read, without CR LF
    size_t head_len;  // bytes of the head so far
    size_t extra_len; // of trailers and chunk extensions

    // ---- the head
    struct buf text;         // the target, then name and value of each header, each ended by NUL
    struct http_span *spans; // of `text`; owned
    struct http_header *headers; // the same, once the head is whole; owned
    size_t count;
    size_t room;        // for so many, HTTP_HEADERS_MAX at most
    bool in_name;       // the header at `count` has begun
    const char *target; // of a request
    int64_t length;     // Content-Length; -1 chunked; -2 an answer that ends with the connection
    bool keep_alive;
    bool is_offer; // to change to another protocol, by Connection and Upgrade
    bool no_body;  // of answers: set it before the head comes when HEAD was asked; it is set for
                   // those that never have one

    struct http_trailers trailers; // whole at HTTP_EV_END
};

void http_parser_init(struct http_parser *p, llhttp_type_t type);
void http_parser_fini(struct http_parser *p);
void http_parser_next(struct http_parser *p); // to the next message

// The next event of `*data`; moves `*data` and `*len` past what it took.
enum http_event http_parser_step(struct http_parser *p, const char **data, size_t *len);
// The peer has ended: HTTP_EV_END when that ends the message, HTTP_EV_MORE when none was begun.
enum http_event http_parser_eof(struct http_parser *p);

bool http_parser_is_fresh(const struct http_parser *p); // no byte of the next message came
