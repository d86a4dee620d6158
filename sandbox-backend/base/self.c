// SPDX-License-Identifier: Apache-2.0
// Where the other parts of this installation are, seen from the running program.
#include "sandbox-backend/base/self.h"

#include <errno.h>
#include <limits.h>
#include <string.h>
#include <unistd.h>

#include "sandbox-backend/base/fd.h"
#include "sandbox-backend/base/mem.h"
#include "sandbox-backend/base/str.h"

// The directory of the running program, without a trailing slash.
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
    for (; *below; below++) {
        char *path = str_printf("%s/%s%s", dir, *below, name);
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
    static const char *const BELOW[] = {"", NULL};
    return first_existing(BELOW, name, e);
}

char *self_guest(const char *name, struct err *e)
{
    static const char *const BELOW[] = {"../guest/", "../lib/cubby/guest/", NULL};
    return first_existing(BELOW, name, e);
}
