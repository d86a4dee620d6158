// SPDX-License-Identifier: Apache-2.0
// Rates: bytes per second and new connections per second.
//
// A shaper is a bucket of bytes that fills at its rate. Bytes that were under way when it became
// empty may overdraw it; the sender then waits until it is positive again.
#pragma once
#include <stdbool.h>
#include <stdint.h>

#define SHAPER_BURST_MS    100         // after a pause, the bytes of this time may pass at once
#define SHAPER_BURST_BYTES (64 * 1024) // or at least this much, the size of the largest frame

struct shaper {
    int64_t rate; // bytes per second; 0: no limit
    int64_t left; // below 0 when overdrawn
    int64_t filled_at_ms;
};

void shaper_set(struct shaper *s, int64_t rate, int64_t now_ms); // starts full, unless it had a
                                                                 // rate
void shaper_spend(struct shaper *s, int64_t bytes);
// Return 0 when bytes may pass, else the number of milliseconds until they may.
int shaper_wait_ms(struct shaper *s, int64_t now_ms);

// ---- new connections

// A bucket gains one second's connections each second, and holds at most two seconds' connections.
struct pace_bucket {
    int64_t thousandths; // thousandths of a connection
    int64_t at_ms;       // monotonic time of that value
};

struct pace {
    struct pace_bucket tcp, udp;
};

void pace_init(struct pace *p);

// Take one connection from a bucket with a rate of `per_s`. Return false if the bucket is empty.
// Reads no clock.
bool pace_take(struct pace_bucket *b, int64_t per_s, int64_t now_ms);
