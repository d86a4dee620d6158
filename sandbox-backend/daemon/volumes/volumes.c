// SPDX-License-Identifier: Apache-2.0
// The volumes of this home, and volume.json.
#include "sandbox-backend/daemon/volumes/volumes.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <linux/openat2.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "sandbox-backend/base/buf.h"
#include "sandbox-backend/base/clock.h"
#include "sandbox-backend/base/fd.h"
#include "sandbox-backend/base/json.h"
#include "sandbox-backend/base/json_fields.h"
#include "sandbox-backend/base/limits.h"
#include "sandbox-backend/base/mem.h"
#include "sandbox-backend/base/str.h"
#include "sandbox-backend/log/log.h"

#define TOKEN_BYTES  32
#define FORMAT       1
#define HIDDEN       ".gone-"
#define NAME_LETTERS "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789_-"

#define TEXT(member) JSON_FIELD(JSON_FIELD_TEXT, struct volume, member)
#define LONG(member) JSON_FIELD(JSON_FIELD_LONG, struct volume, member)
static const struct json_field FIELDS[] = {TEXT(name), TEXT(owner), TEXT(token), LONG(created_ns)};

static struct volume *volume_named(const struct volumes *v, const char *id)
{
    struct volume *volume = xcalloc(1, sizeof *volume);
    snprintf(volume->id, sizeof volume->id, "%s", id);
    volume->dir = str_printf("%s/%s", v->dir, id);
    volume->data = str_printf("%s/data", volume->dir);
    return volume;
}

static void volume_free(struct volume *volume)
{
    free(volume->dir);
    free(volume->data);
    free(volume->name);
    free(volume->owner);
    free(volume->token);
    volume_space_unref(volume->space);
    free(volume);
}

static void insert(struct volumes *v, struct volume *volume)
{
    struct volume *older = NULL;
    TAILQ_FOREACH (older, &v->all, link)
        if (older->created_ns < volume->created_ns)
            break;
    if (older)
        TAILQ_INSERT_BEFORE(older, volume, link);
    else
        TAILQ_INSERT_TAIL(&v->all, volume, link);
}

// ---- reading
static void remove_puts(const struct volume *volume)
{
    DIR *dir = opendir(volume->dir);
    for (struct dirent *entry; dir && (entry = readdir(dir));)
        if (str_starts(entry->d_name, VOLUME_PUT))
            unlinkat(dirfd(dir), entry->d_name, 0);
    if (dir)
        closedir(dir);
}

static void read_one(struct volumes *v, const char *id)
{
    struct err e = ERR_INIT;
    int64_t format = 0;
    struct volume *volume = volume_named(v, id);
    char *path auto_free = str_printf("%s/volume.json", volume->dir);
    json_t *json = json_file_read(path, LIMIT_JSON_BODY_BYTES, &e);
    bool known = json && json_get_int(json, "format", FORMAT, FORMAT, &format, 0, &e) == 0 &&
                 json_fields_read(volume, json, FIELDS, ARRAY_LEN(FIELDS), &e) == 0 && format &&
                 volume->name && volume->token;
    json_decref(json);
    if (known) {
        remove_puts(volume);
        insert(v, volume);
        return;
    }
    log_warn("volume.unreadable", "id=%s error=\"%s\"", id, e.msg);
    volume_free(volume);
}

int volumes_open(struct volumes *v, const char *home, struct err *e)
{
    TAILQ_INIT(&v->all);
    v->dir = str_printf("%s/volumes", home);
    DIR *dir = opendir(v->dir);
    if (!dir && errno != ENOENT)
        return err_sys(e, errno, "open %s", v->dir);
    for (struct dirent *entry; dir && (entry = readdir(dir));) {
        struct err gone = ERR_INIT;
        char *path auto_free = str_printf("%s/%s", v->dir, entry->d_name);
        if (sandbox_id_is_valid(entry->d_name))
            read_one(v, entry->d_name);
        else if (str_starts(entry->d_name, HIDDEN) && dir_remove(path, &gone) < 0)
            log_warn("volume.left", "dir=%s error=\"%s\"", entry->d_name, gone.msg);
    }
    if (dir)
        closedir(dir);
    return 0;
}

void volumes_fini(struct volumes *v)
{
    for (struct volume *volume; v->dir && (volume = TAILQ_FIRST(&v->all));) {
        TAILQ_REMOVE(&v->all, volume, link);
        volume_free(volume);
    }
    free(v->dir);
}

// ---- finding
size_t volumes_count(const struct volumes *v, const char *owner)
{
    size_t count = 0;
    const struct volume *volume = NULL;
    TAILQ_FOREACH (volume, &v->all, link)
        count += str_eq(volume->owner, owner) || (!owner && !volume->owner);
    return count;
}

struct volume *volumes_find(const struct volumes *v, const char *id)
{
    struct volume *volume = NULL;
    TAILQ_FOREACH (volume, &v->all, link)
        if (strcmp(volume->id, id) == 0)
            return volume;
    return NULL;
}

struct volume *volumes_named(const struct volumes *v, const char *name, const char *owner)
{
    struct volume *volume = NULL;
    TAILQ_FOREACH (volume, &v->all, link)
        if (str_eq(volume->name, name) &&
            (owner ? str_eq(volume->owner, owner) : volume->owner == NULL))
            return volume;
    return NULL;
}

// ---- use
int volumes_open_files(const struct volumes *v, const struct volume *volume, struct err *e)
{
    const struct open_how how = {.flags = O_PATH | O_DIRECTORY | O_CLOEXEC,
                                 .resolve =
                                     RESOLVE_BENEATH | RESOLVE_NO_SYMLINKS | RESOLVE_NO_MAGICLINKS};
    char *path auto_free = str_printf("%s/data", volume->id);
    int dir auto_close = open(v->dir, O_PATH | O_DIRECTORY | O_CLOEXEC);
    int fd = dir < 0 ? -1 : (int)syscall(SYS_openat2, dir, path, &how, sizeof how);
    if (fd >= 0)
        return fd;
    log_error("volume.unusable", "id=%s error=\"%s\"", volume->id, strerror(errno));
    return err_set(e, ERR_INTERNAL, "the files of the volume \"%s\" cannot be opened: %s",
                   volume->name, strerror(errno));
}

struct volume_space *volumes_space(struct volume *volume, int64_t limit, struct err *e)
{
    if (!volume->space) {
        struct volume_space *space = xcalloc(1, sizeof *space);
        if (space_make(&space->space, limit, e) < 0) {
            free(space);
            return NULL;
        }
        TAILQ_INIT(&space->turns);
        space->refs = 1;
        volume->space = space;
    }
    volume->space->refs++;
    return volume->space;
}

void volume_space_unref(struct volume_space *space)
{
    if (!space || --space->refs > 0)
        return;
    space_fini(&space->space);
    free(space);
}

// ---- making and removing
static int volume_write(const struct volume *volume, struct err *e)
{
    char *path auto_free = str_printf("%s/volume.json", volume->dir);
    struct buf text auto_buf = BUF_INIT;
    json_t *json = json_pack("{s:i, s:s}", "format", FORMAT, "id", volume->id);
    json_fields_write(json, volume, FIELDS, ARRAY_LEN(FIELDS));
    json_to_buf(&text, json);
    json_decref(json);
    return file_write_atomic(path, text.data, text.len, 0600, e);
}

static int check_name(const struct volumes *v, const char *name, const char *owner, struct err *e)
{
    size_t len = name ? strlen(name) : 0;
    if (!len || len > VOLUME_NAME_MAX || strspn(name, NAME_LETTERS) != len)
        return err_set(e, ERR_INVALID, "name must be 1 to %d letters, digits, '-' and '_'",
                       VOLUME_NAME_MAX);
    if (volumes_named(v, name, owner))
        return err_set(e, ERR_CONFLICT, "there is a volume \"%s\" already", name);
    return 0;
}

struct volume *volumes_make(struct volumes *v, const char *name, const char *owner, struct err *e)
{
    if (check_name(v, name, owner, e) < 0)
        return NULL;
    char id[SANDBOX_ID_MAX + 1];
    sandbox_id_make(id, v->node);
    struct volume *volume = volume_named(v, id);
    volume->name = xstrdup(name);
    volume->owner = owner ? xstrdup(owner) : NULL;
    volume->token = random_hex(TOKEN_BYTES);
    volume->created_ns = clock_wall_ns();
    if (dir_make(volume->data, 0700, e) == 0 && volume_write(volume, e) == 0) {
        insert(v, volume);
        log_info("volume.made", "id=%s name=%s", volume->id, volume->name);
        return volume;
    }
    dir_remove(volume->dir, NULL);
    volume_free(volume);
    return NULL;
}

char *volumes_drop(struct volumes *v, struct volume *volume, struct err *e)
{
    char *gone = str_printf("%s/" HIDDEN "%s", v->dir, volume->id);
    if (rename(volume->dir, gone) < 0) {
        err_sys(e, errno, "rename %s", volume->dir);
        free(gone);
        return NULL;
    }
    log_info("volume.removed", "id=%s", volume->id);
    TAILQ_REMOVE(&v->all, volume, link);
    volume_free(volume);
    return gone;
}
