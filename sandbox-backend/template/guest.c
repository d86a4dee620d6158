// SPDX-License-Identifier: Apache-2.0
// The guest that a template is made from: its boot, and the snapshot of it.
//
// The guest's RAM is a shared mapping of TEMPLATE_MEMORY, so the guest must only be stopped to save
// it. The migration stream leaves out shared memory (x-ignore-shared). It holds the state of the
// devices, some tens of kilobytes.
//
// Both processes run in the jail of sandboxes: the guest may have the files of anybody's image.
#include "sandbox-backend/template/guest.h"

#include <errno.h>
#include <fcntl.h>
#include <jansson.h>
#include <signal.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include "sandbox-backend/base/fd.h"
#include "sandbox-backend/base/mem.h"
#include "sandbox-backend/base/str.h"
#include "sandbox-backend/drivers/host/jailed.h"
#include "sandbox-backend/drivers/host/subproc.h"
#include "sandbox-backend/drivers/microvm/image/template.h"
#include "sandbox-backend/drivers/microvm/qemu/qemu.h"
#include "sandbox-backend/drivers/microvm/qemu/qemu_binary.h"
#include "sandbox-backend/drivers/microvm/qemu/qmp.h"

#define QMP_MS     10000
#define MIGRATE_MS 60000
#define QUIT_MS    30000
#define FILE_MODE  0644

// A guest looks for free memory two seconds after memory was freed (Linux, mm/page_reporting.c). It
// looks again, two seconds later, as long as there is more than one report holds. A guest that is
// late costs memory, and nothing else.
#define QUIET_MS  3000
#define LOOK_MS   500
#define SETTLE_MS 40000

struct template_guest {
    struct pump *pump;    // borrowed
    struct subproc *qemu; // owned
    struct subproc *netd; // owned
    struct qmp *qmp;      // owned
    char *vmnet;          // owned
    char *qmp_path;       // owned
    char *vmstate;        // owned; path
    char *memory;         // owned; path
    bool ending;          // the end of QEMU is expected
    bool qemu_gone;
    bool replied; // the last command has been answered
    bool migrated;
    struct err failed; // the error of that command, or of the migration
    int open;          // objects that have not reported yet that they are closed
};

static void lost(struct template_guest *g, const char *who, const char *how)
{
    if (!g->ending)
        err_set(&g->pump->dead, ERR_INTERNAL, "%s %s", who, how);
}

static void on_qemu_exit(struct subproc *p, int status, void *ctx)
{
    (void)p;
    struct template_guest *g = ctx;
    char how[64];
    subproc_describe(status, how, sizeof(how));
    g->qemu_gone = true;
    if (!g->ending && WIFSIGNALED(status) && WTERMSIG(status) == SIGBUS)
        err_set(&g->pump->dead, ERR_NO_SPACE, "the guest's memory found no room");
    lost(g, "QEMU", how);
}

static void on_netd_exit(struct subproc *p, int status, void *ctx)
{
    (void)p;
    char how[64];
    subproc_describe(status, how, sizeof(how));
    lost(ctx, "cubby-netd", how);
}

static void on_event(struct qmp *q, const char *name, const json_t *data, void *ctx)
{
    (void)q;
    struct template_guest *g = ctx;
    const char *status = json_string_value(json_object_get(data, "status"));
    const char *action = json_string_value(json_object_get(data, "action"));
    if (str_eq(name, "BLOCK_IO_ERROR") && str_eq(action, "stop")) // the guest would wait for room
        err_set(&g->pump->dead, ERR_NO_SPACE, "the guest's disk found no room");
    if (str_eq(name, "SHUTDOWN") || str_eq(name, "GUEST_PANICKED"))
        lost(g, "the guest ended on its own: event", name);
    if (!str_eq(name, "MIGRATION") || !status)
        return;
    if (str_eq(status, "failed"))
        err_set(&g->failed, ERR_INTERNAL, "QEMU could not save the machine's state");
    g->migrated = str_eq(status, "completed") || str_eq(status, "failed");
}

static void on_lost(struct qmp *q, const struct err *e, void *ctx)
{
    (void)q;
    lost(ctx, "QEMU:", e->msg);
}

// ---- start: descriptors, then both processes, then QMP
struct channels {
    int frames[2]; // QEMU's end and netd's end
    int vmnet;
    int qmp;
    int memory;
    int disk;
    int console;
};

static void channels_close(struct channels *c)
{
    int fds[] = {c->frames[0], c->frames[1], c->vmnet, c->qmp, c->memory, c->disk, c->console};
    for (size_t i = 0; i < ARRAY_LEN(fds); i++)
        if (fds[i] >= 0)
            close(fds[i]);
}

static int open_in(const char *dir, const char *name, int flags, struct err *e)
{
    char *path auto_free = str_printf("%s/%s", dir, name);
    int fd = open(path, flags | O_CLOEXEC, FILE_MODE);
    return fd < 0 ? err_sys(e, errno, "open %s", path) : fd;
}

static int files_open(struct channels *c, const struct template_guest_spec *spec, struct err *e)
{
    if ((c->memory = open_in(spec->dir, TEMPLATE_MEMORY, O_RDWR | O_CREAT | O_TRUNC, e)) < 0 ||
        (c->disk = open_in(spec->dir, TEMPLATE_DISK, O_RDWR, e)) < 0 ||
        (c->console = open_in(spec->dir, TEMPLATE_CONSOLE, O_WRONLY | O_CREAT, e)) < 0)
        return -1;
    if (ftruncate(c->memory, (off_t)spec->memory_mb * 1024 * 1024) != 0)
        return err_sys(e, errno, "make room for the guest's memory");
    return 0;
}

static int channels_open(struct channels *c, const struct template_guest *g,
                         const struct template_guest_spec *spec, struct err *e)
{
    *c = (struct channels){{-1, -1}, -1, -1, -1, -1, -1};
    if (files_open(c, spec, e) != 0)
        return -1;
    if (socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, c->frames) < 0)
        return err_sys(e, errno, "socketpair");
    c->vmnet = fd_listen_unix(g->vmnet, e);
    c->qmp = c->vmnet < 0 ? -1 : fd_listen_unix(g->qmp_path, e);
    return c->qmp < 0 ? -1 : 0;
}

static int start_netd(struct template_guest *g, const struct template_guest_spec *spec,
                      const struct channels *c, struct err *e)
{
    char *argv[] = {(char *)(uintptr_t)spec->netd, (char *)(uintptr_t) "--frames-fd",
                    (char *)(uintptr_t) "3",       (char *)(uintptr_t) "--listen-fd",
                    (char *)(uintptr_t) "4",       (char *)(uintptr_t) "--mode",
                    (char *)(uintptr_t) "none",    NULL};
    const int fds[] = {-1, spec->log, spec->log, c->frames[1], c->vmnet};
    struct spawn_opts opts = {.file = spec->netd,
                              .argv = argv,
                              .fds = fds,
                              .fd_count = ARRAY_LEN(fds),
                              .dies_with_us = true};
    const struct jailed_program program = {.kind = JAIL_NETWORK};
    g->netd = jailed_start(&g->pump->loop, &program, &opts, on_netd_exit, g, e);
    return g->netd ? 0 : -1;
}

static int start_qemu(struct template_guest *g, const struct template_guest_spec *spec,
                      const struct channels *c, struct err *e)
{
    char *preload auto_free = qemu_preload(e);
    char *kernel auto_free = str_printf("%s/%s", spec->dir, TEMPLATE_KERNEL);
    char *initrd auto_free = str_printf("%s/%s", spec->dir, TEMPLATE_INITRD);
    char *args auto_free = qemu_kernel_args(spec->accel);
    // The Python kernel starts when the guest has its settings (setup_python).
    char *append auto_free = str_printf("%s cubby.hold", args);
    struct qemu_config config = {.binary = spec->qemu,
                                 .name = "cubby-template",
                                 .machine = QEMU_MACHINE,
                                 .accel = spec->accel,
                                 .cpu_model = qemu_cpu_model(spec->accel),
                                 .memory_mb = (int)spec->memory_mb,
                                 .cpus = (int)spec->cpus,
                                 .memory_shared = true,
                                 .gives_back = true,
                                 .console_file = true,
                                 .kernel = kernel,
                                 .initrd = initrd,
                                 .append = append};
    if (!preload)
        return -1;
    char **argv = qemu_argv(&config);
    const int fds[QEMU_FD_COUNT] = {[0] = -1,
                                    [1] = spec->log,
                                    [2] = spec->log,
                                    [QEMU_FD_QMP] = c->qmp,
                                    [QEMU_FD_NET] = c->frames[0],
                                    [QEMU_FD_VMSTATE] = -1,
                                    [QEMU_FD_MEMORY] = c->memory,
                                    [QEMU_FD_DISK] = c->disk,
                                    [QEMU_FD_OVERLAY] = -1,
                                    [QEMU_FD_CONSOLE] = c->console};
    struct spawn_opts opts = {.file = spec->qemu,
                              .argv = argv,
                              .preload = preload,
                              .fds = fds,
                              .fd_count = QEMU_FD_COUNT,
                              .dies_with_us = true};
    const char *files[QEMU_FILES_MAX];
    qemu_files(files, kernel, initrd);
    const struct jailed_program program = {
        .kind = JAIL_VMM, .files = files, .kvm = str_eq(spec->accel, "kvm")};
    g->qemu = jailed_start(&g->pump->loop, &program, &opts, on_qemu_exit, g, e);
    qemu_argv_free(argv);
    return g->qemu ? 0 : -1;
}

static int start_qmp(struct template_guest *g, struct err *e)
{
    static const struct qmp_events EVENTS = {.on_event = on_event, .on_lost = on_lost};
    int fd = qmp_connect(g->qmp_path, e);
    if (fd < 0)
        return -1;
    g->qmp = qmp_open(&g->pump->loop, fd, &EVENTS, g);
    return 0;
}

struct template_guest *template_guest_start(struct pump *p, const struct template_guest_spec *spec,
                                            struct err *e)
{
    struct template_guest *g = xcalloc(1, sizeof(*g));
    struct channels c;
    g->pump = p;
    g->vmnet = str_printf("%s/vm.net", spec->dir);
    g->qmp_path = str_printf("%s/qmp.sock", spec->dir);
    g->vmstate = str_printf("%s/%s", spec->dir, TEMPLATE_VMSTATE);
    g->memory = str_printf("%s/%s", spec->dir, TEMPLATE_MEMORY);
    int result = channels_open(&c, g, spec, e);
    if (result == 0)
        result = start_netd(g, spec, &c, e);
    if (result == 0)
        result = start_qemu(g, spec, &c, e);
    if (result == 0)
        result = start_qmp(g, e);
    channels_close(&c);
    if (result == 0)
        return g;
    template_guest_close(g);
    return NULL;
}

const char *template_guest_vmnet(const struct template_guest *g)
{
    return g->vmnet;
}

// ---- settle
// Wait until the guest has reported its free memory, which becomes holes in the file. Otherwise
// each sandbox would begin by reporting all of it.
int template_guest_settle(struct template_guest *g, struct err *e)
{
    blkcnt_t blocks = -1;
    for (int waited = 0, quiet = 0; waited < SETTLE_MS && quiet < QUIET_MS; waited += LOOK_MS) {
        struct stat st;
        if (stat(g->memory, &st) != 0)
            return err_sys(e, errno, "look at %s", g->memory);
        quiet = st.st_blocks == blocks ? quiet + LOOK_MS : 0;
        blocks = st.st_blocks;
        if (pump_pause(g->pump, LOOK_MS, e) < 0)
            return -1;
    }
    return 0;
}

// ---- save
static void on_reply(struct qmp *q, const json_t *value, const struct err *e, void *ctx)
{
    (void)q;
    (void)value;
    struct template_guest *g = ctx;
    if (e && !err_is(&g->failed))
        g->failed = *e;
    g->replied = true;
}

// Wait for the answer to the last command.
static int await_reply(struct template_guest *g, const char *name, struct err *e)
{
    if (pump_until(g->pump, &g->replied, 2ULL * QMP_MS, name, e) < 0)
        return -1;
    return err_is(&g->failed) ? err_set(e, g->failed.code, "%s: %s", name, g->failed.msg) : 0;
}

static int command(struct template_guest *g, const char *name, json_t *arguments, struct err *e)
{
    g->replied = false;
    qmp_execute(g->qmp, name, arguments, QMP_MS, on_reply, g);
    return await_reply(g, name, e);
}

static json_t *capabilities(void)
{
    return json_pack("{s:[{s:s,s:b},{s:s,s:b}]}", "capabilities", "capability", "x-ignore-shared",
                     "state", 1, "capability", "events", "state", 1);
}

// Give QEMU the file as a descriptor: at this point QEMU may not open files or start programs.
static int give_file(struct template_guest *g, struct err *e)
{
    int fd auto_close = open(g->vmstate, O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, FILE_MODE);
    if (fd < 0)
        return err_sys(e, errno, "create %s", g->vmstate);
    g->replied = false;
    qmp_give_fd(g->qmp, "vmstate", fd, QMP_MS, on_reply, g);
    return await_reply(g, "getfd", e);
}

int template_guest_save(struct template_guest *g, struct err *e)
{
    if (command(g, "stop", NULL, e) < 0 ||
        command(g, "migrate-set-capabilities", capabilities(), e) < 0 || give_file(g, e) < 0 ||
        command(g, "migrate", json_pack("{s:s}", "uri", "fd:vmstate"), e) < 0 ||
        pump_until(g->pump, &g->migrated, MIGRATE_MS, "saving the machine's state", e) < 0)
        return -1;
    if (err_is(&g->failed))
        return err_set(e, g->failed.code, "%s", g->failed.msg);
    g->ending = true;
    qmp_execute(g->qmp, "quit", NULL, QMP_MS, NULL, NULL);
    return pump_until(g->pump, &g->qemu_gone, QUIT_MS, "the end of QEMU", e);
}

// ---- close
static void on_part_closed(void *ctx)
{
    struct template_guest *g = ctx;
    if (--g->open)
        return;
    unlink(g->vmnet);
    unlink(g->qmp_path);
    free(g->vmnet);
    free(g->qmp_path);
    free(g->vmstate);
    free(g->memory);
    free(g);
}

static void close_process(struct template_guest *g, struct subproc *p)
{
    if (!p)
        return;
    subproc_kill(p);
    g->open++;
    subproc_close(p, on_part_closed, g);
}

void template_guest_close(struct template_guest *g)
{
    g->ending = true;
    g->open = 1; // one for the guest itself, until all parts were told to close
    if (g->qmp) {
        g->open++;
        qmp_close(g->qmp, on_part_closed, g);
    }
    close_process(g, g->qemu);
    close_process(g, g->netd);
    on_part_closed(g);
}
