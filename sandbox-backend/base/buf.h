// SPDX-License-Identifier: Apache-2.0
// A growable sequence of bytes. An uncounted NUL always follows, so it can be printed.
#pragma once
#include <stdbool.h>
#include <stddef.h>

struct buf {
    char *data; // owned; NULL only before the first byte
    size_t len;
    size_t cap;
};

#define BUF_INIT \
    (struct buf) \
    {            \
        0        \
    }
#define auto_buf __attribute__((cleanup(buf_fini)))

void buf_fini(struct buf *b); // free the memory; the buffer is then empty and usable
void buf_clear(struct buf *b);

void buf_add(struct buf *b, const void *data, size_t len); // aborts when out of memory
void buf_addc(struct buf *b, char c);
void buf_adds(struct buf *b, const char *s);
void buf_printf(struct buf *b, const char *fmt, ...) __attribute__((format(printf, 2, 3)));

// Return room for `len` more bytes; buf_took then counts the bytes written there.
char *buf_room(struct buf *b, size_t len);
void buf_took(struct buf *b, size_t len);

// For bytes whose number a peer decides. Return false, and add nothing, if the buffer would be
// longer than `max` or memory is out.
bool buf_try_add(struct buf *b, const void *data, size_t len, size_t max)
    __attribute__((warn_unused_result));

void buf_consume(struct buf *b, size_t len); // drop `len` bytes from the front
const char *buf_str(const struct buf *b);    // the bytes as a C string; "" when empty. Borrowed
char *buf_take(struct buf *b);               // new string; the buffer is empty afterwards
