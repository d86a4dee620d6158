// SPDX-License-Identifier: Apache-2.0
// Finds out which walls this host can build for this user: tries each one in a process of its own.
#include "sandbox-backend/jail/probe.h"

#include <errno.h>
#include <fcntl.h>
#include <sched.h>
#include <stdio.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include "sandbox-backend/base/json.h"
#include "sandbox-backend/base/mem.h"
#include "sandbox-backend/jail/landlock.h"
#include "sandbox-backend/jail/process.h"
#include "sandbox-backend/jail/root_dir.h"
#include "sandbox-backend/jail/seccomp.h"

#define ID JAIL_UID_FIRST // no process has pid 0

static int try_mount(struct err *e)
{
    static char file[] = "/proc/self/exe";
    char self[4096] = "";
    char *const files[] = {self};
    if (readlink(file, self, sizeof self - 1) < 0)
        return err_sys(e, errno, "read %s", file);
    const struct root_dir root = {.files = files, .count = 1};
    return namespaces_enter(WALL_BIT(WALL_MOUNT), e) == 0 ? root_dir_enter(&root, e) : -1;
}

static int try_pid(struct err *e)
{
    return unshare(CLONE_NEWPID) == 0 ? 0 : err_sys(e, errno, "%s", wall_what(WALL_PID));
}

static int no_new_privs(struct err *e)
{
    return prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) == 0 ? 0 : err_sys(e, errno, "no_new_privs");
}

static int try_landlock(struct err *e)
{
    const struct landlock_rules rules = {.share = -1, 0};
    return no_new_privs(e) == 0 ? landlock_enforce(&rules, e) : -1;
}

static int try_seccomp(struct err *e)
{
    return no_new_privs(e) == 0 ? seccomp_install(JAIL_NETWORK, false, e) : -1;
}

// Try it as a jail does: as another user, if that is possible. Mapping user 0 needs CAP_SETFCAP
// (user_namespaces(7), since Linux 5.12), which the daemon need not have.
static int try_user(int proc, bool is_root, struct err *e)
{
    if (is_root)
        identity_become(ID, ID, NULL);
    return namespaces_enter_user(proc, JAIL_UID_INSIDE, e);
}

static int try_wall(enum wall wall, struct err *e)
{
    int proc auto_close = open("/proc/self", O_PATH | O_DIRECTORY | O_CLOEXEC);
    bool is_root = geteuid() == 0;
    if (proc < 0)
        return err_sys(e, errno, "open /proc/self");
    // Without root everything begins with a user namespace in which this process is root.
    if (!is_root && namespace_flag((int)wall) && namespaces_enter_user(proc, 0, e) != 0)
        return -1;
    switch (wall) {
    case WALL_USER:
        return try_user(proc, is_root, e);
    case WALL_MOUNT:
        return try_mount(e);
    case WALL_PID:
        return try_pid(e);
    case WALL_NETWORK:
    case WALL_IPC:
    case WALL_UTS:
    case WALL_CGROUP:
        return namespaces_enter(WALL_BIT(wall), e);
    case WALL_UID:
        return identity_become(ID, ID, e);
    case WALL_PRIVILEGES:
        return identity_drop(e);
    case WALL_RLIMITS:
        return limits_set(JAIL_VMM, false, e);
    case WALL_LANDLOCK:
        return try_landlock(e);
    case WALL_SECCOMP:
        return try_seccomp(e);
    case WALL_COUNT:
        break;
    }
    return err_set(e, ERR_INTERNAL, "there is no probe for this wall");
}

// Return true, or the reason as a string. New reference.
static json_t *result_of(enum wall wall)
{
    int ends[2];
    char why[ERR_MSG_BYTES] = "";
    if (pipe2(ends, O_CLOEXEC) != 0)
        return json_string(strerror(errno));
    pid_t pid = fork();
    if (pid == 0) {
        struct err e = ERR_INIT;
        int rc = try_wall(wall, &e);
        if (rc != 0 && write(ends[1], e.msg, strlen(e.msg)) < 0)
            _exit(2);
        _exit(rc == 0 ? 0 : 1);
    }
    close(ends[1]);
    ssize_t n = read(ends[0], why, sizeof why - 1);
    close(ends[0]);
    int status = -1;
    while (pid > 0 && waitpid(pid, &status, 0) < 0 && errno == EINTR)
        ;
    if (status == 0)
        return json_true();
    return n > 0 ? json_lossy_string(why, (size_t)n) : json_string("the attempt was killed");
}

int probe_print(void)
{
    bool is_root = geteuid() == 0;
    json_t *walls = json_object();
    for (int i = 0; i < WALL_COUNT; i++)
        json_object_set_new(walls, wall_name((enum wall)i),
                            i == WALL_UID && !is_root ? json_null() : result_of((enum wall)i));
    json_t *all =
        json_pack("{s:b, s:i, s:o}", "root", is_root, "landlock", landlock_abi(), "walls", walls);
    char *text auto_free = json_to_string(all);
    puts(text);
    json_decref(all);
    return 0;
}
