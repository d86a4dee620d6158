// SPDX-License-Identifier: Apache-2.0
// Where Cubby keeps its state, and the paths in it.
#include "sandbox-backend/base/home.h"

#include <errno.h>
#include <limits.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "sandbox-backend/base/fd.h"
#include "sandbox-backend/base/mem.h"
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

char *home_path(const char *home, const char *relative)
{
    return str_printf("%s/%s", home, relative);
}
