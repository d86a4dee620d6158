// SPDX-License-Identifier: Apache-2.0
// The state that POST /init sets, and the files that keep and publish it.
#include "sandbox-backend/envd/core/settings.h"

#include <errno.h>
#include <fcntl.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "sandbox-backend/base/buf.h"
#include "sandbox-backend/base/fd.h"
#include "sandbox-backend/base/json.h"
#include "sandbox-backend/base/limits.h"
#include "sandbox-backend/base/mem.h"
#include "sandbox-backend/base/str.h"

#define BLOCK_BYTES    1024 // multiple of the file's length
#define PAGE_BYTES     4096
#define PUBLISHED_MODE 0644

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

// Write the file in place, in one call, padded to whole blocks: a new file renamed over this one
// took a restored guest ten times as long. A kill cannot interrupt a write inside one page of a
// tmpfs. It could cut off a longer write, so a longer text goes to a new file.
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

// ---- the environment

// Variables of the sandbox itself: each has a file and survives a replacement of the environment.
static const char *const OWN[] = {"E2B_SANDBOX", "E2B_SANDBOX_ID", "E2B_TEMPLATE_ID"};

static void write_environment(const char *dir, json_t *environment, struct err *e)
{
    char *path auto_free = str_printf("%s/environment.json", dir);
    char *text auto_free = json_to_string(environment);
    file_replace(path, text, strlen(text), PUBLISHED_MODE, e);
}

static void write_variable(const char *dir, const char *name, const char *value, struct err *e)
{
    char *path auto_free = str_printf("%s/.%s", dir, name);
    file_replace(path, value, strlen(value), PUBLISHED_MODE, e);
}

// Write the files whose contents differ between `before` (NULL: no files) and `after`. Try all of
// them; the first failure is the error.
static int publish(const char *dir, const json_t *before, json_t *after, struct err *e)
{
    if (before && json_equal(before, after))
        return 0;
    write_environment(dir, after, e);
    for (size_t i = 0; i < ARRAY_LEN(OWN); i++) {
        const char *value = json_string_value(json_object_get(after, OWN[i]));
        const char *had = before ? json_string_value(json_object_get(before, OWN[i])) : NULL;
        if (value && !str_eq(value, had))
            write_variable(dir, OWN[i], value, e);
    }
    return err_is(e) ? -1 : 0;
}

static void keep_own(const json_t *now, json_t *next)
{
    for (size_t i = 0; i < ARRAY_LEN(OWN); i++) {
        json_t *value = json_object_get(now, OWN[i]);
        if (value && !json_object_get(next, OWN[i]))
            json_object_set(next, OWN[i], value);
    }
}

int settings_set_environment(struct settings *s, json_t *envs, bool inherit, struct err *e)
{
    if (inherit)
        json_object_update_missing(envs, s->envs);
    else
        keep_own(s->envs, envs);
    bool was_partial = s->partly_published;
    s->partly_published = true;
    if (publish(s->dir, was_partial ? NULL : s->envs, envs, e) < 0)
        return -1;
    s->partly_published = false;
    json_decref(s->envs);
    s->envs = json_incref(envs);
    return 0;
}
