// SPDX-License-Identifier: Apache-2.0
// A driver for tests of the daemon: a machine is a process. Its start and its end; what is asked of
// it meanwhile is in process_request.c.
#include "tests/lib/process_driver.h"

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
#include "tests/lib/process_image.h"
#include "tests/lib/process_internal.h"
#include "tests/lib/process_tree.h"

static void on_image_copied(uv_work_t *work, int status);

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

static void on_handle_closed(struct machine *m)
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
    on_handle_closed(container_of(d, struct machine, ready));
}

static void on_turn_closed(struct deadline *d)
{
    on_handle_closed(container_of(d, struct machine, turn));
}

static void on_process_closed(void *ctx)
{
    on_handle_closed(ctx);
}

void process__close(struct machine *m)
{
    deadline_close(&m->ready, on_ready_closed);
    deadline_close(&m->turn, on_turn_closed);
    if (m->process)
        subproc_close(m->process, on_process_closed, m);
}

static void on_process_exit(struct subproc *p, int status, void *ctx)
{
    (void)p;
    struct machine *m = ctx;
    char how[80];
    if (m->on_ready) { // told by on_ready_due, or found out by whoever talks to it
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

static void on_ready_due(struct deadline *d)
{
    struct machine *m = container_of(d, struct machine, ready);
    machine_ready_cb on_ready = m->on_ready;
    if (err_is(&m->err) && m->process && !subproc_has_exited(m->process))
        return; // it was given up, and comes here again
    m->on_ready = NULL;
    if (!err_is(&m->err)) {
        on_ready(m, NULL, m->ctx);
        return;
    }
    struct err e = m->err;
    void *ctx = m->ctx;
    process__close(m);
    on_ready(NULL, &e, ctx);
}

static void keep(const struct machine *m, const char *name, const char *text, struct err *e)
{
    char *path auto_free = str_printf("%s/%s", m->dir, name);
    file_replace(path, text, strlen(text), 0600, e);
}

void process__keep_policy(const struct machine *m, const struct net_policy *policy, struct err *e)
{
    if (!policy)
        return;
    json_t *json = net_policy_to_json(policy);
    char *text auto_free = json_to_string(json);
    json_decref(json);
    keep(m, "policy.json", text, e);
}

// What it was asked for with, for tests to look at: nothing here keeps to it.
static void keep_size(struct machine *m, const struct machine_size *size)
{
    char *text auto_free =
        str_printf("{\"cpus\": %d, \"memory_mb\": %lld, \"disk_mb\": %lld}\n", size->cpus,
                   (long long)size->memory_mb, (long long)size->disk_mb);
    keep(m, "size.json", text, &m->err);
}

static struct machine *machine_new(uv_loop_t *loop, const struct machine_spec *spec,
                                   machine_ready_cb on_ready, machine_exit_cb on_exit, void *ctx)
{
    struct machine *m = xcalloc(1, sizeof *m);
    m->loop = loop;
    m->dir = xstrdup(spec->dir);
    m->template = xstrdup(spec->template);
    m->vmnet = str_printf("%s/vm.net", spec->dir);
    m->on_ready = on_ready;
    m->on_exit = on_exit;
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

static void start(struct machine *m)
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

// Of a template that makes every second one fail: counted over all machines of this daemon.
static bool is_second(void)
{
    static unsigned started;
    return ++started % 2 == 0;
}

static void read_template(struct machine *m, bool with_image)
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
}

static void on_startable(struct machine *m)
{
    if (!err_is(&m->err))
        start(m);
    if (str_eq(m->how, "never") && m->process)
        return;
    deadline_arm(&m->ready, str_eq(m->how, "late") ? PROCESS_LATE_MS : 0);
}

static void copy_image(uv_work_t *work)
{
    struct machine *m = container_of(work, struct machine, copying_in);
    process_image_read(m->image, m->dir, &m->err);
}

static void on_image_copied(uv_work_t *work, int status)
{
    (void)status;
    on_startable(container_of(work, struct machine, copying_in));
}

static struct machine *create(uv_loop_t *loop, const struct machine_spec *spec,
                              machine_ready_cb on_ready, machine_exit_cb on_exit, void *ctx)
{
    struct machine *m = machine_new(loop, spec, on_ready, on_exit, ctx);
    m->image = spec->image ? xstrdup(spec->image) : NULL;
    read_template(m, m->image != NULL);
    keep_size(m, &spec->size);
    machine_set_background(m, spec->background);
    if (m->image && !err_is(&m->err))
        uv_queue_work(loop, &m->copying_in, copy_image, on_image_copied);
    else
        on_startable(m);
    return m;
}

static void adopt(uv_loop_t *loop, const struct machine_spec *spec, const json_t *record,
                  machine_ready_cb on_ready, machine_exit_cb on_exit, void *ctx)
{
    struct machine *m = machine_new(loop, spec, on_ready, on_exit, ctx);
    int64_t pid = 0, start_time = 0;
    json_get_int(record, "pid", 2, INT32_MAX, &pid, 0, &m->err);
    json_get_int(record, "start_time", 0, INT64_MAX, &start_time, 0, &m->err);
    if (!err_is(&m->err))
        m->process =
            subproc_adopt(loop, (pid_t)pid, (uint64_t)start_time, on_process_exit, m, &m->err);
    // The daemon before may have told it to stop just before it was killed.
    m->paused = m->process && process_tree_is_stopping(subproc_pid(m->process));
    m->open += m->process != NULL;
    deadline_arm(&m->ready, 0);
}

json_t *machine_record(const struct machine *m)
{
    return json_pack("{s:i, s:I}", "pid", (int)subproc_pid(m->process), "start_time",
                     (json_int_t)subproc_start_time(m->process));
}

const char *machine_vmnet(const struct machine *m)
{
    return m->vmnet;
}

int machine_network(const struct machine *m, enum machine_net which, struct net_stats *out,
                    struct err *e)
{
    const char *file = which == MACHINE_NET_SECRETS ? "egress" : "net";
    char *path auto_free = str_printf("%s/%s.stats", m->dir, file); // that a test has put there
    return net_stats_read(path, out, e);
}

int machine_usage(const struct machine *m, struct machine_usage *out, struct err *e)
{
    struct net_stats network;
    *out = (struct machine_usage){0};
    if (machine_network(m, MACHINE_NET_POLICY, &network, NULL) == 0) {
        out->net_in_bytes = (int64_t)network.received_bytes;
        out->net_out_bytes = (int64_t)network.sent_bytes;
    }
    if (subproc_has_exited(m->process))
        return err_set(e, ERR_GONE, "the machine's process has ended");
    process_tree_usage(subproc_pid(m->process), &out->memory_bytes, &out->cpu_ns);
    out->disk_bytes = process_image_disk_bytes(m->dir);
    char *failed auto_free = str_printf("%s/disk-failed", m->dir); // a test says so
    out->disk_failed = access(failed, F_OK) == 0;
    return 0;
}

// The file "background" says it, for tests to look at.
void machine_set_background(struct machine *m, bool background)
{
    keep(m, "background", background ? "yes" : "no", NULL);
}

const struct driver process_driver = {
    .name = "process",
    .isolation = "none (test)",
    .facts = facts,
    .image_check = process_image_check,
    .create = create,
    .adopt = adopt,
};
