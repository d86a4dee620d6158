// SPDX-License-Identifier: Apache-2.0
// An output stream of a command: head, tail, count, and a file for the whole.
//
// The file is unlinked and on the host. The output of a command comes through this process anyway,
// so saving it here cannot change the command, as a tee in the sandbox could by its death, its
// buffers or a held pipe. The file is uploaded when the command has ended (run.c). Writes to it
// block the loop for a copy of 32 KiB into the page cache.
#include "mcp-server/tools/run/output.h"

#include <fcntl.h>
#include <unistd.h>

#include "sandbox-backend/base/fd.h"
#include "sandbox-backend/base/mem.h"
#include "sandbox-backend/base/str.h"
#include "sandbox-backend/log/log.h"

void output_init(struct output *o, size_t limit)
{
    *o = (struct output){.fd = -1};
    excerpt_init(&o->shown, limit);
}

void output_fini(struct output *o)
{
    excerpt_fini(&o->shown);
    if (o->fd >= 0)
        close(o->fd);
    o->fd = -1;
}

int64_t output_total(const struct output *o)
{
    return o->shown.total;
}

bool output_is_cut(const struct output *o)
{
    return excerpt_is_cut(&o->shown);
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
    if (!was_cut && excerpt_would_cut(&o->shown, len)) {
        // From here on the middle gets lost, so save everything so far first.
        struct buf so_far auto_buf = BUF_INIT;
        excerpt_get(&o->shown, &so_far);
        save(o, buf_str(&so_far), so_far.len);
        was_cut = true;
    }
    if (was_cut)
        save(o, data, len);
    excerpt_add(&o->shown, data, len);
}

int output_take_fd(struct output *o)
{
    if (o->fd < 0 || o->unsaved || lseek(o->fd, 0, SEEK_SET) < 0)
        return -1;
    return steal_fd(&o->fd);
}

json_t *output_text(const struct output *o, const char *where)
{
    char *remark auto_free = str_printf("; %s", where);
    return excerpt_text(&o->shown, remark);
}
