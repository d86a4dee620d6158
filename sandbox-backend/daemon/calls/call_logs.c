// SPDX-License-Identifier: Apache-2.0
// The directory of the call logs: those of sandboxes that have ended are kept for a time, and until
// they have too many bytes. A thread looks through them.
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "sandbox-backend/base/buf.h"
#include "sandbox-backend/base/clock.h"
#include "sandbox-backend/base/fd.h"
#include "sandbox-backend/base/home.h"
#include "sandbox-backend/base/mem.h"
#include "sandbox-backend/base/str.h"
#include "sandbox-backend/daemon/calls/call_files.h"
#include "sandbox-backend/daemon/calls/call_log.h"
#include "sandbox-backend/log/log.h"

#define KEY_DIGITS     16
#define SWEEP_EVERY_MS 60000
#define SUFFIX         ".jsonl"
#define OLDER          ".1"

static void sweep(struct call_logs *logs);

// ---- opening

// Read the base of the masks, or make one.
static int read_key(struct call_logs *logs, struct err *e)
{
    char *path auto_free = home_path(logs->dir, "key");
    struct buf text auto_buf = BUF_INIT;
    char digits[KEY_DIGITS + 2];
    if (file_read(path, KEY_DIGITS + 1, &text, NULL) == 0 && text.len >= KEY_DIGITS) {
        logs->base = strtoull(buf_str(&text), NULL, 16) | 1;
        return 0;
    }
    random_bytes(&logs->base, sizeof logs->base);
    logs->base |= 1;
    snprintf(digits, sizeof digits, "%016" PRIx64 "\n", logs->base);
    return file_write_atomic(path, digits, KEY_DIGITS + 1, 0600, e);
}

void call_logs_open(struct call_logs *logs, uv_loop_t *loop, const char *home,
                    const struct call_logs_opts *opts)
{
    struct err e = ERR_INIT;
    *logs = (struct call_logs){.loop = loop, .opts = *opts};
    logs->dir = home_path(home, "calls");
    logs->ended = home_path(logs->dir, "ended");
    if (dir_make(logs->ended, 0700, &e) == 0 && read_key(logs, &e) == 0) {
        if (dir_has_entries(logs->ended)) // else no thread need start
            sweep(logs);
        return;
    }
    log_warn("calls.open", "error=\"%s\"", e.msg);
    logs->opts.off = true;
}

void call_logs_fini(struct call_logs *logs)
{
    free(logs->dir);
    free(logs->ended);
}

// ---- the sandboxes that have ended

struct old_file {
    char *name;
    int64_t changed_ns, bytes;
};

struct old_files {
    struct old_file *all;
    size_t count, room;
    int64_t bytes;
};

static void collect(struct old_files *files, int dir)
{
    DIR *list = fdopendir(dir);
    struct stat st;
    for (const struct dirent *d; list && (d = readdir(list));) {
        if (!str_ends(d->d_name, SUFFIX) ||
            fstatat(dirfd(list), d->d_name, &st, AT_SYMLINK_NOFOLLOW) < 0)
            continue;
        if (files->count == files->room)
            files->all =
                xrealloc(files->all, (files->room = files->room * 2 + 16) * sizeof *files->all);
        files->all[files->count++] = (struct old_file){
            xstrdup(d->d_name), st.st_mtim.tv_sec * 1000000000LL + st.st_mtim.tv_nsec,
            (int64_t)st.st_blocks * 512};
        files->bytes += (int64_t)st.st_blocks * 512;
    }
    if (list)
        closedir(list);
}

// The oldest first. The older file of a sandbox comes before its newest one.
static int by_age(const void *a, const void *b)
{
    const struct old_file *left = a;
    const struct old_file *right = b;
    return (left->changed_ns > right->changed_ns) - (left->changed_ns < right->changed_ns);
}

static void sweep_in_thread(uv_work_t *work)
{
    struct call_logs *logs = work->data;
    struct old_files files = {0};
    int fd = open(logs->ended, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    if (fd < 0)
        return;
    collect(&files, fd);
    if (files.count)
        qsort(files.all, files.count, sizeof *files.all, by_age);
    int64_t oldest = clock_wall_ns() - logs->opts.keep_s * 1000000000LL;
    for (size_t i = 0; i < files.count; i++) {
        struct old_file *f = &files.all[i];
        char *path auto_free = home_path(logs->ended, f->name);
        if ((f->changed_ns < oldest || files.bytes > logs->opts.space_bytes) && unlink(path) == 0)
            files.bytes -= f->bytes;
        free(f->name);
    }
    free(files.all);
}

static void on_swept(uv_work_t *work, int status)
{
    (void)status;
    struct call_logs *logs = work->data;
    logs->is_sweeping = false;
}

static void sweep(struct call_logs *logs)
{
    int64_t now = clock_mono_ms();
    if (logs->is_sweeping || (logs->swept_ms && now - logs->swept_ms < SWEEP_EVERY_MS))
        return;
    logs->swept_ms = now;
    logs->is_sweeping = true;
    logs->work.data = logs;
    uv_queue_work(logs->loop, &logs->work, sweep_in_thread, on_swept);
}

static void move_file(const struct call_logs *logs, const char *id, bool older)
{
    char *from auto_free = call_file(logs->dir, id, older);
    char *to auto_free = call_file(logs->ended, id, older);
    if (rename(from, to) < 0 && errno != ENOENT)
        log_warn("calls.end", "path=%s error=\"%s\"", from, strerror(errno));
}

// A reader that finds no newest file looks among the ended, so that one goes last.
static void move_files(const struct call_logs *logs, const char *id)
{
    move_file(logs, id, true);
    move_file(logs, id, false);
}

void call_log_end(const struct call_place *p)
{
    if (!p->logs->dir)
        return;
    if (p->log->n) {
        char hex[SHA256_HEX_CHARS + 1];
        sha256_to_hex(&p->log->last, hex);
        log_info("calls.ended", "id=%s lines=%lld hash=%s", p->id, (long long)p->log->n, hex);
    }
    move_files(p->logs, p->id);
    sweep(p->logs);
}

// Return the id in the name of a file, the newest or the older one; NULL: it is another file. New
// string.
static char *id_in(const char *name)
{
    size_t len = strlen(name);
    if (!str_ends(name, SUFFIX))
        return NULL;
    return xstrndup(name, len - strlen(str_ends(name, OLDER SUFFIX) ? OLDER SUFFIX : SUFFIX));
}

void call_logs_end_others(struct call_logs *logs, bool (*exists)(const char *id, void *ctx),
                          void *ctx)
{
    DIR *list = opendir(logs->dir);
    for (const struct dirent *d; list && (d = readdir(list));) {
        char *id auto_free = id_in(d->d_name);
        if (id && !exists(id, ctx))
            move_files(logs, id);
    }
    if (list)
        closedir(list);
}
