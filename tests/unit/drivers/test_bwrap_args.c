// SPDX-License-Identifier: Apache-2.0
// The command line of bwrap.
#include <stddef.h>
#include <string.h>

#include "sandbox-backend/base/mem.h"
#include "sandbox-backend/base/str.h"
#include "sandbox-backend/drivers/bubblewrap/bwrap_args.h"
#include "sandbox-backend/nest/nest.h"
#include "tests/lib/harness/tap.h"

static const char *args[BWRAP_ARGS_MAX];

// Return the position of a word, or -1.
static int find(const char *word)
{
    for (int i = 0; args[i]; i++)
        if (str_eq(args[i], word))
            return i;
    return -1;
}

static void follows(const char *word, const char *value)
{
    int at = find(word);
    ok(at > 0 && str_eq(args[at + 1], value), "%s %s", word, value);
}

int main(void)
{
    static const char *const NAMESPACES[] = {"--unshare-pid", "--unshare-ipc", "--unshare-uts",
                                             "--unshare-cgroup-try"};
    static const char *const KEPT[] = {"CAP_SYS_ADMIN",   "CAP_NET_ADMIN", "CAP_NET_RAW",
                                       "CAP_MKNOD",       "CAP_SYS_BOOT",  "CAP_SYS_MODULE",
                                       "CAP_SYS_RESOURCE"};
    bwrap_args(args, "/usr/bin/bwrap", "1048576");
    is_str(args[0], "/usr/bin/bwrap", "the program by its path");
    ok(find("--die-with-parent") > 0, "it ends with cubby-nest");
    for (size_t i = 0; i < ARRAY_LEN(NAMESPACES); i++)
        ok(find(NAMESPACES[i]) > 0, "%s", NAMESPACES[i]);
    ok(find("--unshare-user") < 0 && find("--unshare-net") < 0,
       "cubby-nest has made the others, with rights that bwrap lacks");
    follows("--bind", NEST_ROOT);
    follows("--ro-bind", NEST_TOOLS);
    follows("--size", "1048576");
    follows("--seccomp", "9");
    ok(NEST_FD_FILTER == 9, "which is the descriptor of the filter");
    follows("--cap-drop", "ALL");
    ok(find("--cap-drop") < find("--cap-add"), "capabilities are dropped before some are added");
    for (size_t i = 0; i < ARRAY_LEN(KEPT); i++)
        ok(find(KEPT[i]) < 0, "root in the guest has no %s", KEPT[i]);
    follows("--as-pid-1", BWRAP_TOOLS "/init");
    follows("--shared", BWRAP_TOOLS "/envd");
    int last = find("--shared");
    ok(!args[last + 2], "and nothing follows");
    return tap_done();
}
