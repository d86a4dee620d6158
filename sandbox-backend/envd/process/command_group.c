// SPDX-License-Identifier: Apache-2.0
// The processes of a command: in a control group, reused when it is empty, or those that /proc
// shows.
#include "sandbox-backend/envd/process/command_group.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "sandbox-backend/base/fd.h"
#include "sandbox-backend/base/limits.h"
#include "sandbox-backend/base/mem.h"
#include "sandbox-backend/base/str.h"
#include "sandbox-backend/log/log.h"

#define PARKED_LOOKS 4 // how many parked groups one take examines

enum slot_state {
    SLOT_NONE, // has no directory
    SLOT_FREE, // empty
    SLOT_TAKEN,
    SLOT_PARKED, // given back before it was known to be empty
};

struct slot {
    enum slot_state state;
    bool killed; // its directory must not be reused: see renew
    int fd;      // owned; the group's directory
};

struct command_groups {
    char *dir;
    int count;       // slots[0..count) have a directory
    int next_parked; // where the next search of parked groups begins
    struct slot slots[COMMAND_GROUPS_MAX];
};

// Remove empty groups that an earlier envd left. Others keep their numbers.
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

// Guests of gVisor have the file pids.max, others do not, unless their root user wants it.
static void limit_tasks(int dir, int most)
{
    int fd auto_close = openat(dir, "pids.max", O_WRONLY | O_CLOEXEC);
    if (fd >= 0 && dprintf(fd, "%d", most) < 0)
        log_warn("cgroup.unlimited", "most=%d reason=%s", most, strerror(errno));
}

// All commands together are limited, and each of them, so that one that starts processes without
// end leaves some to the others.
static void limit_commands(const char *path)
{
    int dir auto_close = open(path, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    if (dir < 0 || faccessat(dir, "pids.max", W_OK, 0) < 0)
        return;
    limit_tasks(dir, LIMIT_COMMANDS_TASKS);
    int fd auto_close = openat(dir, "cgroup.subtree_control", O_WRONLY | O_CLOEXEC);
    if (fd < 0 || write(fd, "+pids", 5) < 0)
        log_warn("cgroup.unlimited", "dir=%s reason=%s", path, strerror(errno));
}

struct command_groups *command_groups_new(const char *root)
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
    limit_commands(dir);
    struct command_groups *c = xcalloc(1, sizeof *c);
    c->dir = steal(&dir);
    return c;
}

void command_groups_free(struct command_groups *c)
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

static void set_state(struct command_groups *c, int group, enum slot_state to)
{
    static const unsigned FROM[] = {
        [SLOT_FREE] = 1 << SLOT_TAKEN,
        [SLOT_TAKEN] = 1 << SLOT_NONE | 1 << SLOT_FREE | 1 << SLOT_PARKED,
        [SLOT_PARKED] = 1 << SLOT_TAKEN,
    };
    struct slot *slot = &c->slots[group];
    if (!(FROM[to] >> slot->state & 1))
        abort();
    slot->state = to;
}

static bool is_empty(const struct command_groups *c, int group)
{
    char text[64] = "";
    int fd auto_close = openat(c->slots[group].fd, "cgroup.events", O_RDONLY | O_CLOEXEC);
    ssize_t n = fd < 0 ? -1 : read(fd, text, sizeof text - 1);
    return n > 0 && strstr(text, "populated 0");
}

static int open_dir(const struct command_groups *c, int group)
{
    char *path auto_free = str_printf("%s/%d", c->dir, group);
    int dir = mkdir(path, 0755) < 0 ? -1 : open(path, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    if (dir >= 0)
        limit_tasks(dir, LIMIT_COMMAND_TASKS);
    return dir;
}

static int make(struct command_groups *c)
{
    while (c->count < COMMAND_GROUPS_MAX) {
        int group = c->count++;
        c->slots[group].fd = open_dir(c, group);
        set_state(c, group, SLOT_TAKEN);
        if (c->slots[group].fd >= 0)
            return group;
        if (errno != EEXIST) // skip the number of a group that an earlier envd left
            break;
    }
    return -1;
}

// Create the directory of a killed group again. Kernels since 6.14 compare how often the groups of
// parent and child were killed, so they kill every process that is cloned into a group once killed.
static bool renew(struct command_groups *c, int group)
{
    struct slot *slot = &c->slots[group];
    char *path auto_free = str_printf("%s/%d", c->dir, group);
    if (rmdir(path) < 0 && errno != ENOENT)
        return false; // its last process is still exiting
    mem_close_fd(&slot->fd);
    slot->fd = open_dir(c, group);
    slot->killed = slot->fd < 0; // if this failed, the next take tries again
    return slot->fd >= 0;
}

static int find_parked(struct command_groups *c)
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

int command_group_take(struct command_groups *c)
{
    if (!c)
        return -1;
    for (int i = 0; i < c->count; i++)
        if (c->slots[i].state == SLOT_FREE) {
            set_state(c, i, SLOT_TAKEN);
            return i;
        }
    int parked = find_parked(c);
    if (parked < 0)
        return make(c);
    set_state(c, parked, SLOT_TAKEN);
    return parked;
}

int command_group_fd(const struct command_groups *c, int group)
{
    return c && group >= 0 ? c->slots[group].fd : -1;
}

void command_group_kill(struct command_groups *c, int group)
{
    if (!c || group < 0)
        return;
    c->slots[group].killed = true;
    int fd auto_close = openat(c->slots[group].fd, "cgroup.kill", O_WRONLY | O_CLOEXEC);
    if (fd < 0 || write(fd, "1", 1) != 1)
        log_warn("cgroup.kill", "group=%d error=%s", group, strerror(errno));
}

void command_group_give_back(struct command_groups *c, int group)
{
    if (c && group >= 0)
        set_state(c, group,
                  !c->slots[group].killed && is_empty(c, group) ? SLOT_FREE : SLOT_PARKED);
}

// ---- without control groups: the processes that /proc shows
//
// A scan and a marking take time linear in the number of processes in the guest.

#define ROUNDS     4 // a process may fork during a scan
#define FIRST_ROOM 256

struct scan {
    struct tree_process *list; // owned
    size_t count;
    size_t room;
};

// ---- read /proc

static bool read_stat(const char *name, pid_t leader, struct tree_process *out)
{
    char path[64];
    char text[512];
    snprintf(path, sizeof path, "/proc/%.20s/stat", name);
    int fd auto_close = open(path, O_RDONLY | O_CLOEXEC);
    ssize_t n = fd < 0 ? -1 : read(fd, text, sizeof text - 1);
    if (n <= 0)
        return false;
    text[n] = '\0';
    const char *after = strrchr(text, ')'); // the name before it may hold any character
    char state;
    int parent;
    int group;
    int session;
    if (!after || sscanf(after, ") %c %d %d %d", &state, &parent, &group, &session) != 4)
        return false;
    bool dead = state == 'Z' || state == 'X';
    *out = (struct tree_process){.pid = atoi(name), .parent = parent};
    out->ours = !dead && (out->pid == leader || group == leader || session == leader);
    return true;
}

static bool make_room(struct scan *s)
{
    if (s->count < s->room)
        return true;
    size_t room = s->room ? 2 * s->room : FIRST_ROOM;
    struct tree_process *list = try_realloc(s->list, room * sizeof *list);
    if (!list)
        return false;
    s->list = list;
    s->room = room;
    return true;
}

static void scan_proc(struct scan *s, pid_t leader)
{
    DIR *dir = opendir("/proc");
    const struct dirent *entry;
    s->count = 0;
    while (dir && (entry = readdir(dir)) && make_room(s))
        if (entry->d_name[0] >= '1' && entry->d_name[0] <= '9')
            s->count += read_stat(entry->d_name, leader, &s->list[s->count]);
    if (dir)
        closedir(dir);
}

// ---- find the descendants

#define NOBODY    UINT32_MAX
#define GOLDEN    2654435769U // 2^32 / the golden ratio: spreads the pids, which are consecutive
#define HASH_BITS 32

// Positions in the list by pid: a hash table with open addressing, at most half full.
struct by_pid {
    uint32_t *slots; // owned; position + 1, or 0
    uint32_t mask;
    int shift;
    size_t steps;
};

static bool by_pid_init(struct by_pid *t, size_t count)
{
    int bits = 1;
    while (((size_t)1 << bits) < 2 * count)
        bits++;
    *t = (struct by_pid){.mask = (uint32_t)(((size_t)1 << bits) - 1), .shift = HASH_BITS - bits};
    t->slots = try_malloc(sizeof *t->slots << bits);
    if (t->slots)
        memset(t->slots, 0, sizeof *t->slots << bits);
    return t->slots != NULL;
}

// Return the slot that holds `pid`, or the free one where it belongs.
static uint32_t *by_pid_slot(struct by_pid *t, const struct tree_process *list, pid_t pid)
{
    uint32_t at = ((uint32_t)pid * GOLDEN) >> t->shift;
    for (t->steps++; t->slots[at] && list[t->slots[at] - 1].pid != pid; t->steps++)
        at = (at + 1) & t->mask;
    return &t->slots[at];
}

static uint32_t by_pid_find(struct by_pid *t, const struct tree_process *list, pid_t pid)
{
    uint32_t slot = *by_pid_slot(t, list, pid);
    return slot ? slot - 1 : NOBODY;
}

// Walk from `i` up to the first ancestor that was visited before or is ours, then mark the way to
// it if it is ours. A process is visited once, so all walks together are linear.
static void mark_way_up(struct tree_process *list, const uint32_t *parents, uint32_t i,
                        size_t *steps)
{
    uint32_t top = i;
    while (top != NOBODY && !list[top].ours && !list[top].visited) {
        list[top].visited = true;
        top = parents[top];
        ++*steps;
    }
    for (; top != NOBODY && list[top].ours && i != top; i = parents[i]) {
        list[i].ours = true;
        ++*steps;
    }
}

size_t tree_mark(struct tree_process *list, size_t count)
{
    struct by_pid table;
    uint32_t *parents auto_free = try_malloc(count * sizeof *parents);
    if (!parents || !by_pid_init(&table, count))
        return 0;
    for (size_t i = 0; i < count; i++)
        *by_pid_slot(&table, list, list[i].pid) = (uint32_t)i + 1;
    for (size_t i = 0; i < count; i++)
        parents[i] = by_pid_find(&table, list, list[i].parent);
    for (size_t i = 0; i < count; i++)
        mark_way_up(list, parents, (uint32_t)i, &table.steps);
    free(table.slots);
    return table.steps;
}

// ---- kill

static size_t kill_marked(const struct scan *s)
{
    size_t killed = 0;
    for (size_t i = 0; i < s->count; i++)
        if (s->list[i].ours && s->list[i].pid > 1)
            killed += kill(s->list[i].pid, SIGKILL) == 0;
    return killed;
}

void tree_kill(pid_t leader)
{
    struct scan s = {0};
    size_t before = 0;
    for (int i = 0; i < ROUNDS; i++) {
        scan_proc(&s, leader);
        tree_mark(s.list, s.count);
        size_t killed = kill_marked(&s);
        if (killed == 0 || killed == before)
            break; // no new process has appeared: the remaining ones are ending
        before = killed;
    }
    free(s.list);
    kill(-leader, SIGKILL);
}
