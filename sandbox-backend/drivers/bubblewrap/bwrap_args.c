// SPDX-License-Identifier: Apache-2.0
// The command line of bwrap.
//
// cubby-nest has made the user namespace, the mounts of NEST_ROOT and the network namespace, so
// bwrap makes the others. It sets no_new_privs, so sudo does not work in the guest: its root is
// reached by envd's user "root" only.
#include "sandbox-backend/drivers/bubblewrap/bwrap_args.h"

#include <stddef.h>
#include <string.h>

#include "sandbox-backend/base/mem.h"
#include "sandbox-backend/nest/nest.h"

#define TEXT_OF(number) #number
#define TEXT(number)    TEXT_OF(number)

// The capabilities of root in the guest, over its own users and files. None of them lets it mount,
// change the network, or see other processes.
static const char *const CAPABILITIES[] = {
    "CAP_CHOWN",  "CAP_DAC_OVERRIDE", "CAP_FOWNER",           "CAP_FSETID",     "CAP_KILL",
    "CAP_SETGID", "CAP_SETUID",       "CAP_NET_BIND_SERVICE", "CAP_SYS_CHROOT", "CAP_SYS_PTRACE",
};

static size_t add(const char **args, size_t at, const char *const *more, size_t count)
{
    memcpy(args + at, more, count * sizeof *more);
    return at + count;
}

void bwrap_args(const char *args[BWRAP_ARGS_MAX], const char *bwrap, const char *size)
{
    const char *const namespaces[] = {bwrap,           "--die-with-parent", "--unshare-pid",
                                      "--unshare-ipc", "--unshare-uts",     "--unshare-cgroup-try"};
    const char *const mounts[] = {
        "--bind", NEST_ROOT,   "/",         "--proc",   "/proc",     "--dev",    "/dev",
        "--size", size,        "--perms",   "1777",     "--tmpfs",   "/dev/shm", "--size",
        size,     "--perms",   "0755",      "--tmpfs",  "/run",      "--perms",  "1777",
        "--dir",  "/run/lock", "--ro-bind", NEST_TOOLS, BWRAP_TOOLS, "--chdir",  "/"};
    const char *const rights[] = {"--seccomp", TEXT(NEST_FD_FILTER), "--cap-drop", "ALL"};
    const char *const program[] = {
        "--clearenv", "--setenv",
        "PATH",       "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin",
        "--as-pid-1", BWRAP_TOOLS "/init",
        "--shared",   BWRAP_TOOLS "/envd",
        NULL};
    size_t at = add(args, 0, namespaces, ARRAY_LEN(namespaces));
    at = add(args, at, mounts, ARRAY_LEN(mounts));
    at = add(args, at, rights, ARRAY_LEN(rights));
    for (size_t i = 0; i < ARRAY_LEN(CAPABILITIES); i++) {
        args[at++] = "--cap-add";
        args[at++] = CAPABILITIES[i];
    }
    add(args, at, program, ARRAY_LEN(program));
}
