// SPDX-License-Identifier: Apache-2.0
// Cut a stream into envelopes of the Connect protocol, or into lines, however its bytes come. Only
// the first bytes of each piece are kept, because most of them are output that nobody records.
#pragma once
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "sandbox-backend/base/buf.h"
#include "sandbox-backend/connect/connect.h"

#define PIECE_TAIL 8

struct piece {
    uint8_t flags;    // of an envelope
    const char *data; // borrowed; the first bytes
    size_t kept, len; // how many of them there are, and in the whole piece
    const char *tail; // the last PIECE_TAIL bytes, or all of a shorter piece
    size_t tail_len;
};
typedef void (*piece_cb)(const struct piece *p, void *ctx);

struct pieces {
    bool is_lines;
    size_t keep;        // bytes of a piece that are kept; may change between two pieces
    const char *longer; // borrowed; NULL: none. Of pieces that begin so,
    size_t longer_keep; // this many bytes are kept
    char head[CONNECT_ENVELOPE_HEAD];
    size_t head_len;
    size_t left, len; // bytes of the present piece that are to come, and that came
    struct buf kept;  // owned
    char tail[PIECE_TAIL];
    size_t tail_len;
};

void pieces_fini(struct pieces *p);
void pieces_feed(struct pieces *p, const char *data, size_t len, piece_cb cb, void *ctx);
