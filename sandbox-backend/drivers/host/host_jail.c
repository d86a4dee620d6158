// SPDX-License-Identifier: Apache-2.0
// Find the walls of a jail that this host can build, and choose the walls to use.
#include "sandbox-backend/drivers/host/host_jail.h"

#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <stdint.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>
#include <uv.h>

#include "sandbox-backend/base/buf.h"
#include "sandbox-backend/base/home.h"
#include "sandbox-backend/base/json.h"
#include "sandbox-backend/base/mem.h"
#include "sandbox-backend/base/str.h"
#include "sandbox-backend/drivers/host/spawn.h"
#include "sandbox-backend/jail/jail.h"
#include "sandbox-backend/log/log.h"

#define ANSWER_BYTES_MAX 65536

static struct {
    struct driver_jail wanted;
    void (*warm)(void); // runs in the thread, after the look; or NULL
    bool is_open;
    bool is_looking; // true while the thread runs, which then owns `found` and `failed`
    uv_thread_t thread;
    struct host_walls found;
    struct err failed;
} host;

// ---- looking

static int read_answer(int fd, struct buf *out, struct err *e)
{
    char piece[4096];
    for (ssize_t n; (n = read(fd, piece, sizeof piece)) != 0;) {
        if (n < 0 && errno != EINTR)
            return err_sys(e, errno, "read from a pipe");
        if (n > 0)
            buf_add(out, piece, (size_t)n);
        if (out->len > ANSWER_BYTES_MAX)
            return err_set(e, ERR_TOO_LARGE, "the answer of cubby-jail is too long");
    }
    return 0;
}

static int ask(struct buf *out, struct err *e)
{
    char *program auto_free = self_program(JAIL_PROGRAM, e);
    int ends[2];
    if (!program)
        return -1;
    if (pipe2(ends, O_CLOEXEC) != 0)
        return err_sys(e, errno, "make a pipe");
    int from auto_close = ends[0];
    int to auto_close = ends[1];
    char *const argv[] = {program, (char *)(uintptr_t) "--probe", NULL};
    const int fds[] = {-1, to, -1};
    const struct spawn_opts opts = {
        .file = program, .argv = argv, .fds = fds, .fd_count = ARRAY_LEN(fds)};
    pid_t pid = spawn_program(&opts, e);
    if (pid < 0)
        return -1;
    close(steal_fd(&to));
    int rc = read_answer(from, out, e);
    while (waitpid(pid, NULL, 0) < 0 && errno == EINTR)
        ;
    return rc;
}

static void take_wall(struct host_walls *w, enum wall wall, const json_t *answer)
{
    if (json_is_true(answer)) {
        w->built |= WALL_BIT(wall);
    } else if (!json_is_null(answer)) { // null: this user cannot have the wall
        const char *why = json_string_value(answer);
        w->missing |= WALL_BIT(wall);
        w->why[wall] = xstrdup(why ? why : "cubby-jail did not try it");
    }
}

int host_walls_look(struct host_walls *out, struct err *e)
{
    struct buf text auto_buf = BUF_INIT;
    *out = (struct host_walls){0};
    if (ask(&text, e) != 0)
        return -1;
    json_t *answer = json_parse(buf_str(&text), text.len, e);
    if (!answer)
        return err_wrap(e, JAIL_PROGRAM " --probe");
    const json_t *walls = json_object_get(answer, "walls");
    for (int i = 0; i < WALL_COUNT; i++)
        take_wall(out, (enum wall)i, json_object_get(walls, wall_name((enum wall)i)));
    out->is_root = json_is_true(json_object_get(answer, "root"));
    out->landlock_abi = (int)json_integer_value(json_object_get(answer, "landlock"));
    json_decref(answer);
    return 0;
}

void host_walls_fini(struct host_walls *w)
{
    for (int i = 0; i < WALL_COUNT; i++)
        free(steal(&w->why[i]));
}

const char *host_wall_remedy(enum wall wall)
{
    switch (wall) {
    case WALL_LANDLOCK:
        return "use a kernel with Landlock, and landlock in its lsm= list";
    case WALL_MOUNT:
        return "use Linux 5.12 or newer, and allow user namespaces (sysctl "
               "kernel.unprivileged_userns_clone=1, "
               "kernel.apparmor_restrict_unprivileged_userns=0) or run the daemon as root";
    case WALL_USER:
    case WALL_PID:
    case WALL_NETWORK:
    case WALL_IPC:
    case WALL_UTS:
    case WALL_CGROUP:
        return "allow user namespaces (sysctl user.max_user_namespaces, "
               "kernel.unprivileged_userns_clone=1, "
               "kernel.apparmor_restrict_unprivileged_userns=0), or run the daemon as root with "
               "CAP_SYS_ADMIN";
    case WALL_UID:
        return "give the daemon CAP_SETUID and CAP_SETGID";
    case WALL_SECCOMP:
        return "use a kernel with CONFIG_SECCOMP_FILTER";
    case WALL_PRIVILEGES:
    case WALL_RLIMITS:
    case WALL_COUNT:
        break;
    }
    return "run make, or install Cubby again";
}

// ---- the daemon's calls

static void look(void *unused)
{
    (void)unused;
    host_walls_look(&host.found, &host.failed);
    if (host.warm)
        host.warm();
}

static void log_found(void)
{
    char *built auto_free = walls_list(host.found.built, ",");
    if (err_is(&host.failed))
        log_warn("jail.unknown", "error=\"%s\"", host.failed.msg);
    else
        log_info("jail.walls", "built=%s landlock=%d", built, host.found.landlock_abi);
    for (int i = 0; i < WALL_COUNT; i++)
        if (host.found.why[i])
            log_warn("jail.missing", "wall=%s why=\"%s\" remedy=\"%s\"", wall_name((enum wall)i),
                     host.found.why[i], host_wall_remedy((enum wall)i));
}

static void wait_for_look(void)
{
    if (!host.is_looking)
        return;
    uv_thread_join(&host.thread);
    host.is_looking = false;
    log_found();
}

static int require(struct err *e)
{
    wait_for_look();
    if (err_is(&host.failed))
        return err_set(e, host.failed.code, "--require-jail: %s", host.failed.msg);
    if (!host.found.missing)
        return 0;
    enum wall first = (enum wall)__builtin_ctz(host.found.missing);
    char *names auto_free = walls_list(host.found.missing, ", ");
    return err_set(
        e, ERR_PRECONDITION,
        "--require-jail: this host cannot build the walls %s (%s): %s; cubby doctor says "
        "more",
        names, host.found.why[first], host_wall_remedy(first));
}

int host_jail_open(const struct driver_jail *wanted, void (*warm)(void), struct err *e)
{
    host.warm = warm;
    host.wanted = *wanted;
    host.is_open = true;
    if (wanted->off)
        return 0;
    int failed = uv_thread_create(&host.thread, look, NULL);
    if (failed)
        return err_sys(e, -failed, "start a thread");
    pthread_setname_np(host.thread, "jail-look"); // tests wait for the thread to end
    host.is_looking = true;
    return wanted->required ? require(e) : 0;
}

void host_jail_close(void)
{
    wait_for_look();
    host_walls_fini(&host.found);
    host.is_open = false;
}

bool host_jail_is_on(void)
{
    return host.is_open && !host.wanted.off;
}

bool host_jail_ends_with_daemon(void)
{
    return host.is_open && host.wanted.ends_with_daemon;
}

bool host_jail_wants_spares(void)
{
    return host.is_open && host.wanted.spares;
}

unsigned host_jail_walls(void)
{
    if (!host_jail_is_on())
        return 0;
    wait_for_look();
    return host.found.built;
}

unsigned host_jail_missing(void)
{
    if (!host_jail_is_on())
        return 0;
    wait_for_look();
    return host.found.missing;
}
