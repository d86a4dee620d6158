// SPDX-License-Identifier: Apache-2.0
// The package of the guest kernel.
//
// Each build from Debian packages leaves it in the cache of packages. Without that, apt fetches it
// from the host's sources, with directories of its own, so that root is not needed and the host's
// apt is left alone.
#include "sandbox-backend/template/source/kernel_package.h"

#include <glob.h>
#include <string.h>
#include <sys/stat.h>

#include "sandbox-backend/base/fd.h"
#include "sandbox-backend/base/home.h"
#include "sandbox-backend/base/mem.h"
#include "sandbox-backend/base/str.h"
#include "sandbox-backend/drivers/host/arch.h"
#include "sandbox-backend/template/rootfs.h"

#define FILES    "linux-image-[0-9]*-cloud-" ARCH_DEBIAN "_*.deb"
#define FETCH_MS (10 * 60 * 1000)

// $1: the directory for the package. apt keeps lists and state in $1/apt.
static const char FETCH[] =
    "set -eu\n"
    "mkdir -p \"$1/apt/lists/partial\" \"$1/apt/archives/partial\"; cd \"$1\"\n"
    "set -- -o Dir::State=\"$1/apt\" -o Dir::State::Lists=\"$1/apt/lists\" "
    "-o Dir::State::status=/var/lib/dpkg/status -o Dir::Cache=\"$1/apt\" "
    "-o APT::Sandbox::User= -o Acquire::Languages=none -o Debug::NoLocking=1\n"
    "apt-get \"$@\" -q update\n"
    "deb=$(apt-cache \"$@\" depends --important " KERNEL_PACKAGE
    " | sed -n 's/^ *Depends: \\(linux-image-[0-9][^ ]*\\)$/\\1/p' | head -n 1)\n"
    "[ -n \"$deb\" ] || { echo \"apt knows no package " KERNEL_PACKAGE "\" >&2; exit 1; }\n"
    "apt-get \"$@\" -q download \"$deb\"\n"
    "rm -rf apt\n";

// Return the newest package in a directory. New string, or NULL.
static char *newest(const char *dir)
{
    char *pattern auto_free = str_printf("%s/" FILES, dir);
    char *found = NULL;
    glob_t g = {0};
    struct stat best = {0}, st;
    if (glob(pattern, 0, NULL, &g) == 0)
        for (size_t i = 0; i < g.gl_pathc; i++)
            if (stat(g.gl_pathv[i], &st) == 0 && st.st_size > 0 &&
                st.st_mtim.tv_sec >= best.st_mtim.tv_sec) {
                best = st;
                free(found);
                found = xstrdup(g.gl_pathv[i]);
            }
    globfree(&g);
    return found;
}

static int fetch(const char *dir, const struct tool *tool, struct err *e)
{
    const char *argv[] = {"sh", "-c", FETCH, "sh", dir, NULL};
    struct tool apt = *tool;
    apt.timeout_ms = FETCH_MS;
    if (dir_make(dir, 0700, e) < 0)
        return -1;
    if (tool_run_like(&apt, argv, "dash", e) < 0)
        return err_wrap(e, "fetch the guest kernel's package " KERNEL_PACKAGE
                           " (or give a kernel by --kernel)");
    return 0;
}

int kernel_package_take(const char *home, const struct tool *tool, struct err *e)
{
    char *packages auto_free = home_path(home, "cache/apt");
    char *own auto_free = home_path(home, "cache/kernel");
    char *out auto_free = str_printf("%s/" ROOTFS_OUT, tool->cwd);
    char *to auto_free = str_printf("%s/linux.deb", out);
    char *found auto_free = newest(packages);
    if (!found)
        found = newest(own);
    if (!found && fetch(own, tool, e) < 0)
        return -1;
    if (!found)
        found = newest(own);
    if (!found)
        return err_set(e, ERR_NOT_FOUND, "apt fetched no package of a guest kernel");
    return dir_make(out, 0700, e) < 0 ? -1 : file_copy(found, to, 0644, e);
}
