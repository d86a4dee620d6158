// SPDX-License-Identifier: Apache-2.0
// Processes of users that stand still, by the freezer of cgroups(7), version 2.
#include "sandbox-backend/envd/freeze.h"

#include <errno.h>
#include <fcntl.h>
#include <string.h>
#include <sys/queue.h>
#include <time.h>
#include <unistd.h>

#include "sandbox-backend/base/mem.h"
#include "sandbox-backend/base/str.h"
#include "sandbox-backend/log/log.h"

// A process stands still once it has run to the next point at which it may; one that waits for the
// disk does not before that has answered.
#define LOOK_NS  1000000
#define LOOK_MAX 100

struct held {
    TAILQ_ENTRY(held) link;
    struct freeze *f; // borrowed
    struct rpc *call; // borrowed
    json_t *request;  // owned
    void (*handle)(struct rpc *call, const json_t *request);
};
TAILQ_HEAD(held_list, held);

struct freeze {
    char *root; // owned; may be NULL
    uint64_t max_ms;
    bool frozen;
    uv_timer_t guard; // thaws when nobody does
    struct held_list held;
};

static const char *const GROUPS[] = {"commands", "kernel"}; // the first is there or nothing is

static void on_guard(uv_timer_t *timer);

static int open_in(const struct freeze *f, const char *group, const char *file, int flags)
{
    char *path auto_free = str_printf("%s/%s/%s", f->root, group, file);
    return open(path, flags | O_CLOEXEC);
}

// False: it cannot be; a group that is not there need not.
static bool set_group(const struct freeze *f, const char *group, bool frozen)
{
    if (!f->root)
        return false;
    int fd auto_close = open_in(f, group, "cgroup.freeze", O_WRONLY);
    if (fd >= 0 && write(fd, frozen ? "1" : "0", 1) == 1)
        return true;
    if (fd >= 0 || errno != ENOENT)
        log_warn("freeze.failed", "group=%s frozen=%d error=%s", group, frozen, strerror(errno));
    return false;
}

static bool stands_still(const struct freeze *f, const char *group)
{
    char text[64] = "";
    int fd auto_close = open_in(f, group, "cgroup.events", O_RDONLY);
    ssize_t n = fd < 0 ? 0 : read(fd, text, sizeof text - 1);
    return fd < 0 ? errno == ENOENT : n > 0 && strstr(text, "frozen 1");
}

static bool all_stand_still(const struct freeze *f)
{
    for (size_t i = 0; i < ARRAY_LEN(GROUPS); i++)
        if (!stands_still(f, GROUPS[i]))
            return false;
    return true;
}

// Blocks: nobody but them would be served meanwhile.
static bool wait_until_still(const struct freeze *f)
{
    for (int looks = 0; !all_stand_still(f); looks++) {
        if (looks == LOOK_MAX)
            return false;
        nanosleep(&(struct timespec){.tv_nsec = LOOK_NS}, NULL);
    }
    return true;
}

static void thaw_groups(struct freeze *f)
{
    for (size_t i = 0; i < ARRAY_LEN(GROUPS); i++)
        set_group(f, GROUPS[i], false);
    f->frozen = false;
    uv_timer_stop(&f->guard);
}

struct freeze *freeze_new(uv_loop_t *loop, const char *cgroup_root, int64_t max_ms)
{
    struct freeze *f = xcalloc(1, sizeof *f);
    f->root = cgroup_root ? xstrdup(cgroup_root) : NULL;
    f->max_ms = (uint64_t)max_ms;
    TAILQ_INIT(&f->held);
    uv_timer_init(loop, &f->guard);
    uv_unref((uv_handle_t *)&f->guard);
    thaw_groups(f);
    return f;
}

// ---- who waits

static void on_held_closed(struct rpc *call)
{
    struct held *h = call->ctx;
    TAILQ_REMOVE(&h->f->held, h, link);
    json_decref(h->request);
    free(h);
}

bool freeze_hold(struct rpc *call, const json_t *request,
                 void (*handle)(struct rpc *call, const json_t *request))
{
    struct freeze *f = call->envd->freeze;
    if (!f->frozen)
        return false;
    struct held *h = xcalloc(1, sizeof *h);
    *h = (struct held){.f = f, .call = call, .handle = handle};
    h->request = json_incref((json_t *)(uintptr_t)request);
    call->ctx = h;
    call->on_closed = on_held_closed;
    TAILQ_INSERT_TAIL(&f->held, h, link);
    return true;
}

// NULL: as they wished; else each is told that.
static void let_go(struct freeze *f, const struct err *e)
{
    for (struct held *h; (h = TAILQ_FIRST(&f->held));) {
        TAILQ_REMOVE(&f->held, h, link);
        h->call->ctx = NULL;
        h->call->on_closed = NULL;
        if (e)
            rpc_fail(h->call, e);
        else
            h->handle(h->call, h->request);
        json_decref(h->request);
        free(h);
    }
}

// ---- freezing, thawing

static void thaw(struct freeze *f, const struct err *e)
{
    if (!f->frozen)
        return;
    thaw_groups(f);
    let_go(f, e);
}

static void on_guard(uv_timer_t *timer)
{
    struct freeze *f = container_of(timer, struct freeze, guard);
    log_warn("freeze.guard", "nobody has thawed it for %llu ms", (unsigned long long)f->max_ms);
    thaw(f, NULL);
}

void freeze_post(struct envd *envd, struct http_request *req)
{
    struct freeze *f = envd->freeze;
    http_response_header(req, "Cache-Control", "no-store");
    if (!set_group(f, GROUPS[0], true)) {
        http_respond_error(req, 503, "there are no control groups (cgroup2) to freeze");
        return;
    }
    for (size_t i = 1; i < ARRAY_LEN(GROUPS); i++)
        set_group(f, GROUPS[i], true);
    f->frozen = true;
    uv_timer_start(&f->guard, on_guard, f->max_ms, 0);
    static const char LATE[] = "{\"message\":\"some processes do not stand still yet\"}";
    if (wait_until_still(f))
        http_respond(req, 204, NULL, NULL, 0);
    else
        http_respond(req, 200, "application/json", LATE, sizeof LATE - 1);
}

void freeze_post_undo(struct envd *envd, struct http_request *req)
{
    http_response_header(req, "Cache-Control", "no-store");
    http_respond(req, 204, NULL, NULL, 0);
    thaw(envd->freeze, NULL);
}

void freeze_end(struct freeze *f)
{
    struct err e = ERR_INIT;
    err_set(&e, ERR_UNAVAILABLE, "the sandbox was saved meanwhile: ask again");
    thaw(f, &e);
}

static void on_guard_closed(uv_handle_t *handle)
{
    struct freeze *f = container_of((uv_timer_t *)handle, struct freeze, guard);
    free(f->root);
    free(f);
}

void freeze_close(struct freeze *f)
{
    if (f->frozen)
        thaw_groups(f);
    uv_close((uv_handle_t *)&f->guard, on_guard_closed);
}
