// SPDX-License-Identifier: Apache-2.0
// The users of a guest. A process outside of the new user namespace must write its maps. So this
// process first starts a child, which waits until the namespace exists and then writes them.
#include "sandbox-backend/nest/users.h"

#include <errno.h>
#include <fcntl.h>
#include <grp.h>
#include <sched.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include "sandbox-backend/base/buf.h"
#include "sandbox-backend/base/fd.h"
#include "sandbox-backend/base/mem.h"
#include "sandbox-backend/base/str.h"
#include "sandbox-backend/nest/nest.h"

#define LIST_BYTES_MAX  (1 << 20)
#define USER_LIMITS     "/proc/sys/user/max_"
#define EXIT_NO_PROGRAM 127

// ---- the maps of a daemon of root

static int write_map(pid_t pid, const char *file, struct err *e)
{
    char *path auto_free = str_printf("/proc/%d/%s", (int)pid, file);
    char *text auto_free = str_printf("0 %u %u\n", NEST_USERS_FIRST, NEST_USERS_COUNT);
    int fd auto_close = open(path, O_WRONLY | O_CLOEXEC);
    if (fd < 0 || write(fd, text, strlen(text)) != (ssize_t)strlen(text))
        return err_sys(e, errno, "write %s", path);
    return 0;
}

// ---- the maps of another daemon

// Return the name of a user of /etc/passwd. New string, or NULL.
static char *name_of(uid_t uid)
{
    struct buf text auto_buf = BUF_INIT;
    if (file_read("/etc/passwd", LIST_BYTES_MAX, &text, NULL) < 0)
        return NULL;
    char *rest = text.data;
    for (char *line; (line = strsep(&rest, "\n"));) {
        char *name = strsep(&line, ":");
        strsep(&line, ":"); // the password
        const char *id = strsep(&line, ":");
        int64_t found;
        if (id && str_to_int(id, 0, UINT32_MAX, &found) && (uid_t)found == uid)
            return xstrdup(name);
    }
    return NULL;
}

// Find a range of NEST_USERS_COUNT - 1 ids or more that the file gives to this user. 0: none.
static unsigned find_range(const char *file, const char *name)
{
    char *id auto_free = str_printf("%u", (unsigned)geteuid());
    struct buf text auto_buf = BUF_INIT;
    if (file_read(file, LIST_BYTES_MAX, &text, NULL) < 0)
        return 0;
    char *rest = text.data;
    for (char *line; (line = strsep(&rest, "\n"));) {
        const char *who = strsep(&line, ":");
        const char *first = strsep(&line, ":"), *count = strsep(&line, ":");
        int64_t from, size;
        if ((str_eq(who, name) || str_eq(who, id)) && first && count &&
            str_to_int(first, 1, UINT32_MAX, &from) &&
            str_to_int(count, NEST_USERS_COUNT - 1, UINT32_MAX, &size))
            return (unsigned)from;
    }
    return 0;
}

static int run_mapper(const char *program, pid_t pid, unsigned own, unsigned first, struct err *e)
{
    char *words[] = {str_printf("%d", (int)pid), str_printf("%u", own), str_printf("%u", first),
                     str_printf("%u", NEST_USERS_COUNT - 1)};
    pid_t child = fork();
    if (child == 0) {
        execlp(program, program, words[0], "0", words[1], "1", "1", words[2], words[3], NULL);
        _exit(EXIT_NO_PROGRAM);
    }
    int status = -1;
    while (child > 0 && waitpid(child, &status, 0) < 0 && errno == EINTR)
        ;
    for (size_t i = 0; i < ARRAY_LEN(words); i++)
        free(words[i]);
    if (child > 0 && WIFEXITED(status) && WEXITSTATUS(status) == 0)
        return 0;
    if (child > 0 && WIFEXITED(status) && WEXITSTATUS(status) == EXIT_NO_PROGRAM)
        return err_set(e, ERR_PRECONDITION, "%s is not installed; install the package uidmap",
                       program);
    return err_set(e, ERR_PRECONDITION, "%s failed", program);
}

static int map_by_programs(pid_t pid, struct err *e)
{
    char *name auto_free = name_of(geteuid());
    unsigned users = find_range("/etc/subuid", name), groups = find_range("/etc/subgid", name);
    if (!name)
        return err_set(e, ERR_PRECONDITION, "user %u is not in /etc/passwd", (unsigned)geteuid());
    if (!users || !groups)
        return err_set(e, ERR_PRECONDITION,
                       "%s gives user %s no range of %u ids or more; let root add one: usermod "
                       "--add-sub%cids FIRST-LAST %s",
                       users ? "/etc/subgid" : "/etc/subuid", name, NEST_USERS_COUNT - 1,
                       users ? 'g' : 'u', name);
    if (run_mapper("newuidmap", pid, geteuid(), users, e) < 0)
        return -1;
    return run_mapper("newgidmap", pid, getegid(), groups, e);
}

// ---- entering

static int map(pid_t pid, struct err *e)
{
    if (geteuid() != 0)
        return map_by_programs(pid, e);
    return write_map(pid, "uid_map", e) < 0 ? -1 : write_map(pid, "gid_map", e);
}

static void __attribute__((noreturn)) run_child(pid_t parent, int made, int answer)
{
    struct err e = ERR_INIT;
    char byte;
    if (read(made, &byte, 1) != 1)
        _exit(1);
    map(parent, &e);
    _exit(write(answer, &e, sizeof e) == sizeof e ? 0 : 1);
}

static int enter(int made, int answer, struct err *e)
{
    struct err found = ERR_INIT;
    if (unshare(CLONE_NEWUSER | CLONE_NEWNS) < 0)
        return err_set(e, ERR_PRECONDITION, "this host allows no user namespaces: %s",
                       strerror(errno));
    // /proc/self belongs to root for a process that has changed its rights.
    prctl(PR_SET_DUMPABLE, 1, 0, 0, 0);
    if (write(made, "", 1) != 1 || read(answer, &found, sizeof found) != sizeof found)
        return err_set(e, ERR_INTERNAL, "the users of the guest could not be mapped");
    return err_is(&found) ? err_set(e, found.code, "%s", found.msg) : 0;
}

int users_enter(struct err *e)
{
    int made[2], answer[2];
    pid_t parent = getpid();
    if (pipe2(made, O_CLOEXEC) < 0)
        return err_sys(e, errno, "make a pipe");
    int made_in auto_close = made[0], made_out auto_close = made[1];
    if (pipe2(answer, O_CLOEXEC) < 0)
        return err_sys(e, errno, "make a pipe");
    int answer_in auto_close = answer[0], answer_out auto_close = answer[1];
    pid_t child = fork();
    if (child < 0)
        return err_sys(e, errno, "start a process");
    if (child == 0) {
        close(steal_fd(&made_out));
        run_child(parent, made_in, answer_out);
    }
    close(steal_fd(&answer_out));
    int result = enter(made_out, answer_in, e);
    close(steal_fd(&made_out));
    while (waitpid(child, NULL, 0) < 0 && errno == EINTR)
        ;
    return result;
}

int users_become_root(struct err *e)
{
    if (setgroups(0, NULL) < 0 || setresgid(0, 0, 0) < 0 || setresuid(0, 0, 0) < 0)
        return err_sys(e, errno, "become root of the guest");
    return prctl(PR_SET_DUMPABLE, 1, 0, 0, 0) < 0 ? err_sys(e, errno, "become dumpable") : 0;
}

// The kernel counts these for the user of the host, too, so a guest without limits could use up all
// that this user has.
int users_seal(struct err *e)
{
    static const struct {
        const char *name, *value;
    } LIMITS[] = {
        {"user_namespaces", "0"}, {"inotify_instances", "64"}, {"inotify_watches", "65536"}};
    for (size_t i = 0; i < ARRAY_LEN(LIMITS); i++) {
        char *path auto_free = str_printf(USER_LIMITS "%s", LIMITS[i].name);
        int fd auto_close = open(path, O_WRONLY | O_CLOEXEC);
        size_t len = strlen(LIMITS[i].value);
        if (fd < 0 || write(fd, LIMITS[i].value, len) != (ssize_t)len)
            return err_sys(e, errno, "write %s", path);
    }
    return 0;
}
