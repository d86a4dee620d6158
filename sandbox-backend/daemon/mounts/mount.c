// SPDX-License-Identifier: Apache-2.0
// The steps of one mount.
#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/param.h>
#include <sys/wait.h>
#include <sysexits.h>
#include <unistd.h>

#include "sandbox-backend/base/buf.h"
#include "sandbox-backend/base/clock.h"
#include "sandbox-backend/base/fd.h"
#include "sandbox-backend/base/home.h"
#include "sandbox-backend/base/json.h"
#include "sandbox-backend/base/limits.h"
#include "sandbox-backend/base/mem.h"
#include "sandbox-backend/base/str.h"
#include "sandbox-backend/daemon/mounts/mount_internal.h"
#include "sandbox-backend/daemon/sandbox/guest.h"
#include "sandbox-backend/daemon/sandbox/record.h"
#include "sandbox-backend/daemon/sandbox/sandbox.h"
#include "sandbox-backend/daemon/sandbox/store.h"
#include "sandbox-backend/daemon/sandbox/templates.h"
#include "sandbox-backend/drivers/host/childlog.h"
#include "sandbox-backend/drivers/host/jailed.h"
#include "sandbox-backend/log/log.h"

#define GUEST_FILE    "/run/cubby/mountfs"
#define PROGRAM_BYTES (8 * 1024 * 1024)
#define STEP_MS       20000 // for each of the guest's answers
#define SERVER        "cubby-mountd"
#define SERVER_CONN   3 // its descriptors, by number
#define SERVER_DIR    4
#define SERVER_TOKEN  5
#define SERVER_SPACE  6 // of a volume
#define EXIT_ABSENT   3 // nothing listens in the guest
#define RETRY_MIN_MS  50
#define RETRY_MAX_MS  5000
#define TRIES         6     // for a caller who waits
#define READY_MS      10000 // for the guest's answer to cubby-mountd
#define LONG_MS       30000 // a server that has served so long did not fail at once
#define LOG_EVERY_MS  60000 // a guest could make the same event happen again and again

static void on_put(int status, const char *text, const struct err *e, void *ctx);
static void start(struct mount *m);
static void on_started(int status, const char *text, const struct err *e, void *ctx);
static void mount_from_outside(struct mount *m);
static void on_mounted(struct subproc *p, int status, void *ctx);
static void on_said(uv_stream_t *stream, ssize_t n, const uv_buf_t *buf);
static void on_server_exit(struct subproc *p, int status, void *ctx);
static void fail(struct mount *m);
static void on_retry(struct deadline *d);

struct mount *mount__new(struct sandbox *sb, const char *source, const char *target)
{
    struct mount *m = xcalloc(1, sizeof *m);
    *m = (struct mount){.sb = sb, .source = xstrdup(source), .target = xstrdup(target), .log = -1};
    deadline_init(&m->retry, sb->store->loop, on_retry);
    if (!sb->mounts)
        sb->mounts = xcalloc(1, sizeof *sb->mounts);
    LIST_INSERT_HEAD(&sb->mounts->list, m, link);
    return m;
}

static bool is_running(const struct mount *m)
{
    return m->sb->state == SANDBOX_RUNNING && m->sb->machine;
}

// ---- 1. the program
void mount__begin_later(struct mount *m)
{
    m->absent = true;
    deadline_arm(&m->retry, 0);
}

static bool is_apart(const struct mount *m, const struct mount *other)
{
    struct err ignored = ERR_INIT;
    return source_targets_apart(m->target, other->target, &ignored) == 0;
}

// Return the mount that the guest is to remove from the same place, or from above or below it,
// first; NULL: none.
static const struct mount *in_the_way(const struct mount *m)
{
    const struct mount *other = NULL;
    LIST_FOREACH (other, &m->sb->mounts->list, link)
        if (other != m && other->ends && !is_apart(m, other))
            return other;
    return NULL;
}

static void begin(struct mount *m)
{
    struct buf program auto_buf = BUF_INIT;
    char *file auto_free = self_guest("mountfs", &m->err);
    m->state = MOUNT_PUTS;
    m->absent = true; // until step 2 has succeeded
    deadline_disarm(&m->retry);
    if (in_the_way(m)) { // its end begins this one (mount__close)
        m->state = MOUNT_IDLE;
        return;
    }
    if (machine_can_mount(m->sb->machine)) {
        mount_from_outside(m);
        return;
    }
    if (!file || file_read(file, PROGRAM_BYTES, &program, &m->err) < 0) {
        fail(m);
        return;
    }
    const struct guest_request request = {.port = ENVD_PORT,
                                          .method = "POST",
                                          .path = "/files?username=root&path=" GUEST_FILE,
                                          .token = m->sb->token,
                                          .type = "application/octet-stream",
                                          .body = program.data,
                                          .len = program.len,
                                          .timeout_ms = STEP_MS};
    m->call = guest_call_send(m->sb, &request, on_put, m);
}

static void on_put(int status, const char *text, const struct err *e, void *ctx)
{
    struct mount *m = ctx;
    m->call = NULL;
    if (e)
        m->err = *e;
    else if (status != 200)
        err_set(&m->err, ERR_INTERNAL, "envd answered with status %d: %.200s", status, text);
    err_wrap(&m->err, "put the program mountfs into the guest");
    if (err_is(&m->err))
        fail(m);
    else
        start(m);
}

// ---- 2. the file system

// Return the user whose files the host's are: the one of commands.
static char *guest_user(const struct sandbox *sb)
{
    json_t *template = templates_environment(sb->store, sb->template, sb->build);
    const char *user = json_string_value(json_object_get(template, "user"));
    char *name = xstrdup(user ? user : "user");
    json_decref(template);
    return name;
}

static json_t *command_of(const struct mount *m)
{
    static const char SCRIPT[] = "chmod 700 " GUEST_FILE " && exec " GUEST_FILE " \"$@\"";
    char token[2 * MOUNT_TOKEN_BYTES + 1] = "";
    char *user auto_free = guest_user(m->sb);
    char *port auto_free = str_printf("%d", m->port);
    hex_encode(token, m->token, MOUNT_TOKEN_BYTES);
    json_t *args = json_pack("[s, s, s, s, s, s]", "-c", SCRIPT, "mountfs", port, m->target, user);
    if (m->read_only)
        json_array_append_new(args, json_string("ro"));
    return json_pack("{s:{s:s, s:o, s:{s:s}, s:s}, s:b}", "process", "cmd", "/bin/sh", "args", args,
                     "envs", "CUBBY_MOUNT_TOKEN", token, "cwd", "/", "stdin", 0);
}

static void start(struct mount *m)
{
    m->state = MOUNT_STARTS;
    m->call = guest_call_command(m->sb, command_of(m), STEP_MS, on_started, m);
}

// Return what the command wrote to stderr, made printable. New string.
static char *complaint(const char *text)
{
    static const char KEY[] = "\"stderr\":\"";
    struct buf said auto_buf = BUF_INIT;
    const char *at = strstr(text, KEY);
    if (at && !base64_decode(&said, at + sizeof KEY - 1, strcspn(at + sizeof KEY - 1, "\"")))
        buf_clear(&said);
    return childlog_printable(buf_str(&said), said.len, 200);
}

static void on_started(int status, const char *text, const struct err *e, void *ctx)
{
    struct mount *m = ctx;
    m->call = NULL;
    if (e) {
        m->err = *e;
    } else if (!guest_command_succeeded(status, text)) {
        char *said auto_free = complaint(text);
        err_set(&m->err, ERR_PRECONDITION, "%s",
                *said ? said : "the program mountfs failed in the guest");
    }
    if (err_is(&m->err)) {
        fail(m);
        return;
    }
    m->absent = false;
    mount__serve(m);
}

// ---- 1 and 2 together, where the guest may not mount

static void mount_from_outside(struct mount *m)
{
    char token[2 * MOUNT_TOKEN_BYTES + 1] = "";
    char *user auto_free = guest_user(m->sb);
    hex_encode(token, m->token, MOUNT_TOKEN_BYTES);
    const struct machine_mount what = {.port = m->port,
                                       .target = m->target,
                                       .user = user,
                                       .token = token,
                                       .read_only = m->read_only};
    m->state = MOUNT_STARTS;
    mem_close_fd(&m->log);
    m->log = childlog_open("mountfs.log", &m->err);
    m->server =
        m->log < 0 ? NULL : machine_mount(m->sb->machine, &what, m->log, on_mounted, m, &m->err);
    explicit_bzero(token, sizeof token);
    if (m->server)
        deadline_arm(&m->retry, STEP_MS);
    else
        fail(m);
}

static void on_mounted(struct subproc *p, int status, void *ctx)
{
    struct mount *m = ctx;
    char *said auto_free = childlog_last_line(m->log);
    (void)p;
    subproc_close(steal(&m->server), NULL, NULL);
    deadline_disarm(&m->retry);
    if (WIFEXITED(status) && WEXITSTATUS(status) == 0) {
        m->absent = false;
        mount__serve(m);
        return;
    }
    bool again = WIFEXITED(status) && WEXITSTATUS(status) == EX_TEMPFAIL;
    err_set(&m->err, again ? ERR_UNAVAILABLE : ERR_PRECONDITION, "%s",
            *said ? said : "the program mountfs failed");
    fail(m);
}

// ---- 3. the host's end

static void on_alloc(uv_handle_t *handle, size_t suggested, uv_buf_t *buf)
{
    struct mount *m = handle->data;
    (void)suggested;
    *buf = (uv_buf_t){.base = m->line, .len = sizeof m->line};
}

static void on_pipe_closed(uv_handle_t *handle)
{
    free(handle);
}

static void close_pipe(struct mount *m)
{
    uv_pipe_t *says = steal(&m->says);
    if (says)
        uv_close((uv_handle_t *)says, on_pipe_closed);
}

static int open_pipe(struct mount *m, int fd)
{
    close_pipe(m); // a mount that ends has the one of its first server
    uv_pipe_t *says = xcalloc(1, sizeof *says);
    uv_pipe_init(m->sb->store->loop, says, 0);
    says->data = m;
    m->says = says;
    int status = uv_pipe_open(says, fd);
    if (status < 0) {
        close(fd);
        return err_set(&m->err, ERR_INTERNAL, "read from %s: %s", SERVER, uv_strerror(status));
    }
    return uv_read_start((uv_stream_t *)says, on_alloc, on_said);
}

// Open the volume's files and its room, for its server.
static int open_volume(struct mount *m, int *dir, int *space)
{
    struct store *store = m->sb->store;
    struct volume *volume = volumes_find(&store->volumes, m->volume);
    if (!volume)
        return err_set(&m->err, ERR_PRECONDITION, "the volume was removed");
    *dir = volumes_open_files(&store->volumes, volume, &m->err);
    if (*dir < 0)
        return -1;
    if (!m->space)
        m->space = volumes_space(volume, store->limits.volume_bytes, &m->err);
    *space = m->space ? space_share(&m->space->space, &m->err) : -1;
    return *space < 0 ? -1 : 0;
}

// Clients may see why a volume cannot be mounted, but no path of the host.
static void hide_reason(struct mount *m)
{
    if (!m->volume || !err_is(&m->err))
        return;
    if (!m->failures)
        log_warn("mount.unserved", "id=%s volume=%s error=\"%s\"", m->sb->id, m->volume,
                 m->err.msg);
    enum err_code code = m->err.code;
    m->err = ERR_INIT;
    err_set(&m->err, code, "the volume cannot be served; the log of cubbyd says why");
}

static int start_server(struct mount *m, const int *fds, int count)
{
    char *file auto_free = self_program(SERVER, &m->err);
    char *port auto_free = str_printf("%d", m->port);
    if (!file)
        return -1;
    const char *const args[] = {SERVER, "--port", port, m->read_only ? "--read-only" : NULL, NULL};
    char *argv[8] = {NULL};
    int n = 0;
    for (size_t i = 0; i < ARRAY_LEN(args) && args[i]; i++)
        argv[n++] = (char *)(uintptr_t)args[i];
    if (m->ends)
        argv[n++] = (char *)(uintptr_t) "--end";
    else if (m->volume)
        argv[n++] = (char *)(uintptr_t) "--space-fd=6";
    const struct spawn_opts opts = {
        .file = file, .argv = argv, .fds = fds, .fd_count = count, .dies_with_us = true};
    const struct jailed_program program = {.kind = JAIL_FILES,
                                           .share = m->ends ? NULL : m->source,
                                           .share_fd = SERVER_DIR,
                                           .share_read_only = m->read_only};
    m->server = jailed_start(m->sb->store->loop, &program, &opts, on_server_exit, m, &m->err);
    if (!m->server)
        return -1;
    machine_confine(m->sb->machine, subproc_pid(m->server));
    return 0;
}

static int serve(struct mount *m)
{
    int pair[2];
    int dir auto_close = -1, space auto_close = -1; // an end needs none
    if (!m->ends && m->volume && open_volume(m, &dir, &space) < 0)
        return -1;
    if (!m->ends && !m->volume)
        dir = source_open(m->source, &m->is, "unmount it and mount it again", &m->err);
    int token auto_close =
        dir < 0 && !m->ends ? -1 : fd_open_memory("token", m->token, sizeof m->token, &m->err);
    int conn auto_close = token < 0 ? -1 : fd_connect_unix(machine_vmnet(m->sb->machine));
    if (token < 0)
        return -1;
    if (conn < 0)
        return err_sys(&m->err, errno, "connect to the guest");
    mem_close_fd(&m->log);
    m->log = childlog_open("mountd.log", &m->err);
    if (m->log < 0 || pipe2(pair, O_CLOEXEC | O_NONBLOCK) < 0)
        return err_sys(&m->err, errno, "make a pipe");
    int says auto_close = pair[1];
    const int fds[] = {-1,
                       says,
                       m->log,
                       [SERVER_CONN] = conn,
                       [SERVER_DIR] = dir,
                       [SERVER_TOKEN] = token,
                       [SERVER_SPACE] = space};
    int count = space < 0 ? SERVER_SPACE : SERVER_SPACE + 1;
    return open_pipe(m, pair[0]) < 0 ? -1 : start_server(m, fds, count);
}

void mount__serve(struct mount *m)
{
    m->state = MOUNT_SERVES;
    m->ready = false;
    if (!is_running(m)) { // mounts_on_state comes back
        m->state = MOUNT_IDLE;
        return;
    }
    deadline_arm(&m->retry, READY_MS);
    if (serve(m) == 0)
        return;
    hide_reason(m);
    fail(m);
}

// Return whether the log may have an event again that it had at *last.
static bool may_log(int64_t *last)
{
    int64_t now = clock_mono_ms();
    if (*last && now - *last < LOG_EVERY_MS)
        return false;
    *last = now;
    return true;
}

static void answer(struct mount *m, const struct err *e)
{
    mounts_cb cb = m->cb;
    m->cb = NULL;
    if (cb)
        cb(e, m->ctx);
}

// The server says "ready" once, when the guest has taken the connection.
static void on_said(uv_stream_t *stream, ssize_t n, const uv_buf_t *buf)
{
    struct mount *m = stream->data;
    (void)buf;
    if (n < 0) {
        uv_read_stop(stream);
        return;
    }
    if (n == 0 || m->ready)
        return;
    m->ready = true;
    m->ready_ms = clock_mono_ms();
    m->err = ERR_INIT;
    deadline_disarm(&m->retry);
    if (may_log(&m->log_ready_ms))
        log_info("mount.ready", "id=%s target=\"%s\" ro=%d", m->sb->id, m->target, m->read_only);
    answer(m, NULL);
}

static void on_server_exit(struct subproc *p, int status, void *ctx)
{
    struct mount *m = ctx;
    bool absent = WIFEXITED(status) && WEXITSTATUS(status) == EXIT_ABSENT;
    (void)p;
    subproc_close(steal(&m->server), NULL, NULL);
    close_pipe(m);
    if (m->ends) {
        mount__close(m, NULL);
        return;
    }
    char *said auto_free = childlog_last_line(m->log);
    m->state = MOUNT_IDLE;
    if (!is_running(m)) // it is served again when the sandbox runs
        return;
    m->absent = absent;
    if (m->ready && clock_mono_ms() - m->ready_ms >= LONG_MS)
        m->failures = 0;
    m->ready = false;
    if (absent && !m->failures) {
        m->failures++;
        begin(m);
        return;
    }
    if (*said)
        err_set(&m->err, ERR_UNAVAILABLE, "%s", said);
    else
        err_set(&m->err, ERR_UNAVAILABLE, "the connection of %s to the guest ended", SERVER);
    if (*said)
        hide_reason(m);
    fail(m);
}

// ---- failure
static void fail(struct mount *m)
{
    int64_t wait = MIN(RETRY_MIN_MS << MIN(m->failures, 10), RETRY_MAX_MS);
    m->state = MOUNT_IDLE;
    close_pipe(m);
    m->failures++;
    bool hopeless = m->err.code == ERR_PRECONDITION || m->failures > TRIES;
    if ((m->failures == 1 || hopeless) && may_log(&m->log_failed_ms))
        log_warn("mount.failed", "id=%s target=\"%s\" failures=%d error=\"%s\"", m->sb->id,
                 m->target, m->failures, m->err.msg);
    if (m->failures == TRIES)
        journal_add(&m->sb->journal, JOURNAL_WARN, "the directory at %s cannot be reached: %s",
                    m->target, m->err.msg);
    if (m->ends || (m->cb && hopeless)) {
        const struct err e = m->err;
        mount__close(m, &e);
        return;
    }
    deadline_arm(&m->retry, (uint64_t)wait);
}

static void on_server_gone(struct subproc *server, int status, void *ctx)
{
    (void)status;
    (void)ctx;
    subproc_close(server, NULL, NULL);
}

// It is watched until it has ended: else it would stay as a zombie.
static void kill_server(struct mount *m)
{
    struct subproc *server = steal(&m->server);
    subproc_retarget(server, on_server_gone, NULL);
    subproc_kill(server);
}

// The guest took the connection and said nothing, or does not let itself be mounted.
static void give_server_up(struct mount *m)
{
    bool serves = m->state == MOUNT_SERVES;
    kill_server(m);
    close_pipe(m);
    m->state = MOUNT_IDLE;
    err_set(&m->err, ERR_PRECONDITION, "the guest's mountfs did not answer within %d s",
            (serves ? READY_MS : STEP_MS) / 1000);
    if (m->ends || is_running(m)) // otherwise it is served again when the sandbox runs
        fail(m);
}

static void on_retry(struct deadline *d)
{
    struct mount *m = container_of(d, struct mount, retry);
    if ((m->state == MOUNT_SERVES || m->state == MOUNT_STARTS) && m->server && !m->ready) {
        give_server_up(m);
        return;
    }
    if (m->state != MOUNT_IDLE || !is_running(m))
        return;
    m->err = ERR_INIT;
    if (m->absent)
        begin(m);
    else
        mount__serve(m);
}

// ---- the end
static void on_closed(struct deadline *d)
{
    struct mount *m = container_of(d, struct mount, retry);
    mem_close_fd(&m->log);
    volume_space_unref(m->space);
    free(m->volume);
    free(m->source);
    free(m->target);
    free(m);
}

static void begin_others(const struct mount *m)
{
    struct mount *other = NULL;
    LIST_FOREACH (other, &m->sb->mounts->list, link)
        if (other->absent && other->state == MOUNT_IDLE && !is_apart(m, other))
            mount__begin_later(other);
}

void mount__close(struct mount *m, const struct err *e)
{
    LIST_REMOVE(m, link);
    if (m->ends)
        begin_others(m);
    m->state = MOUNT_CLOSING;
    if (m->call)
        guest_call_cancel(steal(&m->call));
    close_pipe(m);
    if (m->server)
        kill_server(m);
    if (m->sb->state != SANDBOX_KILLING)
        record_write_or_log(m->sb); // without this mount, before anybody is told
    answer(m, e);
    m->sb = NULL;
    explicit_bzero(m->token, sizeof m->token);
    deadline_close(&m->retry, on_closed);
}
