// SPDX-License-Identifier: Apache-2.0
// The files of call logs: their names and reading them.
#include "sandbox-backend/daemon/calls/call_files.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "sandbox-backend/base/fd.h"
#include "sandbox-backend/base/json.h"
#include "sandbox-backend/base/mem.h"
#include "sandbox-backend/base/str.h"
#include "sandbox-backend/daemon/calls/call_log.h"

#define FILE_MAX    ((size_t)1 << 30)
#define LINE_BEGIN  "{\"n\":"
#define HEAD_VALUES 64

char *call_file(const char *dir, const char *id, bool older)
{
    return str_printf("%s/%s%s.jsonl", dir, id, older ? ".1" : "");
}

int64_t call_line_number(const char *line, size_t len)
{
    char digits[24] = "";
    size_t n = 0;
    if (len <= strlen(LINE_BEGIN) || memcmp(line, LINE_BEGIN, strlen(LINE_BEGIN)) != 0)
        return 0;
    for (size_t i = strlen(LINE_BEGIN); i < len && n < sizeof digits - 1; i++) {
        if (line[i] < '0' || line[i] > '9')
            break;
        digits[n++] = line[i];
    }
    int64_t number = 0;
    return str_to_int(digits, 1, INT64_MAX, &number) ? number : 0;
}

// Read both files, the older one first. It is left out if the newest one became it in between. It
// is alone while its successor's head is not written yet.
static int read_both(const char *dir, const char *id, struct buf *out, struct err *e)
{
    char *path auto_free = call_file(dir, id, false);
    char *older auto_free = call_file(dir, id, true);
    struct buf newest auto_buf = BUF_INIT;
    struct err why = ERR_INIT;
    struct file_stamp first, second;
    file_stamp_get(path, &first);
    if (file_read(path, FILE_MAX, &newest, &why) < 0)
        return why.sys == ENOENT ? file_read(older, FILE_MAX, out, e)
                                 : err_set(e, why.code, "%s", why.msg);
    file_stamp_get(older, &second);
    if (first.inode != second.inode)
        file_read(older, FILE_MAX, out, NULL);
    buf_add(out, newest.data, newest.len);
    return 0;
}

static json_t *owner_of(const struct buf *all)
{
    const char *end = memchr(all->data, '\n', all->len);
    json_t *head =
        end ? json_parse_few(all->data, (size_t)(end - all->data), HEAD_VALUES, NULL) : NULL;
    json_t *owner = json_incref(json_object_get(head, "owner"));
    json_decref(head);
    return owner;
}

// Text that is no line, such as the rest of a torn one, is passed on unchanged, so that a check of
// the record finds it.
static void add_lines(struct buf *out, const struct buf *all, int64_t after, size_t max)
{
    int64_t last = 0;
    for (const char *at = all->data, *stop = at + all->len, *end; at < stop; at = end + 1) {
        end = memchr(at, '\n', (size_t)(stop - at));
        if (!end)
            return; // it is being written
        int64_t n = call_line_number(at, (size_t)(end - at));
        last = n ? n : last;
        if (last <= after)
            continue;
        if (out->len && out->len + (size_t)(end + 1 - at) > max)
            return;
        buf_add(out, at, (size_t)(end + 1 - at));
    }
}

static bool is_too_old(const char *dir, const char *id, int64_t oldest_ns)
{
    struct file_stamp stamp;
    char *path auto_free = call_file(dir, id, false);
    char *older auto_free = call_file(dir, id, true);
    if (!file_stamp_get(path, &stamp))
        file_stamp_get(older, &stamp);
    return stamp.modified.tv_sec * 1000000000LL + stamp.modified.tv_nsec < oldest_ns;
}

int call_files_read(const struct call_logs *logs, const char *id, int64_t oldest_ns, int64_t after,
                    size_t max, struct buf *out, json_t **owner, struct err *e)
{
    struct err none = ERR_INIT;
    struct buf all auto_buf = BUF_INIT;
    if (!logs->dir ||
        (read_both(logs->dir, id, &all, &none) < 0 &&
         (is_too_old(logs->ended, id, oldest_ns) || read_both(logs->ended, id, &all, &none) < 0)))
        return err_set(e, ERR_NOT_FOUND,
                       "sandbox %s has no record: it never existed, or its record's time is over "
                       "(cubbyd --record-keep), or cubbyd runs with --no-record",
                       id);
    *owner = all.len ? owner_of(&all) : NULL;
    if (!*owner)
        return err_set(e, ERR_NOT_FOUND, "the record of sandbox %s has no first line", id);
    add_lines(out, &all, after, max);
    return 0;
}
