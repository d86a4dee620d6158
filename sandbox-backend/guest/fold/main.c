// SPDX-License-Identifier: Apache-2.0
// fold, a program of the template build: the memory of the processes that run in a guest of gVisor
// becomes private mappings of a file, which all sandboxes of the template share.
//
//   fold dump FILE BYTES all|PID... write their memory to FILE, at most BYTES bytes fold map FILE
//   map FILE, which has the same contents, in place of the memory
//
// gVisor restores a sandbox by copying each saved page into memory of the sandbox's own, so the
// processes that the warm-up leaves behind, the Python kernel with all its modules, would cost
// every sandbox nearly 200 MB. But pages of an EROFS file are the page cache's, which sandboxes
// share, and a saved sandbox does not contain them. So the build runs `fold dump`, puts what it
// wrote into memory.erofs, which is mounted all the time, and runs `fold map`. A page that a
// process writes later becomes its own, as after a fork.
//
// Between the two the processes run, so `fold map` compares each page and leaves what has changed.
// Both stop one process at a time. `all` leaves out the processes above fold itself (init, envd).
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "sandbox-backend/base/buf.h"
#include "sandbox-backend/base/fd.h"
#include "sandbox-backend/base/mem.h"
#include "sandbox-backend/base/str.h"
#include "sandbox-backend/guest/fold/regions.h"

#define STAT_BYTES_MAX 4096
#define DEPTH_MAX      64 // of processes above this one

static pid_t parent_of(pid_t pid)
{
    char path[48];
    struct buf text auto_buf = BUF_INIT;
    int parent = 0;
    snprintf(path, sizeof path, "/proc/%d/stat", (int)pid);
    if (file_read(path, STAT_BYTES_MAX, &text, NULL) < 0)
        return 0;
    const char *name_end = strrchr(buf_str(&text), ')'); // a name may have spaces
    return name_end && sscanf(name_end, ") %*c %d", &parent) == 1 ? parent : 0;
}

static bool is_above(pid_t pid)
{
    pid_t at = getpid();
    for (int i = 0; i < DEPTH_MAX && at > 0; i++, at = parent_of(at))
        if (at == pid)
            return true;
    return false;
}

static int dump_process(pid_t pid, struct plan *p, struct err *e)
{
    struct tracee t;
    int result = tracee_stop(&t, pid, e);
    if (result == 0)
        result = regions_dump(&t, p, e);
    tracee_leave(&t);
    return result;
}

// A process that ends meanwhile is no failure. Memory for which the file has no room is not folded.
static int dump_one(pid_t pid, struct plan *p, struct err *e)
{
    struct err why = ERR_INIT;
    if (dump_process(pid, p, &why) == 0 || why.code == ERR_GONE)
        return 0;
    printf("process %d: %s\n", (int)pid, why.msg);
    return why.code == ERR_LIMIT ? 0 : err_set(e, why.code, "%s", why.msg);
}

static int dump_named(char **pids, struct plan *p, struct err *e)
{
    for (; *pids; pids++) {
        int64_t pid = 0;
        if (!str_to_int(*pids, 1, INT32_MAX, &pid))
            return err_set(e, ERR_INVALID, "\"%s\" is not a process id", *pids);
        if (dump_one((pid_t)pid, p, e) < 0)
            return -1;
    }
    return 0;
}

static int dump_all(struct plan *p, struct err *e)
{
    DIR *processes = opendir("/proc");
    if (!processes)
        return err_sys(e, errno, "read /proc");
    int result = 0;
    for (const struct dirent *entry; result == 0 && (entry = readdir(processes));) {
        int64_t pid = 0;
        if (str_to_int(entry->d_name, 1, INT32_MAX, &pid) && !is_above((pid_t)pid))
            result = dump_one((pid_t)pid, p, e);
    }
    closedir(processes);
    return result;
}

static int dump(const char *path, uint64_t max, char **pids, struct err *e)
{
    struct plan p;
    int file auto_close = open(path, O_RDWR | O_CREAT | O_TRUNC | O_CLOEXEC, 0600);
    if (file < 0)
        return err_sys(e, errno, "create %s", path);
    plan_init(&p, file, max);
    int result = str_eq(pids[0], "all") ? dump_all(&p, e) : dump_named(pids, &p, e);
    if (result == 0)
        result = plan_write(&p, e);
    printf("%zu runs, %llu MB\n", p.count, (unsigned long long)(p.end - PLAN_DATA_AT) >> 20);
    plan_fini(&p);
    return result;
}

static int map_process(const char *path, int file, const struct plan_run *runs, size_t count,
                       uint64_t *mapped, struct err *e)
{
    struct tracee t;
    int result = tracee_stop(&t, runs->pid, e);
    if (result == 0)
        result = regions_map(&t, path, file, runs, count, mapped, e);
    tracee_leave(&t);
    return result;
}

static int map_all(const char *path, const struct plan *p, struct err *e)
{
    for (size_t i = 0, count; i < p->count; i += count) {
        const struct plan_run *first = &p->runs[i];
        struct err why = ERR_INIT;
        uint64_t mapped = 0;
        for (count = 1; i + count < p->count && first[count].pid == first->pid;)
            count++;
        int result = map_process(path, p->file, first, count, &mapped, &why);
        if (result < 0 && why.code != ERR_GONE)
            return err_set(e, why.code, "%s", why.msg);
        printf("process %d: %llu MB\n", first->pid, (unsigned long long)mapped >> 20);
    }
    return 0;
}

static int map(const char *path, struct err *e)
{
    struct plan p;
    int file auto_close = open(path, O_RDONLY | O_CLOEXEC);
    if (file < 0)
        return err_sys(e, errno, "open %s", path);
    int result = plan_read(&p, file, e);
    if (result == 0)
        result = map_all(path, &p, e);
    plan_fini(&p);
    return result;
}

int main(int argc, char **argv)
{
    struct err e = ERR_INIT;
    int64_t max = 0;
    int result = -1;
    if (argc >= 5 && str_eq(argv[1], "dump") && str_to_int(argv[3], 1, INT64_MAX, &max))
        result = dump(argv[2], (uint64_t)max, argv + 4, &e);
    else if (argc == 3 && str_eq(argv[1], "map"))
        result = map(argv[2], &e);
    else
        err_set(&e, ERR_INVALID, "usage: fold dump FILE BYTES all|PID..., or fold map FILE");
    if (result < 0)
        fprintf(stderr, "fold: %s\n", e.msg);
    return result < 0 ? 1 : 0;
}
