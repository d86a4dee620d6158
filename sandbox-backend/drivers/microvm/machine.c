// SPDX-License-Identifier: Apache-2.0
// One microVM: a QEMU restored from a template and the network process beside it.
//
// Theory of operation
//
// Goal. A machine is running at most 50 ms after it was asked for, costs the host little memory,
// outlives the daemon that started it, and when it ends, for whatever reason, nothing of it is left
// and its owner is told once, with a sentence that says why.
//
// Restore (machine_create.c). The template's memory file is mapped copy-on-write, so nothing is
// read that the guest does not touch; the device state is about 200 KB. QEMU's start is nearly all
// of the time, so everything else happens during it: both processes are started at once, the
// sockets are made here and inherited (their addresses work before anyone accepts), and the first
// QMP commands wait in the socket when QEMU comes to it. No step sleeps or polls.
//
// Processes. QEMU and cubby-netd have sessions of their own and inherit only the descriptors they
// need; what they say goes into bounded memory (childlog.h). They are watched by pidfd (subproc.h),
// which works for one that an earlier daemon started as well. netd ends by itself when QEMU does.
//
// States (one setter, one table):
//
//   STARTING --> RUNNING --> SUSPECT --> ENDING --> ENDED --> CLOSING --> freed
//       |            |          |  (machine_kill:)    |          ^
//       +--> SUSPECT, ENDING    +-----> KILLING <-----+          |
//       (then on_ready fails)              +---------------------+
//
//   RUNNING -> PAUSING -> PAUSED -> RESUMING -> RUNNING, and from each what is possible from
//   RUNNING. An adopted machine may go from STARTING to PAUSED.
//
// The end by itself (machine_exit.c) begins with a sign: QEMU's or netd's pidfd, a QMP event (a
// guest that panics, reboots or powers off pauses QEMU and makes an event), or the control
// connection's end. Signs come in any order (a killed QEMU also ends netd and the connection), so a
// weak sign waits up to 100 ms for QEMU's own end to explain it, and a guest's end is explained by
// what its kernel last wrote on the console. Then both processes are killed, waited for, and
// on_exit is called.
//
// Every state but RUNNING, PAUSED and ENDED has a deadline: 15 s to start, 30 s to pause or resume,
// 100 ms or 1 s to explain, 10 s for a process to go after SIGKILL (which is passed only by one
// that hangs in the kernel; that is logged, and the machine let go).
//
// Adoption (machine_adopt.c). machine_record names both processes by pid and start time and the
// boot they belong to. QEMU's control socket accepts a new connection once the old one is closed.
//
// Trust. QEMU may have been broken into by its guest: what it says is bounded and checked (qmp.c),
// and nothing that it says names a file, a process or an address. What the guest's console says is
// shown only as short printable text.
#include "sandbox-backend/drivers/microvm/machine.h"

#include <string.h>
#include <unistd.h>

#include "sandbox-backend/base/mem.h"
#include "sandbox-backend/base/str.h"
#include "sandbox-backend/drivers/microvm/boot_id.h"
#include "sandbox-backend/drivers/microvm/childlog.h"
#include "sandbox-backend/log/log.h"

#define START_LIMIT_MS 15000
#define IDLE_PATIENCE  6 // times as long for one in the background, which gets what others leave
#define GONE_LIMIT_MS  10000

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

void machine__set_state(struct machine *m, enum machine_state to)
{
    if (!(ALLOWED[m->state] & (1u << to)))
        abort();
    log_debug("machine.state", "id=%s %s -> %s", m->id, STATE_NAMES[m->state], STATE_NAMES[to]);
    m->state = to;
    if (to == MACHINE_ENDING || to == MACHINE_KILLING)
        deadline_arm(&m->deadline, GONE_LIMIT_MS);
    else if (to != MACHINE_SUSPECT) // whose deadline depends on what it waits for
        deadline_disarm(&m->deadline);
}

void machine__step(const struct machine *m, const char *step)
{
    log_debug("machine.step", "id=%s step=%s ms=%.1f", m->id, step,
              (double)(uv_hrtime() - m->begun_ns) / 1e6);
}

static uint64_t patience(const struct machine *m)
{
    return m->background ? IDLE_PATIENCE : 1;
}

uint64_t machine__qmp_ms(const struct machine *m)
{
    return MACHINE_QMP_MS * patience(m);
}

struct machine *machine__new(uv_loop_t *loop, const struct machine_spec *spec,
                             machine_ready_cb on_ready, machine_exit_cb on_exit, void *ctx)
{
    struct machine *m = xcalloc(1, sizeof *m);
    *m = (struct machine){.loop = loop,
                          .id = xstrdup(spec->id),
                          .dir = xstrdup(spec->dir),
                          .template = xstrdup(spec->template),
                          .background = spec->background,
                          .size = spec->size,
                          .vmnet = str_printf("%s/" MACHINE_VMNET, spec->dir),
                          .qmp_path = str_printf("%s/" MACHINE_QMP, spec->dir),
                          .control = str_printf("%s/" MACHINE_CONTROL, spec->dir),
                          .policy = machine__policy_text(spec),
                          .qemu_log = -1,
                          .netd_log = -1,
                          .egress_log = -1,
                          .egress_config = spec->egress ? xstrdup(spec->egress) : NULL,
                          .egress_trust = spec->egress_trust ? xstrdup(spec->egress_trust) : NULL,
                          .begun_ns = uv_hrtime(),
                          .on_ready = on_ready,
                          .on_exit = on_exit,
                          .ctx = ctx};
    TAILQ_INIT(&m->requests);
    deadline_init(&m->deadline, loop, machine__on_deadline);
    deadline_arm(&m->deadline, START_LIMIT_MS * patience(m));
    return m;
}

int machine__open_qmp(struct machine *m, struct err *e)
{
    static const struct qmp_events events = {.on_event = machine__on_event,
                                             .on_lost = machine__on_lost};
    int fd = qmp_connect(m->qmp_path, e);
    if (fd < 0)
        return -1;
    m->qmp = qmp_open(m->loop, fd, &events, m);
    return 0;
}

void machine__ready(struct machine *m, enum machine_state state)
{
    free(steal(&m->policy));
    machine__restore_free(m);
    machine__set_state(m, state);
    machine__step(m, "ready");
    m->ready = true;
    m->on_ready(m, NULL, m->ctx);
}

// ---- the end

static bool is_gone(const struct subproc *p)
{
    return !p || subproc_has_exited(p);
}

bool machine__is_gone(const struct machine *m)
{
    return is_gone(m->qemu) && is_gone(m->netd) && is_gone(m->egress) && !m->working;
}

void machine__kill_both(struct machine *m)
{
    if (m->qemu)
        subproc_kill(m->qemu);
    if (m->netd)
        subproc_kill(m->netd);
    if (m->egress)
        subproc_kill(m->egress);
}

void machine__handle_closed(struct machine *m)
{
    if (--m->handles > 0)
        return;
    machine__save_abandon(m);
    machine__restore_free(m);
    machine__answer_all(m, ERR_CANCELED, "the machine was let go");
    struct machine last = *m;
    free(m->id);
    free(m->dir);
    free(m->template);
    free(m->vmnet);
    free(m->qmp_path);
    free(m->control);
    free(m->policy);
    machine__cgroup_fini(m);
    mem_close_fd(&m->qemu_log);
    mem_close_fd(&m->netd_log);
    mem_close_fd(&m->egress_log);
    machine__egress_forget(m);
    free(m->egress_trust);
    free(m);
    if (!last.ready)
        last.on_ready(NULL, &last.error, last.ctx);
    else if (last.on_gone)
        last.on_gone(last.gone_ctx);
}

static void on_handle_closed(void *ctx)
{
    machine__handle_closed(ctx);
}

static void on_deadline_closed(struct deadline *d)
{
    machine__handle_closed(container_of(d, struct machine, deadline));
}

void machine__close(struct machine *m)
{
    machine__set_state(m, MACHINE_CLOSING);
    machine__policy_abandon(m);
    machine__boot_abandon(m);
    m->handles = 1 + (m->qemu != NULL) + (m->netd != NULL) + (m->egress != NULL) +
                 (m->qmp != NULL) + m->working + machine__cgroup_close(m, on_handle_closed, m);
    if (m->qmp)
        qmp_close(m->qmp, on_handle_closed, m);
    if (m->qemu)
        subproc_close(m->qemu, on_handle_closed, m);
    if (m->netd)
        subproc_close(m->netd, on_handle_closed, m);
    if (m->egress)
        subproc_close(m->egress, on_handle_closed, m);
    deadline_close(&m->deadline, on_deadline_closed);
}

void machine_kill(struct machine *m, void (*on_gone)(void *ctx), void *ctx)
{
    m->on_gone = on_gone;
    m->gone_ctx = ctx;
    machine__set_state(m, MACHINE_KILLING);
    machine__kill_both(m);
    machine__check_gone(m);
}

void machine_release(struct machine *m, void (*on_gone)(void *ctx), void *ctx)
{
    m->on_gone = on_gone;
    m->gone_ctx = ctx;
    machine__close(m);
}

// ---- what the owner may ask

static json_t *process_record(const struct subproc *p)
{
    return json_pack("{s:i, s:I}", "pid", (int)subproc_pid(p), "start_time",
                     (json_int_t)subproc_start_time(p));
}

json_t *machine_record(const struct machine *m)
{
    json_t *record = json_pack("{s:s, s:o, s:o, s:o, s:o}", "boot_id", boot_id(), "qemu",
                               process_record(m->qemu), "netd", process_record(m->netd), "limits",
                               machine__cgroup_record(m), "jail", machine__jail_json(m));
    if (m->egress)
        json_object_set_new(record, "egress", process_record(m->egress));
    return record;
}

const char *machine_vmnet(const struct machine *m)
{
    return m->vmnet;
}
