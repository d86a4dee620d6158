// SPDX-License-Identifier: Apache-2.0
// Blanks.
//
//   PREPARING --> CREATING --> CREATED --> freed      (blank_yield, then its result is told)
//       |            |            |
//       +------------+------------+--> DROPPED --> freed
//
// A spare may wait for minutes. So its sentry is watched: a spare whose sentry has ended is dropped
// before a machine takes it.
#include "sandbox-backend/drivers/gvisor/blank.h"

#include <stdlib.h>
#include <sys/queue.h>

#include "sandbox-backend/base/mem.h"
#include "sandbox-backend/base/str.h"
#include "sandbox-backend/drivers/gvisor/container.h"
#include "sandbox-backend/drivers/gvisor/creator.h"
#include "sandbox-backend/drivers/gvisor/runsc.h"
#include "sandbox-backend/drivers/host/childlog.h"
#include "sandbox-backend/drivers/host/host_jail.h"
#include "sandbox-backend/log/log.h"
#include "sandbox-backend/net/deadline.h"

#define UNUSED_MS 3000 // after the image is there

enum blank_state {
    BLANK_PREPARING, // a worker makes its directory
    BLANK_CREATING,  // `runsc create` runs
    BLANK_CREATED,   // it has ended
    BLANK_DROPPED,
};

struct blank {
    LIST_ENTRY(blank) link; // while nobody has taken it
    bool is_listed;
    enum blank_state state;
    uv_loop_t *loop;
    char *runsc, *template; // owned
    char *image;            // owned; NULL: a spare
    struct bundle_template facts;
    struct container_dir dir; // unless it was yielded
    int template_fd, log;     // owned; -1: none
    struct subproc *creator;  // owned; while it runs
    struct subproc *sentry;   // owned; of a spare that waits
    int status;               // of it
    bool is_yielded;
    blank_done *done;
    void *ctx;
    uv_work_t work;
    struct err error; // of the worker
    bool may_be_used; // the directory could not be cleared of processes
    struct deadline deadline;
};

static LIST_HEAD(, blank) waiting = LIST_HEAD_INITIALIZER(waiting);

static void run_prepare(uv_work_t *work);
static void on_prepared(uv_work_t *work, int status);
static void on_exit_of_creator(struct subproc *p, int status, void *ctx);
static void watch_spare(struct blank *b);

static const char *name_of(const struct blank *b)
{
    return b->image ? b->image : "-";
}

// ---- its end

static void on_deadline_closed(struct deadline *d)
{
    free(container_of(d, struct blank, deadline));
}

static void destroy(struct blank *b)
{
    if (b->sentry)
        subproc_close(b->sentry, NULL, NULL);
    if (!b->is_yielded)
        container_dir_fini(&b->dir, !b->may_be_used);
    mem_close_fd(&b->template_fd);
    mem_close_fd(&b->log);
    free(b->runsc);
    free(b->template);
    free(b->image);
    deadline_close(&b->deadline, on_deadline_closed);
}

static void run_kill(uv_work_t *work)
{
    struct blank *b = container_of(work, struct blank, work);
    b->may_be_used = container_dir_kill(&b->dir) < 0;
}

static void on_killed(uv_work_t *work, int status)
{
    (void)status;
    destroy(container_of(work, struct blank, work));
}

static void end_sentry(struct blank *b)
{
    uv_queue_work(b->loop, &b->work, run_kill, on_killed);
}

static void unlist(struct blank *b)
{
    if (b->is_listed)
        LIST_REMOVE(b, link);
    b->is_listed = false;
}

void blank_drop(struct blank *b)
{
    if (!b)
        return;
    enum blank_state was = b->state;
    unlist(b);
    b->state = BLANK_DROPPED;
    if (was == BLANK_CREATING)
        subproc_kill(b->creator);
    else if (was == BLANK_CREATED)
        end_sentry(b);
}

static void on_unused(struct deadline *d)
{
    struct blank *b = container_of(d, struct blank, deadline);
    if (b->is_listed)
        blank_drop(b);
}

// ---- its start

static struct blank *find_spare(const char *template)
{
    struct blank *b;
    LIST_FOREACH (b, &waiting, link)
        if (!b->image && str_eq(b->template, template))
            return b;
    return NULL;
}

// facts: NULL: those of the template, which a worker reads. image: NULL: make a spare.
static void start(uv_loop_t *loop, const char *runsc, const char *template_dir,
                  const struct bundle_template *facts, const char *image)
{
    struct blank *b = xcalloc(1, sizeof *b);
    *b = (struct blank){.loop = loop,
                        .runsc = xstrdup(runsc),
                        .template = xstrdup(template_dir),
                        .image = image ? xstrdup(image) : NULL,
                        .facts = facts ? *facts : (struct bundle_template){0},
                        .template_fd = -1,
                        .log = -1,
                        .is_listed = true};
    container_dir_init(&b->dir);
    deadline_init(&b->deadline, loop, on_unused);
    LIST_INSERT_HEAD(&waiting, b, link);
    uv_queue_work(loop, &b->work, run_prepare, on_prepared);
}

void blank_start(uv_loop_t *loop, const char *runsc, const char *template_dir,
                 const struct bundle_template *facts, const char *image)
{
    const struct blank *spare = find_spare(template_dir);
    if (!spare || spare->state == BLANK_PREPARING || !blank_fits(spare, facts))
        start(loop, runsc, template_dir, facts, image);
}

static void run_prepare(uv_work_t *work)
{
    struct blank *b = container_of(work, struct blank, work);
    struct bundle_template now;
    b->template_fd = bundle_open(b->template, &now, &b->error);
    if (b->template_fd < 0)
        return;
    if (!b->image)
        b->facts = now;
    if (!str_eq(now.rootfs, b->facts.rootfs))
        err_set(&b->error, ERR_PRECONDITION, "the template was rebuilt");
    else if (container_dir_make(&b->dir, &b->error) == 0)
        bundle_make(b->dir.path, b->template_fd, b->template, b->facts.disk_mb, &b->error);
}

static void on_prepared(uv_work_t *work, int status)
{
    struct blank *b = container_of(work, struct blank, work);
    (void)status;
    bool goes_on = b->state != BLANK_DROPPED && !err_is(&b->error);
    b->log = goes_on ? childlog_open("gvisor.log", &b->error) : -1;
    const struct creator creator = {.runsc = b->runsc,
                                    .dir = &b->dir,
                                    .template_fd = b->template_fd,
                                    .log = b->log,
                                    .memory_mb = b->facts.memory_mb};
    if (b->log >= 0)
        b->creator = creator_start(b->loop, &creator, on_exit_of_creator, b, &b->error);
    if (b->creator) {
        b->state = BLANK_CREATING;
        return;
    }
    if (err_is(&b->error))
        log_info("blank.none", "image=%s reason=\"%s\"", name_of(b), b->error.msg);
    unlist(b);
    destroy(b);
}

static void on_exit_of_creator(struct subproc *p, int status, void *ctx)
{
    struct blank *b = ctx;
    b->creator = NULL;
    b->status = status;
    subproc_close(p, NULL, NULL);
    if (b->state == BLANK_DROPPED) {
        end_sentry(b);
        return;
    }
    b->state = BLANK_CREATED;
    if (b->is_yielded)
        blank_tell(b);
    else if (!b->image && b->is_listed) // else a machine is about to take it
        watch_spare(b);
}

static void on_sentry_exit(struct subproc *p, int status, void *ctx)
{
    (void)p;
    (void)status;
    struct blank *b = ctx;
    log_warn("blank.ended", "template=%s: the sentry of a spare has ended", b->template);
    if (b->is_listed)
        blank_drop(b);
}

static void watch_spare(struct blank *b)
{
    struct err e = ERR_INIT;
    pid_t pid = b->status == 0 ? container_dir_sentry(&b->dir, &e) : -1;
    b->sentry = pid > 0 ? subproc_watch(b->loop, pid, on_sentry_exit, b, &e) : NULL;
    if (b->sentry)
        log_debug("blank.spare", "template=%s pid=%d", b->template, (int)pid);
    else
        blank_drop(b);
}

// ---- spares

// Its sentry would not end with the daemon before it has a guard.
static void make_spare(uv_loop_t *loop, const char *template_dir)
{
    if (find_spare(template_dir) || host_jail_ends_with_daemon())
        return;
    char *runsc auto_free = runsc_find(gvisor__runsc(), NULL);
    if (runsc)
        start(loop, runsc, template_dir, NULL, NULL);
}

static void drop_spare(const char *template_dir)
{
    blank_drop(find_spare(template_dir));
}

struct spares blank_spares = SPARES_INITIALIZER(blank_spares, make_spare, drop_spare);

// ---- its use

static struct blank *find(const char *image)
{
    struct blank *b;
    LIST_FOREACH (b, &waiting, link)
        if (b->image && str_eq(b->image, image))
            return b;
    return NULL;
}

void blank_expect(const char *image)
{
    struct blank *b = find(image);
    if (b)
        deadline_arm(&b->deadline, UNUSED_MS);
}

void blank_drop_of(const char *image)
{
    blank_drop(find(image));
}

void blanks_close(void)
{
    spares_close(&blank_spares);
    while (!LIST_EMPTY(&waiting))
        blank_drop(LIST_FIRST(&waiting));
}

// Return the template's spare if a machine of this size can be made from it.
static struct blank *fitting_spare(const char *template_dir, const struct machine_size *size)
{
    struct blank *b = find_spare(template_dir);
    if (!b || b->state == BLANK_PREPARING)
        return NULL;
    struct bundle_template wanted = b->facts;
    bundle_apply_size(&wanted, size);
    return blank_fits(b, &wanted) ? b : NULL;
}

struct blank *blank_take(const char *image, const char *template_dir,
                         const struct machine_size *size)
{
    struct blank *b = image ? find(image) : NULL;
    if (b && b->state == BLANK_PREPARING)
        b = NULL;
    b = b ? b : fitting_spare(template_dir, size);
    if (b)
        unlist(b);
    return b;
}

bool blank_fits(const struct blank *b, const struct bundle_template *facts)
{
    return str_eq(b->facts.rootfs, facts->rootfs) && b->facts.memory_mb == facts->memory_mb &&
           b->facts.disk_mb == facts->disk_mb;
}

struct subproc *blank_yield(struct blank *b, struct container_dir *dir, int *log, blank_done *done,
                            void *ctx)
{
    log_debug("blank.taken", "image=%s state=%d", name_of(b), (int)b->state);
    if (b->sentry)
        subproc_close(steal(&b->sentry), NULL, NULL);
    container_dir_fini(dir, false);
    container_dir_move(dir, &b->dir);
    *log = steal_fd(&b->log);
    b->is_yielded = true;
    b->done = done;
    b->ctx = ctx;
    return b->creator;
}

void blank_tell(struct blank *b)
{
    int status = b->status;
    blank_done *done = b->done;
    void *ctx = b->ctx;
    destroy(b);
    done(status, ctx);
}
