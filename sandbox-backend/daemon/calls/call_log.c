// SPDX-License-Identifier: Apache-2.0
// The call log of a sandbox: its lines and files.
#include "sandbox-backend/daemon/calls/call_log.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "sandbox-backend/base/buf.h"
#include "sandbox-backend/base/clock.h"
#include "sandbox-backend/base/fd.h"
#include "sandbox-backend/base/json.h"
#include "sandbox-backend/base/mem.h"
#include "sandbox-backend/base/str.h"
#include "sandbox-backend/daemon/calls/call_files.h"
#include "sandbox-backend/log/log.h"

#define FORMAT 1

static int64_t write_line(const struct call_place *p, json_t *line);
static bool write_head(const struct call_place *p);

void call_log_fini(struct call_log *log)
{
    masks_fini(&log->own);
    masks_fini(&log->recent);
}

// ---- masks

void call_log_hide(const struct call_place *p, const char *value)
{
    if (call_logs_is_on(p->logs))
        masks_add(&p->log->own, p->logs->base, value);
}

void call_log_hide_values(const struct call_place *p, const json_t *object)
{
    if (call_logs_is_on(p->logs))
        masks_add_values(&p->log->own, p->logs->base, object);
}

void call_log_mask(const struct call_place *p, char *text, size_t len)
{
    const struct masks *const sets[] = {&p->log->own, &p->log->recent, p->request};
    masks_apply(sets, ARRAY_LEN(sets), p->logs->base, text, len);
}

// ---- the files after a restart

// Once, until a line can be written again.
static void tell_failure(const struct call_place *p, const struct err *e)
{
    if (!p->logs->is_failing)
        log_warn("calls.append", "id=%s error=\"%s\"", p->id, e->msg);
    p->logs->is_failing = true;
}

// Read the last whole line of a file, and cut off what follows it. Return the number of bytes cut
// off, or -1 when the file cannot be continued.
static int64_t read_last(struct call_log *log, int fd, int64_t size)
{
    int64_t from = size > CALL_LOG_LINE_MAX ? size - CALL_LOG_LINE_MAX : 0;
    struct buf tail auto_buf = BUF_INIT;
    char *at = buf_room(&tail, (size_t)(size - from) + 1);
    ssize_t got = pread(fd, at, (size_t)(size - from), from);
    if (got != size - from)
        return -1;
    const char *end = memrchr(at, '\n', (size_t)got);
    if (!end)
        return -1;
    const char *before = memrchr(at, '\n', (size_t)(end - at));
    const char *line = before ? before + 1 : at;
    if (!before && from > 0)
        return -1;
    log->n = call_line_number(line, (size_t)(end - line));
    log->last = sha256_of(line, (size_t)(end - line));
    log->bytes = from + (end + 1 - at);
    if (log->n <= 0 || (log->bytes < size && ftruncate(fd, log->bytes) < 0))
        return -1;
    return size - log->bytes;
}

static int64_t first_number(int fd)
{
    char head[64];
    ssize_t got = pread(fd, head, sizeof head, 0);
    return got > 0 ? call_line_number(head, (size_t)got) : 0;
}

// Put a file aside that cannot be continued, and begin another chain. The file is removed some time
// after the sandbox's end, like a log.
static void begin_anew(const struct call_place *p, const char *path)
{
    struct call_log *log = p->log;
    char *aside auto_free = str_printf("%s/%s.damaged.jsonl", p->logs->dir, p->id);
    log_warn("calls.damaged", "path=%s", path);
    rename(path, aside);
    log->dropped = log->n = log->first = 0;
    log->last = (struct sha256){{0}};
    if (write_head(p))
        write_line(p, json_pack("{s:s, s:s}", "kind", "gap", "why", "damaged"));
}

// Continue a file. Return false if there is none, or it is empty, or (with `e`) it cannot be
// opened now. *torn is as read_last returns it.
static bool continue_file(struct call_log *log, const char *path, int64_t *torn, struct err *e)
{
    struct stat st;
    int fd auto_close = open(path, O_RDWR | O_NOFOLLOW | O_CLOEXEC);
    if (fd < 0 && errno == ENOENT)
        return false;
    if (fd < 0 || fstat(fd, &st) < 0) {
        err_sys(e, errno, "open %s", path);
        return false;
    }
    if (st.st_size == 0)
        return false;
    *torn = read_last(log, fd, st.st_size);
    log->first = first_number(fd);
    if (log->first <= 0)
        *torn = -1;
    return true;
}

// A daemon that ended between the rename and the next head left an older file alone.
static bool continue_older(struct call_log *log, const char *path, int64_t *torn, struct err *e)
{
    if (!continue_file(log, path, torn, e))
        return false;
    log->dropped = log->first - 1;
    log->first = 0;
    return true;
}

// Lines that were lost before the numbers of the files were known come after them.
static void renumber_lost(struct call_log *log)
{
    if (!log->lost_first)
        return;
    int64_t count = log->lost_last - log->lost_first + 1;
    log->lost_first = log->n + 1;
    log->n = log->lost_last = log->n + count;
}

static void tell_opened(const struct call_place *p, int64_t torn)
{
    if (!p->log->first && !write_head(p))
        return;
    if (torn > 0)
        write_line(p, json_pack("{s:s, s:s, s:I}", "kind", "gap", "why", "torn", "bytes",
                                (json_int_t)torn));
    write_line(p, json_pack("{s:s, s:s}", "kind", "life", "what", "daemon_restarted"));
}

// Continue the files of an earlier daemon, if there are any. Return false if they cannot be opened
// now: another chain must not begin over them.
static bool open_log(const struct call_place *p)
{
    struct call_log *log = p->log;
    struct err e = ERR_INIT;
    int64_t torn = 0;
    char *newest auto_free = call_file(p->logs->dir, p->id, false);
    char *older auto_free = call_file(p->logs->dir, p->id, true);
    bool has_newest = continue_file(log, newest, &torn, &e);
    bool has_any = has_newest || (!err_is(&e) && continue_older(log, older, &torn, &e));
    if (err_is(&e)) {
        tell_failure(p, &e);
        return false;
    }
    log->is_open = true;
    if (has_any && torn < 0)
        begin_anew(p, has_newest ? newest : older);
    else if (has_any)
        tell_opened(p, torn);
    else if (log->lost_first)
        log->n = log->lost_first - 1;
    renumber_lost(log);
    return true;
}

// ---- writing

static void add_text(const struct call_place *p, struct buf *out, json_t *line)
{
    char at[CLOCK_RFC3339_BYTES];
    char prev[SHA256_HEX_CHARS + 1];
    clock_rfc3339(at, clock_wall_ns() / 1000000 * 1000000);
    sha256_to_hex(&p->log->last, prev);
    json_t *whole =
        json_pack("{s:I, s:s, s:s}", "n", (json_int_t)p->log->n + 1, "at", at, "sandbox", p->id);
    json_object_update(whole, line);
    json_object_set_new(whole, "prev", json_string(prev));
    json_to_buf(out, whole);
    json_decref(whole);
}

// Append bytes to the newest file. After a failure the file ends where it did.
static int append(const struct call_place *p, const struct buf *text, struct err *e)
{
    char *path auto_free = call_file(p->logs->dir, p->id, false);
    int fd auto_close = open(path, O_WRONLY | O_APPEND | O_CREAT | O_NOFOLLOW | O_CLOEXEC, 0600);
    if (fd < 0)
        return err_sys(e, errno, "open %s", path);
    if (fd_write_all(fd, text->data, text->len, e) == 0)
        return 0;
    if (ftruncate(fd, p->log->bytes) < 0)
        p->log->is_open = false; // the file is looked at again
    return -1;
}

// Count a line that could not be written. Return its number.
static int64_t lose(struct call_log *log)
{
    log->n++;
    if (!log->lost_first) {
        log->lost_first = log->n;
        log->lost_ns = clock_wall_ns();
    }
    log->lost_last = log->n;
    return log->n;
}

// Write one line as it is. Return its number; 0: it could not be written, and the number is free.
static int64_t write_line(const struct call_place *p, json_t *line)
{
    struct call_log *log = p->log;
    struct err e = ERR_INIT;
    struct buf text auto_buf = BUF_INIT;
    add_text(p, &text, line);
    json_decref(line);
    struct sha256 hash = sha256_of(text.data, text.len);
    buf_addc(&text, '\n');
    if (append(p, &text, &e) < 0) {
        tell_failure(p, &e);
        return 0;
    }
    p->logs->is_failing = false;
    log->bytes += (int64_t)text.len;
    log->last = hash;
    return ++log->n;
}

// Write the line that begins a file. Return false if it could not be written.
static bool write_head(const struct call_place *p)
{
    struct call_log *log = p->log;
    log->bytes = log->figures = 0;
    int64_t n = write_line(p, json_pack("{s:s, s:i, s:o, s:I}", "kind", "head", "format", FORMAT,
                                        "owner", p->owner ? json_string(p->owner) : json_null(),
                                        "dropped", (json_int_t)log->dropped));
    if (n)
        log->first = n;
    return n;
}

// Begin a file, if there is none or the newest one is full. Return false after a failure.
static bool make_room(const struct call_place *p)
{
    struct call_log *log = p->log;
    if (log->first && log->bytes < p->logs->opts.file_bytes / 2)
        return true;
    if (log->first) {
        char *path auto_free = call_file(p->logs->dir, p->id, false);
        char *older auto_free = call_file(p->logs->dir, p->id, true);
        if (rename(path, older) < 0 && errno != ENOENT)
            return true; // the file grows on
        log->dropped = log->first - 1;
        log->first = 0;
    }
    return write_head(p);
}

// Tell of the lines that could not be written. Return false if that cannot be written either.
static bool tell_lost(const struct call_place *p)
{
    struct call_log *log = p->log;
    char since[CLOCK_RFC3339_BYTES];
    if (!log->lost_first)
        return true;
    clock_rfc3339(since, log->lost_ns / 1000000 * 1000000);
    int64_t n = write_line(p, json_pack("{s:s, s:s, s:I, s:I, s:s}", "kind", "gap", "why",
                                        "not_written", "first", (json_int_t)log->lost_first, "last",
                                        (json_int_t)log->lost_last, "since", since));
    if (n)
        log->lost_first = 0;
    return n;
}

int64_t call_log_add(const struct call_place *p, json_t *line)
{
    struct call_log *log = p->log;
    if (!call_logs_is_on(p->logs)) {
        json_decref(line);
        return 0;
    }
    if (!log->is_open && !open_log(p)) {
        json_decref(line);
        lose(log);
        return 0; // its number is not known yet
    }
    bool has_file = log->first > 0;
    int64_t n = 0;
    if (has_file ? tell_lost(p) && make_room(p) : make_room(p) && tell_lost(p))
        n = write_line(p, json_incref(line));
    json_decref(line);
    return n ? n : lose(log);
}
