// SPDX-License-Identifier: Apache-2.0
// A line on a terminal that shows how far a copy is.
#pragma once
#include <stdbool.h>
#include <stdint.h>

struct bar {
    bool shows;          // stderr is a terminal, and nobody asked for silence
    int64_t total, done; // bytes
    int fd;              // what is copied at the moment, of which the offset counts; -1: nothing
    int64_t start_ms;
    bool is_drawn;
};

void bar_start(struct bar *p, bool shows, int64_t total);
void bar_tick(void *ctx); // draw the line again
void bar_end(struct bar *p);
// Return a number of bytes for people: "13.4 MB". New string.
char *bar_bytes(int64_t bytes);
