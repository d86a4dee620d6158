// SPDX-License-Identifier: Apache-2.0
// filesystem.EntryInfo as JSON. Written straight into a buffer: a listing has many.
#include "sandbox-backend/envd/entry.h"

#include <errno.h>
#include <inttypes.h>
#include <limits.h>
#include <stdlib.h>
#include <string.h>

#include "sandbox-backend/base/clock.h"
#include "sandbox-backend/base/mem.h"
#include "sandbox-backend/base/str.h"
#include "sandbox-backend/envd/metadata.h"

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

static const char *type_name(mode_t mode)
{
    if (S_ISREG(mode))
        return "FILE_TYPE_FILE";
    if (S_ISDIR(mode))
        return "FILE_TYPE_DIRECTORY";
    if (S_ISLNK(mode))
        return "FILE_TYPE_SYMLINK";
    return "FILE_TYPE_UNSPECIFIED";
}

static void put_owner(struct buf *out, const char *key, const char *name, unsigned id)
{
    buf_printf(out, ",\"%s\":", key);
    if (name)
        entry_put_string(out, name);
    else
        buf_printf(out, "\"%u\"", id);
}

// A link that leads nowhere has type UNSPECIFIED, mode 0 and itself as its target.
static mode_t put_target(struct buf *target, const char *path)
{
    char resolved[PATH_MAX];
    struct stat st;
    bool whole = realpath(path, resolved) && stat(resolved, &st) == 0;
    buf_adds(target, whole ? resolved : path);
    return whole ? st.st_mode : 0;
}

static void put_details(struct buf *out, const char *path, const struct stat *st, mode_t mode,
                        const struct users *users)
{
    char permissions[ENTRY_PERMISSIONS_BYTES];
    entry_permissions(permissions, st->st_mode);
    char modified[CLOCK_RFC3339_BYTES];
    clock_rfc3339_timespec(modified, st->st_mtim);
    buf_printf(out, ",\"size\":\"%" PRId64 "\",\"mode\":%u,\"permissions\":\"%s\"",
               (int64_t)st->st_size, (unsigned)(mode & 0777), permissions);
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
    buf_printf(out, ",\"type\":\"%s\",\"path\":", type_name(mode));
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
