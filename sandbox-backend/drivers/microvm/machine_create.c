// SPDX-License-Identifier: Apache-2.0
// Starting a machine in numbered steps. It is restored from its template or from an image. It boots
// (core_boot.c) if its size differs from the template's, or from an image of a disk alone.
#include "sandbox-backend/drivers/microvm/machine.h"

#include <errno.h>
#include <fcntl.h>
#include <string.h>
#include <unistd.h>

#include "sandbox-backend/base/fault.h"
#include "sandbox-backend/base/fd.h"
#include "sandbox-backend/base/home.h"
#include "sandbox-backend/base/mem.h"
#include "sandbox-backend/base/str.h"
#include "sandbox-backend/drivers/host/childlog.h"
#include "sandbox-backend/drivers/microvm/fit.h"
#include "sandbox-backend/drivers/microvm/launch.h"
#include "sandbox-backend/drivers/microvm/qemu/qemu.h"
#include "sandbox-backend/drivers/microvm/spare.h"

// Memory beside the guest's: QEMU's own, netd's and egress's. Cached pages of the disk count too,
// but the kernel drops them before it kills a process.
#define SLACK_MB     256
#define CPU_SPARE    1   // for QEMU's main thread and netd
#define THREADS_MORE 128 // beside the virtual processors; QEMU reads its disk with up to 64

// Characters of the sandbox's id in the name of its QEMU. ps shows the name to every user of the
// host, and a user who knows the whole id may open the sandbox's public ports.
#define NAME_ID_CHARS 6

#define IMAGE_STATE "image" // the name by which a spare knows the state of an image

static void on_image_open(struct machine_core *core, const struct err *e);
static int begin(struct microvm *m, struct err *e);
static char *apply_size(struct microvm *m, struct template *t);
static bool take_over(struct microvm *m, const char *memory, struct launched *qemu);
static int make_overlay(const struct microvm *m, struct err *e);
static int start_qemu(struct microvm *m, const struct template *t, const char *binary,
                      const char *memory, struct launched *qemu, struct err *e);
static void limit(struct microvm *m, const struct template *t);
static void boot(struct microvm *m);
static void prepare_load(struct microvm *m);
static void on_prepared(struct qmp *q, const json_t *value, const struct err *e, void *ctx);
static void on_filled(struct machine_core *core, const struct err *e);
static void load_state(struct microvm *m);
static void on_loading(struct qmp *q, const json_t *value, const struct err *e, void *ctx);
static void run_guest(struct microvm *m);
static void on_continued(struct qmp *q, const json_t *value, const struct err *e, void *ctx);

// Take the spare of the template, if there is one that fits. Its disk becomes the machine's now,
// before the disk of an image is copied over it. The pool fills itself when nobody waits.
static void take_spare(struct microvm *m, const struct machine_spec *spec)
{
    char *overlay auto_free = str_printf("%s/" MACHINE_OVERLAY, m->core.dir);
    bool may = spec->spare_taken && !spec->background;
    m->spare = may ? spare_take(spec->template, &spec->size) : NULL;
    if (m->spare && spare_move_disk(m->spare, overlay, NULL) < 0)
        spare_drop(steal(&m->spare));
}

struct machine *machine__create(uv_loop_t *loop, const struct machine_spec *spec,
                                machine_ready_cb on_ready, machine_exit_cb on_exit, void *ctx)
{
    struct microvm *m = machine__new(loop, spec, on_ready, on_exit, ctx);
    struct err e = ERR_INIT;
    take_spare(m, spec);
    if (spec->image)
        machine__restore_open(m, spec->image, on_image_open);
    else if (begin(m, &e) != 0)
        core_fail(&m->core, &e); // the loop reports the failure to the daemon
    return &m->core.machine;
}

// Step 0. The image has been checked, and the disk has been made.
static void on_image_open(struct machine_core *core, const struct err *e)
{
    struct microvm *m = microvm_of_core(core);
    struct err failed = e ? *e : ERR_INIT;
    if (m->core.state == MACHINE_STARTING && (e || begin(m, &failed) != 0))
        core_fail(&m->core, &failed);
}

static bool is_booting(const struct microvm *m, const char *memory)
{
    return m->restore ? machine__restore_boots(m) : sized_is_own(memory);
}

// Run steps 1 to 6, all within this turn of the loop.
static int begin(struct microvm *m, struct err *e)
{
    struct template t;
    struct launched qemu = LAUNCHED_NONE;
    char *binary auto_free = NULL;
    // Step 1. Load the template and check that it fits this host.
    if (fit_load(m->core.template, &t, &binary, e) != 0)
        return -1;
    char *memory auto_free = apply_size(m, &t);
    bool boots = is_booting(m, memory);
    // Steps 2 to 4. Take over the spare, or start QEMU with a disk of its own (first, because its
    // start takes longest). Then start netd.
    int failed =
        !boots && take_over(m, memory, &qemu) ? 0 : start_qemu(m, &t, binary, memory, &qemu, e);
    m->core.guest = qemu.process;
    m->core.guest_log = steal_fd(&qemu.log);
    failed = failed ? failed : core_network_start(&m->core, qemu.frames, e);
    if (!failed)
        limit(m, &t);
    // Step 5. Connect to QMP while its listening socket is also here. So it succeeds even if QEMU
    // has ended already, and machine__on_lost explains that end.
    failed = failed ? failed : machine__open_qmp(m, e);
    launched_close(&qemu);
    template_fini(&t);
    core_step(&m->core, "started");
    if (failed)
        return -1;
    if (boots)
        boot(m);
    else
        prepare_load(m);
    return 0;
}

// Apply the machine's size to `t`. A restored disk has its size already.
static char *apply_size(struct microvm *m, struct template *t)
{
    int64_t had_mb = t->disk_mb;
    char *memory = sized_apply(t, m->core.template, &m->core.size);
    m->grow_mb = t->disk_mb > had_mb && !m->restore ? t->disk_mb : 0;
    return memory;
}

static bool take_over(struct microvm *m, const char *memory, struct launched *qemu)
{
    m->from_spare =
        m->spare && spare_yield(m->spare, memory, m->qmp_path, core_on_guest_exit, &m->core, qemu);
    if (m->from_spare) {
        m->spare = NULL;
        *m->core.spare_taken = true;
    }
    return m->from_spare;
}

// Step 2. Copy the template's empty overlay as the machine's own disk. QEMU is told the backing
// file of the overlay.
static int make_overlay(const struct microvm *m, struct err *e)
{
    char *from auto_free = str_printf("%s/" TEMPLATE_OVERLAY, m->core.template);
    char *to auto_free = str_printf("%s/" MACHINE_OVERLAY, m->core.dir);
    return file_copy(from, to, 0600, e);
}

// Return a descriptor of the saved state, or -1.
static int open_state(const struct microvm *m, struct err *e)
{
    char *path auto_free = m->restore ? machine__restore_vmstate(m)
                                      : str_printf("%s/" TEMPLATE_VMSTATE, m->core.template);
    int fd = open(path, O_RDONLY | O_CLOEXEC);
    return fd < 0 ? err_sys(e, errno, "open %s", path) : fd;
}

// Step 3. QEMU's own files, sockets and jail.
static int start_qemu(struct microvm *m, const struct template *t, const char *binary,
                      const char *memory, struct launched *qemu, struct err *e)
{
    bool boots = is_booting(m, memory);
    char *overlay auto_free = str_printf("%s/" MACHINE_OVERLAY, m->core.dir);
    char *name auto_free = str_printf("cubby-%.*s", NAME_ID_CHARS, m->core.id);
    spare_drop(steal(&m->spare)); // it does not fit
    if (!m->restore && make_overlay(m, e) < 0)
        return -1;
    int vmstate auto_close = boots ? -1 : open_state(m, e);
    const struct launch l = {.template = t,
                             .template_dir = m->core.template,
                             .binary = binary,
                             .name = name,
                             .memory = memory,
                             .overlay = overlay,
                             .qmp = m->qmp_path,
                             .vmstate = vmstate,
                             .no_header = m->restore != NULL};
    if (!boots && vmstate < 0)
        return -1;
    return launch(m->core.loop, &l, core_on_guest_exit, &m->core, qemu, e);
}

// Runs before QEMU has more threads: they inherit the limits of the first.
static void limit(struct microvm *m, const struct template *t)
{
    int64_t mb = t->memory_mb + SLACK_MB + (str_eq(t->accel, "tcg") ? QEMU_TB_SIZE_MB : 0);
    const struct cgroup_limits limits = {.memory_bytes = mb << 20,
                                         .cpus = (int)t->cpus,
                                         .cpu_spare = CPU_SPARE,
                                         .processes = (int)t->cpus + THREADS_MORE};
    core_limits_start(&m->core, m->core.guest, &limits);
}

static void grow_disk(struct microvm *m, qmp_reply_cb cb)
{
    qmp_execute(
        m->qmp, "block_resize",
        json_pack("{s:s, s:I}", "node-name", QEMU_DISK_NODE, "size", (json_int_t)m->grow_mb << 20),
        machine__qmp_ms(m), cb, m);
}

// Step 6 for a machine of another size than its template: there is no state to load.
static void boot(struct microvm *m)
{
    if (m->grow_mb)
        grow_disk(m, on_loading);
    core_boot_start(&m->core);
}

// Step 6. Send both commands now: they wait in the socket until QEMU reads them. With an image, the
// second is sent once the pages are in place. The answer to the first shows that QEMU has mapped
// the memory.
static void prepare_load(struct microvm *m)
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
    struct microvm *m = ctx;
    on_loading(q, value, e, ctx);
    if (m->core.state == MACHINE_STARTING && !e)
        machine__restore_fill(m, on_filled);
}

static void on_filled(struct machine_core *core, const struct err *e)
{
    struct microvm *m = microvm_of_core(core);
    if (m->core.state != MACHINE_STARTING)
        return;
    core_step(&m->core, "filled");
    FAULT("restore.4");
    if (e)
        core_fail(&m->core, e);
    else
        load_state(m);
}

// A QEMU that was started for this machine has its state as a descriptor already, and so has a
// spare the state of its template. A spare is given the state of an image.
static void load_state(struct microvm *m)
{
    const char *uri = QEMU_VMSTATE_URI;
    struct err e = ERR_INIT;
    if (m->from_spare && m->restore) {
        int vmstate auto_close = open_state(m, &e);
        if (vmstate < 0) {
            core_fail(&m->core, &e);
            return;
        }
        qmp_give_fd(m->qmp, IMAGE_STATE, vmstate, machine__qmp_ms(m), on_loading, m);
        uri = "fd:" IMAGE_STATE;
    }
    m->loading = true;
    qmp_execute(m->qmp, "migrate-incoming", json_pack("{s:s}", "uri", uri), machine__qmp_ms(m),
                on_loading, m);
}

static void on_loading(struct qmp *q, const json_t *value, const struct err *e, void *ctx)
{
    (void)q;
    (void)value;
    struct microvm *m = ctx;
    // machine__on_lost handles a lost connection: it waits for a better explanation.
    if (e && e->code == ERR_UNAVAILABLE)
        return;
    if (e)
        core_fail(&m->core, e);
    else
        core_step(&m->core, "accepted");
}

// Step 7. The device state is loaded. It was saved while the guest was stopped, so the guest stays
// stopped. An event that arrives before the load command is ignored, because a
// worker may still be writing the memory.
void machine__on_migration(struct microvm *m, const char *status)
{
    struct err e = ERR_INIT;
    if (m->core.state != MACHINE_STARTING || !m->loading)
        return;
    if (str_eq(status, "failed")) {
        char *said auto_free = childlog_last_line(m->core.guest_log);
        err_set(&e, ERR_INTERNAL, "QEMU could not load the %s state: %s",
                m->restore ? "saved machine's" : "template's", said);
        core_fail(&m->core, &e);
    } else if (str_eq(status, "completed")) {
        core_step(&m->core, "loaded");
        m->is_loaded = true;
        run_guest(m);
    }
}

void machine__on_limited(struct machine_core *core)
{
    struct microvm *m = microvm_of_core(core);
    m->is_limited = true;
    run_guest(m);
}

// Step 8. Both the state and the control groups are there, so the guest may run.
static void run_guest(struct microvm *m)
{
    if (!m->is_loaded || !m->is_limited || m->core.state != MACHINE_STARTING)
        return;
    qmp_execute(m->qmp, "cont", NULL, machine__qmp_ms(m), m->grow_mb ? on_loading : on_continued,
                m);
    if (m->grow_mb) // from now on QEMU may write the disk
        grow_disk(m, on_continued);
}

// The pool fills itself when nobody waits.
static void want_spare(const struct microvm *m)
{
    if (!m->core.background)
        spares_want(&spare_shelves, m->core.loop, m->core.template);
}

// Step 9. The guest runs.
static void on_continued(struct qmp *q, const json_t *value, const struct err *e, void *ctx)
{
    (void)value;
    struct microvm *m = ctx;
    if (e) {
        on_loading(q, NULL, e, ctx);
    } else if (m->core.state == MACHINE_STARTING) {
        want_spare(m);
        machine__ready(m, MACHINE_RUNNING);
    }
}
