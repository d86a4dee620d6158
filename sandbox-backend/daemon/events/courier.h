// SPDX-License-Identifier: Apache-2.0
// Couriers: each delivers the events of one webhook, one after the other, in order.
//
// A delivery is a POST with E2B's headers. It has failed if there is no answer of 2xx within
// COURIER_MS. It is repeated COURIER_RETRIES times, COURIER_RETRY_MS apart, then given up. A queue
// holds COURIER_QUEUE events of COURIER_BYTES together; what comes on top is lost, and the log says
// so. A restart of the daemon loses what waits.
#pragma once
#include <stdbool.h>
#include <stddef.h>
#include <sys/queue.h>
#include <uv.h>

#include "sandbox-backend/net/fetch_guard.h"

#define COURIER_MS       10000
#define COURIER_RETRIES  3
#define COURIER_RETRY_MS 10000
#define COURIER_QUEUE    100
#define COURIER_BYTES    ((size_t)1 << 20)

struct courier;
struct http_client;

struct couriers {
    uv_loop_t *loop;
    struct fetch_guard guard; // beside public addresses
    struct http_client *http; // from the first delivery until the last courier is closed; or NULL
    LIST_HEAD(, courier) all;
};

void couriers_init(struct couriers *c, uv_loop_t *loop, const struct fetch_guard *guard);
void couriers_close(struct couriers *c); // closes every courier

// Where a courier goes from its next delivery on. All strings are copied.
struct courier_target {
    const char *id, *url, *secret;
    bool goes_anywhere; // also to private addresses
};

struct courier *courier_new(struct couriers *all, const struct courier_target *to);
void courier_aim(struct courier *c, const struct courier_target *to);
void courier_send(struct courier *c, const char *body, size_t len); // copied
void courier_close(struct courier *c); // ends a delivery that is under way
