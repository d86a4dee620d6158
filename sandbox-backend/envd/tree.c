// SPDX-License-Identifier: Apache-2.0
// Killing a command's processes by what /proc tells of them.
#include "sandbox-backend/envd/tree.h"

#include <dirent.h>
#include <fcntl.h>
#include <signal.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "sandbox-backend/base/mem.h"

#define PROCESSES_SEEN_MAX 32768 // pid_max of a default kernel
#define ROUNDS             4     // a process may fork while we look

struct seen {
    pid_t pid;
    pid_t parent;
    bool ours;
};

struct scan {
    struct seen *list;
    size_t count;
};

static bool read_stat(const char *name, pid_t leader, struct seen *out)
{
    char path[64];
    char text[512];
    snprintf(path, sizeof path, "/proc/%.20s/stat", name);
    int fd auto_close = open(path, O_RDONLY | O_CLOEXEC);
    ssize_t n = fd < 0 ? -1 : read(fd, text, sizeof text - 1);
    if (n <= 0)
        return false;
    text[n] = '\0';
    const char *after = strrchr(text, ')'); // the name before it may hold anything
    char state;
    int parent;
    int group;
    int session;
    if (!after || sscanf(after, ") %c %d %d %d", &state, &parent, &group, &session) != 4)
        return false;
    bool dead = state == 'Z' || state == 'X';
    *out = (struct seen){.pid = atoi(name), .parent = parent};
    out->ours = !dead && (out->pid == leader || group == leader || session == leader);
    return true;
}

static void scan_proc(struct scan *s, pid_t leader)
{
    DIR *dir = opendir("/proc");
    const struct dirent *entry;
    s->count = 0;
    while (dir && (entry = readdir(dir)) && s->count < PROCESSES_SEEN_MAX)
        if (entry->d_name[0] >= '1' && entry->d_name[0] <= '9')
            s->count += read_stat(entry->d_name, leader, &s->list[s->count]);
    if (dir)
        closedir(dir);
}

static bool parent_is_ours(const struct scan *s, pid_t parent)
{
    for (size_t i = 0; i < s->count; i++)
        if (s->list[i].pid == parent)
            return s->list[i].ours;
    return false;
}

// Marks the children of what is marked, until nothing new is found.
static void mark_descendants(struct scan *s)
{
    for (bool more = true; more;) {
        more = false;
        for (size_t i = 0; i < s->count; i++)
            if (!s->list[i].ours && parent_is_ours(s, s->list[i].parent))
                more = s->list[i].ours = true;
    }
}

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
    struct scan s = {.list = try_malloc(PROCESSES_SEEN_MAX * sizeof(struct seen))};
    size_t before = 0;
    for (int i = 0; s.list && i < ROUNDS; i++) {
        scan_proc(&s, leader);
        mark_descendants(&s);
        size_t killed = kill_marked(&s);
        if (killed == 0 || killed == before)
            break; // nothing new has come: those that are left are dying
        before = killed;
    }
    free(s.list);
    kill(-leader, SIGKILL);
}
