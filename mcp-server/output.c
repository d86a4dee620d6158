// SPDX-License-Identifier: Apache-2.0
// One output stream of a command: head, tail, count, and a file for the whole.
//
// The file is on the host and unlinked. A command's output comes through this process anyway, so
// saving it here leaves the command as it is: no tee in the sandbox whose death, buffering or held
// pipe could change what the command does. It is uploaded when the command has ended (run.c).
// Writes to it block the loop for as long as a copy into the page cache takes, 32 KiB at a time.
#include "mcp-server/output.h"

#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "sandbox-backend/base/fd.h"
#include "sandbox-backend/base/json.h"
#include "sandbox-backend/base/mem.h"
#include "sandbox-backend/base/str.h"
#include "sandbox-backend/log/log.h"

void output_init(struct output *o, size_t limit)
{
    *o = (struct output){.half = limit / 2, .fd = -1};
}

void output_fini(struct output *o)
{
    buf_fini(&o->head);
    free(o->tail);
    o->tail = NULL;
    if (o->fd >= 0)
        close(o->fd);
    o->fd = -1;
}

bool output_is_cut(const struct output *o)
{
    return o->total > 2 * (int64_t)o->half;
}

static void tail_add(struct output *o, const char *data, size_t len)
{
    if (!o->tail)
        o->tail = xmalloc(o->half);
    if (len > o->half) {
        data += len - o->half;
        len = o->half;
    }
    size_t first = o->half - o->tail_at < len ? o->half - o->tail_at : len;
    memcpy(o->tail + o->tail_at, data, first);
    memcpy(o->tail, data + first, len - first);
    o->tail_at = (o->tail_at + len) % o->half;
}

// The tail in order, as far as it is filled.
static void tail_get(const struct output *o, struct buf *out)
{
    int64_t after_head = o->total - (int64_t)o->head.len;
    if (after_head < (int64_t)o->half) {
        if (after_head > 0)
            buf_add(out, o->tail, (size_t)after_head);
        return;
    }
    buf_add(out, o->tail + o->tail_at, o->half - o->tail_at);
    buf_add(out, o->tail, o->tail_at);
}

static void save(struct output *o, const char *data, size_t len)
{
    struct err e = ERR_INIT;
    if (o->unsaved || o->saved >= OUTPUT_SAVED_MAX)
        return;
    if ((int64_t)len > OUTPUT_SAVED_MAX - o->saved)
        len = (size_t)(OUTPUT_SAVED_MAX - o->saved);
    if (o->fd < 0)
        o->fd = fd_open_temp(&e);
    if (o->fd < 0 || fd_write_all(o->fd, data, len, &e) < 0) {
        log_warn("output.save", "error=%s", e.msg);
        o->unsaved = true;
        return;
    }
    o->saved += (int64_t)len;
}

void output_add(struct output *o, const char *data, size_t len)
{
    bool was_cut = output_is_cut(o);
    if (!was_cut && o->total + (int64_t)len > 2 * (int64_t)o->half) {
        // From here on the middle gets lost: what came so far is whole, and goes first.
        struct buf so_far auto_buf = BUF_INIT;
        buf_add(&so_far, buf_str(&o->head), o->head.len);
        tail_get(o, &so_far);
        save(o, buf_str(&so_far), so_far.len);
        was_cut = true;
    }
    if (was_cut)
        save(o, data, len);
    o->total += (int64_t)len;
    size_t room = o->half - o->head.len;
    size_t first = len < room ? len : room;
    buf_add(&o->head, data, first);
    if (len > first)
        tail_add(o, data + first, len - first);
}

int output_take_fd(struct output *o)
{
    if (o->fd < 0 || o->unsaved || lseek(o->fd, 0, SEEK_SET) < 0)
        return -1;
    return steal_fd(&o->fd);
}

// Bytes of a character that the cut has torn: at most three, at either edge.
static size_t torn_at_end(const char *s, size_t len)
{
    size_t n = 0;
    while (n < 3 && n < len && ((unsigned char)s[len - 1 - n] & 0xc0) == 0x80)
        n++;
    if (n >= len || (unsigned char)s[len - 1 - n] < 0xc0)
        return 0;
    return utf8_is_valid(s + len - 1 - n, n + 1) ? 0 : n + 1;
}

static size_t torn_at_start(const char *s, size_t len)
{
    size_t n = 0;
    while (n < 3 && n < len && ((unsigned char)s[n] & 0xc0) == 0x80)
        n++;
    return n;
}

json_t *output_text(const struct output *o, const char *where)
{
    struct buf text auto_buf = BUF_INIT;
    struct buf tail auto_buf = BUF_INIT;
    tail_get(o, &tail);
    if (!output_is_cut(o)) {
        buf_add(&text, buf_str(&o->head), o->head.len);
        buf_add(&text, buf_str(&tail), tail.len);
        return json_lossy_string(buf_str(&text), text.len);
    }
    size_t head_len = o->head.len - torn_at_end(o->head.data, o->head.len);
    size_t skip = torn_at_start(tail.data, tail.len);
    long long left_out = (long long)(o->total - (int64_t)head_len - (int64_t)(tail.len - skip));
    buf_add(&text, o->head.data, head_len);
    buf_printf(&text, "\n[... %lld bytes left out; %s ...]\n", left_out, where);
    buf_add(&text, tail.data + skip, tail.len - skip);
    return json_lossy_string(buf_str(&text), text.len);
}
