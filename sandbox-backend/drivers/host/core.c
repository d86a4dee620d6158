// SPDX-License-Identifier: Apache-2.0
// The life of a machine, whatever its driver.
//
// Goal. When a machine ends, for any reason, no part of it is left, and the daemon is told once,
// with a sentence that says why.
//
// Processes. The guest's process and cubby-netd have process sessions of their own and inherit only
// the descriptors they need. Their output goes into bounded memory (childlog.h). They are watched
// by pidfd (subproc.h), which works for processes that an earlier daemon started as well. netd ends
// by itself when the guest's process does.
//
// States (one setter, one table):
//
//   STARTING --> RUNNING --> SUSPECT --> ENDING --> ENDED --> CLOSING --> freed
//       |            |          |  (machine_kill:)    |          ^
//       +--> SUSPECT, ENDING    +-----> KILLING <-----+          |
//       (then on_ready fails)              +---------------------+
//
//   RUNNING -> PAUSING -> PAUSED -> RESUMING -> RUNNING. From each of these states a machine can
//   also end as from RUNNING. An adopted machine may go from STARTING to PAUSED.
//
// An end without machine_kill (core_end.c) begins with a sign: a pidfd shows the end of a process,
// or the driver gets a message about its guest. Signs come in any order (a killed guest also ends
// netd), so a weak sign waits up to 100 ms for the end of the guest's process to explain it. Then
// all processes are killed, waited for, and on_exit is called.
//
// Every state but RUNNING, PAUSED and ENDED has a deadline: the driver's to start, pause or resume,
// 100 ms or 1 s to explain, 10 s for a process to end after SIGKILL. Only a process that hangs in
// the host kernel misses the last; that is logged, and the machine is freed.
//
// Adoption. core_record names the processes by pid and start time, and the boot of the host that
// they belong to.
#include "sandbox-backend/drivers/host/core.h"

#include <stdlib.h>
#include <string.h>

#include "sandbox-backend/base/fd.h"
#include "sandbox-backend/base/json.h"
#include "sandbox-backend/base/mem.h"
#include "sandbox-backend/base/str.h"
#include "sandbox-backend/drivers/host/childlog.h"
#include "sandbox-backend/host/proc.h"
#include "sandbox-backend/log/log.h"

#define IDLE_PATIENCE 6 // the factor for a background machine, which runs on idle processors only
#define GONE_LIMIT_MS 10000
#define PID_LIMIT     (1 << 22) // PID_MAX_LIMIT of 64-bit Linux

static const char *const STATE_NAMES[] = {
    [MACHINE_STARTING] = "starting", [MACHINE_RUNNING] = "running", [MACHINE_SUSPECT] = "suspect",
    [MACHINE_ENDING] = "ending",     [MACHINE_ENDED] = "ended",     [MACHINE_KILLING] = "killing",
    [MACHINE_CLOSING] = "closing",   [MACHINE_PAUSING] = "pausing", [MACHINE_PAUSED] = "paused",
    [MACHINE_RESUMING] = "resuming",
};

#define TO(state) (1u << MACHINE_##state)
#define LEAVES    (TO(SUSPECT) | TO(ENDING) | TO(KILLING) | TO(CLOSING))
static const unsigned ALLOWED[] = {
    [MACHINE_STARTING] = TO(RUNNING) | TO(PAUSED) | TO(SUSPECT) | TO(ENDING),
    [MACHINE_RUNNING] = TO(PAUSING) | LEAVES,
    [MACHINE_PAUSING] = TO(PAUSED) | TO(RUNNING) | LEAVES,
    [MACHINE_PAUSED] = TO(RESUMING) | LEAVES,
    [MACHINE_RESUMING] = TO(RUNNING) | TO(PAUSED) | LEAVES,
    [MACHINE_SUSPECT] = TO(ENDING) | TO(KILLING) | TO(CLOSING),
    [MACHINE_ENDING] = TO(ENDED) | TO(KILLING) | TO(CLOSING),
    [MACHINE_ENDED] = TO(KILLING) | TO(CLOSING),
    [MACHINE_KILLING] = TO(CLOSING),
    [MACHINE_CLOSING] = 0,
};

void core_set_state(struct machine_core *c, enum machine_state to)
{
    if (!(ALLOWED[c->state] & (1u << to)))
        abort();
    log_debug("machine.state", "id=%s %s -> %s", c->id, STATE_NAMES[c->state], STATE_NAMES[to]);
    c->state = to;
    if (to == MACHINE_ENDING || to == MACHINE_KILLING)
        deadline_arm(&c->deadline, GONE_LIMIT_MS);
    else if (to != MACHINE_SUSPECT) // its deadline depends on the sign
        deadline_disarm(&c->deadline);
}

void core_step(const struct machine_core *c, const char *step)
{
    log_debug("machine.step", "id=%s step=%s ms=%.1f", c->id, step,
              (double)(uv_hrtime() - c->begun_ns) / 1e6);
}

uint64_t core_patience(const struct machine_core *c)
{
    return c->background ? IDLE_PATIENCE : 1;
}

void core_init(struct machine_core *c, const struct core_kind *kind, uv_loop_t *loop,
               const struct machine_spec *spec, machine_ready_cb on_ready, machine_exit_cb on_exit,
               void *ctx)
{
    *c = (struct machine_core){
        .machine = {.driver = kind->driver},
        .kind = kind,
        .loop = loop,
        .id = xstrdup(spec->id),
        .dir = xstrdup(spec->dir),
        .template = xstrdup(spec->template),
        .background = spec->background,
        .spare_taken = spec->spare_taken,
        .size = spec->size,
        .vmnet = str_printf("%s/" CORE_VMNET, spec->dir),
        .control = str_printf("%s/" CORE_CONTROL, spec->dir),
        .policy = core__policy_text(spec->policy),
        .guest_log = -1,
        .netd_log = -1,
        .egress_log = -1,
        .egress_next_log = -1,
        .egress_config = spec->egress.config ? xstrdup(spec->egress.config) : NULL,
        .egress_use = core__egress_use(&spec->egress),
        .egress_trust = spec->egress_trust ? xstrdup(spec->egress_trust) : NULL,
        .begun_ns = uv_hrtime(),
        .on_ready = on_ready,
        .on_exit = on_exit,
        .on_note = spec->on_note,
        .ctx = ctx};
    TAILQ_INIT(&c->requests);
    deadline_init(&c->deadline, loop, core__on_deadline);
    deadline_arm(&c->deadline, kind->start_ms * core_patience(c));
}

void core_ready(struct machine_core *c, enum machine_state state)
{
    free(steal(&c->policy));
    core_set_state(c, state);
    core_step(c, "ready");
    c->ready = true;
    c->on_ready(&c->machine, NULL, c->ctx);
}

bool core_is_alive(const struct machine_core *c)
{
    return c->state <= MACHINE_RESUMING;
}

int core__processes(const struct machine_core *c, struct subproc *out[CORE_PROCESSES_MAX])
{
    struct subproc *const all[CORE_PROCESSES_MAX] = {c->guest, c->netd, c->egress, c->egress_next,
                                                     c->egress_unused};
    int count = 0;
    for (size_t i = 0; i < ARRAY_LEN(all); i++)
        if (all[i])
            out[count++] = all[i];
    return count;
}

bool core_is_gone(const struct machine_core *c)
{
    struct subproc *all[CORE_PROCESSES_MAX];
    for (int i = core__processes(c, all); i-- > 0;)
        if (!subproc_has_exited(all[i]))
            return false;
    return !c->working;
}

// ---- the end by machine_kill, and the release

void core_kill(struct machine *machine, void (*on_gone)(void *ctx), void *ctx)
{
    struct machine_core *c = core_of(machine);
    c->on_gone = on_gone;
    c->gone_ctx = ctx;
    core_set_state(c, MACHINE_KILLING);
    core__kill_all(c);
    core_check_gone(c);
}

void core_release(struct machine *machine, void (*on_gone)(void *ctx), void *ctx)
{
    struct machine_core *c = core_of(machine);
    c->on_gone = on_gone;
    c->gone_ctx = ctx;
    core_close(c);
}

static void on_process_closed(void *ctx)
{
    core_handle_closed(ctx);
}

static void on_deadline_closed(struct deadline *d)
{
    core_handle_closed(container_of(d, struct machine_core, deadline));
}

void core_close(struct machine_core *c)
{
    struct subproc *all[CORE_PROCESSES_MAX];
    int count = core__processes(c, all);
    core_set_state(c, MACHINE_CLOSING);
    core__policy_abandon(c);
    core__boot_abandon(c);
    c->handles = 1 + c->working + core__limits_close(c);
    c->handles += c->kind->close ? c->kind->close(c) : 0;
    c->handles += count;
    for (int i = 0; i < count; i++)
        subproc_close(all[i], on_process_closed, c);
    deadline_close(&c->deadline, on_deadline_closed);
}

void core_handle_closed(struct machine_core *c)
{
    if (--c->handles > 0)
        return;
    c->kind->fini(c);
    core__answer_all(c, ERR_CANCELED, "the machine was released");
    struct machine_core last = *c;
    core__limits_fini(c);
    core__egress_forget(c);
    mem_close_fd(&c->guest_log);
    mem_close_fd(&c->netd_log);
    mem_close_fd(&c->egress_log);
    mem_close_fd(&c->egress_next_log);
    free(c->id);
    free(c->dir);
    free(c->template);
    free(c->vmnet);
    free(c->control);
    free(c->policy);
    free(c->egress_trust);
    free(c);
    if (!last.ready)
        last.on_ready(NULL, &last.error, last.ctx);
    else if (last.on_gone)
        last.on_gone(last.gone_ctx);
}

// ---- the record

static json_t *process_record(const struct subproc *p)
{
    return json_pack("{s:i, s:I}", "pid", (int)subproc_pid(p), "start_time",
                     (json_int_t)subproc_start_time(p));
}

json_t *core_record(const struct machine *machine)
{
    const struct machine_core *c = core_of_const(machine);
    json_t *record = json_pack("{s:s, s:o, s:o, s:o}", "boot_id", proc_boot_id(), c->kind->member,
                               process_record(c->guest), "limits", core__limits_record(c), "jail",
                               core_jail(machine));
    if (c->netd)
        json_object_set_new(record, "netd", process_record(c->netd));
    if (c->egress)
        json_object_set_new(record, "egress", process_record(c->egress));
    return record;
}

static struct subproc *find_process(struct machine_core *c, const json_t *record, const char *name,
                                    subproc_exit_cb on_exit, struct err *e)
{
    const json_t *entry = json_object_get(record, name);
    int64_t pid = 0, start_time = 0;
    if (!json_is_object(entry)) {
        err_set(e, ERR_GONE, "the machine's record names no process \"%s\"", name);
        return NULL;
    }
    if (json_get_int(entry, "pid", 1, PID_LIMIT, &pid, 0, e) != 0 ||
        json_get_int(entry, "start_time", 0, INT64_MAX, &start_time, 0, e) != 0)
        return NULL;
    return subproc_adopt(c->loop, (pid_t)pid, (uint64_t)start_time, on_exit, c, e);
}

int core_adopt(struct machine_core *c, const json_t *record, struct err *e)
{
    const char *boot = json_string_value(json_object_get(record, "boot_id"));
    struct err netd_error = ERR_INIT;
    c->adopted = true;
    core__limits_adopt(c, record);
    core__jail_adopt(c, json_object_get(record, "jail"));
    if (!str_eq(boot, proc_boot_id()))
        return err_set(e, ERR_GONE, "the host was rebooted");
    c->guest = find_process(c, record, c->kind->member, core_on_guest_exit, e);
    bool has_netd = json_object_get(record, "netd") != NULL;
    if (has_netd)
        c->netd = find_process(c, record, "netd", core__on_netd_exit, &netd_error);
    if (!c->guest)
        return err_set(e, ERR_GONE, "%s has ended", c->kind->process);
    c->guest_log = childlog_reopen(subproc_pid(c->guest));
    if (has_netd && !c->netd)
        return err_set(e, ERR_GONE, "the sandbox's network process (cubby-netd) ended: %s",
                       netd_error.msg);
    if (c->netd)
        core__network_adopt(c, record);
    return 0;
}

const char *core_vmnet(const struct machine *machine)
{
    return core_of_const(machine)->vmnet;
}

bool core_is_paused(const struct machine *machine)
{
    return core_of_const(machine)->state == MACHINE_PAUSED;
}
