// SPDX-License-Identifier: Apache-2.0
// The Python kernel as init starts it: as the user and in the directory of commands.
#include "sandbox-backend/guest/python_kernel.h"

#include <errno.h>
#include <fcntl.h>
#include <grp.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "sandbox-backend/base/limits.h"
#include "sandbox-backend/base/mem.h"
#include "sandbox-backend/base/str.h"
#include "sandbox-backend/base/users.h"
#include "sandbox-backend/guest/step.h"

#define TEXT_OF(number) #number
#define TEXT(number)    TEXT_OF(number)

#define KERNEL         "/usr/lib/cubby/kernel"
#define ENVIRONMENT    "/usr/lib/cubby/environment"
#define DEFAULTS       "/usr/lib/cubby/defaults"
#define ENV_BYTES      (256 * 1024)
#define DEFAULTS_BYTES 8192
// The user that a guest has if its files name none, or one that does not exist.
#define USER_NAME "user"
#define USER_ID   1000
#define USER_HOME "/home/user"
#define USER_PATH "/.local/bin:/usr/local/bin:/usr/bin:/bin:/usr/local/games:/usr/games"
#define CGROUP    "/sys/fs/cgroup/kernel"
// When memory runs out, commands and contexts must end before the server and the zygote, without
// which all contexts are lost. envd sets a score of its own.
#define OOM_SCORE "-500"

bool python_kernel_is_here(void)
{
    return access(KERNEL, F_OK) == 0;
}

// The file pids.max exists in a guest of gVisor only.
void python_kernel_make_group(void)
{
    if (mkdir(CGROUP, 0755) < 0 && errno != EEXIST)
        step_say("mkdir " CGROUP ": %s", strerror(errno));
    if (access(CGROUP "/pids.max", W_OK) == 0)
        step_write(CGROUP "/pids.max", TEXT(LIMIT_KERNEL_TASKS));
}

// Read a file into static memory; the child has no other use for it. Return its length.
static size_t read_text(const char *path, char *out, size_t size)
{
    size_t len = 0;
    int fd = open(path, O_RDONLY | O_CLOEXEC);
    for (ssize_t n; fd >= 0 && len < size - 1 && (n = read(fd, out + len, size - 1 - len)) > 0;)
        len += (size_t)n;
    if (fd >= 0)
        close(fd);
    out[len] = '\0';
    return len;
}

// ---- the user and the directory
// They are the two strings of the file DEFAULTS; both are "" without it.
static void read_defaults(const char **user, const char **directory)
{
    static char text[DEFAULTS_BYTES];
    size_t len = read_text(DEFAULTS, text, sizeof text);
    size_t first = strlen(text);
    *user = text;
    *directory = first < len ? text + first + 1 : "";
}

static void find_user(const char *name, struct user *out)
{
    struct users *users = users_new("/etc");
    if (users_find(users, *name ? name : USER_NAME, out, NULL) < 0 &&
        users_find(users, USER_NAME, out, NULL) < 0)
        *out = (struct user){.name = USER_NAME,
                             .home = USER_HOME,
                             .uid = USER_ID,
                             .gid = USER_ID,
                             .groups = {USER_ID},
                             .group_count = 1};
    users_free(users);
}

// Return the directory in which this process is then. The first that can be entered is taken.
static const char *enter_directory(const char *wanted, const char *home)
{
    const char *const choices[] = {wanted, home, "/"};
    for (size_t i = 0; i < ARRAY_LEN(choices); i++)
        if (*choices[i] && chdir(choices[i]) == 0)
            return choices[i];
    return NULL;
}

// ---- the environment
// Set the environment of a login, and the variables of the image, which go before it. PATH, by
// which python3 is found, is among them.
static void set_environment(const struct user *u)
{
    static char text[ENV_BYTES];
    size_t len = read_text(ENVIRONMENT, text, sizeof text);
    char *path auto_free = str_printf("%s" USER_PATH, u->home);
    clearenv();
    setenv("PATH", path, 1);
    setenv("HOME", u->home, 1);
    setenv("USER", u->name, 1);
    setenv("LOGNAME", u->name, 1);
    setenv("SHELL", access("/bin/bash", X_OK) == 0 ? "/bin/bash" : "/bin/sh", 1);
    setenv("LC_CTYPE", "C.UTF-8", 1);
    for (char *at = text; at < text + len; at += strlen(at) + 1) {
        char *equals = strchr(at, '=');
        if (!equals || equals == at)
            continue;
        *equals = '\0';
        setenv(at, equals + 1, 1);
        *equals = '=';
    }
}

void python_kernel_run(bool owns_kernel)
{
    const char *name, *wanted;
    struct user user;
    if (owns_kernel) {
        step_write("/proc/self/oom_score_adj", OOM_SCORE);
        step_write(CGROUP "/cgroup.procs", "0");
    }
    read_defaults(&name, &wanted);
    find_user(name, &user);
    // It has the groups of envd's commands, so that both can open the same files.
    if (setgroups((size_t)user.group_count, user.groups) < 0 || setgid(user.gid) < 0 ||
        setuid(user.uid) < 0)
        return;
    const char *directory = enter_directory(wanted, user.home);
    if (!directory)
        return;
    set_environment(&user);
    const char *const argv[] = {"python3", KERNEL, "--cwd", directory, NULL};
    execvp("python3", (char *const *)(uintptr_t)argv);
}
