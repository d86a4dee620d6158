// SPDX-License-Identifier: Apache-2.0
// A control group a command, used again once it is empty.
#include "sandbox-backend/envd/cgroup.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "sandbox-backend/base/mem.h"
#include "sandbox-backend/base/str.h"
#include "sandbox-backend/log/log.h"

#define PARKED_LOOKS 4 // how many parked groups one take looks at

enum slot_state { SLOT_NONE, SLOT_FREE, SLOT_TAKEN, SLOT_PARKED };

struct slot {
    enum slot_state state;
    bool killed; // its directory is not to be used again: see renew
    int fd;      // owned; the group's directory
};

struct cgroups {
    char *dir;
    int count;       // slots[0..count) have a directory
    int next_parked; // where the next look at parked groups begins
    struct slot slots[CGROUPS_MAX];
};

// Groups that an envd before this one has left: empty ones go, the others keep their number.
static void remove_leftovers(const char *dir)
{
    DIR *d = opendir(dir);
    const struct dirent *entry;
    while (d && (entry = readdir(d)))
        if (entry->d_type == DT_DIR && entry->d_name[0] != '.')
            unlinkat(dirfd(d), entry->d_name, AT_REMOVEDIR);
    if (d)
        closedir(d);
}

struct cgroups *cgroups_new(const char *root)
{
    if (!root)
        return NULL;
    char *dir auto_free = str_printf("%s/commands", root);
    char *kill_file auto_free = str_printf("%s/cgroup.kill", dir);
    if ((mkdir(dir, 0755) < 0 && errno != EEXIST) || access(kill_file, W_OK) < 0) {
        log_info("cgroup.none", "dir=%s reason=%s", dir, strerror(errno));
        rmdir(dir);
        return NULL;
    }
    remove_leftovers(dir);
    struct cgroups *c = xcalloc(1, sizeof *c);
    c->dir = steal(&dir);
    return c;
}

void cgroups_free(struct cgroups *c)
{
    if (!c)
        return;
    for (int i = 0; i < c->count; i++)
        if (c->slots[i].fd >= 0)
            close(c->slots[i].fd);
    remove_leftovers(c->dir);
    rmdir(c->dir);
    free(c->dir);
    free(c);
}

static bool is_empty(const struct cgroups *c, int group)
{
    char text[64] = "";
    int fd auto_close = openat(c->slots[group].fd, "cgroup.events", O_RDONLY | O_CLOEXEC);
    ssize_t n = fd < 0 ? -1 : read(fd, text, sizeof text - 1);
    return n > 0 && strstr(text, "populated 0");
}

static int open_dir(const struct cgroups *c, int group)
{
    char *path auto_free = str_printf("%s/%d", c->dir, group);
    return mkdir(path, 0755) < 0 ? -1 : open(path, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
}

static int make(struct cgroups *c)
{
    while (c->count < CGROUPS_MAX) {
        int group = c->count++;
        c->slots[group] = (struct slot){.state = SLOT_TAKEN, .fd = open_dir(c, group)};
        if (c->slots[group].fd >= 0)
            return group;
        if (errno != EEXIST) // the number of a group that an older envd has left is passed over
            break;
    }
    return -1;
}

// Makes the directory of a killed group anew. Kernels since 6.14 compare how often the group of the
// parent and that of the child were killed, and kill what is cloned into a group that ever was.
static bool renew(struct cgroups *c, int group)
{
    struct slot *slot = &c->slots[group];
    char *path auto_free = str_printf("%s/%d", c->dir, group);
    if (rmdir(path) < 0 && errno != ENOENT)
        return false; // its last process is still on its way out
    mem_close_fd(&slot->fd);
    slot->fd = open_dir(c, group);
    slot->killed = slot->fd < 0; // then it is tried again
    return slot->fd >= 0;
}

static int find_parked(struct cgroups *c)
{
    int looks = 0;
    for (int i = 0; i < c->count && looks < PARKED_LOOKS; i++) {
        c->next_parked = (c->next_parked + 1) % c->count;
        if (c->slots[c->next_parked].state != SLOT_PARKED)
            continue;
        looks++;
        const struct slot *slot = &c->slots[c->next_parked];
        if (slot->killed ? renew(c, c->next_parked) : is_empty(c, c->next_parked))
            return c->next_parked;
    }
    return -1;
}

int cgroup_take(struct cgroups *c)
{
    if (!c)
        return -1;
    for (int i = 0; i < c->count; i++)
        if (c->slots[i].state == SLOT_FREE) {
            c->slots[i].state = SLOT_TAKEN;
            return i;
        }
    int parked = find_parked(c);
    if (parked < 0)
        return make(c);
    c->slots[parked].state = SLOT_TAKEN;
    return parked;
}

int cgroup_fd(const struct cgroups *c, int group)
{
    return c && group >= 0 ? c->slots[group].fd : -1;
}

void cgroup_kill(struct cgroups *c, int group)
{
    if (!c || group < 0)
        return;
    c->slots[group].killed = true;
    int fd auto_close = openat(c->slots[group].fd, "cgroup.kill", O_WRONLY | O_CLOEXEC);
    if (fd < 0 || write(fd, "1", 1) != 1)
        log_warn("cgroup.kill", "group=%d error=%s", group, strerror(errno));
}

void cgroup_give_back(struct cgroups *c, int group)
{
    if (c && group >= 0)
        c->slots[group].state =
            !c->slots[group].killed && is_empty(c, group) ? SLOT_FREE : SLOT_PARKED;
}
