// SPDX-License-Identifier: Apache-2.0
// The limits that the host sets for a machine: its cgroups, the background, and the walls of its
// jail.
//
// The processes of a machine run in cgroups of their own. A guest's size already limits what the
// guest can use. The cgroups hold an attacker who breaks out of the guest into its process or into
// netd to the same limits. Joining a cgroup takes the kernel up to 20 ms, because it waits once for
// all processors. So a worker does it while the guest's process starts, or while a saved state is
// loaded. A driver that loads a state lets the guest run only after it (core_kind.limited). On a
// host that does not allow cgroups, no limit is enforced and nothing fails. The machine's record
// says which limits are in force.
#include <dirent.h>
#include <fcntl.h>
#include <limits.h>
#include <linux/capability.h>
#include <sched.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "sandbox-backend/base/fd.h"
#include "sandbox-backend/base/mem.h"
#include "sandbox-backend/base/str.h"
#include "sandbox-backend/drivers/host/cgroup.h"
#include "sandbox-backend/drivers/host/core.h"
#include "sandbox-backend/drivers/host/host_jail.h"
#include "sandbox-backend/drivers/host/jailed.h"
#include "sandbox-backend/log/log.h"

#define RLIMIT_NICE_0  20 // the limit that allows a nice value of 0, getrlimit(2)
#define PASSES_MAX     4  // passes over a list of threads or processes, until it has no new one
#define CHILDREN_MAX   256
#define LOOKED_AT_MAX  2048   // processes, in one change of the mode
#define VICTIM_SCORE   "1000" // before every other process of the group
#define CHILDREN_DEPTH 2      // a sentry has stubs, and each stub has one child
#define SECOND         "-b"   // name suffix while another machine of the sandbox has the first name

struct core_limits {
    uv_work_t work;
    struct cgroup cgroup; // owned by the worker until it has ended
    struct cgroup_limits limits;
    char *name;    // owned
    pid_t pids[3]; // 0: no process
    bool joining;
    bool begins_idle; // an input of the worker; never changed
    bool background;  // the requested mode
    bool is_left;     // no process is in the groups any more
    bool first_ends;  // pids[0] only starts the guest's process, and may have ended already
    unsigned holds;   // one for each process
};

static void work(uv_work_t *w);
static void on_worked(uv_work_t *w, int status);

static char *name_of(const struct machine_core *core)
{
    char *parent auto_free = xstrdup(core->dir);
    char *slash = strrchr(parent, '/');
    if (slash)
        *slash = '\0';
    return cgroup_name(parent, core->id);
}

// Return false if this host has no groups.
static bool start_joining(struct machine_core *core, const struct subproc *first,
                          const struct cgroup_limits *limits)
{
    if (!cgroup_place_controllers(cgroup_place()))
        return false;
    struct core_limits *l = xcalloc(1, sizeof *l);
    *l = (struct core_limits){.name = name_of(core),
                              .limits = *limits,
                              .pids = {first ? subproc_pid(first) : 0,
                                       core->netd ? subproc_pid(core->netd) : 0,
                                       core->egress ? subproc_pid(core->egress) : 0},
                              .begins_idle = core->background,
                              .background = core->background,
                              .joining = true,
                              .first_ends = core->kind->first_ends};
    l->work.data = core;
    core->limits = l;
    if (uv_queue_work(core->loop, &l->work, work, on_worked) != 0)
        abort(); // libuv fails here only for a NULL function
    return true;
}

void core_limits_start(struct machine_core *core, const struct subproc *first,
                       const struct cgroup_limits *limits)
{
    if (!start_joining(core, first, limits) && core->kind->limited)
        core->kind->limited(core);
    if (core->background)
        core_set_background(&core->machine, true);
}

// Put the process and those below it into the groups. Return which limits hold for all of them.
// *moved: a process was not in all groups.
static unsigned confine(const struct cgroup *g, pid_t pid, int depth, bool *moved)
{
    unsigned holds = cgroup_holds(g, pid);
    if (holds != cgroup_place_controllers(&g->groups)) {
        *moved = true;
        holds = cgroup_join(g, pid);
    }
    pid_t children[CHILDREN_MAX];
    int count = depth ? subproc_children(pid, children, CHILDREN_MAX) : 0;
    for (int i = 0; i < count; i++)
        holds &= confine(g, children[i], depth - 1, moved);
    return holds;
}

// Processes that it starts later inherit this.
static void prefer_as_victim(pid_t pid)
{
    char path[48];
    snprintf(path, sizeof path, "/proc/%d/oom_score_adj", (int)pid);
    int file auto_close = open(path, O_WRONLY | O_CLOEXEC);
    if (file >= 0) // a process that has ended needs none
        (void)fd_write_all(file, VICTIM_SCORE, strlen(VICTIM_SCORE), NULL);
}

void core_limits_confine(struct machine_core *core, pid_t pid)
{
    pid_t children[CHILDREN_MAX];
    int count = subproc_children(pid, children, CHILDREN_MAX);
    for (int i = 0; i < count; i++)
        prefer_as_victim(children[i]);
    if (!core->limits)
        return;
    // A new process is in the groups of its parent. So after a pass that moves no process, none is
    // outside of the groups.
    bool moved = true;
    unsigned holds = 0;
    for (int pass = 0; pass < PASSES_MAX && moved; pass++) {
        moved = false;
        holds = confine(&core->limits->cgroup, pid, CHILDREN_DEPTH, &moved);
    }
    core->limits->holds &= holds;
}

void core_confine(struct machine *machine, pid_t pid)
{
    const struct machine_core *core = container_of(machine, struct machine_core, machine);
    if (core->limits && !core->limits->joining)
        cgroup_join(&core->limits->cgroup, pid);
}

void core_limits_kill(struct machine_core *core)
{
    if (core->limits && !core->limits->joining)
        cgroup_kill(&core->limits->cgroup);
}

static void work(uv_work_t *w)
{
    struct core_limits *l = container_of(w, struct core_limits, work);
    bool used = cgroup_is_used(cgroup_place(), l->name);
    char *name auto_free = str_printf("%s%s", l->name, used ? SECOND : "");
    cgroup_make(&l->cgroup, cgroup_place(), name, &l->limits);
    if (l->begins_idle)
        cgroup_set_idle(&l->cgroup, true, l->limits.cpus);
    l->holds = CGROUP_ALL;
    for (size_t i = 0; i < ARRAY_LEN(l->pids); i++) {
        unsigned held = l->pids[i] ? cgroup_join(&l->cgroup, l->pids[i]) : CGROUP_ALL;
        if (i > 0 || !l->first_ends)
            l->holds &= held;
    }
}

static void on_worked(uv_work_t *w, int status)
{
    struct machine_core *core = w->data;
    struct core_limits *l = core->limits;
    l->joining = false;
    if (core->state == MACHINE_CLOSING) {
        core_handle_closed(core);
        return;
    }
    if (status == 0)
        log_debug("machine.limits", "id=%s holds=\"%s\"", core->id, cgroup_names(l->holds));
    core_step(core, "limited");
    core_set_background(&core->machine, l->background);
    if (core->kind->limited)
        core->kind->limited(core);
}

bool core__limits_close(struct machine_core *core)
{
    if (core->limits)
        core->limits->is_left = core_is_gone(core);
    if (!core->limits || !core->limits->joining)
        return false;
    uv_cancel(
        (uv_req_t *)&core->limits->work); // fails if the work is already running, which is fine
    return true;
}

void core__limits_fini(struct machine_core *core)
{
    struct core_limits *l = steal(&core->limits);
    if (!l)
        return;
    if (l->is_left)
        cgroup_remove(&l->cgroup);
    cgroup_place_fini(&l->cgroup.groups);
    free(l->name);
    free(l);
}

// ---- background and foreground

static bool set_background_by_groups(struct machine_core *core, bool background)
{
    struct core_limits *l = core->limits;
    if (!l || !(cgroup_place_controllers(cgroup_place()) & CGROUP_CPU))
        return false;
    l->background = background;
    if (l->joining)
        return true;
    // Even if not every process could join, those that did must leave the background.
    bool is_set = cgroup_set_idle(&l->cgroup, background, l->limits.cpus);
    return is_set && l->holds & CGROUP_CPU;
}

// Without a cgroup, the threads of a background machine have the policy SCHED_IDLE: they run on a
// processor that has nothing else to do and yield at once. The way back requires CAP_SYS_NICE or a
// high enough RLIMIT_NICE. Without either, a machine would stay in the background for ever, so it
// is never put there.
static bool has_sys_nice(void)
{
    struct __user_cap_header_struct header = {.version = _LINUX_CAPABILITY_VERSION_3};
    struct __user_cap_data_struct data[_LINUX_CAPABILITY_U32S_3] = {0};
    return syscall(SYS_capget, &header, data) == 0 && data[0].effective & (1u << CAP_SYS_NICE);
}

// Return whether this process may restore the normal policy. It is checked once, because the
// permission of a daemon does not change.
static bool can_come_back(void)
{
    static enum { UNKNOWN, NO, YES } known;
    struct rlimit nice = {0};
    if (known == UNKNOWN) {
        getrlimit(RLIMIT_NICE, &nice);
        known = has_sys_nice() || nice.rlim_cur >= RLIMIT_NICE_0 ? YES : NO;
    }
    return known == YES;
}

// Set the policy of all threads. Return true if any thread had another policy.
static bool set_threads(const char *dir, int policy)
{
    const struct sched_param none = {0};
    bool changed = false;
    DIR *threads = opendir(dir);
    if (!threads)
        return false;
    for (struct dirent *entry; (entry = readdir(threads));) {
        int64_t tid = 0;
        if (str_to_int(entry->d_name, 1, INT_MAX, &tid) && sched_getscheduler((pid_t)tid) != policy)
            changed |= sched_setscheduler((pid_t)tid, policy, &none) == 0;
    }
    closedir(threads);
    return changed;
}

// A thread inherits the policy of the thread that starts it. So a pass misses only threads that
// unchanged threads start during it; repeated passes catch them.
// Return true if the policy of any thread was changed.
static bool set_pid(pid_t pid, int policy)
{
    char dir[48];
    bool changed = false;
    snprintf(dir, sizeof dir, "/proc/%d/task", (int)pid);
    for (int pass = 0; pass < PASSES_MAX && set_threads(dir, policy); pass++)
        changed = true;
    return changed;
}

// *left: how many more processes may be looked at. A guest with more processes than that keeps some
// in the other mode, rather than keep the loop busy.
static bool set_tree(pid_t pid, int policy, int depth, int *left)
{
    pid_t children[CHILDREN_MAX];
    if (--*left < 0)
        return false;
    bool changed = set_pid(pid, policy);
    int count = depth ? subproc_children(pid, children, CHILDREN_MAX) : 0;
    for (int i = 0; i < count; i++)
        changed |= set_tree(children[i], policy, depth - 1, left);
    return changed;
}

static void set_process(const struct subproc *p, int policy, int depth)
{
    if (!p || subproc_has_exited(p))
        return;
    int left = LOOKED_AT_MAX;
    for (int pass = 0; pass < PASSES_MAX && set_tree(subproc_pid(p), policy, depth, &left); pass++)
        ;
}

void core_set_background(struct machine *machine, bool background)
{
    struct machine_core *core = core_of(machine);
    if (set_background_by_groups(core, background) || !can_come_back())
        return;
    int policy = background ? SCHED_IDLE : SCHED_OTHER;
    set_process(core->guest, policy, core->kind->child_levels);
    set_process(core->netd, policy, 0);
}

// ---- usage

int64_t core__limits_cpu_ns(const struct machine_core *core)
{
    const struct core_limits *l = core->limits;
    return l && !l->joining && l->holds & CGROUP_CPU ? cgroup_cpu_ns(&l->cgroup) : -1;
}

int64_t core__limits_memory_bytes(const struct machine_core *core)
{
    const struct core_limits *l = core->limits;
    return l && !l->joining && l->holds & CGROUP_MEMORY ? cgroup_memory_bytes(&l->cgroup) : -1;
}

// ---- the record

json_t *core__limits_record(const struct machine_core *core)
{
    const struct core_limits *l = core->limits;
    bool known = l && !l->joining;
    return json_pack("{s:s, s:i, s:o}", "holds", cgroup_names(known ? l->holds : 0), "cpus",
                     known ? l->limits.cpus : 0, "groups",
                     known ? cgroup_to_json(&l->cgroup) : json_array());
}

void core__limits_adopt(struct machine_core *core, const json_t *record)
{
    const json_t *json = json_object_get(record, "limits");
    struct core_limits *l = xcalloc(1, sizeof *l);
    l->name = name_of(core);
    l->limits.cpus = (int)json_integer_value(json_object_get(json, "cpus"));
    cgroup_from_json(&l->cgroup, json_object_get(json, "groups"), l->name);
    l->holds = cgroup_place_controllers(&l->cgroup.groups) &
               cgroup_named(json_string_value(json_object_get(json, "holds")));
    core->limits = l;
}

void core_sweep(const char *sandboxes_dir)
{
    cgroup_sweep(cgroup_place(), sandboxes_dir);
}

// ---- the jail

struct subproc *core_start_jailed(struct machine_core *core, const struct jailed_program *program,
                                  const struct spawn_opts *opts, subproc_exit_cb on_exit,
                                  struct err *e)
{
    core->walls = host_jail_walls();
    core->walls_missing = host_jail_missing();
    return jailed_start(core->loop, program, opts, on_exit, core, e);
}

static json_t *names(unsigned walls)
{
    json_t *list = json_array();
    for (int i = 0; i < WALL_COUNT; i++)
        if (walls & WALL_BIT(i))
            json_array_append_new(list, json_string(wall_name((enum wall)i)));
    return list;
}

json_t *core_walls(unsigned walls, unsigned missing)
{
    return json_pack("{s:o, s:o}", "walls", names(walls), "missing", names(missing));
}

json_t *core_jail(const struct machine *machine)
{
    const struct machine_core *core = machine ? core_of_const(machine) : NULL;
    unsigned walls = core ? core->walls : host_jail_walls();
    unsigned missing = core ? core->walls_missing : host_jail_missing();
    return core_walls(walls, missing);
}

static unsigned walls_in(const json_t *list)
{
    unsigned walls = 0;
    for (size_t i = 0; i < json_array_size(list); i++) {
        const char *name = json_string_value(json_array_get(list, i));
        int wall = name ? wall_of(name) : -1;
        walls |= wall >= 0 ? WALL_BIT(wall) : 0;
    }
    return walls;
}

// A record of an older daemon lacks this member; its machine has no walls.
void core__jail_adopt(struct machine_core *core, const json_t *record)
{
    core->walls = walls_in(json_object_get(record, "walls"));
    core->walls_missing = walls_in(json_object_get(record, "missing"));
}
