// SPDX-License-Identifier: Apache-2.0
// The whole state of a sandbox as an image in a directory.
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
#include "sandbox-backend/daemon/pause.h"
#include "sandbox-backend/daemon/sandbox.h"
#include "sandbox-backend/daemon/store.h"
#include "sandbox-backend/net/deadline.h"

#define STAT_BLOCK 512 // of st_blocks, whatever the file system's own is
#define DEPTH_MAX  32

struct saving {
    struct sandbox *sb;   // borrowed; while its machine is at it
    char *dir;            // owned
    struct deadline turn; // tells, from the loop, what was known inside the call
    struct machine_saved saved;
    struct err err;
    sandbox_image_cb cb;
    void *ctx;
};

static void on_awake(struct sandbox *sb, const struct err *e, void *ctx);
static void save(struct saving *s, struct sandbox *sb);
static void on_saved(struct machine *m, const struct machine_saved *saved, const struct err *e,
                     void *ctx);
static void link_image(struct saving *s, const struct sandbox *sb);
static void on_turn(struct deadline *d);
static void on_turn_closed(struct deadline *d);

void sandbox_image_save(struct sandbox *sb, const char *dir, sandbox_image_cb cb, void *ctx)
{
    struct saving *s = xcalloc(1, sizeof *s);
    *s = (struct saving){.dir = xstrdup(dir), .cb = cb, .ctx = ctx};
    deadline_init(&s->turn, sb->store->loop, on_turn);
    if (sb->state == SANDBOX_PAUSING || sb->state == SANDBOX_RESUMING)
        pause_wake(sb, on_awake, s);
    else
        save(s, sb);
}

static void on_awake(struct sandbox *sb, const struct err *e, void *ctx)
{
    struct saving *s = ctx;
    if (e)
        s->err = *e;
    if (e)
        deadline_arm(&s->turn, 0);
    else
        save(s, sb);
}

static void save(struct saving *s, struct sandbox *sb)
{
    s->sb = sb;
    if (sb->machine && !sb->image)
        machine_save(sb->machine, s->dir, false, on_saved, s);
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

static void on_saved(struct machine *m, const struct machine_saved *saved, const struct err *e,
                     void *ctx)
{
    (void)m;
    struct saving *s = ctx;
    if (e && sandbox_is_known(s->sb) && s->sb->image) { // it was hibernated meanwhile
        link_image(s, s->sb);
        return;
    }
    if (e)
        take_error(s, e);
    else
        s->saved = *saved;
    deadline_arm(&s->turn, 0);
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
    deadline_arm(&s->turn, 0);
}

static void on_turn(struct deadline *d)
{
    deadline_close(d, on_turn_closed);
}

static void on_turn_closed(struct deadline *d)
{
    struct saving *s = container_of(d, struct saving, turn);
    if (err_is(&s->err))
        s->cb(NULL, &s->err, s->ctx);
    else
        s->cb(&s->saved, NULL, s->ctx);
    free(s->dir);
    free(s);
}
