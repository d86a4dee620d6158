// SPDX-License-Identifier: Apache-2.0
// Stop the processes of users, by the freezer of cgroups(7), version 2.
#include "sandbox-backend/envd/guest/quiesce.h"

#include <errno.h>
#include <fcntl.h>
#include <string.h>
#include <sys/queue.h>
#include <time.h>
#include <unistd.h>

#include "sandbox-backend/base/mem.h"
#include "sandbox-backend/base/str.h"
#include "sandbox-backend/log/log.h"

// A process stops at the next point where the kernel can stop it. A process that waits for the disk
// stops after the disk has answered.
#define LOOK_NS  1000000
#define LOOK_MAX 100

struct held {
    TAILQ_ENTRY(held) link;
    struct quiesce *f; // borrowed
    struct rpc *call;  // borrowed
    json_t *request;   // owned
    void (*handle)(struct rpc *call, const json_t *request);
};
TAILQ_HEAD(held_list, held);

struct quiesce {
    char *root; // owned; may be NULL
    uint64_t max_ms;
    bool frozen;
    uv_timer_t guard; // continues the processes if no request does
    struct held_list held;
};

static const char *const GROUPS[] = {"commands",
                                     "kernel"}; // without the first, there are no groups

static void on_guard(uv_timer_t *timer);

static int open_in(const struct quiesce *f, const char *group, const char *file, int flags)
{
    char *path auto_free = str_printf("%s/%s/%s", f->root, group, file);
    return open(path, flags | O_CLOEXEC);
}

// False: it failed, or the group does not exist.
static bool set_group(const struct quiesce *f, const char *group, bool frozen)
{
    if (!f->root)
        return false;
    int fd auto_close = open_in(f, group, "cgroup.freeze", O_WRONLY);
    if (fd >= 0 && write(fd, frozen ? "1" : "0", 1) == 1)
        return true;
    if (fd >= 0 || errno != ENOENT)
        log_warn("quiesce.failed", "group=%s frozen=%d error=%s", group, frozen, strerror(errno));
    return false;
}

static bool stands_still(const struct quiesce *f, const char *group)
{
    char text[64] = "";
    int fd auto_close = open_in(f, group, "cgroup.events", O_RDONLY);
    ssize_t n = fd < 0 ? 0 : read(fd, text, sizeof text - 1);
    return fd < 0 ? errno == ENOENT : n > 0 && strstr(text, "frozen 1");
}

static bool all_stand_still(const struct quiesce *f)
{
    for (size_t i = 0; i < ARRAY_LEN(GROUPS); i++)
        if (!stands_still(f, GROUPS[i]))
            return false;
    return true;
}

// This blocks the loop: meanwhile envd could serve only requests that concern stopped processes.
static bool wait_until_still(const struct quiesce *f)
{
    for (int looks = 0; !all_stand_still(f); looks++) {
        if (looks == LOOK_MAX)
            return false;
        nanosleep(&(struct timespec){.tv_nsec = LOOK_NS}, NULL);
    }
    return true;
}

static void thaw_groups(struct quiesce *f)
{
    for (size_t i = 0; i < ARRAY_LEN(GROUPS); i++)
        set_group(f, GROUPS[i], false);
    f->frozen = false;
    uv_timer_stop(&f->guard);
}

struct quiesce *quiesce_new(uv_loop_t *loop, const char *cgroup_root, int64_t max_ms)
{
    struct quiesce *f = xcalloc(1, sizeof *f);
    f->root = cgroup_root ? xstrdup(cgroup_root) : NULL;
    f->max_ms = (uint64_t)max_ms;
    TAILQ_INIT(&f->held);
    uv_timer_init(loop, &f->guard);
    uv_unref((uv_handle_t *)&f->guard);
    thaw_groups(f);
    return f;
}

// ---- waiting calls

static void on_held_closed(struct rpc *call)
{
    struct held *h = call->ctx;
    TAILQ_REMOVE(&h->f->held, h, link);
    json_decref(h->request);
    free(h);
}

bool quiesce_hold(struct rpc *call, const json_t *request,
                  void (*handle)(struct rpc *call, const json_t *request))
{
    struct quiesce *f = call->envd->quiesce;
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

// Handle the waiting calls, or fail each of them with `e`.
static void let_go(struct quiesce *f, const struct err *e)
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

// ---- stop and continue

static void thaw(struct quiesce *f, const struct err *e)
{
    if (!f->frozen)
        return;
    thaw_groups(f);
    let_go(f, e);
}

static void on_guard(uv_timer_t *timer)
{
    struct quiesce *f = container_of(timer, struct quiesce, guard);
    log_warn("quiesce.guard", "no /unfreeze or /init came within %llu ms",
             (unsigned long long)f->max_ms);
    thaw(f, NULL);
}

void quiesce_post(struct envd *envd, struct http_request *req, const char *basic)
{
    (void)basic;
    struct quiesce *f = envd->quiesce;
    http_response_header(req, "Cache-Control", "no-store");
    if (!set_group(f, GROUPS[0], true)) {
        http_respond_error(
            req, 503,
            "the guest has no control groups (cgroup2), so its processes cannot be stopped");
        return;
    }
    for (size_t i = 1; i < ARRAY_LEN(GROUPS); i++)
        set_group(f, GROUPS[i], true);
    f->frozen = true;
    uv_timer_start(&f->guard, on_guard, f->max_ms, 0);
    static const char LATE[] = "{\"message\":\"some processes are not frozen yet\"}";
    if (wait_until_still(f))
        http_respond(req, 204, NULL, NULL, 0);
    else
        http_respond(req, 200, "application/json", LATE, sizeof LATE - 1);
}

void quiesce_post_undo(struct envd *envd, struct http_request *req, const char *basic)
{
    (void)basic;
    http_response_header(req, "Cache-Control", "no-store");
    http_respond(req, 204, NULL, NULL, 0);
    thaw(envd->quiesce, NULL);
}

void quiesce_end(struct quiesce *f)
{
    struct err e = ERR_INIT;
    err_set(&e, ERR_UNAVAILABLE, "the sandbox was saved meanwhile: send the request again");
    thaw(f, &e);
}

static void on_guard_closed(uv_handle_t *handle)
{
    struct quiesce *f = container_of((uv_timer_t *)handle, struct quiesce, guard);
    free(f->root);
    free(f);
}

void quiesce_close(struct quiesce *f)
{
    if (f->frozen)
        thaw_groups(f);
    uv_close((uv_handle_t *)&f->guard, on_guard_closed);
}
