// SPDX-License-Identifier: Apache-2.0
// What an image needs to be a guest.
//
// Commands run as `user`, as in every template. An image rarely has that user, so it is added, with
// the next free number from 1000 on.
#include "sandbox-backend/image/fixup.h"

#include <stdbool.h>
#include <stdio.h>
#include <string.h>

#include "sandbox-backend/base/buf.h"
#include "sandbox-backend/base/mem.h"
#include "sandbox-backend/base/str.h"

#define USER      "user"
#define HOME      "/home/user"
#define FIRST_ID  1000
#define LAST_ID   60000
#define EDITED    0 // the layer of what is added here: nothing of it is in a layer
#define SUDO_RULE "user ALL=(ALL:ALL) NOPASSWD: ALL\n"
#define SUDO_MODE 0440

// ---- passwd and group
// Return field `n` of the line, and its length; NULL if the line has fewer.
static const char *field(const char *line, int n, size_t *len)
{
    for (; n > 0; n--) {
        line += strcspn(line, ":\n");
        if (*line != ':')
            return NULL;
        line++;
    }
    *len = strcspn(line, ":\n");
    return line;
}

static const char *next_line(const char *line)
{
    line += strcspn(line, "\n");
    return *line ? line + 1 : line;
}

// Return the line of the name, or NULL.
static const char *line_of(const char *text, const char *name)
{
    for (const char *line = text; *line; line = next_line(line))
        if (strncmp(line, name, strlen(name)) == 0 && line[strlen(name)] == ':')
            return line;
    return NULL;
}

static bool number_of(const char *line, int n, uint32_t *out)
{
    size_t len;
    const char *text = field(line, n, &len);
    int64_t value;
    char *copy auto_free = text ? xstrndup(text, len) : NULL;
    if (!copy || !str_to_int(copy, 0, UINT32_MAX, &value))
        return false;
    *out = (uint32_t)value;
    return true;
}

static bool has_number(const char *text, uint32_t wanted)
{
    uint32_t id;
    for (const char *line = text; *line; line = next_line(line))
        if (number_of(line, 2, &id) && id == wanted)
            return true;
    return false;
}

static uint32_t free_number(const char *passwd, const char *group)
{
    uint32_t id = FIRST_ID;
    while (id < LAST_ID && (has_number(passwd, id) || has_number(group, id)))
        id++;
    return id;
}

// Return the text with one more line. New string.
static char *with_line(const char *text, const char *line)
{
    size_t len = strlen(text);
    return str_printf("%s%s%s\n", text, len && text[len - 1] != '\n' ? "\n" : "", line);
}

static void find_home(const char *line, struct fixup_user *out)
{
    size_t len;
    const char *home = field(line, 5, &len);
    out->home = home && len && *home == '/' ? xstrndup(home, len) : xstrdup("/");
}

void fixup_user(const char *passwd, const char *group, const char *name, const char *shell,
                struct fixup_user *out)
{
    const char *has = line_of(passwd, name), *its_group = line_of(group, name);
    *out = (struct fixup_user){0};
    if (has && number_of(has, 2, &out->uid) && number_of(has, 3, &out->gid)) {
        find_home(has, out);
        return;
    }
    out->uid = free_number(passwd, group);
    out->home = xstrdup(HOME);
    if (!its_group || !number_of(its_group, 2, &out->gid)) {
        char *line auto_free = str_printf("%s:x:%u:", name, out->uid);
        out->group = with_line(group, line);
        out->gid = out->uid;
    }
    char *line auto_free =
        str_printf("%s:x:%u:%u::%s:%s", name, out->uid, out->gid, out->home, shell);
    out->passwd = with_line(passwd, line);
}

void fixup_user_fini(struct fixup_user *u)
{
    free(u->passwd);
    free(u->group);
    free(u->home);
}

// ---- the tree
static int put(struct tree *t, const char *path, struct tree_inode *inode, struct err *e)
{
    struct tree_node *parent;
    const char *name;
    if (tree_place(t, path, EDITED, &parent, &name, e) < 0) {
        tree_inode_unref(inode);
        return -1;
    }
    return tree_add(t, parent, name, inode, EDITED, e);
}

static int put_file(struct tree *t, const char *path, const char *text, mode_t mode, struct err *e)
{
    struct tree_inode *inode = tree_inode_new(TREE_FILE, mode, 0, 0);
    inode->data = xstrdup(text);
    inode->size = (int64_t)strlen(text);
    return put(t, path, inode, e);
}

// Make a directory that is missing. Whatever has the name already stays.
static int put_dir(struct tree *t, const char *path, mode_t mode, uint32_t uid, uint32_t gid,
                   struct err *e)
{
    if (tree_find(t, path, false))
        return 0;
    return put(t, path, tree_inode_new(TREE_DIR, mode, uid, gid), e);
}

// Return the text of a file that the tree keeps. Borrowed. "" if there is none.
static const char *text_of(const struct tree *t, const char *path)
{
    const struct tree_node *n = tree_find(t, path, true);
    return n && n->inode->kind == TREE_FILE && n->inode->data ? n->inode->data : "";
}

static bool is_program(const struct tree *t, const char *path)
{
    const struct tree_node *n = tree_find(t, path, true);
    return n && n->inode->kind == TREE_FILE && n->inode->mode & 0111;
}

// Give a file of /etc another text. It keeps its mode.
static int replace(struct tree *t, const char *path, const char *text, mode_t mode, struct err *e)
{
    struct tree_node *n = tree_find(t, path, true);
    if (!n)
        return put_file(t, path, text, mode, e);
    if (n->inode->kind != TREE_FILE || !n->inode->data)
        return err_set(e, ERR_INVALID, "the image's /%s is not a file of at most 1 MB", path);
    free(n->inode->data);
    n->inode->data = xstrdup(text);
    n->inode->size = (int64_t)strlen(text);
    return 0;
}

static int add_user(struct tree *t, struct err *e)
{
    static const char ROOT[] = "root:x:0:0:root:/root:/bin/sh\n";
    const char *passwd = text_of(t, "etc/passwd"), *shadow = text_of(t, "etc/shadow");
    const char *shell = is_program(t, "bin/bash") ? "/bin/bash" : "/bin/sh";
    struct fixup_user u;
    fixup_user(*passwd ? passwd : ROOT,
               *text_of(t, "etc/group") ? text_of(t, "etc/group") : "root:x:0:\n", USER, shell, &u);
    char *locked auto_free = with_line(shadow, USER ":!:19000:0:99999:7:::");
    int result = 0;
    if (u.passwd && replace(t, "etc/passwd", u.passwd, 0644, e) < 0)
        result = -1;
    if (result == 0 && u.passwd && *shadow && !line_of(shadow, USER))
        result = replace(t, "etc/shadow", locked, 0640, e);
    if (result == 0 && u.group)
        result = replace(t, "etc/group", u.group, 0644, e);
    if (result == 0)
        result = put_dir(t, u.home, 0755, u.uid, u.gid, e);
    if (result == 0 && u.passwd && is_program(t, "usr/bin/sudo"))
        result = put_file(t, "etc/sudoers.d/" USER, SUDO_RULE, SUDO_MODE, e);
    fixup_user_fini(&u);
    return result;
}

// A number need not be in the file, as in containers.
static bool is_known(const char *text, const char *name)
{
    return line_of(text, name) || (*name && name[strspn(name, "0123456789")] == '\0');
}

static int check_user(const struct tree *t, const char *user, struct err *e)
{
    const char *colon = strchr(user, ':');
    char *name auto_free = xstrndup(user, strcspn(user, ":"));
    if (!is_known(text_of(t, "etc/passwd"), name))
        return err_set(e, ERR_INVALID,
                       "the image has no user \"%.64s\", as which commands are to run", name);
    if (colon && !is_known(text_of(t, "etc/group"), colon + 1))
        return err_set(e, ERR_INVALID,
                       "the image has no group \"%.64s\", with which commands are to run",
                       colon + 1);
    return 0;
}

// The guest mounts file systems there, and would do it where a link leads.
static int check_mount_points(const struct tree *t, struct err *e)
{
    static const char *const POINTS[] = {"dev", "proc", "sys", "run"};
    for (size_t i = 0; i < ARRAY_LEN(POINTS); i++) {
        const struct tree_node *n = tree_find(t, POINTS[i], false);
        if (n && n->inode->kind != TREE_DIR)
            return err_set(e, ERR_INVALID,
                           "the image's /%s is not a directory, but a sandbox mounts a file system "
                           "there",
                           POINTS[i]);
    }
    return 0;
}

static int add_dirs(struct tree *t, const char *directory, struct err *e)
{
    static const struct {
        const char *path;
        mode_t mode;
    } DIRS[] = {{"dev", 0755}, {"proc", 0555}, {"sys", 0555},  {"run", 0755}, {"tmp", 01777},
                {"etc", 0755}, {"root", 0700}, {"home", 0755}, {"var", 0755}, {"var/tmp", 01777}};
    for (size_t i = 0; i < ARRAY_LEN(DIRS); i++)
        if (put_dir(t, DIRS[i].path, DIRS[i].mode, 0, 0, e) < 0)
            return -1;
    return directory ? put_dir(t, directory, 0755, 0, 0, e) : 0;
}

// Every command runs in a login shell. The profile of Debian starts a program to find out who the
// user is, which bash knows itself, and that is most of the time of a short command.
static int quicken_profile(struct tree *t, struct err *e)
{
    const char *profile = text_of(t, "etc/profile");
    char *once auto_free = str_replace(profile, "`id -u`", "$(id -u)");
    char *quick auto_free = str_replace(once, "\"$(id -u)\"", "\"${EUID:-$(id -u)}\"");
    return str_eq(quick, profile) ? 0 : replace(t, "etc/profile", quick, 0644, e);
}

static int check_shell(const struct tree *t, struct err *e)
{
    if (!is_program(t, "bin/sh"))
        return err_set(e, ERR_INVALID,
                       "the image has no shell (/bin/sh), so no command could run in a sandbox of "
                       "it: take an image that has one");
    if (!tree_find(t, "bin/sh", true)->inode->runs)
        return err_set(e, ERR_INVALID,
                       "the image's /bin/sh does not run: it is neither a program for this "
                       "processor nor a script");
    return 0;
}

int fixup_apply(struct tree *t, const char *user, const char *directory, struct err *e)
{
    if (check_shell(t, e) < 0 || check_mount_points(t, e) < 0 || add_dirs(t, directory, e) < 0 ||
        add_user(t, e) < 0 || (user && check_user(t, user, e) < 0))
        return -1;
    return quicken_profile(t, e);
}
