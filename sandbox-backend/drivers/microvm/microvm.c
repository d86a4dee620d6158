// SPDX-License-Identifier: Apache-2.0
// The microvm driver: the operations of drivers/driver.h, implemented with QEMU.
#include "sandbox-backend/drivers/microvm/microvm.h"

#include <stdio.h>
#include <stdlib.h>
#include <sys/stat.h>

#include "sandbox-backend/base/fd.h"
#include "sandbox-backend/base/home.h"
#include "sandbox-backend/base/mem.h"
#include "sandbox-backend/base/str.h"
#include "sandbox-backend/drivers/host/core.h"
#include "sandbox-backend/drivers/host/host_jail.h"
#include "sandbox-backend/drivers/host/program_files.h"
#include "sandbox-backend/drivers/host/resolv_conf.h"
#include "sandbox-backend/drivers/microvm/fit.h"
#include "sandbox-backend/drivers/microvm/image/machine_image.h"
#include "sandbox-backend/drivers/microvm/image/template.h"
#include "sandbox-backend/drivers/microvm/machine.h"
#include "sandbox-backend/drivers/microvm/qemu/qemu.h"
#include "sandbox-backend/drivers/microvm/qemu/qemu_binary.h"
#include "sandbox-backend/drivers/microvm/spare.h"

#define JAIL_DIR         "jail" // in the home
#define STAT_BLOCK_BYTES 512    // the unit of st_blocks, stat(2)

// Find the libraries of a machine's programs. Runs in a thread.
static void find_libraries(void)
{
    struct err ignored = ERR_INIT;
    char *qemu auto_free = qemu_binary_find(&ignored);
    char *netd auto_free = self_program("cubby-netd", &ignored);
    if (qemu)
        program_files(qemu, &ignored);
    if (netd)
        program_files(netd, &ignored);
}

static int open_driver(uv_loop_t *loop, const char *home, const struct driver_jail *jail,
                       struct err *e)
{
    char *dir auto_free = str_printf("%s/" JAIL_DIR, home);
    spares_open(home);
    if (dir_make(dir, 0700, e) != 0 || resolv_conf_open(loop, dir, e) != 0)
        return -1;
    return host_jail_open(jail, find_libraries, e);
}

static void close_driver(void)
{
    spares_end();
    host_jail_close();
    resolv_conf_close();
}

static int facts(const char *template_dir, struct machine_facts *out, struct err *e)
{
    struct template t;
    char *binary = NULL;
    qemu_watch_clock();
    if (fit_load(template_dir, &t, &binary, e) != 0)
        return -1;
    *out = (struct machine_facts){.cpus = (int)t.cpus,
                                  .memory_mb = t.memory_mb,
                                  .disk_mb = t.disk_mb,
                                  .python = t.python,
                                  .disk_grows = t.disk_grows};
    snprintf(out->accel, sizeof out->accel, "%s", t.accel);
    template_fini(&t);
    free(binary);
    return 0;
}

// A template that runs under KVM was saved under it, so its kernel boots there.
static enum driver_rank rank(const char *template_dir, const struct machine_facts *facts,
                             struct err *why)
{
    struct template t;
    if (str_eq(facts->accel, "kvm"))
        return RANK_HARDWARE;
    if (template_load(template_dir, &t, why) < 0)
        return RANK_NONE;
    err_set(why, ERR_PRECONDITION, "KVM: template %s was built without KVM%s%s", t.name,
            t.no_kvm ? ": " : "", t.no_kvm ? t.no_kvm : "");
    template_fini(&t);
    return RANK_EMULATED;
}

static int image_check(const char *dir, const char *template_dir, const struct machine_size *size,
                       struct err *e)
{
    struct template t;
    char *memory auto_free = sized_load(&t, template_dir, size, e);
    if (!memory)
        return -1;
    int result = machine_image_check(dir, &t, e);
    template_fini(&t);
    return result;
}

static int usage(const struct machine *machine, struct machine_usage *out, struct err *e)
{
    const struct microvm *m = microvm_of_const(machine);
    char *overlay auto_free = str_printf("%s/" MACHINE_OVERLAY, m->core.dir);
    struct stat st;
    if (core_usage(machine, out, e) < 0)
        return -1;
    out->disk_failed = m->disk_failed;
    out->disk_full = m->disk_full;
    if (stat(overlay, &st) == 0)
        out->disk_bytes = (int64_t)st.st_blocks * STAT_BLOCK_BYTES;
    return 0;
}

static void sweep(const char *sandboxes_dir)
{
    core_sweep(sandboxes_dir);
    spares_sweep();
}

static bool owns(const char *program)
{
    return str_starts(program, "qemu-system-");
}

static const char *const LOGS[] = {"qemu.log", "console.log", "netd.log", NULL};

// An image of a disk alone has neither devices nor pages.
static const struct driver_file IMAGE_FILES[] = {
    {"image.json", 1LL << 20, false},
    {"vmstate", 64LL << 20, true},
    {"pages", 256LL << 30, true},
    {"disk.qcow2", 1LL << 40, false},
    {NULL, 0, false},
};

const struct driver microvm_driver = {
    .name = TEMPLATE_DRIVER,
    .isolation = "microvm",
    .logs = LOGS,
    .image_files = IMAGE_FILES,
    .can = DRIVER_PAUSES | DRIVER_SAVES | DRIVER_POLICY | DRIVER_SIZES | DRIVER_SECRETS |
           DRIVER_DISKS | DRIVER_DISK_IMAGES | DRIVER_MOUNTS,
    .disk_mb = 500,
    .open = open_driver,
    .close = close_driver,
    .jail = core_jail,
    .facts = facts,
    .rank = rank,
    .image_check = image_check,
    .create = machine__create,
    .adopt = machine__adopt,
    .sweep = sweep,
    .owns = owns,
    .doctor = microvm_doctor,
    .machine = {.record = core_record,
                .vmnet = core_vmnet,
                .kill = core_kill,
                .abandon = core_abandon,
                .release = core_release,
                .pause = machine__pause,
                .resume = machine__resume,
                .is_paused = core_is_paused,
                .set_policy = core_set_policy,
                .set_egress = core_set_egress,
                .save = machine__save,
                .stands = machine__stands,
                .usage = usage,
                .network = core_network,
                .set_background = core_set_background,
                .confine = core_confine},
};
