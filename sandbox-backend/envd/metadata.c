// SPDX-License-Identifier: Apache-2.0
// What users note on files.
#include "sandbox-backend/envd/metadata.h"

#include <ctype.h>
#include <errno.h>
#include <stdbool.h>
#include <stdio.h>
#include <string.h>
#include <strings.h>
#include <sys/xattr.h>

#include "sandbox-backend/base/mem.h"
#include "sandbox-backend/base/str.h"
#include "sandbox-backend/envd/entry.h"

#define HEADER         "x-metadata-"
#define PREFIX         "user.e2b."
#define NAME_BYTES     256
#define LIST_MAX_BYTES 65536 // XATTR_LIST_MAX

// ---- from headers

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

// ---- to the file

static int remove_all(int fd, struct err *e)
{
    char *list auto_free = NULL;
    ssize_t len = flistxattr(fd, NULL, 0);
    if (len <= 0) // none, or a file system without
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
        return err_set(e, ERR_INVALID, "invalid metadata: this file system keeps none");
    if (errno == ENOSPC || errno == E2BIG || errno == ERANGE)
        return err_set(e, ERR_INVALID, "invalid metadata: more than this file system keeps");
    return err_sys(e, errno, "set metadata '%.64s'", key);
}

int metadata_replace(int fd, json_t *map, struct err *e)
{
    const char *key;
    json_t *value;
    if (remove_all(fd, e) < 0)
        return -1;
    json_object_foreach(map, key, value)
    {
        if (set(fd, key, json_string_value(value), e) < 0)
            return -1;
    }
    return 0;
}

// ---- to those who ask

static void put_one(struct buf *out, const char *path, const char *name, bool *any)
{
    char value[METADATA_ENTRY_MAX + 1];
    ssize_t len = getxattr(path, name, value, sizeof value - 1);
    if (len < 0)
        return; // gone, or longer than an upload can make it
    value[len] = '\0';
    buf_adds(out, *any ? "," : ",\"metadata\":{");
    *any = true;
    entry_put_string(out, name + strlen(PREFIX));
    buf_addc(out, ':');
    entry_put_string(out, value);
}

void metadata_put(struct buf *out, const char *path)
{
    char few[1024]; // mostly enough, and mostly there is nothing
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
