// SPDX-License-Identifier: Apache-2.0
// The users and groups of the guest.
#include "sandbox-backend/base/users.h"

#include <stdbool.h>
#include <stdint.h>
#include <string.h>
#include <sys/stat.h>

#include "sandbox-backend/base/buf.h"
#include "sandbox-backend/base/fd.h"
#include "sandbox-backend/base/mem.h"
#include "sandbox-backend/base/str.h"

#define DATABASE_MAX_BYTES (4 << 20)
#define FIELDS_MAX         8

// A row for each line of a file. Its strings point into the text, in which separators are NULs.
struct row {
    const char *name;
    const char *home;    // passwd
    const char *members; // group: "a,b,c"
    uid_t uid;           // passwd
    gid_t gid;
};

struct table {
    char *path;
    struct buf text;
    struct row *rows;
    size_t count;
    struct stat seen; // the file when it was read; zero if it was missing
};

struct users {
    struct table passwd;
    struct table group;
};

static bool parse_id(const char *s, uint32_t *out)
{
    int64_t n;
    if (!str_to_int(s, 0, UINT32_MAX - 1, &n)) // the largest means "no id" to the kernel
        return false;
    *out = (uint32_t)n;
    return true;
}

static int split(char *line, char **fields)
{
    int n = 0;
    for (char *p = line; p && n < FIELDS_MAX; n++)
        fields[n] = strsep(&p, ":");
    return n;
}

static bool parse_line(char *line, bool is_passwd, struct row *row)
{
    char *f[FIELDS_MAX];
    int n = split(line, f);
    *row = (struct row){.name = f[0]};
    if (!*f[0] || *f[0] == '#')
        return false;
    if (!is_passwd) {
        row->members = n >= 4 ? f[3] : "";
        return n >= 3 && parse_id(f[2], &row->gid);
    }
    row->home = n >= 6 && *f[5] ? f[5] : "/";
    return n >= 4 && parse_id(f[2], &row->uid) && parse_id(f[3], &row->gid);
}

static void table_parse(struct table *t, bool is_passwd)
{
    size_t room = 1;
    for (size_t i = 0; i < t->text.len; i++)
        room += t->text.data[i] == '\n';
    t->rows = xrealloc(t->rows, room * sizeof *t->rows);
    t->count = 0;
    for (char *rest = t->text.data; rest;) {
        char *line = strsep(&rest, "\n");
        if (parse_line(line, is_passwd, &t->rows[t->count]))
            t->count++;
    }
}

static bool same_file(const struct stat *a, const struct stat *b)
{
    return a->st_ino == b->st_ino && a->st_size == b->st_size &&
           a->st_mtim.tv_sec == b->st_mtim.tv_sec && a->st_mtim.tv_nsec == b->st_mtim.tv_nsec;
}

static void table_refresh(struct table *t, bool is_passwd)
{
    struct stat now = {0};
    if (stat(t->path, &now) < 0)
        now = (struct stat){0};
    if (same_file(&now, &t->seen))
        return;
    t->seen = now;
    buf_clear(&t->text);
    struct err ignored = ERR_INIT; // a missing file has no users
    if (file_read(t->path, DATABASE_MAX_BYTES, &t->text, &ignored) < 0)
        buf_clear(&t->text);
    table_parse(t, is_passwd);
}

static void table_fini(struct table *t)
{
    free(t->path);
    free(t->rows);
    buf_fini(&t->text);
}

struct users *users_new(const char *etc)
{
    struct users *u = xcalloc(1, sizeof *u);
    u->passwd.path = str_printf("%s/passwd", etc);
    u->group.path = str_printf("%s/group", etc);
    return u;
}

void users_free(struct users *u)
{
    if (!u)
        return;
    table_fini(&u->passwd);
    table_fini(&u->group);
    free(u);
}

static bool is_member(const char *members, const char *name)
{
    size_t len = strlen(name);
    for (const char *p = members; *p;) {
        size_t n = strcspn(p, ",");
        if (n == len && memcmp(p, name, n) == 0)
            return true;
        p += n + (p[n] == ',');
    }
    return false;
}

static void find_groups(const struct table *group, struct user *user)
{
    user->groups[user->group_count++] = user->gid;
    for (size_t i = 0; i < group->count && user->group_count < USER_GROUPS_MAX; i++) {
        const struct row *row = &group->rows[i];
        if (row->gid != user->gid && is_member(row->members, user->name))
            user->groups[user->group_count++] = row->gid;
    }
}

static const struct row *row_of(const struct table *t, const char *name, bool by_id, uint32_t id)
{
    for (size_t i = 0; i < t->count; i++)
        if (strcmp(t->rows[i].name, name) == 0)
            return &t->rows[i];
    for (size_t i = 0; by_id && i < t->count; i++)
        if (t->rows[i].uid == id)
            return &t->rows[i];
    return NULL;
}

static bool take_row(const struct row *row, struct user *out)
{
    if (strlen(row->name) >= sizeof out->name || strlen(row->home) >= sizeof out->home)
        return false;
    memcpy(out->name, row->name, strlen(row->name) + 1);
    memcpy(out->home, row->home, strlen(row->home) + 1);
    out->uid = row->uid;
    out->gid = row->gid;
    return true;
}

// As containers do it: a number need not be in passwd.
static bool find_user(const struct table *passwd, const char *name, struct user *out)
{
    uint32_t id = 0;
    bool is_id = parse_id(name, &id);
    const struct row *row = row_of(passwd, name, is_id, id);
    if (row)
        return take_row(row, out);
    if (!is_id || strlen(name) >= sizeof out->name)
        return false;
    *out = (struct user){.home = "/", .uid = id};
    memcpy(out->name, name, strlen(name) + 1);
    return true;
}

// Give the user the group as its only one, as containers do.
static bool take_group(const struct table *group, const char *name, struct user *out)
{
    uint32_t id = 0;
    bool found = parse_id(name, &id);
    for (size_t i = 0; i < group->count; i++)
        if (strcmp(group->rows[i].name, name) == 0) {
            id = group->rows[i].gid;
            found = true;
        }
    out->gid = id;
    out->groups[0] = id;
    out->group_count = 1;
    return found;
}

int users_find(struct users *u, const char *name, struct user *out, struct err *e)
{
    const char *colon = strchr(name, ':');
    char *plain auto_free = xstrndup(name, strcspn(name, ":"));
    table_refresh(&u->passwd, true);
    table_refresh(&u->group, false);
    *out = (struct user){0};
    if (!find_user(&u->passwd, plain, out))
        return err_set(e, ERR_NOT_FOUND, "unknown user %s", name);
    if (!colon) {
        find_groups(&u->group, out);
        return 0;
    }
    return take_group(&u->group, colon + 1, out)
               ? 0
               : err_set(e, ERR_NOT_FOUND, "unknown group of user %s", name);
}

const char *users_name(const struct users *u, uid_t uid)
{
    for (size_t i = 0; i < u->passwd.count; i++)
        if (u->passwd.rows[i].uid == uid)
            return u->passwd.rows[i].name;
    return NULL;
}

const char *users_group_name(const struct users *u, gid_t gid)
{
    for (size_t i = 0; i < u->group.count; i++)
        if (u->group.rows[i].gid == gid)
            return u->group.rows[i].name;
    return NULL;
}
