// SPDX-License-Identifier: Apache-2.0
// Checks that a guest can run from a disk.
#include "sandbox-backend/image/disk_check.h"

#include <stdlib.h>
#include <string.h>

#include "sandbox-backend/base/mem.h"
#include "sandbox-backend/base/str.h"
#include "sandbox-backend/image/program.h"

#define USER         "user"
#define PASSWD_BYTES (1 << 20)

static int check_shell(struct disk *d, struct err *e)
{
    size_t len = 0;
    bool may_run = false;
    char *head auto_free = disk_file(d, "/bin/sh", PROGRAM_HEAD, &len, &may_run);
    if (!head || !may_run)
        return err_set(e, ERR_INVALID,
                       "the disk has no shell (/bin/sh), so no command could run in a sandbox of "
                       "it: take a disk that has one");
    return program_runs(head, len) ? 0
                                   : err_set(e, ERR_INVALID,
                                             "the disk's /bin/sh does not run: it is neither a "
                                             "program for this processor nor a script");
}

static bool has_account(const char *passwd, const char *name)
{
    size_t len = strlen(name);
    for (const char *line = passwd; line; line = strchr(line, '\n'), line = line ? line + 1 : NULL)
        if (strncmp(line, name, len) == 0 && line[len] == ':')
            return true;
    return false;
}

int disk_check(struct disk *d, const char *user, struct err *e)
{
    const char *const names[] = {USER, user ? user : USER};
    size_t len = 0;
    bool may_run = false;
    if (disk_needs_replay(d))
        return 0;
    if (check_shell(d, e) < 0)
        return -1;
    char *passwd auto_free = disk_file(d, "/etc/passwd", PASSWD_BYTES, &len, &may_run);
    for (size_t i = 0; i < ARRAY_LEN(names); i++)
        if (!has_account(passwd ? passwd : "", names[i]))
            return err_set(e, ERR_INVALID,
                           "the disk has no user \"%.64s\", as which commands are to run: add it "
                           "to the disk (useradd -m %.64s)",
                           names[i], names[i]);
    return 0;
}
