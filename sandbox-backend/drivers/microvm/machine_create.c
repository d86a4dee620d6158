// SPDX-License-Identifier: Apache-2.0
// Starting a machine in numbered steps: restored from its template, or from an image of one, or
// booted (machine_boot.c) when its size is another.
#include "sandbox-backend/drivers/microvm/machine.h"

#include <errno.h>
#include <fcntl.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include "sandbox-backend/base/fault.h"
#include "sandbox-backend/base/fd.h"
#include "sandbox-backend/base/mem.h"
#include "sandbox-backend/base/self.h"
#include "sandbox-backend/base/str.h"
#include "sandbox-backend/drivers/microvm/childlog.h"
#include "sandbox-backend/drivers/microvm/fit.h"
#include "sandbox-backend/drivers/microvm/jailed.h"
#include "sandbox-backend/drivers/microvm/qemu.h"
#include "sandbox-backend/drivers/microvm/qemu_files.h"
#include "sandbox-backend/drivers/microvm/sized.h"

#define NETD_PROGRAM    "cubby-netd"
#define NETD_FD_FRAMES  "3" // what netd finds where
#define NETD_FD_LISTEN  "4"
#define NETD_FD_CONTROL "5"
#define NETD_FD_STATS   "6"
#define NETD_FD_POLICY  "7"
#define NETD_FD_EGRESS  "8"

// Of the sandbox's id, in the name of its QEMU. ps shows that to every user of the host, and who
// knows all of an id may open its public ports.
#define NAME_ID_CHARS 6

// The descriptors that the processes inherit; ours are closed once both run.
struct channels {
    int qmp;       // listening
    int vmnet;     // listening
    int control;   // listening
    int frames[2]; // of QEMU, of netd
    int vmstate;
    int memory; // what the guest's is a private mapping of
    int base;
    int overlay;
};

static void on_image_open(struct machine *m, const struct err *e);
static int begin(struct machine *m, struct err *e);
static char *apply_size(struct machine *m, struct template *t);
static int make_overlay(const struct machine *m, struct err *e);
static int open_files(const struct machine *m, const char *memory, struct channels *c,
                      struct err *e);
static int open_channels(struct machine *m, struct channels *c, struct err *e);
static int start_qemu(struct machine *m, const struct template *t, const char *binary,
                      const struct channels *c, struct err *e);
static int start_netd(struct machine *m, const struct channels *c, struct err *e);
static void limit(struct machine *m, const struct template *t);
static void boot(struct machine *m);
static void prepare_load(struct machine *m);
static void on_prepared(struct qmp *q, const json_t *value, const struct err *e, void *ctx);
static void on_filled(struct machine *m, const struct err *e);
static void load_state(struct machine *m);
static void on_loading(struct qmp *q, const json_t *value, const struct err *e, void *ctx);
static void on_continued(struct qmp *q, const json_t *value, const struct err *e, void *ctx);

struct machine *machine__create(uv_loop_t *loop, const struct machine_spec *spec,
                                machine_ready_cb on_ready, machine_exit_cb on_exit, void *ctx)
{
    struct machine *m = machine__new(loop, spec, on_ready, on_exit, ctx);
    struct err e = ERR_INIT;
    if (spec->image)
        machine__restore_open(m, spec->image, on_image_open);
    else if (begin(m, &e) != 0)
        machine__fail(m, &e); // the owner learns of it from the loop
    return m;
}

// 0. An image has been checked, and the disk is made.
static void on_image_open(struct machine *m, const struct err *e)
{
    struct err failed = e ? *e : ERR_INIT;
    if (m->state == MACHINE_STARTING && (e || begin(m, &failed) != 0))
        machine__fail(m, &failed);
}

static void channels_close(const struct channels *c)
{
    const int fds[] = {c->qmp,     c->vmnet,  c->control, c->frames[0], c->frames[1],
                       c->vmstate, c->memory, c->base,    c->overlay};
    for (size_t i = 0; i < ARRAY_LEN(fds); i++)
        mem_close_fd(&fds[i]);
}

// Steps 1 to 6, all within this turn of the loop.
static int begin(struct machine *m, struct err *e)
{
    struct template t;
    struct channels c = {-1, -1, -1, {-1, -1}, -1, -1, -1, -1};
    char *binary auto_free = NULL;
    // 1. The template, and whether it fits this host.
    if (fit_load(m->template, &t, &binary, e) != 0)
        return -1;
    char *memory auto_free = apply_size(m, &t);
    bool boots = sized_is_own(memory) && !m->restore;
    // 2. to 4. A disk, descriptors, QEMU (first, because it takes longest), netd.
    int failed = m->restore ? 0 : make_overlay(m, e);
    failed = failed ? failed : open_files(m, memory, &c, e);
    failed = failed ? failed : open_channels(m, &c, e);
    failed = failed ? failed : start_qemu(m, &t, binary, &c, e);
    failed = failed ? failed : start_netd(m, &c, e);
    if (!failed)
        limit(m, &t);
    channels_close(&c);
    template_fini(&t);
    machine__step(m, "started");
    // 5. The control connection: its listening socket is there already.
    if (failed || machine__open_qmp(m, e) != 0)
        return -1;
    if (boots)
        boot(m);
    else
        prepare_load(m);
    return 0;
}

// Its size is in `t` from here on. A restored disk has it already.
static char *apply_size(struct machine *m, struct template *t)
{
    int64_t had_mb = t->disk_mb;
    char *memory = sized_apply(t, m->template, &m->size);
    m->grow_mb = t->disk_mb > had_mb && !m->restore ? t->disk_mb : 0;
    return memory;
}

// 2. Its own disk: the template's empty overlay; what it is an overlay of is told to QEMU.
static int make_overlay(const struct machine *m, struct err *e)
{
    char *from auto_free = str_printf("%s/" TEMPLATE_OVERLAY, m->template);
    char *to auto_free = str_printf("%s/" MACHINE_OVERLAY, m->dir);
    return file_copy(from, to, 0600, e);
}

static int open_file(const char *path, int flags, struct err *e)
{
    int fd = open(path, flags | O_CLOEXEC);
    return fd < 0 ? err_sys(e, errno, "open %s", path) : fd;
}

// 3. The files, each for what QEMU may do with it.
static int open_files(const struct machine *m, const char *memory, struct channels *c,
                      struct err *e)
{
    bool boots = sized_is_own(memory) && !m->restore;
    char *vmstate auto_free =
        m->restore ? machine__restore_vmstate(m) : str_printf("%s/" TEMPLATE_VMSTATE, m->template);
    char *base auto_free = str_printf("%s/" TEMPLATE_DISK, m->template);
    char *overlay auto_free = str_printf("%s/" MACHINE_OVERLAY, m->dir);
    if ((!boots && (c->vmstate = open_file(vmstate, O_RDONLY, e)) < 0) ||
        (c->memory = open_file(memory, O_RDONLY, e)) < 0 ||
        (c->base = open_file(base, O_RDONLY, e)) < 0 ||
        (c->overlay = open_file(overlay, O_RDWR, e)) < 0)
        return -1;
    return 0;
}

// 3. Sockets and logs.
static int open_channels(struct machine *m, struct channels *c, struct err *e)
{
    if (socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, c->frames) != 0)
        return err_sys(e, errno, "make a socket pair");
    c->qmp = qemu_qmp_listen(m->qmp_path, e);
    c->vmnet = c->qmp < 0 ? -1 : qemu_qmp_listen(m->vmnet, e);
    c->control = c->vmnet < 0 ? -1 : qemu_qmp_listen(m->control, e);
    m->qemu_log = c->control < 0 ? -1 : childlog_open("qemu.log", e);
    m->netd_log = m->qemu_log < 0 ? -1 : childlog_open("netd.log", e);
    return m->netd_log < 0 ? -1 : 0;
}

static int start_qemu(struct machine *m, const struct template *t, const char *binary,
                      const struct channels *c, struct err *e)
{
    bool boots = c->vmstate < 0;
    char *preload auto_free = qemu_preload(e);
    char *kernel auto_free = str_printf("%s/" TEMPLATE_KERNEL, m->template);
    char *initrd auto_free = str_printf("%s/" TEMPLATE_INITRD, m->template);
    char *append auto_free = boots ? qemu_kernel_args(t->accel) : NULL;
    char *name auto_free = str_printf("cubby-%.*s", NAME_ID_CHARS, m->id);
    struct qemu_config config = {.binary = binary,
                                 .name = name,
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
                                 .image = m->restore != NULL};
    if (!preload)
        return -1;
    char **argv = qemu_argv(&config);
    const int fds[QEMU_FD_COUNT] = {[0] = -1,
                                    [1] = m->qemu_log,
                                    [2] = m->qemu_log,
                                    [QEMU_FD_QMP] = c->qmp,
                                    [QEMU_FD_NET] = c->frames[0],
                                    [QEMU_FD_VMSTATE] = c->vmstate,
                                    [QEMU_FD_MEMORY] = c->memory,
                                    [QEMU_FD_DISK] = c->base,
                                    [QEMU_FD_OVERLAY] = c->overlay,
                                    [QEMU_FD_CONSOLE] = -1};
    // A later daemon is not its parent, and is to be able to save it.
    struct spawn_opts opts = {.file = binary,
                              .argv = argv,
                              .preload = preload,
                              .fds = fds,
                              .fd_count = QEMU_FD_COUNT,
                              .is_open = true};
    const char *files[QEMU_FILES_MAX];
    qemu_files(files, config.kernel, config.initrd);
    const struct jailed_program program = {
        .kind = JAIL_VMM, .files = files, .kvm = str_eq(t->accel, "kvm")};
    m->qemu = machine__start_jailed(m, &program, &opts, machine__on_qemu_exit, e);
    qemu_argv_free(argv);
    return m->qemu ? 0 : -1;
}

static int start_netd(struct machine *m, const struct channels *c, struct err *e)
{
    char *file auto_free = self_program(NETD_PROGRAM, e);
    if (!file)
        return -1;
    int egress auto_close = -1; // before netd, which hands connections to it
    if (machine__egress_start(m, &egress, e) < 0)
        return -1;
    // Not in an argument, which every user of the host can read.
    int policy auto_close = fd_open_memory("policy", m->policy, strlen(m->policy), e);
    if (policy < 0)
        return -1;
    const char *const args[] = {
        NETD_PROGRAM,   "--frames-fd",   NETD_FD_FRAMES, "--listen-fd", NETD_FD_LISTEN,
        "--control-fd", NETD_FD_CONTROL, "--stats-fd",   NETD_FD_STATS, "--policy-fd",
        NETD_FD_POLICY, "--egress-fd",   NETD_FD_EGRESS, NULL};
    char *argv[ARRAY_LEN(args)]; // execve(2) takes them without const and leaves them as they are
    for (size_t i = 0; i < ARRAY_LEN(args); i++)
        argv[i] = (char *)(uintptr_t)args[i];
    if (egress < 0)
        argv[ARRAY_LEN(args) - 3] = NULL;
    char *path auto_free = str_printf("%s/" MACHINE_NET_STATS, m->dir);
    int stats auto_close = net_stats_create(path, e);
    if (stats < 0)
        return -1;
    const int fds[] = {-1,         m->netd_log, m->netd_log, c->frames[1], c->vmnet,
                       c->control, stats,       policy,      egress};
    struct spawn_opts opts = {
        .file = file, .argv = argv, .fds = fds, .fd_count = (int)ARRAY_LEN(fds) - (egress < 0)};
    const struct jailed_program program = {.kind = JAIL_NETWORK, .resolves = true};
    m->netd = machine__start_jailed(m, &program, &opts, machine__on_netd_exit, e);
    return m->netd ? 0 : -1;
}

// Before QEMU has more threads: they inherit what the first has.
static void limit(struct machine *m, const struct template *t)
{
    const struct machine_size size = {.cpus = (int)t->cpus, .memory_mb = t->memory_mb};
    machine__cgroup_start(m, &size, str_eq(t->accel, "tcg"), m->background);
    if (m->background)
        machine_set_background(m, true);
}

static void grow_disk(struct machine *m, qmp_reply_cb cb)
{
    qmp_execute(
        m->qmp, "block_resize",
        json_pack("{s:s, s:I}", "node-name", QEMU_DISK_NODE, "size", (json_int_t)m->grow_mb << 20),
        machine__qmp_ms(m), cb, m);
}

// 6., of another size than the template: there is nothing to load.
static void boot(struct machine *m)
{
    if (m->grow_mb)
        grow_disk(m, on_loading);
    machine__boot(m);
}

// 6. Both commands are sent now and wait in the socket until QEMU reads them; with an image the
// second is, once the pages are in: what answers the first has mapped the memory.
static void prepare_load(struct machine *m)
{
    qmp_execute(m->qmp, "migrate-set-capabilities",
                json_pack("{s:[{s:s, s:b}, {s:s, s:b}]}", "capabilities", "capability",
                          "x-ignore-shared", "state", 1, "capability", "events", "state", 1),
                machine__qmp_ms(m), m->restore ? on_prepared : on_loading, m);
    if (!m->restore)
        load_state(m);
}

static void on_prepared(struct qmp *q, const json_t *value, const struct err *e, void *ctx)
{
    struct machine *m = ctx;
    on_loading(q, value, e, ctx);
    if (m->state == MACHINE_STARTING && !e)
        machine__restore_fill(m, on_filled);
}

static void on_filled(struct machine *m, const struct err *e)
{
    if (m->state != MACHINE_STARTING)
        return;
    machine__step(m, "filled");
    FAULT("restore.4");
    if (e)
        machine__fail(m, e);
    else
        load_state(m);
}

static void load_state(struct machine *m)
{
    m->loading = true;
    qmp_execute(m->qmp, "migrate-incoming", json_pack("{s:s}", "uri", QEMU_VMSTATE_URI),
                machine__qmp_ms(m), on_loading, m);
}

static void on_loading(struct qmp *q, const json_t *value, const struct err *e, void *ctx)
{
    (void)q;
    (void)value;
    struct machine *m = ctx;
    // A lost connection has its own way (machine__on_lost), which waits for the better reason.
    if (e && e->code == ERR_UNAVAILABLE)
        return;
    if (e)
        machine__fail(m, e);
    else
        machine__step(m, "accepted");
}

// 7. The device state is in: let the guest run. (Saved stopped, it would otherwise stay stopped.)
// A QEMU that says so before it was told to load is not believed: a worker may still fill it.
void machine__on_migration(struct machine *m, const char *status)
{
    struct err e = ERR_INIT;
    if (m->state != MACHINE_STARTING || !m->loading)
        return;
    if (str_eq(status, "failed")) {
        char *said auto_free = childlog_last_line(m->qemu_log);
        err_set(&e, ERR_INTERNAL, "QEMU could not load the %s state: %s",
                m->restore ? "saved machine's" : "template's", said);
        machine__fail(m, &e);
    } else if (str_eq(status, "completed")) {
        machine__step(m, "loaded");
        qmp_execute(m->qmp, "cont", NULL, machine__qmp_ms(m),
                    m->grow_mb ? on_loading : on_continued, m);
        if (m->grow_mb) // only now is the disk QEMU's to write
            grow_disk(m, on_continued);
    }
}

// 8. It runs.
static void on_continued(struct qmp *q, const json_t *value, const struct err *e, void *ctx)
{
    (void)value;
    struct machine *m = ctx;
    if (e)
        on_loading(q, NULL, e, ctx);
    else if (m->state == MACHINE_STARTING)
        machine__ready(m, MACHINE_RUNNING);
}
