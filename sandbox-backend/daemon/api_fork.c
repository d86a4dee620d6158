// SPDX-License-Identifier: Apache-2.0
// POST /sandboxes/{id}/fork.
#include <stdlib.h>

#include "sandbox-backend/base/json.h"
#include "sandbox-backend/base/mem.h"
#include "sandbox-backend/base/str.h"
#include "sandbox-backend/daemon/api.h"
#include "sandbox-backend/daemon/api_change.h"
#include "sandbox-backend/daemon/fork.h"
#include "sandbox-backend/daemon/gate.h"
#include "sandbox-backend/daemon/near_miss.h"
#include "sandbox-backend/daemon/reply.h"
#include "sandbox-backend/daemon/sandbox.h"
#include "sandbox-backend/daemon/store.h"

#define TIMEOUT_S 15 // E2B's, when none is given

struct pending_fork {
    struct http_request *req;
    struct forking *forking;
};

static void on_client_gone(void *ctx)
{
    struct pending_fork *p = ctx;
    fork_abandon(p->forking);
    free(p);
}

static void on_forked(json_t *results, const struct err *e, void *ctx)
{
    struct pending_fork *p = ctx;
    struct http_request *req = p->req;
    free(p);
    http_request_on_close(req, NULL, NULL);
    if (results) {
        reply_json(req, 201, results);
        return;
    }
    struct err out = *e;
    if (e->code == ERR_GONE)
        out.code = ERR_NOT_FOUND;
    reply_err(req, NULL, &out);
}

static int parse(const json_t *body, struct fork_wish *wish, struct err *e)
{
    static const char *const KNOWN[] = {"timeout", "count"};
    if (near_miss_check(body, "", KNOWN, ARRAY_LEN(KNOWN), e) < 0 ||
        json_get_int(body, "count", INT64_MIN, INT64_MAX, &wish->count, 1, e) < 0 ||
        json_get_int(body, "timeout", INT64_MIN, INT64_MAX, &wish->timeout_s, TIMEOUT_S, e) < 0)
        return -1;
    if (wish->count < 1 || wish->count > FORK_COUNT_MAX)
        return err_set(e, ERR_INVALID, "count must be from 1 to %d", FORK_COUNT_MAX);
    if (wish->timeout_s <= 0)
        return err_set(e, ERR_INVALID, "Timeout must be greater than 0");
    return 0;
}

static void apply(struct store *store, struct http_request *req, struct sandbox *sb,
                  const json_t *body)
{
    struct fork_wish wish = {0};
    struct err e = ERR_INIT;
    if (parse(body, &wish, &e) < 0) {
        reply_err(req, NULL, &e);
        return;
    }
    if (!api_timeout_fits(store, req, wish.timeout_s))
        return;
    // One that is asleep runs, to those who use it.
    if (!sandbox_shows_running(sb) && sb->state != SANDBOX_RESUMING && !api_is_running(req, sb))
        return;
    struct pending_fork *p = xmalloc(sizeof *p);
    *p = (struct pending_fork){.req = req};
    p->forking = fork_start(sb, &wish, on_forked, p, &e);
    if (p->forking) {
        http_request_on_close(req, on_client_gone, p);
        return;
    }
    free(p);
    reply_err(req, NULL, &e);
}

void api_fork(struct store *store, struct http_request *req, const char *id)
{
    api_change(store, req, id, apply);
}
