// SPDX-License-Identifier: Apache-2.0
// Requests that read the event log. A thread reads it, one request at a time, so that the other
// threads of the pool stay free for the rest of the daemon. The others wait in the order in which
// they came, and one owner has at most READINGS_OF_ONE_MAX of them.
#pragma once
#include <jansson.h>
#include <sys/queue.h>
#include <uv.h>

#include "sandbox-backend/base/err.h"

#define READINGS_OF_ONE_MAX 4

struct http_request;

struct reading {
    TAILQ_ENTRY(reading) link;
    uv_work_t work;
    struct readings *all;            // borrowed
    struct http_request *req;        // NULL once the client has gone; the log is then not read
    char *owner;                     // owned by the caller; NULL: the unix socket
    void (*read)(struct reading *r); // in a thread
    void (*done)(struct reading *r); // frees it
};

struct readings {
    uv_loop_t *loop;
    TAILQ_HEAD(, reading) queue; // the first is being read
};

void readings_init(struct readings *all, uv_loop_t *loop);
// Check that the owner may read the log now. ERR_LIMIT, with e->retry_s: too many of its requests
// wait.
int readings_check(const struct readings *all, const char *owner, struct err *e);
// Read the log when it is this request's turn. The caller has set all members but the first three,
// and checked the owner.
void readings_add(struct readings *all, struct reading *r);
