// SPDX-License-Identifier: Apache-2.0
// cubby daemon: cubbyd in the foreground.
#include <errno.h>
#include <stdlib.h>
#include <unistd.h>

#include "sandbox-backend/base/mem.h"
#include "sandbox-backend/base/self.h"
#include "sandbox-backend/cli/cli.h"

// All its options, --help among them, are cubbyd's own.
int verb_daemon(int argc, char **argv)
{
    (void)argc;
    struct err e = ERR_INIT;
    char *program auto_free = self_program("cubbyd", &e);
    if (!program)
        return cli_fail(&e);
    argv[0] = program;
    execv(program, argv);
    err_sys(&e, errno, "run %s", program);
    return cli_fail(&e);
}
