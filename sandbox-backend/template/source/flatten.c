// SPDX-License-Identifier: Apache-2.0
// Run cubby-flatten in the jail.
//
// The jail shows it the layers or the disk and nothing else, without a network. Its result comes
// through an open file.
#include "sandbox-backend/template/source/flatten.h"

#include <errno.h>
#include <fcntl.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include "sandbox-backend/base/buf.h"
#include "sandbox-backend/base/fd.h"
#include "sandbox-backend/base/home.h"
#include "sandbox-backend/base/mem.h"
#include "sandbox-backend/base/str.h"
#include "sandbox-backend/drivers/host/jailed.h"
#include "sandbox-backend/template/rootfs.h"

#define PROGRAM       "cubby-flatten"
#define FLATTEN_MS    (30ULL * 60 * 1000)
#define ARGS_MORE     10
#define SAID_BYTES    4096
#define READABLE_MODE 0644 // the jail's user is another one

struct flattening {
    struct subproc *process; // owned
    bool ended;
    bool closed;
    int status;
};

static void on_exit_status(struct subproc *p, int status, void *ctx)
{
    (void)p;
    struct flattening *f = ctx;
    f->status = status;
    f->ended = true;
}

static void on_closed(void *ctx)
{
    ((struct flattening *)ctx)->closed = true;
}

// Return what the program said, its name left out.
static int judge(const struct flattening *f, int said, struct err *e)
{
    struct buf text auto_buf = BUF_INIT;
    char how[64];
    if (WIFEXITED(f->status) && WEXITSTATUS(f->status) == 0)
        return 0;
    if (lseek(said, 0, SEEK_SET) == 0)
        (void)fd_read_all(said, SAID_BYTES, &text, NULL);
    const char *line = buf_str(&text);
    if (str_starts(line, PROGRAM ": "))
        return err_set(e, ERR_INVALID, "%.*s", (int)strcspn(line + strlen(PROGRAM) + 2, "\n"),
                       line + strlen(PROGRAM) + 2);
    subproc_describe(f->status, how, sizeof how);
    return err_set(e, ERR_INTERNAL, PROGRAM " %s: %.300s", how, line);
}

static int await(struct pump *p, const struct flattening *f, int said, struct err *e)
{
    if (pump_until(p, &f->ended, FLATTEN_MS, "reading the files of the template", e) < 0)
        return -1;
    return judge(f, said, e);
}

static int run(struct pump *p, char *const *argv, const char *const *files, int out, struct err *e)
{
    struct flattening f = {.status = -1};
    int said auto_close = fd_open_temp(e);
    if (said < 0)
        return -1;
    const int fds[] = {-1, out, said};
    const struct spawn_opts opts = {.file = argv[0],
                                    .argv = argv,
                                    .fds = fds,
                                    .fd_count = ARRAY_LEN(fds),
                                    .dies_with_us = true};
    const struct jailed_program program = {.kind = JAIL_VMM, .is_own = true, .files = files};
    f.process = jailed_start(&p->loop, &program, &opts, on_exit_status, &f, e);
    if (!f.process)
        return -1;
    int result = await(p, &f, said, e);
    subproc_kill(f.process);
    subproc_close(f.process, on_closed, &f);
    while (!f.closed) // `f` is the callbacks'
        uv_run(&p->loop, UV_RUN_ONCE);
    return result;
}

int flatten_run(struct pump *p, const struct flatten_spec *spec, struct err *e)
{
    char *program auto_free = self_program(PROGRAM, e);
    char *to auto_free = str_printf("%s/" ROOTFS_TAR, spec->build_dir);
    char *max auto_free = str_printf("--max-bytes=%lld", (long long)spec->max_bytes);
    char *disk auto_free = spec->disk ? str_printf("--disk=%s", spec->disk) : NULL;
    char *directory auto_free =
        spec->directory ? str_printf("--directory=%s", spec->directory) : NULL;
    char *user auto_free = spec->user ? str_printf("--user=%s", spec->user) : NULL;
    char *diff_ids auto_free = spec->diff_ids ? str_printf("--diff-ids=%s", spec->diff_ids) : NULL;
    const char *const from_disk[] = {spec->disk, NULL};
    const char *const *files = spec->disk ? from_disk : spec->layers;
    int out auto_close = open(to, O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0600);
    size_t count = 0, n = 0;
    if (!program || out < 0)
        return program ? err_sys(e, errno, "create %s", to) : -1;
    for (; files[count]; count++)
        if (chmod(files[count], READABLE_MODE) < 0)
            return err_sys(e, errno, "make %s readable", files[count]);
    const char **argv auto_free = xcalloc(count + ARGS_MORE, sizeof *argv);
    argv[n++] = program;
    argv[n++] = max;
    if (disk)
        argv[n++] = disk;
    if (spec->checks)
        argv[n++] = "--check";
    const char *const more[] = {directory, user, diff_ids};
    for (size_t i = 0; i < ARRAY_LEN(more); i++)
        if (more[i])
            argv[n++] = more[i];
    for (size_t i = 0; !disk && i < count; i++)
        argv[n++] = files[i];
    return run(p, (char *const *)(uintptr_t)argv, files, out, e);
}
