// SPDX-License-Identifier: Apache-2.0
// filesystem.EntryInfo as JSON, written straight into a buffer: a listing has many entries.
#include "sandbox-backend/envd/fs/entry.h"

#include <ctype.h>
#include <errno.h>
#include <inttypes.h>
#include <limits.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>
#include <sys/xattr.h>

#include "sandbox-backend/base/clock.h"
#include "sandbox-backend/base/mem.h"
#include "sandbox-backend/base/str.h"

// ---- metadata, in extended attributes

#define HEADER         "x-metadata-"
#define PREFIX         "user.e2b."
#define NAME_BYTES     256
#define LIST_MAX_BYTES 65536 // XATTR_LIST_MAX

// ---- metadata from headers

static bool is_printable(const char *s)
{
    for (; *s; s++)
        if ((unsigned char)*s < 0x20 || (unsigned char)*s > 0x7E)
            return false;
    return true;
}

static int add(json_t *map, const char *name, const char *value, struct err *e)
{
    char key[METADATA_KEY_MAX + 1] = "";
    size_t len = strlen(name);
    if (len == 0)
        return err_set(e, ERR_INVALID, "invalid metadata: a key is empty");
    if (len > METADATA_KEY_MAX)
        return err_set(e, ERR_INVALID, "invalid metadata: a key is longer than %d bytes",
                       METADATA_KEY_MAX);
    for (size_t i = 0; i < len; i++)
        key[i] = (char)tolower((unsigned char)name[i]);
    if (!is_printable(key) || !is_printable(value))
        return err_set(e, ERR_INVALID, "invalid metadata: '%.64s' must be printable ASCII", key);
    if (strlen(PREFIX) + len + strlen(value) > METADATA_ENTRY_MAX)
        return err_set(e, ERR_INVALID,
                       "invalid metadata: '%.64s' and its value have more than %zu bytes", key,
                       METADATA_ENTRY_MAX - strlen(PREFIX));
    if (json_object_get(map, key))
        return err_set(e, ERR_INVALID, "invalid metadata: '%.64s' is given twice", key);
    json_object_set_new(map, key, json_string(value));
    return 0;
}

json_t *metadata_from_headers(const struct http_header *headers, size_t count, struct err *e)
{
    json_t *map = json_object();
    for (size_t i = 0; i < count; i++) {
        if (strncasecmp(headers[i].name, HEADER, strlen(HEADER)) != 0)
            continue;
        if (add(map, headers[i].name + strlen(HEADER), headers[i].value, e) < 0) {
            json_decref(map);
            return NULL;
        }
    }
    return map;
}

// ---- metadata to a file

static int remove_all(int fd, struct err *e)
{
    char *list auto_free = NULL;
    ssize_t len = flistxattr(fd, NULL, 0);
    if (len <= 0) // no attributes, or none on this file system
        return 0;
    list = xmalloc(LIST_MAX_BYTES);
    len = flistxattr(fd, list, LIST_MAX_BYTES);
    for (const char *p = list; len > 0 && p < list + len; p += strlen(p) + 1)
        if (str_starts(p, PREFIX) && fremovexattr(fd, p) < 0 && errno != ENODATA)
            return err_sys(e, errno, "remove metadata");
    return 0;
}

static int set(int fd, const char *key, const char *value, struct err *e)
{
    char name[NAME_BYTES];
    snprintf(name, sizeof name, "%s%s", PREFIX, key);
    if (fsetxattr(fd, name, value, strlen(value), 0) == 0)
        return 0;
    if (errno == ENOTSUP || errno == EPERM)
        return err_set(e, ERR_INVALID, "invalid metadata: this file system does not support it");
    if (errno == ENOSPC || errno == E2BIG || errno == ERANGE)
        return err_set(e, ERR_INVALID,
                       "invalid metadata: it is more than this file system can store");
    return err_sys(e, errno, "set metadata '%.64s'", key);
}

int metadata_replace(int fd, json_t *map, struct err *e)
{
    const char *key;
    json_t *value;
    if (remove_all(fd, e) < 0)
        return -1;
    json_object_foreach (map, key, value) {
        if (set(fd, key, json_string_value(value), e) < 0)
            return -1;
    }
    return 0;
}

// ---- metadata from a file

static void put_one(struct buf *out, const char *path, const char *name, bool *any)
{
    char value[METADATA_ENTRY_MAX + 1];
    ssize_t len = getxattr(path, name, value, sizeof value - 1);
    if (len < 0)
        return; // removed, or longer than an upload can make it
    value[len] = '\0';
    buf_adds(out, *any ? "," : ",\"metadata\":{");
    *any = true;
    entry_put_string(out, name + strlen(PREFIX));
    buf_addc(out, ':');
    entry_put_string(out, value);
}

// Append ,"metadata":{"key":"value"} if the file has metadata. Symbolic links are followed.
static void metadata_put(struct buf *out, const char *path)
{
    char few[1024]; // usually enough; usually there are none
    char *many auto_free = NULL;
    const char *list = few;
    bool any = false;
    ssize_t len = listxattr(path, few, sizeof few);
    if (len < 0 && errno == ERANGE) {
        many = xmalloc(LIST_MAX_BYTES);
        len = listxattr(path, many, LIST_MAX_BYTES);
        list = many;
    }
    for (const char *p = list; len > 0 && p < list + len; p += strlen(p) + 1)
        if (str_starts(p, PREFIX))
            put_one(out, path, p, &any);
    if (any)
        buf_addc(out, '}');
}

// ---- an entry

void entry_permissions(char out[ENTRY_PERMISSIONS_BYTES], mode_t mode)
{
    static const char RWX[] = "rwxrwxrwx";
    char *p = out;
    if (S_ISDIR(mode))
        *p++ = 'd';
    if (S_ISLNK(mode))
        *p++ = 'L';
    if (S_ISBLK(mode) || S_ISCHR(mode))
        *p++ = 'D';
    if (S_ISFIFO(mode))
        *p++ = 'p';
    if (S_ISSOCK(mode))
        *p++ = 'S';
    if (mode & S_ISUID)
        *p++ = 'u';
    if (mode & S_ISGID)
        *p++ = 'g';
    if (S_ISCHR(mode))
        *p++ = 'c';
    if (mode & S_ISVTX)
        *p++ = 't';
    if (p == out)
        *p++ = '-';
    for (int i = 0; i < 9; i++)
        *p++ = mode & (mode_t)(0400 >> i) ? RWX[i] : '-';
    *p = '\0';
}

void entry_put_string(struct buf *out, const char *s)
{
    struct buf clean auto_buf = BUF_INIT;
    size_t len = strlen(s);
    if (!utf8_is_valid(s, len)) {
        utf8_sanitize(&clean, s, len);
        s = buf_str(&clean);
    }
    buf_addc(out, '"');
    while (*s) {
        size_t plain = 0;
        while ((unsigned char)s[plain] >= 0x20 && s[plain] != '"' && s[plain] != '\\')
            plain++;
        buf_add(out, s, plain);
        s += plain;
        if (*s == '"' || *s == '\\')
            buf_printf(out, "\\%c", *s++);
        else if (*s)
            buf_printf(out, "\\u%04x", (unsigned char)*s++);
    }
    buf_addc(out, '"');
}

// NULL: FILE_TYPE_UNSPECIFIED, the default.
static const char *type_name(mode_t mode)
{
    if (S_ISREG(mode))
        return "FILE_TYPE_FILE";
    if (S_ISDIR(mode))
        return "FILE_TYPE_DIRECTORY";
    if (S_ISLNK(mode))
        return "FILE_TYPE_SYMLINK";
    return NULL;
}

static void put_owner(struct buf *out, const char *key, const char *name, unsigned id)
{
    buf_printf(out, ",\"%s\":", key);
    if (name)
        entry_put_string(out, name);
    else
        buf_printf(out, "\"%u\"", id);
}

// A broken symbolic link has type UNSPECIFIED, mode 0 and itself as its target.
static mode_t put_target(struct buf *target, const char *path)
{
    char resolved[PATH_MAX];
    struct stat st;
    bool whole = realpath(path, resolved) && stat(resolved, &st) == 0;
    buf_adds(target, whole ? resolved : path);
    return whole ? st.st_mode : 0;
}

// Members with the default value are absent, as in all of protobuf's JSON.
static void put_details(struct buf *out, const char *path, const struct stat *st, mode_t mode,
                        const struct users *users)
{
    char permissions[ENTRY_PERMISSIONS_BYTES];
    entry_permissions(permissions, st->st_mode);
    char modified[CLOCK_RFC3339_BYTES];
    clock_rfc3339_timespec(modified, st->st_mtim);
    if (st->st_size)
        buf_printf(out, ",\"size\":\"%" PRId64 "\"", (int64_t)st->st_size);
    if (mode & 0777)
        buf_printf(out, ",\"mode\":%u", (unsigned)(mode & 0777));
    buf_printf(out, ",\"permissions\":\"%s\"", permissions);
    put_owner(out, "owner", users_name(users, st->st_uid), st->st_uid);
    put_owner(out, "group", users_group_name(users, st->st_gid), st->st_gid);
    buf_printf(out, ",\"modifiedTime\":\"%s\"", modified);
    if (S_ISREG(mode))
        metadata_put(out, path);
}

int entry_put(struct buf *out, enum entry_form form, const char *path, const char *shown,
              const struct users *users, struct err *e)
{
    struct stat st;
    if (lstat(path, &st) < 0) {
        if (errno == ENOENT || errno == ENOTDIR)
            return err_set(e, ERR_NOT_FOUND, "file not found: %s", shown);
        return err_sys(e, errno, "stat %s", shown);
    }
    struct buf target auto_buf = BUF_INIT;
    mode_t mode = S_ISLNK(st.st_mode) ? put_target(&target, path) : st.st_mode;
    buf_adds(out, "{\"name\":");
    entry_put_string(out, shown[1] ? str_base(shown) : "/");
    if (type_name(mode))
        buf_printf(out, ",\"type\":\"%s\"", type_name(mode));
    buf_adds(out, ",\"path\":");
    entry_put_string(out, shown);
    if (form == ENTRY_FULL) {
        put_details(out, path, &st, mode, users);
        if (S_ISLNK(st.st_mode)) {
            buf_adds(out, ",\"symlinkTarget\":");
            entry_put_string(out, buf_str(&target));
        }
    }
    buf_addc(out, '}');
    return 0;
}
