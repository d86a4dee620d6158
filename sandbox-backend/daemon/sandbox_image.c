// SPDX-License-Identifier: Apache-2.0
// The whole state of a sandbox as an image in a directory.
//
// Its processes are frozen (envd, POST /freeze) before its machine is saved, so that none of them
// runs in what is made from the image before that has entropy of its own: they go on with its
// /init, and here as soon as the machine runs again. One after another: the end of one must not
// thaw what the next is about to save.
#include "sandbox-backend/daemon/sandbox_image.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "sandbox-backend/base/mem.h"
#include "sandbox-backend/base/str.h"
#include "sandbox-backend/daemon/guest_call.h"
#include "sandbox-backend/daemon/journal.h"
#include "sandbox-backend/daemon/pause.h"
#include "sandbox-backend/daemon/sandbox.h"
#include "sandbox-backend/daemon/store.h"
#include "sandbox-backend/log/log.h"
#include "sandbox-backend/net/deadline.h"

#define STAT_BLOCK 512 // of st_blocks, whatever the file system's own is
#define DEPTH_MAX  32
#define FREEZE_MS  3000 // for each of the two calls

enum stage { STAGE_WAITING, STAGE_WAKING, STAGE_FREEZING, STAGE_SAVING, STAGE_THAWING, STAGE_OVER };

struct saving {
    TAILQ_ENTRY(saving) link; // in sb->savings, the first of which is at work
    struct sandbox *sb;       // borrowed; NULL once it is being ended
    enum stage stage;
    enum machine_save_use use;
    char *dir;               // owned
    struct guest_call *call; // /freeze or /unfreeze
    bool frozen;             // its processes are, or may be
    struct deadline turn;    // tells, from the loop, what was known inside the call
    struct machine_saved saved;
    struct err err;
    sandbox_image_cb cb;
    void *ctx;
};

static void begin(struct saving *s);
static void on_awake(struct sandbox *sb, const struct err *e, void *ctx);
static void freeze(struct saving *s);
static void on_frozen(int status, const char *text, size_t len, const struct err *e, void *ctx);
static void save(struct saving *s);
static void on_runs(struct machine *m, void *ctx);
static void on_saved(struct machine *m, const struct machine_saved *saved, const struct err *e,
                     void *ctx);
static void link_image(struct saving *s, const struct sandbox *sb);
static void thaw(struct saving *s);
static void on_thawed(int status, const char *text, size_t len, const struct err *e, void *ctx);
static void end(struct saving *s);
static void on_turn(struct deadline *d);
static void on_turn_closed(struct deadline *d);

static struct saving *saving_new(struct sandbox *sb, const char *dir, sandbox_image_cb cb,
                                 void *ctx)
{
    struct saving *s = xcalloc(1, sizeof *s);
    *s = (struct saving){.sb = sb, .dir = xstrdup(dir), .cb = cb, .ctx = ctx};
    deadline_init(&s->turn, sb->store->loop, on_turn);
    TAILQ_INSERT_TAIL(&sb->savings, s, link);
    return s;
}

void sandbox_image_save(struct sandbox *sb, const char *dir, enum machine_save_use use,
                        sandbox_image_cb cb, void *ctx)
{
    struct saving *s = saving_new(sb, dir, cb, ctx);
    s->use = use;
    if (TAILQ_FIRST(&sb->savings) == s)
        begin(s);
}

static void on_mended(const struct machine_saved *saved, const struct err *e, void *ctx)
{
    (void)saved;
    (void)e;
    (void)ctx;
}

void sandbox_image_mend(struct sandbox *sb)
{
    struct saving *s = saving_new(sb, "", on_mended, NULL);
    s->stage = STAGE_THAWING;
    s->frozen = true;
    thaw(s);
    if (!s->call)
        end(s);
}

// One that stands still cannot freeze its processes. Where its callers think that it runs it is
// woken; one that they have paused stays as it is.
static void begin(struct saving *s)
{
    struct sandbox *sb = s->sb;
    bool on_its_way = sb->state == SANDBOX_PAUSING || sb->state == SANDBOX_RESUMING;
    if (on_its_way || (sb->state == SANDBOX_PAUSED && sb->asleep && sb->machine)) {
        s->stage = STAGE_WAKING;
        pause_wake(sb, on_awake, s);
    } else {
        freeze(s);
    }
}

static void on_awake(struct sandbox *sb, const struct err *e, void *ctx)
{
    (void)sb;
    struct saving *s = ctx;
    if (e)
        s->err = *e;
    if (e || !s->sb)
        end(s);
    else
        freeze(s);
}

static void freeze(struct saving *s)
{
    struct sandbox *sb = s->sb;
    s->stage = STAGE_FREEZING;
    if (sb->state == SANDBOX_RUNNING && sb->machine)
        s->call = guest_call_start(sb, "POST", "/freeze", NULL, FREEZE_MS, on_frozen, s);
    else
        save(s);
}

// An image that may begin with what others draw is better than none.
static void on_frozen(int status, const char *text, size_t len, const struct err *e, void *ctx)
{
    (void)len;
    struct saving *s = ctx;
    s->call = NULL;
    s->frozen = e || status / 100 == 2; // one that answers late freezes them late
    if (e || status != 204) {
        log_warn("sandbox.freeze", "id=%s status=%d reason=\"%s\"", s->sb->id, status,
                 e ? e->msg : text);
        journal_add(&s->sb->journal, JOURNAL_WARN,
                    "its processes did not stand still before its state was saved: %.100s",
                    e               ? e->msg
                    : status == 404 ? "its template is older than that"
                                    : text);
    }
    save(s);
}

static void save(struct saving *s)
{
    struct sandbox *sb = s->sb;
    s->stage = STAGE_SAVING;
    if (sb->machine && !sb->image)
        machine_save(sb->machine, s->dir, s->use, on_runs, on_saved, s);
    else
        link_image(s, sb);
}

// The only resource that a save may lack is room; to whoever asked for it, that is what counts.
static void take_error(struct saving *s, const struct err *e)
{
    s->err = *e;
    if (e->code == ERR_LIMIT)
        s->err.code = ERR_NO_SPACE;
    if (e->code == ERR_CANCELED || e->code == ERR_UNAVAILABLE)
        s->err.code = ERR_GONE; // it was killed, or ended by itself, in the middle
    err_wrap(&s->err, "its state could not be saved");
}

// Not only when its image is on the disk: they have stood still for long enough.
static void on_runs(struct machine *m, void *ctx)
{
    (void)m;
    thaw(ctx);
}

static void on_saved(struct machine *m, const struct machine_saved *saved, const struct err *e,
                     void *ctx)
{
    (void)m;
    struct saving *s = ctx;
    if (e && s->sb && s->sb->image && !s->sb->rollback) { // it was hibernated meanwhile
        link_image(s, s->sb);
        return;
    }
    if (e)
        take_error(s, e);
    else
        s->saved = *saved;
    s->stage = STAGE_THAWING;
    thaw(s);
    if (!s->call)
        end(s);
}

// One that was paused meanwhile thaws them when its clock is set (envd, POST /init).
static void thaw(struct saving *s)
{
    struct sandbox *sb = s->sb;
    if (!s->frozen || !sb || sb->state != SANDBOX_RUNNING || !sb->machine)
        return;
    s->frozen = false;
    s->call = guest_call_start(sb, "POST", "/unfreeze", NULL, FREEZE_MS, on_thawed, s);
}

static void on_thawed(int status, const char *text, size_t len, const struct err *e, void *ctx)
{
    (void)len;
    struct saving *s = ctx;
    s->call = NULL;
    if (e || (status != 204 && status != 404)) { // envd does so by itself after a while
        log_warn("sandbox.unfreeze", "id=%s status=%d reason=\"%s\"", s->sb->id, status,
                 e ? e->msg : text);
        journal_add(&s->sb->journal, JOURNAL_WARN,
                    "its processes may stand still for some seconds: %.100s", e ? e->msg : text);
    }
    if (s->stage == STAGE_THAWING)
        end(s);
}

void sandbox_image_drop(struct sandbox *sb)
{
    for (struct saving *s; (s = TAILQ_FIRST(&sb->savings));) {
        TAILQ_REMOVE(&sb->savings, s, link);
        s->sb = NULL;
        if (s->call)
            guest_call_cancel(steal(&s->call));
        if (s->stage == STAGE_WAKING || s->stage == STAGE_SAVING || s->stage == STAGE_OVER)
            continue; // its callback comes
        if (s->stage != STAGE_THAWING)
            err_set(&s->err, ERR_GONE, "it was ended before its state was saved");
        end(s);
    }
}

// ---- of one that has no machine
static char *image_of(const struct sandbox *sb)
{
    if (*sb->image == '\0')
        return str_printf("%s/image", sb->dir);
    return str_printf("%s/%s/image", sb->store->snapshots.dir, sb->image);
}

static void link_tree(struct saving *s, DIR *from, int to, int depth);

static void link_dir(struct saving *s, int from, int to, const char *name, int depth)
{
    int fd = openat(from, name, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
    DIR *dir = fd < 0 ? NULL : fdopendir(fd);
    int made auto_close = mkdirat(to, name, 0700) < 0
                              ? -1
                              : openat(to, name, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
    if (!dir || made < 0)
        err_sys(&s->err, errno, "link the directory %s of the image", name);
    else if (depth >= DEPTH_MAX)
        err_set(&s->err, ERR_INTERNAL, "the image has directories too deep");
    else
        link_tree(s, dir, made, depth + 1);
    if (dir)
        closedir(dir);
    else if (fd >= 0)
        close(fd);
}

static void link_one(struct saving *s, int from, int to, const char *name, int depth)
{
    struct stat st;
    if (fstatat(from, name, &st, AT_SYMLINK_NOFOLLOW) == 0 && S_ISDIR(st.st_mode)) {
        link_dir(s, from, to, name, depth);
        return;
    }
    if (linkat(from, name, to, name, 0) < 0)
        err_sys(&s->err, errno, "link %s of the image", name);
    else
        s->saved.bytes += (int64_t)st.st_blocks * STAT_BLOCK;
}

static void link_tree(struct saving *s, DIR *from, int to, int depth)
{
    for (const struct dirent *entry; !err_is(&s->err) && (entry = readdir(from));)
        if (strcmp(entry->d_name, ".") != 0 && strcmp(entry->d_name, "..") != 0)
            link_one(s, dirfd(from), to, entry->d_name, depth);
}

// At once, so that nobody wakes it in the middle; a handful of links.
static void link_image(struct saving *s, const struct sandbox *sb)
{
    char *path auto_free = image_of(sb);
    int to auto_close = open(s->dir, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    DIR *from = opendir(path);
    if (!from || to < 0)
        err_sys(&s->err, errno, "open the image of the sandbox");
    else
        link_tree(s, from, to, 0);
    if (from)
        closedir(from);
    end(s);
}

static void end(struct saving *s)
{
    s->stage = STAGE_OVER;
    deadline_arm(&s->turn, 0);
}

static void on_turn(struct deadline *d)
{
    deadline_close(d, on_turn_closed);
}

static void on_turn_closed(struct deadline *d)
{
    struct saving *s = container_of(d, struct saving, turn);
    struct sandbox *sb = s->sb;
    if (sb)
        TAILQ_REMOVE(&sb->savings, s, link);
    if (sb && !TAILQ_EMPTY(&sb->savings))
        begin(TAILQ_FIRST(&sb->savings));
    if (err_is(&s->err))
        s->cb(NULL, &s->err, s->ctx);
    else
        s->cb(&s->saved, NULL, s->ctx);
    free(s->dir);
    free(s);
}
