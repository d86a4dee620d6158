// SPDX-License-Identifier: Apache-2.0
// The limits that the host holds a machine to: its processes in control groups of its own.
//
// What a guest may use is decided by its size; this holds whoever breaks out of the guest into QEMU
// or netd to the same. Joining a group takes the kernel up to 20 ms (it waits for all processors
// once), so it is done by a worker while QEMU starts: a create takes no longer for it, and the
// guest's first instruction comes later. Where groups may not be made, nothing is held and nothing
// fails: the machine's record says what holds.
#include <stdlib.h>
#include <string.h>

#include "sandbox-backend/base/mem.h"
#include "sandbox-backend/base/str.h"
#include "sandbox-backend/drivers/microvm/cgroup.h"
#include "sandbox-backend/drivers/microvm/machine.h"
#include "sandbox-backend/drivers/microvm/qemu.h"
#include "sandbox-backend/log/log.h"

// Beside the guest's memory: QEMU's own, netd's and egress's. Cached pages of the disk are counted
// as well, but given up before anybody is killed for them.
#define SLACK_MB     256
#define CPU_SPARE    1    // for QEMU's main thread and netd
#define THREADS_MORE 128  // than the guest has processors; QEMU reads its disk with up to 64
#define SECOND       "-b" // behind the name while another machine of the sandbox has the first

struct machine_cgroup {
    uv_work_t work;
    struct cgroup cgroup; // the worker's until it has ended
    struct cgroup_limits limits;
    char *name;    // owned
    pid_t pids[3]; // 0: none
    bool joining;
    bool begins_idle; // the worker is told; never changed
    bool background;  // as it is to be
    bool is_left;     // nobody is in them any more
    unsigned holds;   // for both processes
    void (*on_closed)(void *ctx);
    void *closed_ctx;
};

static void work(uv_work_t *w);
static void on_worked(uv_work_t *w, int status);

static char *name_of(const struct machine *m)
{
    char *parent auto_free = xstrdup(m->dir);
    char *slash = strrchr(parent, '/');
    if (slash)
        *slash = '\0';
    return cgroup_name(parent, m->id);
}

static struct cgroup_limits limits_of(const struct machine_size *size, bool emulated)
{
    int64_t mb = size->memory_mb + SLACK_MB + (emulated ? QEMU_TB_SIZE_MB : 0);
    return (struct cgroup_limits){.memory_bytes = mb << 20,
                                  .cpus = size->cpus,
                                  .cpu_spare = CPU_SPARE,
                                  .processes = size->cpus + THREADS_MORE};
}

void machine__cgroup_start(struct machine *m, const struct machine_size *size, bool emulated,
                           bool background)
{
    if (!cgroup_place_controllers(cgroup_place()))
        return;
    struct machine_cgroup *c = xcalloc(1, sizeof *c);
    *c = (struct machine_cgroup){.name = name_of(m),
                                 .limits = limits_of(size, emulated),
                                 .pids = {subproc_pid(m->qemu), subproc_pid(m->netd),
                                          m->egress ? subproc_pid(m->egress) : 0},
                                 .begins_idle = background,
                                 .background = background,
                                 .joining = true};
    c->work.data = m;
    m->cgroup = c;
    if (uv_queue_work(m->loop, &c->work, work, on_worked) != 0)
        abort(); // only for a NULL function
}

static void work(uv_work_t *w)
{
    struct machine_cgroup *c = container_of(w, struct machine_cgroup, work);
    bool used = cgroup_is_used(cgroup_place(), c->name);
    char *name auto_free = str_printf("%s%s", c->name, used ? SECOND : "");
    cgroup_make(&c->cgroup, cgroup_place(), name, &c->limits);
    if (c->begins_idle)
        cgroup_set_idle(&c->cgroup, true, c->limits.cpus);
    c->holds = CGROUP_ALL;
    for (size_t i = 0; i < ARRAY_LEN(c->pids) && c->pids[i]; i++)
        c->holds &= cgroup_join(&c->cgroup, c->pids[i]);
}

static void on_worked(uv_work_t *w, int status)
{
    struct machine *m = w->data;
    struct machine_cgroup *c = m->cgroup;
    c->joining = false;
    if (c->on_closed) {
        c->on_closed(c->closed_ctx);
        return;
    }
    if (status == 0)
        log_debug("machine.limits", "id=%s holds=\"%s\"", m->id, cgroup_names(c->holds));
    machine__step(m, "limited");
    machine_set_background(m, c->background);
}

bool machine__cgroup_close(struct machine *m, void (*on_closed)(void *ctx), void *ctx)
{
    if (m->cgroup)
        m->cgroup->is_left = machine__is_gone(m);
    if (!m->cgroup || !m->cgroup->joining)
        return false;
    m->cgroup->on_closed = on_closed;
    m->cgroup->closed_ctx = ctx;
    uv_cancel((uv_req_t *)&m->cgroup->work); // fails when it is being done, which is as good
    return true;
}

void machine__cgroup_fini(struct machine *m)
{
    struct machine_cgroup *c = steal(&m->cgroup);
    if (!c)
        return;
    if (c->is_left)
        cgroup_remove(&c->cgroup);
    cgroup_place_fini(&c->cgroup.groups);
    free(c->name);
    free(c);
}

// ---- in the background, or not

bool machine__cgroup_set_background(struct machine *m, bool background)
{
    struct machine_cgroup *c = m->cgroup;
    if (!c || !(cgroup_place_controllers(cgroup_place()) & CGROUP_CPU))
        return false;
    c->background = background;
    return c->joining ||
           (c->holds & CGROUP_CPU && cgroup_set_idle(&c->cgroup, background, c->limits.cpus));
}

// ---- the record

json_t *machine__cgroup_record(const struct machine *m)
{
    const struct machine_cgroup *c = m->cgroup;
    bool known = c && !c->joining;
    return json_pack("{s:s, s:i, s:o}", "holds", cgroup_names(known ? c->holds : 0), "cpus",
                     known ? c->limits.cpus : 0, "groups",
                     known ? cgroup_to_json(&c->cgroup) : json_array());
}

void machine__cgroup_adopt(struct machine *m, const json_t *record)
{
    const json_t *json = json_object_get(record, "limits");
    struct machine_cgroup *c = xcalloc(1, sizeof *c);
    c->name = name_of(m);
    c->limits.cpus = (int)json_integer_value(json_object_get(json, "cpus"));
    cgroup_from_json(&c->cgroup, json_object_get(json, "groups"), c->name);
    c->holds = cgroup_place_controllers(&c->cgroup.groups);
    m->cgroup = c;
}

void machine__sweep(const char *sandboxes_dir)
{
    cgroup_sweep(cgroup_place(), sandboxes_dir);
}
