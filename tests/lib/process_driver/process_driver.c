// SPDX-License-Identifier: Apache-2.0
// A driver for tests of the daemon, whose machine is a process: the start and the end of machines.
// Requests to a machine are in process_request.c.
#include "tests/lib/process_driver/process_driver.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

#include "sandbox-backend/base/buf.h"
#include "sandbox-backend/base/fd.h"
#include "sandbox-backend/base/json.h"
#include "sandbox-backend/base/mem.h"
#include "sandbox-backend/base/str.h"
#include "tests/lib/process_driver/process_image.h"
#include "tests/lib/process_driver/process_internal.h"
#include "tests/lib/process_driver/process_tree.h"

static void on_image_copied(uv_work_t *work, int status);
static void process_set_background(struct machine *machine, bool background);

json_t *process__template_json(const char *dir, struct err *e)
{
    char *path auto_free = str_printf("%s/template.json", dir);
    struct buf text auto_buf = BUF_INIT;
    return file_read(path, 65536, &text, e) < 0 ? NULL : json_parse(buf_str(&text), text.len, e);
}

static int facts(const char *dir, struct machine_facts *out, struct err *e)
{
    int64_t cpus = 0;
    json_t *json = process__template_json(dir, e);
    int result = json && json_get_int(json, "cpus", 1, 64, &cpus, 1, e) == 0 &&
                         json_get_int(json, "memory_mb", 1, 1 << 20, &out->memory_mb, 512, e) == 0
                     ? json_get_int(json, "disk_mb", 1, 1 << 20, &out->disk_mb, 1024, e)
                     : -1;
    if (result == 0)
        result = json_get_bool(json, "python", &out->python, false, e);
    if (result == 0)
        result = json_get_bool(json, "disk_grows", &out->disk_grows, true, e);
    json_decref(json);
    out->cpus = (int)cpus;
    return result;
}

static void on_handle_closed(struct process_machine *m)
{
    if (--m->open)
        return;
    void (*on_gone)(void *ctx) = m->on_gone;
    void *ctx = m->gone_ctx;
    char *owned[] = {m->vmnet, m->dir,       m->template, m->image,
                     m->guest, m->init_mode, m->how,      m->exit_reason};
    for (size_t i = 0; i < ARRAY_LEN(owned); i++)
        free(owned[i]);
    free(m);
    if (on_gone)
        on_gone(ctx);
}

static void on_ready_closed(struct deadline *d)
{
    on_handle_closed(container_of(d, struct process_machine, ready));
}

static void on_turn_closed(struct deadline *d)
{
    on_handle_closed(container_of(d, struct process_machine, turn));
}

static void on_process_closed(void *ctx)
{
    on_handle_closed(ctx);
}

void process__close(struct process_machine *m)
{
    deadline_close(&m->ready, on_ready_closed);
    deadline_close(&m->turn, on_turn_closed);
    if (m->process)
        subproc_close(m->process, on_process_closed, m);
}

static void on_process_exit(struct subproc *p, int status, void *ctx)
{
    (void)p;
    struct process_machine *m = ctx;
    char how[80];
    if (m->on_ready) { // called by on_ready_due, or by the code that noticed the failure
        if (err_is(&m->err))
            deadline_arm(&m->ready, 0);
        return;
    }
    if (!m->ending) {
        subproc_describe(status, how, sizeof how);
        m->exit_reason = str_printf("the machine's process %s", how);
    }
    deadline_arm(&m->turn, 0);
}

bool process__is_held(const char *dir, const char *step)
{
    const char *how = "";
    struct err e = ERR_INIT;
    json_t *json = process__template_json(dir, &e);
    if (json)
        json_get_string(json, step, &how, "", &e);
    bool held = str_eq(how, "held");
    json_decref(json);
    return held;
}

static bool is_held(const struct process_machine *m)
{
    return str_eq(m->how, "held") && (process__is_held(m->template, "create") ||
                                      (m->image && process__is_held(m->template, "restore")));
}

// Report what the template says under "note", as a real driver does when something happens.
static void note(const struct process_machine *m)
{
    const char *text = NULL;
    json_t *json = process__template_json(m->template, NULL);
    if (json_get_string(json, "note", &text, NULL, NULL) == 0 && text)
        m->on_note(text, m->ctx);
    json_decref(json);
}

static void on_ready_due(struct deadline *d)
{
    struct process_machine *m = container_of(d, struct process_machine, ready);
    machine_ready_cb on_ready = m->on_ready;
    if (err_is(&m->err) && m->process && !subproc_has_exited(m->process))
        return; // the machine was abandoned; this function is called again
    if (!err_is(&m->err) && is_held(m)) {
        deadline_arm(&m->ready, PROCESS_LOOK_MS);
        return;
    }
    m->on_ready = NULL;
    if (!err_is(&m->err)) {
        note(m);
        on_ready(&m->machine, NULL, m->ctx);
        return;
    }
    struct err e = m->err;
    void *ctx = m->ctx;
    process__close(m);
    on_ready(NULL, &e, ctx);
}

static void keep(const struct process_machine *m, const char *name, const char *text, struct err *e)
{
    char *path auto_free = str_printf("%s/%s", m->dir, name);
    file_replace(path, text, strlen(text), 0600, e);
}

void process__keep_policy(const struct process_machine *m, const struct net_policy *policy,
                          struct err *e)
{
    if (!policy)
        return;
    json_t *json = net_policy_to_json(policy);
    char *text auto_free = json_to_string(json);
    json_decref(json);
    keep(m, "policy.json", text, e);
}

// Write the configuration of cubby-egress to egress.json for tests. The driver starts none.
void process__keep_egress(const struct process_machine *m, const char *egress, struct err *e)
{
    keep(m, "egress.json", egress ? egress : "null", e);
}

// Write the requested size to size.json for tests. The driver enforces no size.
static void keep_size(struct process_machine *m, const struct machine_size *size)
{
    char *text auto_free =
        str_printf("{\"cpus\": %d, \"memory_mb\": %lld, \"disk_mb\": %lld}\n", size->cpus,
                   (long long)size->memory_mb, (long long)size->disk_mb);
    keep(m, "size.json", text, &m->err);
}

static struct process_machine *machine_new(const struct driver *driver, uv_loop_t *loop,
                                           const struct machine_spec *spec,
                                           machine_ready_cb on_ready, machine_exit_cb on_exit,
                                           void *ctx)
{
    struct process_machine *m = xcalloc(1, sizeof *m);
    m->machine.driver = driver;
    m->loop = loop;
    m->dir = xstrdup(spec->dir);
    m->template = xstrdup(spec->template);
    m->vmnet = str_printf("%s/vm.net", spec->dir);
    m->on_ready = on_ready;
    m->on_exit = on_exit;
    m->on_note = spec->on_note;
    m->ctx = ctx;
    m->open = 2;
    STAILQ_INIT(&m->requests);
    deadline_init(&m->ready, loop, on_ready_due);
    deadline_init(&m->turn, loop, process__turn);
    process__keep_policy(m, spec->policy, &m->err);
    return m;
}

static int listen_on(const char *path, struct err *e)
{
    struct sockaddr_un address = {.sun_family = AF_UNIX};
    memcpy(address.sun_path, path, strlen(path) + 1);
    int fd auto_close = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);
    if (fd < 0 || bind(fd, (const struct sockaddr *)&address, sizeof address) < 0 ||
        listen(fd, 128) < 0)
        return err_sys(e, errno, "listen on %s", path);
    return steal_fd(&fd);
}

static void start(struct process_machine *m)
{
    char self[4096] = "";
    char flag[] = "--machine";
    char *own[] = {self, flag, m->dir, m->init_mode, NULL};
    char *real[] = {m->guest, m->dir, self, m->template, NULL};
    int listener auto_close = listen_on(m->vmnet, &m->err);
    const int fds[] = {-1, -1, 2, listener};
    struct spawn_opts opts = {.file = *m->guest ? m->guest : self,
                              .argv = *m->guest ? real : own,
                              .fds = fds,
                              .fd_count = 4};
    if (listener < 0 || readlink("/proc/self/exe", self, sizeof self - 1) < 0)
        return;
    m->process = subproc_start(m->loop, &opts, on_process_exit, m, &m->err);
    m->open += m->process != NULL;
}

// Tell whether this machine fails, for a template that makes every second one fail. All machines of
// this daemon count.
static bool is_second(void)
{
    static unsigned started;
    return ++started % 2 == 0;
}

static void read_template(struct process_machine *m, bool with_image, bool *spare_taken)
{
    const char *how = "", *init = "", *guest = "";
    json_t *json = process__template_json(m->template, &m->err);
    if (json) {
        json_get_string(json, "create", &how, "", &m->err);
        if (with_image)
            json_get_string(json, "restore", &how, how, &m->err);
        json_get_string(json, "init", &init, "", &m->err);
        json_get_string(json, "guest", &guest, "", &m->err);
    }
    m->how = xstrdup(how ? how : "");
    m->init_mode = xstrdup(init ? init : "");
    m->guest = xstrdup(guest ? guest : "");
    json_decref(json);
    if (str_eq(m->how, "fail") || (str_eq(m->how, "second fails") && is_second()))
        err_set(&m->err, ERR_NOT_FOUND, "the machine would not start");
    if (str_eq(m->how, "spare") && spare_taken) { // the spare ends as soon as it is taken
        *spare_taken = true;
        free(m->init_mode);
        m->init_mode = xstrdup("die");
    }
}

static void on_startable(struct process_machine *m)
{
    if (!err_is(&m->err))
        start(m);
    if (str_eq(m->how, "never") && m->process)
        return;
    deadline_arm(&m->ready, str_eq(m->how, "late") ? PROCESS_LATE_MS : 0);
}

static void copy_image(uv_work_t *work)
{
    struct process_machine *m = container_of(work, struct process_machine, copying_in);
    process_image_read(m->image, m->dir, &m->err);
}

static void on_image_copied(uv_work_t *work, int status)
{
    (void)status;
    on_startable(container_of(work, struct process_machine, copying_in));
}

static struct machine *start_machine(const struct driver *driver, uv_loop_t *loop,
                                     const struct machine_spec *spec, machine_ready_cb on_ready,
                                     machine_exit_cb on_exit, void *ctx)
{
    struct process_machine *m = machine_new(driver, loop, spec, on_ready, on_exit, ctx);
    m->image = spec->image ? xstrdup(spec->image) : NULL;
    read_template(m, m->image != NULL, spec->spare_taken);
    keep_size(m, &spec->size);
    process_set_background(&m->machine, spec->background);
    if (m->image && !err_is(&m->err))
        uv_queue_work(loop, &m->copying_in, copy_image, on_image_copied);
    else
        on_startable(m);
    return &m->machine;
}

static void find_machine(const struct driver *driver, uv_loop_t *loop,
                         const struct machine_spec *spec, const json_t *record,
                         machine_ready_cb on_ready, machine_exit_cb on_exit, void *ctx)
{
    struct process_machine *m = machine_new(driver, loop, spec, on_ready, on_exit, ctx);
    int64_t pid = 0, start_time = 0;
    json_get_int(record, "pid", 2, INT32_MAX, &pid, 0, &m->err);
    json_get_int(record, "start_time", 0, INT64_MAX, &start_time, 0, &m->err);
    if (!err_is(&m->err))
        m->process =
            subproc_adopt(loop, (pid_t)pid, (uint64_t)start_time, on_process_exit, m, &m->err);
    // The earlier daemon may have sent the stop just before it was killed.
    m->paused = m->process && process_tree_is_stopping(subproc_pid(m->process));
    m->open += m->process != NULL;
    deadline_arm(&m->ready, 0);
}

static json_t *process_record(const struct machine *machine)
{
    const struct process_machine *m = process_of_const(machine);
    return json_pack("{s:i, s:I}", "pid", (int)subproc_pid(m->process), "start_time",
                     (json_int_t)subproc_start_time(m->process));
}

static const char *process_vmnet(const struct machine *machine)
{
    const struct process_machine *m = process_of_const(machine);
    return m->vmnet;
}

static int process_network(const struct machine *machine, enum machine_net which,
                           struct net_stats *out, struct err *e)
{
    const struct process_machine *m = process_of_const(machine);
    const char *file = which == MACHINE_NET_SECRETS ? "egress" : "net";
    char *path auto_free = str_printf("%s/%s.stats", m->dir, file); // a test wrote it
    return net_stats_read(path, out, e);
}

int process__stands(const struct machine *machine, struct err *e)
{
    char *full auto_free =
        str_printf("%s/disk-full", process_of_const(machine)->dir); // a test made it
    return access(full, F_OK) == 0 ? err_set(e, ERR_NO_SPACE, "the host's disk is full") : 0;
}

static int process_usage(const struct machine *machine, struct machine_usage *out, struct err *e)
{
    const struct process_machine *m = process_of_const(machine);
    struct net_stats network;
    *out = (struct machine_usage){0};
    if (process_network(machine, MACHINE_NET_POLICY, &network, NULL) == 0) {
        out->net_in_bytes = (int64_t)network.received_bytes;
        out->net_out_bytes = (int64_t)network.sent_bytes;
    }
    if (subproc_has_exited(m->process))
        return err_set(e, ERR_GONE, "the machine's process has ended");
    char *fails auto_free = str_printf("%s/usage-fails", m->dir); // a test made it
    if (access(fails, F_OK) == 0)
        return err_set(e, ERR_GONE, "the usage of the machine cannot be read");
    process_tree_usage(subproc_pid(m->process), &out->memory_bytes, &out->cpu_ns);
    out->disk_bytes = process_image_disk_bytes(m->dir);
    char *failed auto_free = str_printf("%s/disk-failed", m->dir); // a test made it
    out->disk_failed = access(failed, F_OK) == 0;
    out->disk_full = process__stands(machine, NULL) < 0;
    return 0;
}

// Write the mode to the file "background", for tests.
static void process_set_background(struct machine *machine, bool background)
{
    struct process_machine *m = process_of(machine);
    keep(m, "background", background ? "yes" : "no", NULL);
}

// ---- the drivers

static struct machine *create(uv_loop_t *loop, const struct machine_spec *spec,
                              machine_ready_cb on_ready, machine_exit_cb on_exit, void *ctx)
{
    return start_machine(&process_driver, loop, spec, on_ready, on_exit, ctx);
}

static void adopt(uv_loop_t *loop, const struct machine_spec *spec, const json_t *record,
                  machine_ready_cb on_ready, machine_exit_cb on_exit, void *ctx)
{
    find_machine(&process_driver, loop, spec, record, on_ready, on_exit, ctx);
}

static struct machine *create_plain(uv_loop_t *loop, const struct machine_spec *spec,
                                    machine_ready_cb on_ready, machine_exit_cb on_exit, void *ctx)
{
    return start_machine(&plain_driver, loop, spec, on_ready, on_exit, ctx);
}

static void adopt_plain(uv_loop_t *loop, const struct machine_spec *spec, const json_t *record,
                        machine_ready_cb on_ready, machine_exit_cb on_exit, void *ctx)
{
    find_machine(&plain_driver, loop, spec, record, on_ready, on_exit, ctx);
}

#define OPS                                                                           \
    .record = process_record, .vmnet = process_vmnet, .kill = process__kill,          \
    .abandon = process__abandon, .release = process__release, .usage = process_usage, \
    .stands = process__stands, .network = process_network,                            \
    .set_background = process_set_background

static const struct driver_file IMAGE_FILES[] = {
    {"image.json", 4096, false}, {"memory", 1 << 20, true}, {"disk.tar", 1 << 30, true},
    {"home.tar", 1 << 30, true}, {NULL, 0, false},
};

const struct driver process_driver = {
    .name = "process",
    .isolation = "none (test)",
    .logs = (const char *const[]){"console.log", NULL},
    .image_files = IMAGE_FILES,
    .can = DRIVER_PAUSES | DRIVER_SAVES | DRIVER_POLICY | DRIVER_SIZES | DRIVER_SECRETS |
           DRIVER_DISKS | DRIVER_DISK_IMAGES,
    .facts = facts,
    .image_check = process_image_check,
    .create = create,
    .adopt = adopt,
    .machine = {OPS, .pause = process__pause, .resume = process__resume,
                .is_paused = process__is_paused, .set_policy = process__set_policy,
                .set_egress = process__set_egress, .save = process__save},
};

const struct driver plain_driver = {
    .name = "plain",
    .isolation = "none (test)",
    .facts = facts,
    .create = create_plain,
    .adopt = adopt_plain,
    .machine = {OPS},
};
