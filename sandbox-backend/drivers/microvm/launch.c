// SPDX-License-Identifier: Apache-2.0
// Starting QEMU: the descriptors that it inherits, its arguments, its jail.
#include "sandbox-backend/drivers/microvm/launch.h"

#include <errno.h>
#include <fcntl.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include "sandbox-backend/base/fd.h"
#include "sandbox-backend/base/home.h"
#include "sandbox-backend/base/mem.h"
#include "sandbox-backend/base/str.h"
#include "sandbox-backend/drivers/host/childlog.h"
#include "sandbox-backend/drivers/host/jailed.h"
#include "sandbox-backend/drivers/microvm/fit.h"
#include "sandbox-backend/drivers/microvm/qemu/qemu.h"
#include "sandbox-backend/drivers/microvm/qemu/qemu_binary.h"

// Descriptors that only QEMU keeps. The daemon closes its copies once QEMU runs.
struct files {
    int memory, base, overlay;
    int frames; // its end of the network card
};

static int open_file(const char *path, int flags, struct err *e)
{
    int fd = open(path, flags | O_CLOEXEC);
    return fd < 0 ? err_sys(e, errno, "open %s", path) : fd;
}

// Open the files, each with only the access that QEMU needs.
static int open_files(const struct launch *l, struct files *f, struct err *e)
{
    char *base auto_free = str_printf("%s/" TEMPLATE_DISK, l->template_dir);
    if (fit_reserve(l->memory, e) < 0)
        return -1;
    if ((f->memory = open_file(l->memory, O_RDONLY, e)) < 0 ||
        (f->base = open_file(base, O_RDONLY, e)) < 0 ||
        (f->overlay = open_file(l->overlay, O_RDWR, e)) < 0)
        return -1;
    return 0;
}

// Make the sockets and the log.
static int open_channels(const struct launch *l, struct files *f, struct launched *out,
                         struct err *e)
{
    int frames[2];
    if (socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, frames) != 0)
        return err_sys(e, errno, "make a socket pair");
    f->frames = frames[0];
    out->frames = frames[1];
    out->qmp = fd_listen_unix(l->qmp, e);
    out->log = out->qmp < 0 ? -1 : childlog_open("qemu.log", e);
    return out->log < 0 ? -1 : 0;
}

static int start(uv_loop_t *loop, const struct launch *l, const struct files *f,
                 subproc_exit_cb on_exit, void *ctx, struct launched *out, struct err *e)
{
    const struct template *t = l->template;
    bool boots = l->vmstate < 0;
    char *preload auto_free = qemu_preload(e);
    char *kernel auto_free = str_printf("%s/" TEMPLATE_KERNEL, l->template_dir);
    char *initrd auto_free = str_printf("%s/" TEMPLATE_INITRD, l->template_dir);
    char *append auto_free = boots ? qemu_kernel_args(t->accel) : NULL;
    struct qemu_config config = {.binary = l->binary,
                                 .name = l->name,
                                 .machine = t->machine,
                                 .accel = t->accel,
                                 .cpu_model = t->cpu_model,
                                 .memory_mb = (int)t->memory_mb,
                                 .cpus = (int)t->cpus,
                                 .gives_back = t->gives_back,
                                 .disk_overlay = true,
                                 .kernel = boots ? kernel : NULL,
                                 .initrd = boots ? initrd : NULL,
                                 .append = append,
                                 .incoming = !boots,
                                 .no_header = !boots && l->no_header};
    if (!preload)
        return -1;
    char **argv = qemu_argv(&config);
    const int fds[QEMU_FD_COUNT] = {[0] = -1,
                                    [1] = out->log,
                                    [2] = out->log,
                                    [QEMU_FD_QMP] = out->qmp,
                                    [QEMU_FD_NET] = f->frames,
                                    [QEMU_FD_VMSTATE] = l->vmstate,
                                    [QEMU_FD_MEMORY] = f->memory,
                                    [QEMU_FD_DISK] = f->base,
                                    [QEMU_FD_OVERLAY] = f->overlay,
                                    [QEMU_FD_CONSOLE] = -1};
    // A later daemon, which is not the parent of QEMU, must be able to save the machine.
    struct spawn_opts opts = {.file = l->binary,
                              .argv = argv,
                              .preload = preload,
                              .fds = fds,
                              .fd_count = QEMU_FD_COUNT,
                              .is_open = true};
    const char *files[QEMU_FILES_MAX];
    qemu_files(files, config.kernel, config.initrd);
    const struct jailed_program program = {
        .kind = JAIL_VMM, .files = files, .kvm = str_eq(t->accel, "kvm")};
    out->process = jailed_start(loop, &program, &opts, on_exit, ctx, e);
    qemu_argv_free(argv);
    return out->process ? 0 : -1;
}

int launch(uv_loop_t *loop, const struct launch *l, subproc_exit_cb on_exit, void *ctx,
           struct launched *out, struct err *e)
{
    struct files f = {-1, -1, -1, -1};
    *out = LAUNCHED_NONE;
    int failed = open_files(l, &f, e);
    failed = failed ? failed : open_channels(l, &f, out, e);
    failed = failed ? failed : start(loop, l, &f, on_exit, ctx, out, e);
    const int own[] = {f.memory, f.base, f.overlay, f.frames};
    for (size_t i = 0; i < ARRAY_LEN(own); i++)
        mem_close_fd(&own[i]);
    return failed;
}

void launched_close(struct launched *l)
{
    const int fds[] = {steal_fd(&l->qmp), steal_fd(&l->frames), steal_fd(&l->log)};
    for (size_t i = 0; i < ARRAY_LEN(fds); i++)
        mem_close_fd(&fds[i]);
}
