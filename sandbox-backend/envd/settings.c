// SPDX-License-Identifier: Apache-2.0
// What POST /init has set, and the file that keeps it.
#include "sandbox-backend/envd/settings.h"

#include <errno.h>
#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include "sandbox-backend/base/buf.h"
#include "sandbox-backend/base/fd.h"
#include "sandbox-backend/base/json.h"
#include "sandbox-backend/base/limits.h"
#include "sandbox-backend/base/mem.h"
#include "sandbox-backend/base/str.h"

#define BLOCK_BYTES 1024 // multiple of the file's length
#define PAGE_BYTES  4096

static char *copy(const char *s)
{
    return s ? xstrdup(s) : NULL;
}

static int parse(struct settings *s, const json_t *file, struct err *e)
{
    const char *token;
    const char *user;
    const char *workdir;
    json_t *envs;
    if (json_get_string(file, "accessToken", &token, NULL, e) < 0 ||
        json_get_string(file, "defaultUser", &user, "root", e) < 0 ||
        json_get_string(file, "defaultWorkdir", &workdir, NULL, e) < 0 ||
        json_get_string_map(file, "envVars", &envs, e) < 0 ||
        json_get_bool(file, "ca", &s->has_ca, false, e) < 0 ||
        json_get_int(file, "applied", 0, INT64_MAX, &s->applied_ns, 0, e) < 0)
        return -1;
    s->token = copy(token);
    s->default_user = xstrdup(user);
    s->default_workdir = copy(workdir);
    s->envs = envs ? json_incref(envs) : json_object();
    return 0;
}

int settings_init(struct settings *s, const char *dir, struct err *e)
{
    *s = (struct settings){.dir = xstrdup(dir), .path = str_printf("%s/envd.json", dir)};
    s->fd = open(s->path, O_RDWR | O_CREAT | O_CLOEXEC, 0600);
    if (s->fd < 0)
        return err_sys(e, errno, "open %s", s->path);
    struct buf text auto_buf = BUF_INIT;
    if (file_read(s->path, LIMIT_JSON_BODY_BYTES, &text, e) < 0)
        return -1;
    if (text.len == 0)
        buf_adds(&text, "{}");
    json_t *file = json_parse(buf_str(&text), text.len, e);
    int rc = file ? parse(s, file, e) : -1;
    json_decref(file);
    return rc < 0 ? err_wrap(e, "%s", s->path) : 0;
}

void settings_fini(struct settings *s)
{
    mem_close_fd(&s->fd);
    free(s->dir);
    free(s->path);
    free(s->token);
    free(s->default_user);
    free(s->default_workdir);
    json_decref(s->envs);
    *s = (struct settings){.fd = -1};
}

static int replace_file(struct settings *s, const struct buf *text, struct err *e)
{
    if (file_replace(s->path, text->data, text->len, 0600, e) < 0)
        return -1;
    int fd = open(s->path, O_RDWR | O_CLOEXEC);
    if (fd < 0)
        return err_sys(e, errno, "open %s", s->path);
    mem_close_fd(&s->fd);
    s->fd = fd;
    return 0;
}

// In place, in one write, padded to whole blocks: to make a new file and rename it over this one
// took a restored guest ten times as long. A write inside a page of a tmpfs is done or not done
// when the process is killed; a longer one might be cut off, and has a file of its own renamed.
int settings_save(struct settings *s, struct err *e)
{
    json_t *file =
        json_pack("{s:s*, s:O, s:s, s:s*, s:I, s:b}", "accessToken", s->token, "envVars", s->envs,
                  "defaultUser", s->default_user, "defaultWorkdir", s->default_workdir, "applied",
                  (json_int_t)s->applied_ns, "ca", s->has_ca);
    struct buf text auto_buf = BUF_INIT;
    json_to_buf(&text, file);
    json_decref(file);
    struct stat st;
    if (fstat(s->fd, &st) < 0)
        return err_sys(e, errno, "stat %s", s->path);
    while (text.len % BLOCK_BYTES || text.len < (size_t)st.st_size)
        buf_addc(&text, '\n');
    if (text.len > PAGE_BYTES)
        return replace_file(s, &text, e);
    if (pwrite(s->fd, text.data, text.len, 0) != (ssize_t)text.len)
        return err_sys(e, errno, "write %s", s->path);
    return 0;
}
