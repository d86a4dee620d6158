// SPDX-License-Identifier: Apache-2.0
// Find gVisor's runsc, and prove that it is the build that runsc_pin.h names.
#include "sandbox-backend/drivers/gvisor/runsc.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <unistd.h>

#include "sandbox-backend/base/fd.h"
#include "sandbox-backend/base/home.h"
#include "sandbox-backend/base/mem.h"
#include "sandbox-backend/base/str.h"
#include "sandbox-backend/drivers/gvisor/gvisor.h"
#include "sandbox-backend/drivers/gvisor/runsc_pin.h"
#include "sandbox-backend/keys/sha256.h"

// The file that was found to be the pinned build. One loop and one thread use this in each process.
static struct file_stamp known;

// Compare the file's bytes with the pin. Return 0, or -1 with `e`.
static int check_bytes(const char *path, struct err *e)
{
    struct sha256 found, pinned;
    if (sha256_of_file(path, &found, e) < 0)
        return -1;
    if (sha256_from_hex(RUNSC_SHA256, &pinned) && sha256_equal(&found, &pinned))
        return 0;
    return err_set(
        e, ERR_PRECONDITION,
        "%s is not the build of runsc that Cubby needs (" RUNSC_VERSION
        ", sha256 %.12s...); build it with `make runsc`, or set the environment variable "
        "CUBBY_RUNSC to its path",
        path, RUNSC_SHA256);
}

// A driver knows its processes by the name of their program (driver.owns), which is that of the
// file behind all symbolic links.
static int check_name(const char *path, struct err *e)
{
    char real[PATH_MAX];
    const char *name = str_base(realpath(path, real) ? real : path);
    if (gvisor_driver.owns(name))
        return 0;
    return err_set(
        e, ERR_PRECONDITION,
        "%s is the right build of runsc, but the file is named %s; rename it so that its "
        "name begins with \"runsc\", by which Cubby finds the processes of runsc",
        path, name);
}

char *runsc_find(const char *given, struct err *e)
{
    struct file_stamp stamp;
    const char *named = given ? given : getenv("CUBBY_RUNSC");
    char *path auto_free = named && *named ? xstrdup(named) : self_program("runsc", NULL);
    if (!path) {
        err_set(e, ERR_NOT_FOUND,
                "gVisor's runsc is not installed; run `make runsc` and `make install` in Cubby's "
                "source, or set the environment variable CUBBY_RUNSC to its path");
        return NULL;
    }
    bool is_known = file_stamp_get(path, &stamp) && file_stamp_equal(&stamp, &known);
    if (!is_known && check_bytes(path, e) < 0)
        return NULL;
    known = stamp;
    return check_name(path, e) == 0 ? steal(&path) : NULL;
}

int runsc_tell_memory(const char *path, int64_t memory_mb, struct err *e)
{
    char text[64];
    int len = snprintf(text, sizeof text, "MemTotal: %lld kB\n", (long long)memory_mb << 10);
    return file_replace(path, text, (size_t)len, 0600, e);
}

int runsc_stdin(struct err *e)
{
    int fd = memfd_create("stdin", MFD_CLOEXEC | MFD_ALLOW_SEALING);
    int seals = F_SEAL_WRITE | F_SEAL_GROW | F_SEAL_SHRINK | F_SEAL_SEAL;
    if (fd >= 0 && fcntl(fd, F_ADD_SEALS, seals) == 0)
        return fd;
    err_sys(e, errno, "make an empty standard input");
    if (fd >= 0)
        close(fd);
    return -1;
}
