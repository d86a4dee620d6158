// SPDX-License-Identifier: Apache-2.0
// The driver none: the operations of drivers/driver.h, implemented with cubby-nest and envd.
#include "sandbox-backend/drivers/none/none.h"

#include <string.h>

#include "sandbox-backend/base/fd.h"
#include "sandbox-backend/base/home.h"
#include "sandbox-backend/base/mem.h"
#include "sandbox-backend/base/str.h"
#include "sandbox-backend/drivers/nest/nested.h"
#include "sandbox-backend/nest/nest.h"

#define START_MS  30000
#define CPU_SPARE 1
#define PROCESSES 4096 // and threads
#define NO_MOUNTS                                                                               \
    "its commands see the host's own file systems, so a mount would be there for all programs " \
    "of the host; a directory is at its own path there, and for a volume take another tier"
#define WARNING "no isolation: commands run on the host itself, as the user of cubbyd"

static const struct core_kind KIND;

static const char *warning(const struct machine *m)
{
    (void)m;
    return WARNING;
}

// The template gives a size. Nothing of its files is used.
static int facts(const char *template_dir, struct machine_facts *out, struct err *e)
{
    *out = (struct machine_facts){0};
    if (nested_facts(template_dir, out, e) < 0)
        return -1;
    out->python = false;
    return 0;
}

static int policy_check(const struct net_policy *policy, struct err *e)
{
    static const struct net_limits NO_LIMITS;
    if (policy->internet && !policy->allow_count && !policy->deny_count &&
        memcmp(&policy->limits, &NO_LIMITS, sizeof NO_LIMITS) == 0)
        return 0;
    return err_set(e, ERR_UNIMPLEMENTED,
                   "tier 'none' cannot restrict the network: its sandboxes have the host's; leave "
                   "the network out, or take another tier");
}

static int begin(struct nested *n, struct err *e)
{
    struct machine_facts f;
    char *envd auto_free = facts(n->core.template, &f, e) < 0 ? NULL : self_guest("envd", e);
    if (!envd)
        return -1;
    int64_t memory_mb = n->core.size.memory_mb ? n->core.size.memory_mb : f.memory_mb;
    const char *const args[] = {"--kind", "none", NULL};
    const char *const operands[] = {envd, NULL};
    const struct nested_start start = {
        .args = args,
        .operands = operands,
        .limits = {.memory_bytes = memory_mb << 20,
                   .no_swap = true,
                   .cpus = n->core.size.cpus ? n->core.size.cpus : f.cpus,
                   .cpu_spare = CPU_SPARE,
                   .processes = PROCESSES}};
    return nested_start(n, &start, e);
}

static struct machine *create(uv_loop_t *loop, const struct machine_spec *spec,
                              machine_ready_cb on_ready, machine_exit_cb on_exit, void *ctx)
{
    struct nested *n = nested_new(&KIND, loop, spec, on_ready, on_exit, ctx);
    struct err e = ERR_INIT;
    if (begin(n, &e) < 0)
        core_fail(&n->core, &e); // the loop reports the failure to the daemon
    return &n->core.machine;
}

static void adopt(uv_loop_t *loop, const struct machine_spec *spec, const json_t *record,
                  machine_ready_cb on_ready, machine_exit_cb on_exit, void *ctx)
{
    nested_adopt(nested_new(&KIND, loop, spec, on_ready, on_exit, ctx), record);
}

static void doctor(const char *home, finding_cb add, void *ctx)
{
    (void)home;
    add(ctx, FINDING_OK, "none", NULL,
        "the tier none isolates nothing: cubbyd offers it only if --tiers-allowed names it");
}

static const char *const LOGS[] = {NESTED_LOG, NULL};

static const struct core_kind KIND = {
    .driver = &none_driver,
    .process = "cubby-nest",
    NESTED_KIND(START_MS),
};

const struct driver none_driver = {
    .name = "none",
    .isolation = "none (commands run on the host itself)",
    .logs = LOGS,
    .can = DRIVER_SIZES | DRIVER_RESIZES,
    .must_be_allowed = true,
    .has_host_users = true,
    .no_mounts = NO_MOUNTS,
    .disk_mb = 50,
    .warning = warning,
    .facts = facts,
    .policy_check = policy_check,
    .create = create,
    .adopt = adopt,
    .sweep = core_sweep,
    .doctor = doctor,
    .machine = {.record = core_record,
                .vmnet = core_vmnet,
                .kill = core_kill,
                .abandon = core_abandon,
                .release = core_release,
                .usage = core_usage,
                .set_background = core_set_background},
};
