// SPDX-License-Identifier: Apache-2.0
// The guest of the tier "none". Its users are names for the daemon's own user: E2B's default user
// "user", and "root" if the daemon is root's.
#include "sandbox-backend/nest/host_dir.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "sandbox-backend/base/buf.h"
#include "sandbox-backend/base/fd.h"
#include "sandbox-backend/base/mem.h"
#include "sandbox-backend/base/str.h"
#include "sandbox-backend/nest/nest.h"

#define READY_BYTES 128
#define PATH_USUAL  "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"

static int write_file(const char *name, const char *text, struct err *e)
{
    char *path auto_free = str_printf(NEST_ETC_DIR "/%s", name);
    return file_replace(path, text, strlen(text), 0644, e);
}

int host_dir_make(struct err *e)
{
    static const char *const DIRS[] = {NEST_HOME_DIR, NEST_STATE_DIR, NEST_ETC_DIR, NEST_TMP_DIR};
    char *dir auto_free = getcwd(NULL, 0);
    if (!dir)
        return err_sys(e, errno, "find the sandbox's directory");
    if (strpbrk(dir, ":\n")) // it becomes a field of passwd
        return err_set(e, ERR_PRECONDITION,
                       "the tier none needs a CUBBY_HOME without colons and newlines in its path");
    for (size_t i = 0; i < ARRAY_LEN(DIRS); i++)
        if (dir_make(DIRS[i], 0700, e) < 0)
            return -1;
    unsigned uid = geteuid(), gid = getegid();
    struct buf users auto_buf = BUF_INIT, groups auto_buf = BUF_INIT;
    // envd looks up the users "user" and, if it is one, "root". Both are the daemon's user.
    const char *const names[] = {"user", "root"};
    size_t count = uid == 0 ? 2 : 1;
    for (size_t i = 0; i < count; i++) {
        const char *name = names[i];
        buf_printf(&users, "%s:x:%u:%u::%s/" NEST_HOME_DIR ":/bin/bash\n", name, uid, gid, dir);
        buf_printf(&groups, "%s:x:%u:\n", name, gid);
    }
    if (write_file("passwd", buf_str(&users), e) < 0)
        return -1;
    return write_file("group", buf_str(&groups), e);
}

// Wait for the line that envd writes when it listens.
static int wait_for_envd(const struct keep *k, int ready, struct err *e)
{
    char line[READY_BYTES] = "";
    size_t len = 0;
    ssize_t n = 1;
    while (n > 0 && len < sizeof line - 1 && !memchr(line, '\n', len)) {
        if (keep_wait(k, ready, e) < 0)
            return -1;
        n = read(ready, line + len, sizeof line - 1 - len); // one reader: it does not wait
        len += n > 0 ? (size_t)n : 0;
    }
    return str_starts(line, "ready ") ? 0 : err_set(e, ERR_UNAVAILABLE, "envd did not start");
}

// Commands inherit PATH, TMPDIR and CUBBY_COMMANDS from envd.
static char **environment(void)
{
    const char *path = getenv("PATH");
    char *dir auto_free = getcwd(NULL, 0);
    char *const all[] = {str_printf("PATH=%s", path ? path : PATH_USUAL),
                         str_printf("HOME=%s/" NEST_HOME_DIR, dir),
                         str_printf("TMPDIR=%s/" NEST_TMP_DIR, dir),
                         str_printf("CUBBY_COMMANDS=%s/" NEST_TMP_DIR "/.cubby", dir),
                         xstrdup("LANG=C.UTF-8"),
                         NULL};
    return xmemdup(all, sizeof all);
}

static void environment_free(char **all)
{
    for (char **one = all; *one; one++)
        free(*one);
    free(all);
}

int host_dir_start(struct keep *k, const char *envd, struct err *e)
{
    int ready[2];
    if (pipe2(ready, O_CLOEXEC) < 0)
        return err_sys(e, errno, "make a pipe");
    int in auto_close = ready[0], out auto_close = ready[1];
    char *number auto_free = str_printf("%d", out);
    const char *args[] = {envd,          "--bind",      "none",         "--unix",
                          HOST_DIR_ENVD, "--state-dir", NEST_STATE_DIR, "--users",
                          NEST_ETC_DIR,  "--ready-fd",  number,         NULL};
    char *argv[ARRAY_LEN(args)]; // execve(2) takes no const, but changes nothing
    for (size_t i = 0; i < ARRAY_LEN(args); i++)
        argv[i] = (char *)(uintptr_t)args[i];
    char **env = environment();
    int result = keep_start(k, argv, env, out, e);
    environment_free(env);
    close(steal_fd(&out)); // the end of file tells that envd has ended
    return result < 0 ? -1 : wait_for_envd(k, in, e);
}
