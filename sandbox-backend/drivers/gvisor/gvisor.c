// SPDX-License-Identifier: Apache-2.0
// The gvisor driver: the operations of drivers/driver.h, implemented with gVisor's runsc.
#include "sandbox-backend/drivers/gvisor/gvisor.h"

#include <stdlib.h>
#include <unistd.h>

#include "sandbox-backend/base/fd.h"
#include "sandbox-backend/base/mem.h"
#include "sandbox-backend/base/str.h"
#include "sandbox-backend/drivers/gvisor/blank.h"
#include "sandbox-backend/drivers/gvisor/checkpoint.h"
#include "sandbox-backend/drivers/gvisor/container.h"
#include "sandbox-backend/drivers/gvisor/probe.h"
#include "sandbox-backend/drivers/gvisor/runsc.h"
#include "sandbox-backend/drivers/host/core.h"
#include "sandbox-backend/jail/jail.h"

const char *gvisor__runsc(void)
{
    const char *given = getenv("CUBBY_RUNSC");
    return given && given[0] ? given : NULL;
}

// The jails of netd and egress are opened by the first driver (host_jail.h).
static int open_driver(uv_loop_t *loop, const char *home, const struct driver_jail *jail,
                       struct err *e)
{
    (void)loop;
    (void)jail;
    return container_dirs_open(home, e);
}

static void close_driver(void)
{
    blanks_close();
    container_dirs_close();
}

static int facts(const char *template_dir, struct machine_facts *out, struct err *e)
{
    struct bundle_template t;
    char *runsc auto_free = runsc_find(gvisor__runsc(), e);
    if (!runsc || bundle_load(template_dir, &t, e) < 0)
        return -1;
    *out = (struct machine_facts){.cpus = (int)t.cpus,
                                  .memory_mb = t.memory_mb,
                                  .disk_mb = t.disk_mb,
                                  .python = t.python,
                                  .disk_grows = true};
    return 0;
}

static enum driver_rank rank(const char *template_dir, const struct machine_facts *facts,
                             struct err *why)
{
    (void)facts;
    char *runsc auto_free = runsc_find(gvisor__runsc(), why);
    bool works = runsc && probe_gvisor(runsc, template_dir, why) == 0;
    return works ? RANK_SENTRY : RANK_NONE;
}

static int64_t promise_mb(const struct machine_facts *f)
{
    return bundle_memory_mb(f->memory_mb, f->disk_mb);
}

static int image_check(const char *dir, const char *template_dir, const struct machine_size *size,
                       struct err *e)
{
    struct bundle_template t;
    if (bundle_load(template_dir, &t, e) < 0)
        return -1;
    bundle_apply_size(&t, size);
    return checkpoint_check(dir, &t, e);
}

static void sweep(const char *sandboxes_dir)
{
    core_sweep(sandboxes_dir);
    container_dirs_sweep_later();
}

// The walls that runsc builds around each sentry, on every host where it starts, and those of
// cubby-jail around netd and egress. The sentry of a daemon without root keeps some capabilities in
// its own user namespace.
static json_t *jail(const struct machine *m)
{
    unsigned privileges = geteuid() == 0 ? WALL_BIT(WALL_PRIVILEGES) : 0;
    json_t *shown = core_walls(WALL_BIT(WALL_USER) | WALL_BIT(WALL_MOUNT) | WALL_BIT(WALL_PID) |
                                   WALL_BIT(WALL_NETWORK) | WALL_BIT(WALL_IPC) |
                                   WALL_BIT(WALL_UTS) | privileges | WALL_BIT(WALL_SECCOMP),
                               0);
    json_object_set_new(shown, "network", core_jail(m));
    return shown;
}

static bool owns(const char *program)
{
    return str_starts(program, "runsc");
}

void gvisor_for_build(void)
{
    container_dirs_for_build();
}

static const char *const LOGS[] = {"gvisor.log", "netd.log", NULL};

static const struct driver_file IMAGE_FILES[] = {
    {"image.json", 1LL << 20, false},
    {"checkpoint.img", 1LL << 30, false},
    {"pages_meta.img", 1LL << 30, false},
    {"pages.img", 256LL << 30, false},
    {NULL, 0, false},
};

const struct driver gvisor_driver = {
    .name = "gvisor",
    .isolation = "gvisor",
    .logs = LOGS,
    .image_files = IMAGE_FILES,
    .can = DRIVER_PAUSES | DRIVER_SAVES | DRIVER_POLICY | DRIVER_SIZES | DRIVER_RESIZES |
           DRIVER_SECRETS | DRIVER_DISKS | DRIVER_MOUNTS,
    .disk_in_memory = true,
    .fresh_entropy = true,
    .disk_mb = 500,
    .open = open_driver,
    .close = close_driver,
    .jail = jail,
    .facts = facts,
    .rank = rank,
    .promise_mb = promise_mb,
    .image_check = image_check,
    .create = container__create,
    .adopt = container__adopt,
    .sweep = sweep,
    .owns = owns,
    .doctor = gvisor__doctor,
    .machine = {.record = container__record,
                .vmnet = core_vmnet,
                .kill = core_kill,
                .abandon = core_abandon,
                .release = core_release,
                .pause = container__pause,
                .resume = container__resume,
                .is_paused = container__is_paused,
                .set_policy = core_set_policy,
                .set_egress = core_set_egress,
                .save = container__save,
                .usage = core_usage,
                .network = core_network,
                .set_background = core_set_background,
                .confine = core_confine},
};
