// SPDX-License-Identifier: Apache-2.0
// cubby daemon: cubbyd in the foreground; cubby daemon status: whether one runs, and where.
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "sandbox-backend/base/mem.h"
#include "sandbox-backend/base/self.h"
#include "sandbox-backend/cli/cli.h"
#include "sandbox-backend/cli/listening.h"
#include "sandbox-backend/cli/session.h"

static int status(void)
{
    struct err e = ERR_INIT;
    struct session s;
    const struct session_opts here = {0};
    if (session_open(&s, &here, SESSION_NEVER_START, &e) < 0)
        return cli_fail(&e);
    json_t *list = session_list(&s, &e);
    char *url auto_free = list ? listening_url(s.home) : NULL;
    if (list)
        printf("runs\nsocket: %s/cubbyd.sock\nurl: %s\nsandboxes: %zu\n", s.home,
               url ? url : "none (cubbyd --listen)", json_array_size(list));
    else
        printf("does not run\nhome: %s\n", s.home);
    json_decref(list);
    session_close(&s);
    return list ? 0 : 1;
}

// All its options, --help among them, are cubbyd's own.
int verb_daemon(int argc, char **argv)
{
    struct err e = ERR_INIT;
    if (argc == 2 && strcmp(argv[1], "status") == 0)
        return status();
    char *program auto_free = self_program("cubbyd", &e);
    if (!program)
        return cli_fail(&e);
    argv[0] = program;
    execv(program, argv);
    err_sys(&e, errno, "run %s", program);
    return cli_fail(&e);
}
