// SPDX-License-Identifier: Apache-2.0
// The paths of Cubby's files: the state directory, and the parts of the installation.
#include "sandbox-backend/base/home.h"

#include <errno.h>
#include <limits.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "sandbox-backend/base/fd.h"
#include "sandbox-backend/base/mem.h"
#include "sandbox-backend/base/sandbox_id.h"
#include "sandbox-backend/base/str.h"

#define LONGEST_SOCKET_BELOW (sizeof "/sandboxes/" - 1 + SANDBOX_ID_LEN + sizeof "/qmp.sock" - 1)

static char *chosen(struct err *e)
{
    const char *set = getenv("CUBBY_HOME");
    if (set && *set)
        return xstrdup(set);
    if (geteuid() == 0)
        return xstrdup("/var/lib/cubby");
    const char *user_home = getenv("HOME");
    if (user_home && *user_home)
        return str_printf("%s/.local/share/cubby", user_home);
    err_set(e, ERR_INVALID,
            "neither CUBBY_HOME nor HOME is set; set CUBBY_HOME to a directory for Cubby's state");
    return NULL;
}

char *home_open(struct err *e)
{
    char *dir auto_free = chosen(e);
    if (!dir)
        return NULL;
    if (dir[0] != '/') {
        err_set(e, ERR_INVALID, "CUBBY_HOME must be an absolute path, not \"%s\"", dir);
        return NULL;
    }
    struct stat st;
    if (stat(dir, &st) == 0 && !S_ISDIR(st.st_mode)) {
        err_set(e, ERR_INVALID, "CUBBY_HOME is not a directory: %s; set it to a directory", dir);
        return NULL;
    }
    if (dir_make(dir, 0700, e) < 0) {
        err_wrap(e, "state directory");
        return NULL;
    }
    char *absolute = realpath(dir, NULL);
    if (!absolute) {
        err_sys(e, errno, "state directory %s", dir);
        return NULL;
    }
    if (strlen(absolute) + LONGEST_SOCKET_BELOW > UNIX_PATH_MAX_BYTES) {
        err_set(e, ERR_INVALID,
                "CUBBY_HOME is too long: %s has %zu characters, and at most %zu leave room for the "
                "sockets below it; choose a shorter path",
                absolute, strlen(absolute), (size_t)UNIX_PATH_MAX_BYTES - LONGEST_SOCKET_BELOW);
        free(absolute);
        return NULL;
    }
    return absolute;
}

int home_check_node(const char *home, const char *node, struct err *e)
{
    size_t most = UNIX_PATH_MAX_BYTES - LONGEST_SOCKET_BELOW;
    if (strlen(home) + strlen(node) <= most)
        return 0;
    return err_set(e, ERR_INVALID,
                   "CUBBY_HOME is too long for the node name \"%s\": %s has %zu characters, and at "
                   "most %zu leave room for the sockets below it; choose a shorter path or name",
                   node, home, strlen(home), most - strlen(node));
}

char *home_path(const char *home, const char *relative)
{
    return str_printf("%s/%s", home, relative);
}

// ---- the installation

// Write the directory of the running program, without a trailing slash.
static int own_directory(char out[PATH_MAX], struct err *e)
{
    ssize_t n = readlink("/proc/self/exe", out, PATH_MAX - 1);
    if (n < 0)
        return err_sys(e, errno, "read /proc/self/exe");
    out[n] = '\0';
    *strrchr(out, '/') = '\0';
    return 0;
}

static char *first_existing(const char *const *below, const char *name, struct err *e)
{
    char dir[PATH_MAX];
    if (own_directory(dir, e) < 0)
        return NULL;
    // Without "..": a jail shows files at their plain paths.
    const char *slash = strrchr(dir, '/');
    char *parent auto_free = xstrndup(dir, slash ? (size_t)(slash - dir) : 0);
    for (; *below; below++) {
        bool beside = !str_starts(*below, "../");
        char *path = beside ? str_printf("%s/%s%s", dir, *below, name)
                            : str_printf("%s/%s%s", parent, *below + 3, name);
        if (file_exists(path))
            return path;
        free(path);
    }
    err_set(
        e, ERR_PRECONDITION,
        "%s is missing from this installation (looked from %s); run \"make\" or reinstall Cubby",
        name, dir);
    return NULL;
}

char *self_program(const char *name, struct err *e)
{
    static const char *const BELOW[] = {"../libexec/cubby/", "", NULL};
    return first_existing(BELOW, name, e);
}

char *self_guest(const char *name, struct err *e)
{
    static const char *const BELOW[] = {"../guest/", "../lib/cubby/guest/", NULL};
    return first_existing(BELOW, name, e);
}
