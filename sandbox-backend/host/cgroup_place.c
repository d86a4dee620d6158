// SPDX-License-Identifier: Apache-2.0
// The cgroup place: where this program may create control groups on the host.
#include "sandbox-backend/host/cgroup_place.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "sandbox-backend/base/buf.h"
#include "sandbox-backend/base/fd.h"
#include "sandbox-backend/base/mem.h"
#include "sandbox-backend/base/str.h"

#define TEXT_BYTES_MAX (1 << 20)
#define LINE_FIELDS    16
#define DAEMON_GROUP   "cubbyd" // the group that this program moves to in version 2

static const struct {
    const char *name;
    unsigned bit;
} CONTROLLERS[] = {{"memory", CGROUP_MEMORY}, {"cpu", CGROUP_CPU}, {"pids", CGROUP_PIDS}};

const char *cgroup_names(unsigned controllers)
{
    static const char *const NAMES[] = {
        "none", "memory",          "cpu",          "memory and cpu",
        "pids", "memory and pids", "cpu and pids", "memory, cpu and pids"};
    return NAMES[controllers & CGROUP_ALL];
}

unsigned cgroup_named(const char *names)
{
    unsigned found = 0;
    for (unsigned all = 1; names && all <= CGROUP_ALL; all++)
        if (strcmp(names, cgroup_names(all)) == 0)
            found = all;
    return found;
}

// Parse a list of words with commas or blanks between them.
static unsigned controllers_in(const char *list)
{
    unsigned found = 0;
    char *copy auto_free = xstrdup(list);
    for (char *rest = copy, *word; (word = strsep(&rest, ", \n"));)
        for (size_t i = 0; i < ARRAY_LEN(CONTROLLERS); i++)
            if (strcmp(word, CONTROLLERS[i].name) == 0)
                found |= CONTROLLERS[i].bit;
    return found;
}

// Fields of a line of mountinfo (proc(5)): 4 is the mount's root in the tree, 5 the mount point;
// after a lone "-" come the type, the source and the options of the file system.
static bool is_mount_of(char *line, int version, unsigned controllers, const char **root,
                        const char **point)
{
    const char *fields[LINE_FIELDS] = {0};
    int count = 0, dash = 0;
    for (char *rest = line, *word; count < LINE_FIELDS && (word = strsep(&rest, " "));) {
        if (strcmp(word, "-") == 0 && !dash)
            dash = count;
        fields[count++] = word;
    }
    if (dash < 5 || dash + 3 >= count)
        return false;
    *root = fields[3];
    *point = fields[4];
    const char *type = fields[dash + 1];
    return version == 2 ? strcmp(type, "cgroup2") == 0
                        : strcmp(type, "cgroup") == 0 &&
                              (controllers_in(fields[dash + 3]) & controllers) == controllers;
}

// Return `path` relative to the mount with root `root`. NULL: it is outside.
static const char *below(const char *path, const char *root)
{
    size_t len = strcmp(root, "/") == 0 ? 0 : strlen(root);
    if (strncmp(path, root, len) != 0 || (path[len] && path[len] != '/'))
        return NULL;
    return strcmp(path + len, "/") == 0 ? "" : path + len;
}

// New string, or NULL if that tree is not mounted.
static char *find_dir(const char *mountinfo, int version, unsigned controllers, const char *path)
{
    char *copy auto_free = xstrdup(mountinfo);
    for (char *rest = copy, *line; (line = strsep(&rest, "\n"));) {
        const char *root = NULL, *point = NULL, *left = NULL;
        if (is_mount_of(line, version, controllers, &root, &point) && (left = below(path, root)))
            return str_printf("%s%s", point, left);
    }
    return NULL;
}

// Parse a line "number:controllers:path"; in version 2 "0::path".
static void add_line(struct cgroup_place *p, char *line, const char *mountinfo)
{
    char *path = line;
    const char *number = strsep(&path, ":");
    const char *list = strsep(&path, ":");
    if (!path || p->count == CGROUP_TREES_MAX)
        return;
    struct cgroup_tree tree = {.version = strcmp(number, "0") == 0 && !*list ? 2 : 1};
    tree.controllers = controllers_in(list);
    if (tree.version == 1 && !tree.controllers)
        return;
    tree.dir = find_dir(mountinfo, tree.version, tree.controllers, path);
    if (tree.dir)
        p->trees[p->count++] = tree;
}

void cgroup_place_parse(struct cgroup_place *p, const char *cgroup, const char *mountinfo)
{
    char *copy auto_free = xstrdup(cgroup);
    *p = (struct cgroup_place){0};
    for (char *rest = copy, *line; (line = strsep(&rest, "\n"));)
        add_line(p, line, mountinfo);
}

// ---- probe

static unsigned read_controllers(const char *dir, const char *file)
{
    char *path auto_free = str_printf("%s/%s", dir, file);
    struct buf text auto_buf = BUF_INIT;
    return file_read(path, TEXT_BYTES_MAX, &text, NULL) == 0 ? controllers_in(buf_str(&text)) : 0;
}

static int write_text(const char *dir, const char *file, const char *text)
{
    char *path auto_free = str_printf("%s/%s", dir, file);
    int fd auto_close = open(path, O_WRONLY | O_CLOEXEC);
    return fd >= 0 && write(fd, text, strlen(text)) == (ssize_t)strlen(text) ? 0 : -1;
}

static void pass_on(const char *dir, unsigned wanted)
{
    for (size_t i = 0; i < ARRAY_LEN(CONTROLLERS); i++) {
        char word[16];
        snprintf(word, sizeof word, "+%s", CONTROLLERS[i].name);
        if (wanted & CONTROLLERS[i].bit)
            (void)write_text(dir, "cgroup.subtree_control", word);
    }
}

static bool is_alone_in(const char *dir)
{
    char *path auto_free = str_printf("%s/cgroup.procs", dir);
    char *self auto_free = str_printf("%d\n", (int)getpid());
    struct buf text auto_buf = BUF_INIT;
    return file_read(path, TEXT_BYTES_MAX, &text, NULL) == 0 && str_eq(buf_str(&text), self);
}

// Return the controllers that groups below this one can have.
static unsigned enable(const char *dir)
{
    unsigned wanted = read_controllers(dir, "cgroup.controllers");
    pass_on(dir, wanted);
    unsigned got = read_controllers(dir, "cgroup.subtree_control");
    if (got == wanted || !is_alone_in(dir))
        return got;
    char *down auto_free = str_printf("%s/" DAEMON_GROUP, dir);
    if ((mkdir(down, 0755) == 0 || errno == EEXIST) && write_text(down, "cgroup.procs", "0") == 0)
        pass_on(dir, wanted);
    return read_controllers(dir, "cgroup.subtree_control");
}

void cgroup_place_probe(struct cgroup_place *p, bool change)
{
    int kept = 0;
    unsigned held = 0; // a controller has one tree, even if both versions list it
    for (int i = 0; i < p->count; i++) {
        struct cgroup_tree tree = p->trees[i];
        bool is_ours = access(tree.dir, W_OK | X_OK) == 0;
        if (is_ours && tree.version == 2)
            tree.controllers =
                change ? enable(tree.dir) : read_controllers(tree.dir, "cgroup.controllers");
        tree.controllers &= is_ours ? ~held : 0;
        if (tree.controllers) {
            held |= tree.controllers;
            p->trees[kept++] = tree;
        } else {
            free(tree.dir);
        }
    }
    p->count = kept;
}

unsigned cgroup_place_controllers(const struct cgroup_place *p)
{
    unsigned all = 0;
    for (int i = 0; i < p->count; i++)
        all |= p->trees[i].controllers;
    return all;
}

void cgroup_place_fini(struct cgroup_place *p)
{
    for (int i = 0; i < p->count; i++)
        free(p->trees[i].dir);
    *p = (struct cgroup_place){0};
}

void cgroup_place_read(struct cgroup_place *p, const char *proc)
{
    char *groups auto_free = str_printf("%s/cgroup", proc);
    char *mounts auto_free = str_printf("%s/mountinfo", proc);
    struct buf cgroup auto_buf = BUF_INIT;
    struct buf mountinfo auto_buf = BUF_INIT;
    *p = (struct cgroup_place){0};
    if (file_read(groups, TEXT_BYTES_MAX, &cgroup, NULL) == 0 &&
        file_read(mounts, TEXT_BYTES_MAX, &mountinfo, NULL) == 0)
        cgroup_place_parse(p, buf_str(&cgroup), buf_str(&mountinfo));
}

static void find(struct cgroup_place *p, bool change)
{
    cgroup_place_read(p, "/proc/self");
    cgroup_place_probe(p, change);
}

const struct cgroup_place *cgroup_place(void)
{
    static struct cgroup_place place;
    static bool known;
    if (!known)
        find(&place, true);
    known = true;
    return &place;
}

unsigned cgroup_place_look(void)
{
    struct cgroup_place place = {0};
    find(&place, false);
    unsigned found = cgroup_place_controllers(&place);
    cgroup_place_fini(&place);
    return found;
}
