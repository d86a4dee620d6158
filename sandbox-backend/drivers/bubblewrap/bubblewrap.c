// SPDX-License-Identifier: Apache-2.0
// The bubblewrap driver: the operations of drivers/driver.h, implemented with cubby-nest and bwrap.
#include "sandbox-backend/drivers/bubblewrap/bubblewrap.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/statfs.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "sandbox-backend/base/fd.h"
#include "sandbox-backend/base/home.h"
#include "sandbox-backend/base/mem.h"
#include "sandbox-backend/base/str.h"
#include "sandbox-backend/drivers/bubblewrap/bwrap_args.h"
#include "sandbox-backend/drivers/host/tool.h"
#include "sandbox-backend/drivers/nest/nested.h"
#include "sandbox-backend/drivers/template_dirs.h"
#include "sandbox-backend/jail/jail.h"
#include "sandbox-backend/mountd/wire.h"
#include "sandbox-backend/nest/nest.h"

#define TUN              "/dev/net/tun"
#define FUSE             "/dev/fuse" // of mounts (nest/mounting.h)
#define CGROUP_NAMESPACE "/proc/self/ns/cgroup"
#define START_MS         30000
#define CPU_SPARE        1    // for netd and cubby-nest
#define PROCESSES        4096 // and threads
#define LAYER_FACTOR     2    // of the guest's memory
#define SLACK_MB         64   // memory of netd and cubby-nest
#define NO_NETWORK                                                              \
    "bubblewrap shares the host's kernel, and the sandbox has no network: " TUN \
    " could not be opened when it was made"
#define NO_TUN TUN " cannot be opened on this host, so sandboxes of bubblewrap have no network"
#define SHARED "bubblewrap shares the host's kernel: use it only for code that you trust"

static const struct core_kind KIND;

static bool opens(const char *device)
{
    int fd auto_close = open(device, O_RDWR | O_CLOEXEC);
    return fd >= 0;
}

static bool has_tun(void)
{
    return opens(TUN);
}

static char *state; // owned; the state directory; NULL: the driver is not open

static int open_driver(uv_loop_t *loop, const char *home, const struct driver_jail *jail,
                       struct err *e)
{
    (void)loop, (void)jail, (void)e;
    state = xstrdup(home);
    return 0;
}

static void close_driver(void)
{
    free(steal(&state));
}

// home: NULL: only a template of the home is meant.
static char *root_of(const char *home, const char *template_dir)
{
    char *own auto_free = home ? template_dirs_own(home, template_dir) : xstrdup(template_dir);
    return str_printf("%s/" BUBBLEWRAP_DIR "/" BUBBLEWRAP_ROOT, own);
}

// ---- facts

int bubblewrap_check_root(const char *home, const char *template_dir, struct err *e)
{
    char *root auto_free = root_of(home, template_dir);
    const char *name = str_base(template_dir);
    uid_t owner = geteuid() == 0 ? NEST_USERS_FIRST : geteuid();
    struct stat st;
    if (stat(root, &st) < 0)
        return err_set(e, ERR_NOT_FOUND,
                       "template %s is not unpacked for bubblewrap; run: cubby template unpack %s",
                       name, name);
    if (st.st_uid == owner)
        return 0;
    return err_set(e, ERR_NOT_FOUND,
                   "template %s was unpacked by another user than this one, whose guests have "
                   "other users; run: cubby template unpack %s",
                   name, name);
}

static const char *warning(const struct machine *m)
{
    bool has_network = m ? core_of_const(m)->netd != NULL : has_tun();
    return has_network ? SHARED : NO_NETWORK;
}

static int facts_in(const char *home, const char *template_dir, struct machine_facts *out,
                    struct err *e)
{
    char *bwrap auto_free = tool_find(BWRAP_PROGRAM, BWRAP_PACKAGE, e);
    *out = (struct machine_facts){0};
    if (!bwrap || nested_facts(template_dir, out, e) < 0 ||
        bubblewrap_check_root(home, template_dir, e) < 0)
        return -1;
    // The layer above the root is in memory.
    if (out->disk_mb > out->memory_mb * LAYER_FACTOR)
        out->disk_mb = out->memory_mb * LAYER_FACTOR;
    out->disk_grows = true;
    return 0;
}

static int facts(const char *template_dir, struct machine_facts *out, struct err *e)
{
    return facts_in(state, template_dir, out, e);
}

static int64_t promise_mb(const struct machine_facts *f)
{
    return f->memory_mb + f->disk_mb + SLACK_MB;
}

// ---- create and adopt

static void apply_size(struct machine_facts *f, const struct machine_size *size)
{
    f->cpus = size->cpus ? size->cpus : f->cpus;
    f->memory_mb = size->memory_mb ? size->memory_mb : f->memory_mb;
    f->disk_mb = size->disk_mb ? size->disk_mb : f->disk_mb;
}

static char *tools_dir(struct err *e)
{
    char *init = self_guest("init", e);
    char *slash = init ? strrchr(init, '/') : NULL;
    if (slash)
        *slash = '\0';
    return init;
}

static int begin(struct nested *n, bool has_secrets, struct err *e)
{
    struct machine_facts f;
    bool has_card = has_tun();
    if (facts(n->core.template, &f, e) < 0)
        return -1;
    if (has_secrets && !has_card)
        return err_set(e, ERR_UNIMPLEMENTED,
                       "a sandbox with secrets needs a network, and " TUN
                       " cannot be opened on this host");
    apply_size(&f, &n->core.size);
    char *bwrap auto_free = tool_find(BWRAP_PROGRAM, BWRAP_PACKAGE, e);
    char *tools auto_free = tools_dir(e);
    if (!bwrap || !tools)
        return -1;
    char *root auto_free = root_of(state, n->core.template);
    char *layer auto_free = str_printf("%lld", (long long)f.disk_mb);
    char *half auto_free = str_printf("%lld", (long long)f.memory_mb << 19);
    const char *operands[BWRAP_ARGS_MAX];
    bwrap_args(operands, bwrap, half);
    const char *const args[] = {"--kind", "bubblewrap", "--template", root, "--tools",
                                tools,    "--layer-mb", layer,        NULL};
    const struct nested_start start = {.args = args,
                                       .operands = operands,
                                       .has_card = has_card,
                                       .limits = {.memory_bytes = promise_mb(&f) << 20,
                                                  .no_swap = true,
                                                  .cpus = f.cpus,
                                                  .cpu_spare = CPU_SPARE,
                                                  .processes = PROCESSES}};
    return nested_start(n, &start, e);
}

static struct machine *create(uv_loop_t *loop, const struct machine_spec *spec,
                              machine_ready_cb on_ready, machine_exit_cb on_exit, void *ctx)
{
    struct nested *n = nested_new(&KIND, loop, spec, on_ready, on_exit, ctx);
    struct err e = ERR_INIT;
    if (begin(n, spec->egress.config != NULL, &e) < 0)
        core_fail(&n->core, &e); // the loop reports the failure to the daemon
    return &n->core.machine;
}

static void adopt(uv_loop_t *loop, const struct machine_spec *spec, const json_t *record,
                  machine_ready_cb on_ready, machine_exit_cb on_exit, void *ctx)
{
    nested_adopt(nested_new(&KIND, loop, spec, on_ready, on_exit, ctx), record);
}

// ---- the guest's processes, and mounts

// Find bwrap, and the guest's init below it. False: unknown.
static bool find_processes(const struct machine_core *core, pid_t *bwrap, pid_t *init)
{
    return subproc_children(subproc_pid(core->guest), bwrap, 1) == 1 &&
           subproc_children(*bwrap, init, 1) == 1;
}

// Return the pid of the guest's init. 0: unknown.
static pid_t init_of(const struct machine_core *core)
{
    pid_t bwrap, init;
    return find_processes(core, &bwrap, &init) ? init : 0;
}

static int open_process(pid_t pid)
{
    return (int)syscall(SYS_pidfd_open, pid, 0);
}

// Open both processes. The kernel reuses pids, so they are looked for again.
static int open_processes(const struct machine_core *core, int *bwrap, int *init, struct err *e)
{
    pid_t pids[2], again[2];
    if (find_processes(core, &pids[0], &pids[1]) && (*bwrap = open_process(pids[0])) >= 0 &&
        (*init = open_process(pids[1])) >= 0 && find_processes(core, &again[0], &again[1]) &&
        pids[0] == again[0] && pids[1] == again[1])
        return 0;
    return err_set(e, ERR_UNAVAILABLE, "the guest is ending");
}

static struct subproc *start_mount(struct machine_core *core, const struct machine_mount *what,
                                   const int *fds, int count, subproc_exit_cb on_exit, void *ctx,
                                   struct err *e)
{
    char *file auto_free = self_program(NEST_PROGRAM, e);
    char *mountfs auto_free = file ? self_guest("mountfs", e) : NULL;
    if (!mountfs)
        return NULL;
    char *port auto_free = str_printf("%d", what->port);
    char *token auto_free = str_printf(MOUNT_TOKEN_NAME "=%s", what->token);
    const char *const words[] = {NEST_PROGRAM,
                                 "--kind=mount",
                                 "--go-fd=3",
                                 "--guest-fd=4",
                                 "--holder-fd=5",
                                 "--port",
                                 port,
                                 "--target",
                                 what->target,
                                 "--user",
                                 what->user,
                                 "--",
                                 mountfs,
                                 what->read_only ? "ro" : NULL,
                                 NULL};
    char *argv[ARRAY_LEN(words)]; // execve(2) takes no const, but changes nothing
    for (size_t i = 0; i < ARRAY_LEN(words); i++)
        argv[i] = (char *)(uintptr_t)words[i];
    char *env[] = {token, NULL};
    const struct spawn_opts opts = {
        .file = file, .argv = argv, .env = env, .fds = fds, .fd_count = count};
    struct subproc *p = subproc_start(core->loop, &opts, on_exit, ctx, e);
    if (p)
        core_confine(&core->machine, subproc_pid(p));
    explicit_bzero(token, strlen(token));
    return p;
}

// The program goes on when it is in the control groups, so that all of its children are.
static struct subproc *mount_in(struct machine *m, const struct machine_mount *what, int log,
                                subproc_exit_cb on_exit, void *ctx, struct err *e)
{
    struct machine_core *core = core_of(m);
    int bwrap auto_close = -1, init auto_close = -1, go[2];
    if (open_processes(core, &bwrap, &init, e) < 0)
        return NULL;
    if (pipe2(go, O_CLOEXEC) < 0) {
        err_sys(e, errno, "make a pipe");
        return NULL;
    }
    int its_end auto_close = go[0], own_end auto_close = go[1];
    const int fds[] = {-1, -1, log, its_end, init, bwrap};
    struct subproc *p = start_mount(core, what, fds, (int)ARRAY_LEN(fds), on_exit, ctx, e);
    struct err ended = ERR_INIT; // on_exit tells it
    if (p)
        fd_write_all(own_end, "", 1, &ended);
    return p;
}

// ---- usage, reports

// The layer is in memory.
static int usage(const struct machine *machine, struct machine_usage *out, struct err *e)
{
    const struct machine_core *core = core_of_const(machine);
    struct statfs layer;
    char path[48];
    if (core_usage(machine, out, e) < 0)
        return -1;
    snprintf(path, sizeof path, "/proc/%d/root", (int)init_of(core));
    if (statfs(path, &layer) == 0)
        out->disk_bytes = (int64_t)(layer.f_blocks - layer.f_bfree) * layer.f_bsize;
    out->memory_bytes += out->disk_bytes;
    return 0;
}

// The walls that cubby-nest and bwrap build around each guest, and those of cubby-jail around netd
// and egress.
static json_t *jail(const struct machine *m)
{
    // bwrap leaves out the last one where the kernel has no such namespaces (bwrap_args.c).
    unsigned cgroup = WALL_BIT(WALL_CGROUP), missing = file_exists(CGROUP_NAMESPACE) ? 0 : cgroup;
    json_t *shown = core_walls((WALL_BIT(WALL_USER) | WALL_BIT(WALL_MOUNT) | WALL_BIT(WALL_PID) |
                                WALL_BIT(WALL_NETWORK) | WALL_BIT(WALL_IPC) | WALL_BIT(WALL_UTS) |
                                WALL_BIT(WALL_SECCOMP) | cgroup) &
                                   ~missing,
                               missing);
    if (m ? core_of_const(m)->netd != NULL : has_tun())
        json_object_set_new(shown, "network", core_jail(m));
    return shown;
}

static bool owns(const char *program)
{
    return str_eq(program, BWRAP_PROGRAM);
}

// Sandboxes of the other tiers work without bubblewrap, so nothing here is more than a note.
static bool has_template(const char *dir)
{
    char *facts auto_free = str_printf("%s/template.json", dir);
    return file_exists(facts);
}

static void doctor(const char *home, finding_cb add, void *ctx)
{
    struct err e = ERR_INIT;
    struct machine_facts f;
    char *bwrap auto_free = tool_find(BWRAP_PROGRAM, BWRAP_PACKAGE, &e);
    char *dir auto_free = home ? template_dirs_find(home, "default") : NULL;
    if (!bwrap) {
        add(ctx, FINDING_NOTE, "bubblewrap", "apt install " BWRAP_PACKAGE,
            "bwrap is not installed; only the tier bubblewrap needs it");
        return;
    }
    char *mapper auto_free = geteuid() == 0 ? xstrdup("") : tool_find("newuidmap", "uidmap", &e);
    if (!mapper)
        add(ctx, FINDING_NOTE, "bubblewrap", "apt install uidmap",
            "newuidmap is not installed, which the tier bubblewrap needs without root");
    else if (!has_tun())
        add(ctx, FINDING_NOTE, "bubblewrap", "allow this user to open " TUN, NO_TUN);
    else if (dir && !has_template(dir))
        return; // the microvm driver's part says so, and what to do
    else if (!dir || facts_in(home, dir, &f, &e) < 0)
        add(ctx, FINDING_NOTE, "bubblewrap", "cubby template unpack default",
            dir ? e.msg : "no template is unpacked for bubblewrap");
    else if (!opens(FUSE))
        add(ctx, FINDING_NOTE, "bubblewrap", "chmod 666 " FUSE ", as udev does, or modprobe fuse",
            FUSE " cannot be opened, which mounts under bubblewrap need; all else works");
    else
        add(ctx, FINDING_OK, "bubblewrap", NULL, "template \"default\" is unpacked for bubblewrap");
}

static const char *const LOGS[] = {NESTED_LOG, "netd.log", NULL};

static const struct core_kind KIND = {
    .driver = &bubblewrap_driver,
    .process = "bubblewrap's cubby-nest",
    NESTED_KIND(START_MS),
};

const struct driver bubblewrap_driver = {
    .name = "bubblewrap",
    .isolation = "bubblewrap (shares the host's kernel)",
    .logs = LOGS,
    .can = DRIVER_POLICY | DRIVER_SIZES | DRIVER_RESIZES | DRIVER_SECRETS | DRIVER_DISKS |
           DRIVER_MOUNTS,
    .disk_in_memory = true,
    .must_be_allowed = true,
    .disk_mb = 50,
    .jail = jail,
    .warning = warning,
    .open = open_driver,
    .close = close_driver,
    .facts = facts,
    .promise_mb = promise_mb,
    .create = create,
    .adopt = adopt,
    .sweep = core_sweep,
    .owns = owns,
    .doctor = doctor,
    .machine = {.record = core_record,
                .vmnet = core_vmnet,
                .kill = core_kill,
                .abandon = core_abandon,
                .release = core_release,
                .set_policy = core_set_policy,
                .set_egress = core_set_egress,
                .usage = usage,
                .network = core_network,
                .set_background = core_set_background,
                .confine = core_confine,
                .mount = mount_in},
};
