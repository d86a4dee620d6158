// SPDX-License-Identifier: Apache-2.0
// The processes below this one.
#include "sandbox-backend/nest/tree.h"

#include <dirent.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/types.h>
#include <unistd.h>

#include "sandbox-backend/base/buf.h"
#include "sandbox-backend/base/fd.h"

#define CHILDREN_BYTES (1 << 20)
#define DEPTH_MAX      64 // the children of a killed process become children of this one

static void kill_below(pid_t pid, int depth);

// A stopped parent reaps no child, so the ids of its children are not reused.
static void kill_listed(const char *path, int depth)
{
    struct buf text auto_buf = BUF_INIT;
    if (file_read(path, CHILDREN_BYTES, &text, NULL) < 0)
        return;
    char *rest = text.data;
    for (long child; rest && (child = strtol(rest, &rest, 10)) > 0;) {
        kill((pid_t)child, SIGSTOP);
        kill_below((pid_t)child, depth + 1);
        kill((pid_t)child, SIGKILL);
    }
}

static void kill_below(pid_t pid, int depth)
{
    char path[320];
    snprintf(path, sizeof path, "/proc/%d/task", (int)pid);
    DIR *threads = depth < DEPTH_MAX ? opendir(path) : NULL;
    if (!threads)
        return;
    for (struct dirent *entry; (entry = readdir(threads));) {
        snprintf(path, sizeof path, "/proc/%d/task/%s/children", (int)pid, entry->d_name);
        if (entry->d_name[0] != '.')
            kill_listed(path, depth);
    }
    closedir(threads);
}

void tree_kill(void)
{
    kill_below(getpid(), 0);
}
