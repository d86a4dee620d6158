// SPDX-License-Identifier: Apache-2.0
// Watch a directory, or a whole tree, by inotify(7).
//
// Theory of operation. inotify watches single directories, so a recursive watcher has one inotify
// watch for each (watch_tree.c). When a directory appears, the watcher watches it first and then
// reads it. It reports the contents as created, since they may be older than the watch. While there
// are directories to read, the watcher takes nothing from inotify's queue. So the events in the
// queue at the end of the reading (by its length) are older than that, and a creation in them that
// was reported already is not reported again.
//
// A directory that is moved away is forgotten with everything below it. A directory that is moved
// in, even from inside the tree, is new: its contents are reported as created, under the new name.
//
// An upload (files/file_sink.c) renames a temporary file, which the watcher does not report. It
// reports the target as E2B's envd does, which changes the mode and writes in place: created (only
// if the target is new, which the temporary file's name tells), changed in its mode, and written.
//
// The work is done in slices, between which the loop serves others. A watcher with a slow reader
// stops: then only the guest kernel's queue grows. If it overflows (at 16384 events by default),
// the watcher fails and says so. One thing is missed silently: a directory that is unreadable, or
// whose path is longer than PATH_MAX, is not watched.
#include "sandbox-backend/envd/fs/watcher.h"

#include <dirent.h>
#include <errno.h>
#include <jansson.h>
#include <stdlib.h>
#include <string.h>
#include <sys/inotify.h>
#include <sys/ioctl.h>
#include <sys/queue.h>
#include <sys/stat.h>
#include <unistd.h>

#include "sandbox-backend/base/mem.h"
#include "sandbox-backend/envd/core/paths.h"
#include "sandbox-backend/envd/fs/watch_tree.h"

#define ENTRIES_PER_SLICE 256
#define DRAIN_SLICES      64
#define TOLD_MAX          65536 // names kept so that they are not reported twice

#define WATCHED_EVENTS                                                             \
    (IN_CREATE | IN_MOVED_TO | IN_MOVED_FROM | IN_DELETE | IN_MODIFY | IN_ATTRIB | \
     IN_DELETE_SELF | IN_MOVE_SELF | IN_ONLYDIR)

struct watcher {
    uv_poll_t poll; // inotify has events
    uv_idle_t work; // there is work without new events
    int open_handles;
    int fd; // owned; inotify's
    struct watch_tree tree;
    STAILQ_HEAD(, watch_dir) unread; // directories to be read, in the order they came
    DIR *reading;                    // the first of them; NULL: not opened
    json_t *told;                    // set of relative names that were reported as created
    uint64_t told_until;             // events before this position of the queue may repeat them
    uint64_t position;               // of the queue: bytes taken from it so far
    uint32_t upload;                 // cookie of an upload that is moved into place; 0: none
    bool upload_replaces;            // that upload's target was there before
    bool recursive;
    bool armed;
    bool blocked;
    bool over; // failed or closed
    bool closed;
    struct watcher_events events;
    void *ctx;
    size_t at, len; // of `queue`
    char queue[16384] __attribute__((aligned(__alignof__(struct inotify_event))));
};

static void update(struct watcher *w);

// ---- reports

static void fail(struct watcher *w, const struct err *e)
{
    if (w->over)
        return;
    w->over = true;
    update(w);
    w->events.on_failed(e, w->ctx);
}

static void tell(struct watcher *w, const char *type, const struct watch_dir *dir, const char *name)
{
    struct buf relative auto_buf = BUF_INIT;
    struct buf path auto_buf = BUF_INIT;
    watch_dir_relative(dir, name, &relative);
    watch_dir_path(dir, name, &path);
    if (!w->over)
        w->events.on_event(type, buf_str(&relative), buf_str(&path), w->ctx);
}

// ---- directories

static void push_unread(struct watcher *w, struct watch_dir *d, bool reports)
{
    d->reports |= reports;
    if (d->is_unread)
        return;
    d->is_unread = true;
    STAILQ_INSERT_TAIL(&w->unread, d, unread);
}

// Return whether an errno means that the directory is gone, must not be entered, or is not a
// directory.
static bool is_passing(int sys)
{
    return sys == ENOENT || sys == ENOTDIR || sys == EACCES || sys == EPERM || sys == ELOOP ||
           sys == ENAMETOOLONG;
}

static int no_more(struct err *e)
{
    return err_set(e, ERR_LIMIT,
                   "the guest kernel cannot watch more directories "
                   "(fs.inotify.max_user_watches)");
}

// Watch a directory below `parent`, and put it on the list to be read.
static void enter(struct watcher *w, struct watch_dir *parent, const char *name, bool reports)
{
    struct buf path auto_buf = BUF_INIT;
    struct err e = ERR_INIT;
    watch_dir_path(parent, name, &path);
    int wd = inotify_add_watch(w->fd, buf_str(&path), WATCHED_EVENTS | IN_DONT_FOLLOW);
    if (wd < 0 && is_passing(errno))
        return;
    if (wd < 0 && errno == ENOSPC)
        no_more(&e);
    else if (wd < 0)
        err_sys(&e, errno, "watch %s", buf_str(&path));
    struct watch_dir *d = wd < 0 ? NULL : watch_tree_by_wd(&w->tree, wd);
    if (d && !watch_dir_move(d, parent, name)) // it was known, perhaps by another name
        return;
    if (!err_is(&e) && !d && w->tree.count >= WATCHER_DIRS_MAX)
        err_set(&e, ERR_LIMIT, "the tree has more than %d directories, the limit of one watch",
                WATCHER_DIRS_MAX);
    if (err_is(&e)) {
        fail(w, &e);
        return;
    }
    if (!d)
        d = watch_tree_add(&w->tree, parent, name, wd);
    push_unread(w, d, reports);
}

// Forget a directory that was moved away. No directory is open while events are taken.
static void leave(struct watcher *w, struct watch_dir *d)
{
    while (!LIST_EMPTY(&d->children))
        leave(w, LIST_FIRST(&d->children));
    inotify_rm_watch(w->fd, d->wd);
    watch_tree_remove(&w->tree, d);
}

// ---- read directories

static void remember_told(struct watcher *w, const struct watch_dir *dir, const char *name)
{
    struct buf key auto_buf = BUF_INIT;
    watch_dir_relative(dir, name, &key);
    if (json_object_size(w->told) < TOLD_MAX)
        json_object_set_new_nocheck(w->told, buf_str(&key), json_true());
}

// Return true if an event repeats a creation that was reported during the reading.
static bool forget_told(struct watcher *w, const struct watch_dir *dir, const char *name)
{
    struct buf key auto_buf = BUF_INIT;
    if (w->position >= w->told_until)
        return false;
    watch_dir_relative(dir, name, &key);
    return json_object_del(w->told, buf_str(&key)) == 0;
}

// Drop the names when no event can repeat them.
static void drop_told(struct watcher *w)
{
    if (w->position >= w->told_until && json_object_size(w->told))
        json_object_clear(w->told);
}

static bool is_directory(const struct watch_dir *dir, const struct dirent *entry)
{
    struct buf path auto_buf = BUF_INIT;
    struct stat st;
    if (entry->d_type != DT_UNKNOWN)
        return entry->d_type == DT_DIR;
    watch_dir_path(dir, entry->d_name, &path);
    return lstat(buf_str(&path), &st) == 0 && S_ISDIR(st.st_mode);
}

static void take_entry(struct watcher *w, struct watch_dir *dir, const struct dirent *entry)
{
    const char *name = entry->d_name;
    if (strcmp(name, ".") == 0 || strcmp(name, "..") == 0 || path_is_temp(name))
        return;
    if (dir->reports) {
        remember_told(w, dir, name);
        tell(w, "EVENT_TYPE_CREATE", dir, name);
    }
    if (!w->over && w->recursive && is_directory(dir, entry))
        enter(w, dir, name, dir->reports);
}

static void end_reading(struct watcher *w)
{
    struct watch_dir *dir = STAILQ_FIRST(&w->unread);
    int queued = 0;
    if (w->reading)
        closedir(steal(&w->reading));
    STAILQ_REMOVE_HEAD(&w->unread, unread);
    if (dir->reports && ioctl(w->fd, FIONREAD, &queued) == 0)
        w->told_until = w->position + (w->len - w->at) + (uint64_t)queued;
    drop_told(w);
    dir->is_unread = dir->reports = false;
}

static void read_slice(struct watcher *w)
{
    struct watch_dir *dir = STAILQ_FIRST(&w->unread);
    struct buf path auto_buf = BUF_INIT;
    watch_dir_path(dir, NULL, &path);
    if (!w->reading && w->recursive)
        w->reading = opendir(buf_str(&path));
    for (int i = 0; i < ENTRIES_PER_SLICE && w->reading && !w->over; i++) {
        const struct dirent *entry = readdir(w->reading);
        if (!entry)
            break;
        take_entry(w, dir, entry);
        if (i == ENTRIES_PER_SLICE - 1)
            return;
    }
    if (!w->over)
        end_reading(w);
}

// ---- inotify's events

static void tell_upload(struct watcher *w, const struct watch_dir *dir, const char *name)
{
    if (!w->upload_replaces)
        tell(w, "EVENT_TYPE_CREATE", dir, name);
    tell(w, "EVENT_TYPE_CHMOD", dir, name);
    tell(w, "EVENT_TYPE_WRITE", dir, name);
}

static void take_appeared(struct watcher *w, struct watch_dir *dir, const struct inotify_event *ev)
{
    if (forget_told(w, dir, ev->name))
        return;
    if ((ev->mask & IN_MOVED_TO) && w->upload && ev->cookie == w->upload) {
        tell_upload(w, dir, ev->name);
        return;
    }
    tell(w, "EVENT_TYPE_CREATE", dir, ev->name);
    if (!w->over && w->recursive && (ev->mask & IN_ISDIR))
        enter(w, dir, ev->name, true);
}

static void take_vanished(struct watcher *w, struct watch_dir *dir, const struct inotify_event *ev)
{
    bool moved = (ev->mask & IN_MOVED_FROM) != 0;
    struct watch_dir *gone = moved && (ev->mask & IN_ISDIR) ? watch_dir_child(dir, ev->name) : NULL;
    forget_told(w, dir, ev->name);
    if (gone)
        leave(w, gone);
    tell(w, moved ? "EVENT_TYPE_RENAME" : "EVENT_TYPE_REMOVE", dir, ev->name);
}

// Take an event of a directory itself. If the directory is below the root, its parent's watch has
// already reported the event.
static void take_own(struct watcher *w, struct watch_dir *dir, uint32_t mask)
{
    if (mask & IN_IGNORED) {
        while (!LIST_EMPTY(&dir->children)) // after an unmount
            leave(w, LIST_FIRST(&dir->children));
        if (dir != w->tree.root)
            watch_tree_remove(&w->tree, dir);
        return;
    }
    if (dir->parent)
        return;
    if (mask & IN_MOVE_SELF)
        tell(w, "EVENT_TYPE_RENAME", dir, NULL);
    if (mask & IN_ATTRIB)
        tell(w, "EVENT_TYPE_CHMOD", dir, NULL);
    if (mask & (IN_DELETE_SELF | IN_UNMOUNT))
        tell(w, "EVENT_TYPE_REMOVE", dir, NULL);
}

static void take_named(struct watcher *w, struct watch_dir *dir, const struct inotify_event *ev)
{
    if (path_is_temp(ev->name)) {
        if (ev->mask & IN_MOVED_FROM) {
            w->upload = ev->cookie;
            w->upload_replaces = path_temp_replaces(ev->name);
        }
        return;
    }
    if (ev->mask & (IN_CREATE | IN_MOVED_TO))
        take_appeared(w, dir, ev);
    else if (ev->mask & (IN_DELETE | IN_MOVED_FROM))
        take_vanished(w, dir, ev);
    else if (ev->mask & IN_ATTRIB)
        tell(w, "EVENT_TYPE_CHMOD", dir, ev->name);
    else if (ev->mask & IN_MODIFY)
        tell(w, "EVENT_TYPE_WRITE", dir, ev->name);
}

static void take_event(struct watcher *w, const struct inotify_event *ev)
{
    if (ev->mask & IN_Q_OVERFLOW) {
        struct err e = ERR_INIT;
        err_set(&e, ERR_LIMIT, "events were lost: they came faster than the client read them");
        fail(w, &e);
        return;
    }
    struct watch_dir *dir = watch_tree_by_wd(&w->tree, ev->wd);
    if (!dir) // forgotten, while this was in the queue
        return;
    if (ev->len)
        take_named(w, dir, ev);
    else
        take_own(w, dir, ev->mask);
}

static void take_events(struct watcher *w)
{
    while (w->at < w->len && STAILQ_EMPTY(&w->unread) && !w->blocked && !w->over) {
        const struct inotify_event *ev = (const void *)(w->queue + w->at);
        take_event(w, ev);
        w->at += sizeof *ev + ev->len;
        w->position += sizeof *ev + ev->len;
        drop_told(w);
    }
}

static void fetch_events(struct watcher *w)
{
    ssize_t n = read(w->fd, w->queue, sizeof w->queue);
    struct err e = ERR_INIT;
    w->at = 0;
    w->len = n > 0 ? (size_t)n : 0;
    if (n < 0 && errno != EAGAIN && errno != EINTR) {
        err_sys(&e, errno, "read inotify");
        fail(w, &e);
    }
}

// ---- one slice of work

static void work(struct watcher *w)
{
    if (!STAILQ_EMPTY(&w->unread)) {
        read_slice(w);
        if (STAILQ_EMPTY(&w->unread) && !w->armed && !w->over) {
            w->armed = true;
            w->events.on_armed(w->ctx);
        }
    } else {
        if (w->at == w->len)
            fetch_events(w);
        take_events(w);
    }
    update(w);
}

// Return true if a slice of work would have something to do.
static bool has_more(const struct watcher *w)
{
    int queued = 0;
    if (w->over || w->blocked || !w->armed)
        return false;
    if (!STAILQ_EMPTY(&w->unread) || w->at < w->len)
        return true;
    return ioctl(w->fd, FIONREAD, &queued) == 0 && queued > 0;
}

void watcher_drain(struct watcher *w)
{
    for (int i = 0; i < DRAIN_SLICES && has_more(w); i++)
        work(w);
}

static void on_readable(uv_poll_t *poll, int status, int events)
{
    (void)status; // read(2) reports an error
    (void)events;
    work(container_of(poll, struct watcher, poll));
}

static void on_work(uv_idle_t *idle)
{
    work(container_of(idle, struct watcher, work));
}

// Choose the events to wait for, by the state.
static void update(struct watcher *w)
{
    if (w->closed)
        return;
    bool runs = !w->over && !w->blocked;
    bool has_work = !STAILQ_EMPTY(&w->unread) || w->at < w->len;
    if (runs && has_work)
        uv_idle_start(&w->work, on_work);
    else
        uv_idle_stop(&w->work);
    if (runs && !has_work)
        uv_poll_start(&w->poll, UV_READABLE, on_readable);
    else
        uv_poll_stop(&w->poll);
}

void watcher_set_blocked(struct watcher *w, bool blocked)
{
    w->blocked = blocked;
    update(w);
}

// ---- open and close

static int add_root(struct watcher *w, const char *path, struct err *e)
{
    int wd = inotify_add_watch(w->fd, path, WATCHED_EVENTS);
    if (wd < 0 && errno == ENOTDIR)
        return err_set(e, ERR_INVALID, "path is not a directory: %s", path);
    if (wd < 0 && errno == ENOSPC)
        return no_more(e);
    if (wd < 0)
        return err_sys(e, errno, "watch %s", path);
    push_unread(w, watch_tree_add(&w->tree, NULL, path, wd), false);
    return 0;
}

struct watcher *watcher_new(uv_loop_t *loop, const char *path, bool recursive,
                            const struct watcher_events *events, void *ctx, struct err *e)
{
    int fd auto_close = inotify_init1(IN_CLOEXEC | IN_NONBLOCK);
    if (fd < 0) {
        if (errno == EMFILE)
            err_set(e, ERR_LIMIT, "too many watches in this guest (fs.inotify.max_user_instances)");
        else
            err_sys(e, errno, "inotify");
        return NULL;
    }
    struct watcher *w = xcalloc(1, sizeof *w);
    w->fd = fd;
    STAILQ_INIT(&w->unread);
    if (add_root(w, path, e) < 0) {
        watch_tree_fini(&w->tree);
        free(w);
        return NULL;
    }
    steal_fd(&fd);
    w->recursive = recursive;
    w->events = *events;
    w->ctx = ctx;
    w->told = json_object();
    uv_poll_init(loop, &w->poll, w->fd);
    uv_idle_init(loop, &w->work);
    w->open_handles = 2;
    update(w);
    return w;
}

static void handle_closed(struct watcher *w)
{
    if (--w->open_handles)
        return;
    watch_tree_fini(&w->tree);
    json_decref(w->told);
    free(w);
}

static void on_poll_closed(uv_handle_t *handle)
{
    handle_closed(container_of((uv_poll_t *)handle, struct watcher, poll));
}

static void on_work_closed(uv_handle_t *handle)
{
    handle_closed(container_of((uv_idle_t *)handle, struct watcher, work));
}

void watcher_close(struct watcher *w)
{
    w->over = w->closed = true;
    if (w->reading)
        closedir(steal(&w->reading));
    uv_close((uv_handle_t *)&w->poll, on_poll_closed);
    uv_close((uv_handle_t *)&w->work, on_work_closed);
    close(steal_fd(&w->fd));
}
