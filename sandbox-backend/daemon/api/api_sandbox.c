// SPDX-License-Identifier: Apache-2.0
// GET and DELETE of one sandbox, POST timeout and refreshes.
#include <stdlib.h>
#include <string.h>

#include "sandbox-backend/base/json.h"
#include "sandbox-backend/base/mem.h"
#include "sandbox-backend/daemon/api/api.h"
#include "sandbox-backend/daemon/http/reply.h"
#include "sandbox-backend/daemon/sandbox/ending.h"
#include "sandbox-backend/daemon/sandbox/lifecycle.h"
#include "sandbox-backend/daemon/sandbox/record.h"
#include "sandbox-backend/daemon/sandbox/sandbox.h"
#include "sandbox-backend/daemon/sandbox/store.h"
#include "sandbox-backend/daemon/sleep/move.h"

#define REFRESH_S     15 // at least, as with E2B
#define REFRESH_MAX_S 3600

int api_get(struct api_call *c, struct err *e)
{
    (void)e;
    sandbox_touch_if_used(c->sb);
    reply_json(c->req, 200, view_detail(c->sb));
    return 0;
}

static void on_killed(void *ctx)
{
    struct http_request *req = api_later_end(ctx);
    if (req)
        reply_empty(req);
}

// A kill that waits for the end of a move.
struct late_kill {
    struct http_request *req; // NULL once the client has gone
    struct store *store;
    char id[SANDBOX_ID_MAX + 1];
};

static void on_move_over(struct sandbox *sb, const struct err *e, void *ctx)
{
    struct late_kill *late = ctx;
    struct err why = ERR_INIT;
    struct api_call c = {.store = late->store, .req = late->req};
    (void)sb;
    (void)e;
    if (c.req)
        http_request_on_close(c.req, NULL, NULL);
    c.sb = c.req ? api_find(late->store, c.req, late->id) : NULL; // or it answers
    if (c.sb && api_check_stays(&c, &why) < 0)
        reply_err(c.req, c.error_code, &why);
    else if (c.sb)
        api_kill(&c, &why);
    free(late);
}

int api_kill(struct api_call *c, struct err *e)
{
    (void)e;
    if (c->sb->moving) {
        struct late_kill *late = xcalloc(1, sizeof *late);
        late->store = c->store;
        memcpy(late->id, c->sb->id, sizeof late->id);
        reply_later(c->req, &late->req);
        move_wait(c->sb, on_move_over, late);
        return 0;
    }
    c->sb->on_ended = on_killed;
    c->sb->on_ended_ctx = api_later_new(c);
    ending_start(c->sb, ENDED_KILLED, NULL);
    return 0;
}

// ---- the end time
static void answer_moved(const struct api_call *c)
{
    record_write_or_log(c->sb);
    store_plan(c->store);
    lifecycle_tell_end(c->sb);
    reply_empty(c->req);
}

int api_timeout(struct api_call *c, struct err *e)
{
    struct sandbox *sb = c->sb;
    int64_t seconds = 0;
    if (!json_is_integer(json_object_get(c->body, "timeout")))
        return err_set(e, ERR_INVALID, "timeout is required, in whole seconds");
    if (json_get_int(c->body, "timeout", INT64_MIN, INT64_MAX, &seconds, 0, e) < 0 ||
        api_check_timeout(c->store, seconds, e) < 0 || api_need_running(c, e) < 0)
        return -1;
    if (seconds < 0)
        seconds = 0;
    if (seconds > 0)
        sb->timeout_ms = seconds * 1000;
    else
        sb->sliding = false; // it ends now, even if it is in use
    sandbox_set_end(sb, seconds * 1000);
    journal_add(&sb->journal, JOURNAL_INFO, "the end time was set to %lld s from now",
                (long long)seconds);
    answer_moved(c);
    return 0;
}

int api_refresh(struct api_call *c, struct err *e)
{
    int64_t seconds = 0;
    if (json_get_int(c->body, "duration", 0, REFRESH_MAX_S, &seconds, 0, e) < 0 ||
        api_need_running(c, e) < 0)
        return -1;
    sandbox_extend_end(c->sb, (seconds < REFRESH_S ? REFRESH_S : seconds) * 1000);
    answer_moved(c);
    return 0;
}
