// SPDX-License-Identifier: Apache-2.0
// envd: the program in the guest that runs commands and moves files. Options, start and stop.
#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/stat.h>
#include <unistd.h>

#include "sandbox-backend/base/fd.h"
#include "sandbox-backend/base/limits.h"
#include "sandbox-backend/base/mem.h"
#include "sandbox-backend/base/opts.h"
#include "sandbox-backend/base/str.h"
#include "sandbox-backend/base/version.h"
#include "sandbox-backend/envd/core/envd.h"
#include "sandbox-backend/envd/fs/watch_rpc.h"
#include "sandbox-backend/envd/guest/names.h"
#include "sandbox-backend/envd/guest/quiesce.h"
#include "sandbox-backend/envd/guest/relay.h"
#include "sandbox-backend/envd/guest/renewal.h"
#include "sandbox-backend/envd/process/process.h"
#include "sandbox-backend/envd/rpc/rpc.h"
#include "sandbox-backend/envd/server.h"
#include "sandbox-backend/log/log.h"

#define BIND_NONE   "none"
#define STATE_DIR   "/run/e2b"
#define CGROUP_ROOT "/sys/fs/cgroup"

static struct {
    const char *bind;
    const char *unix_path;
    const char *state_dir;
    const char *cgroup;
    const char *machine;
    const char *users_dir;
    int64_t port;
    int64_t relay_port; // -1: none
    int64_t ready_fd;
    int64_t freeze_max_ms;
    bool version, help;
} options = {
    .bind = "0.0.0.0",
    .port = ENVD_PORT,
    .state_dir = STATE_DIR,
    .relay_port = -1,
    .machine = "no",
    .users_dir = "/etc",
    .ready_fd = STDOUT_FILENO,
    .freeze_max_ms = QUIESCE_MAX_MS,
};

static const struct opt table[] = {
    {.name = "port",
     .type = OPT_INT,
     .value = &options.port,
     .arg = "PORT",
     .help = "TCP port; 0: the kernel chooses one (default 49983)",
     .max = 65535},
    {.name = "relay-port",
     .type = OPT_INT,
     .value = &options.relay_port,
     .arg = "PORT",
     .help = "TCP port of the relay to ports of the loopback; 0: the kernel chooses one "
             "(default: no relay)",
     .max = 65535},
    {.name = "bind",
     .type = OPT_STRING,
     .value = &options.bind,
     .arg = "ADDRESS",
     .help = "address to listen on; none: only the socket of --unix (default 0.0.0.0)"},
    {.name = "unix",
     .type = OPT_STRING,
     .value = &options.unix_path,
     .arg = "PATH",
     .help = "listen on this unix socket, which only this user can open"},
    {.name = "state-dir",
     .type = OPT_STRING,
     .value = &options.state_dir,
     .arg = "DIR",
     .help = "directory for the state that /init sets (default " STATE_DIR ")"},
    {.name = "cgroup",
     .type = OPT_STRING,
     .value = &options.cgroup,
     .arg = "DIR",
     .help = "cgroup2 directory for commands (default: with --machine " CGROUP_ROOT ")"},
    {.name = "freeze-max",
     .type = OPT_INT,
     .value = &options.freeze_max_ms,
     .arg = "MS",
     .help = "longest time for which /freeze stops processes (default 25000)",
     .min = 1,
     .max = 600000},
    {.name = "machine",
     .type = OPT_STRING,
     .value = &options.machine,
     .arg = "MODE",
     .help = "yes: /init may set clock, host name, entropy and trusted authority; shared, if the "
             "guest has the host's kernel: only the trusted authority (default no)",
     .choices = "yes|no|shared"},
    {.name = "users",
     .type = OPT_STRING,
     .value = &options.users_dir,
     .arg = "DIR",
     .help = "directory of passwd and group (default /etc)"},
    {.name = "ready-fd",
     .type = OPT_INT,
     .value = &options.ready_fd,
     .arg = "FD",
     .help = "descriptor for the line \"ready port=N\" or \"ready port=N relay=N\"; N is 0 with "
             "--bind none (default 1)",
     .max = 1023},
    {.name = "version", .type = OPT_FLAG, .value = &options.version, .help = "print the version"},
    {.name = "help", .type = OPT_FLAG, .value = &options.help, .help = "print this and exit"},
};

struct program {
    struct envd envd;
    struct relay *relay; // owned; NULL: no relay
    uv_signal_t terminate;
    uv_signal_t interrupt;
};

static int parse_options(int argc, char **argv, struct err *e)
{
    if (opts_parse(table, ARRAY_LEN(table), &argc, argv, false, e) < 0)
        return -1;
    if (argc > 1)
        return err_set(e, ERR_INVALID, "unexpected argument \"%s\"", argv[1]);
    if (options.help) {
        puts("Usage: envd [OPTION]...\nRuns commands and moves files in a sandbox.\n");
        opts_help(stdout, table, ARRAY_LEN(table));
    }
    return 0;
}

// Open descriptors 0 to 2 if they are closed, because the next file to be opened would get one of
// these numbers.
static void fill_standard_streams(void)
{
    int fd;
    do
        fd = open("/dev/null", O_RDWR);
    while (fd >= 0 && fd <= STDERR_FILENO);
    mem_close_fd(&fd);
}

static int listen_all(struct program *p, struct err *e)
{
    struct envd *envd = &p->envd;
    bool has_tcp = strcmp(options.bind, BIND_NONE) != 0;
    if (!has_tcp && (!options.unix_path || options.relay_port >= 0))
        return err_set(e, ERR_INVALID, "--bind none needs --unix, and has no --relay-port");
    if (has_tcp && http_server_listen_tcp(envd->server, options.bind, (int)options.port, e) < 0)
        return -1;
    if (options.relay_port >= 0)
        p->relay = relay_listen(envd->loop, options.bind, (int)options.relay_port, e);
    if (err_is(e))
        return -1;
    return options.unix_path ? http_server_listen_unix(envd->server, options.unix_path, 0600, e)
                             : 0;
}

static int start(struct program *p, struct err *e)
{
    struct envd *envd = &p->envd;
    const struct http_server_opts opts = {.on_request = server_on_request, .ctx = envd};
    envd->owns_machine = strcmp(options.machine, "yes") == 0;
    envd->owns_files = strcmp(options.machine, "no") != 0;
    if (dir_make(options.state_dir, 0755, e) < 0 ||
        settings_init(&envd->settings, options.state_dir, e) < 0)
        return -1;
    if (envd->owns_machine)
        renewal_prepare();
    envd->names = names_new(envd->owns_machine ? options.state_dir : NULL);
    const char *cgroup = envd->owns_machine && !options.cgroup ? CGROUP_ROOT : options.cgroup;
    envd->users = users_new(options.users_dir);
    envd->processes = processes_new(envd->loop, cgroup);
    envd->quiesce = quiesce_new(envd->loop, cgroup, options.freeze_max_ms);
    envd->server = http_server_new(envd->loop, &opts);
    rpc_hooks_init(envd);
    return listen_all(p, e);
}

static void on_server_closed(void *ctx)
{
    struct program *p = ctx;
    rpc_hooks_close(&p->envd);
    quiesce_close(p->envd.quiesce);
    processes_close(p->envd.processes);
    watch_poll_close(&p->envd);
    uv_close((uv_handle_t *)&p->terminate, NULL);
    uv_close((uv_handle_t *)&p->interrupt, NULL);
}

static void on_stop(uv_signal_t *handle, int signum)
{
    struct program *p = handle->data;
    if (!p->envd.server)
        return;
    log_info("envd.stopping", "signal=%d", signum);
    if (p->relay)
        relay_close(steal(&p->relay));
    http_server_close(steal(&p->envd.server), on_server_closed, p);
}

static void handle_signals(struct program *p)
{
    signal(SIGPIPE, SIG_IGN);
    p->terminate.data = p->interrupt.data = p;
    uv_signal_init(p->envd.loop, &p->terminate);
    uv_signal_init(p->envd.loop, &p->interrupt);
    uv_signal_start(&p->terminate, on_stop, SIGTERM);
    uv_signal_start(&p->interrupt, on_stop, SIGINT);
}

static void say_ready(const struct program *p)
{
    struct err e = ERR_INIT;
    struct buf line auto_buf = BUF_INIT;
    buf_printf(&line, "ready port=%d", http_server_port(p->envd.server));
    if (p->relay)
        buf_printf(&line, " relay=%d", relay_port(p->relay));
    buf_addc(&line, '\n');
    if (fd_write_all((int)options.ready_fd, line.data, line.len, &e) < 0)
        log_warn("envd.ready", "%s", e.msg);
    if (options.ready_fd > STDERR_FILENO)
        close((int)options.ready_fd);
}

int main(int argc, char **argv)
{
    static struct program p;
    struct err e = ERR_INIT;
    fill_standard_streams();
    // init starts envd by descriptor, and some kernels (gVisor's) then show the number as its name.
    prctl(PR_SET_NAME, "envd");
    if (parse_options(argc, argv, &e) < 0) {
        fprintf(stderr, "envd: %s\n", e.msg);
        return 2;
    }
    if (options.version)
        puts(ENVD_VERSION);
    if (options.version || options.help)
        return 0;
    umask(022);
    uv_loop_t loop;
    uv_loop_init(&loop);
    p.envd.loop = &loop;
    handle_signals(&p);
    if (start(&p, &e) < 0) {
        fprintf(stderr, "envd: %s\n", e.msg);
        return 1;
    }
    say_ready(&p);
    uv_run(&loop, UV_RUN_DEFAULT);
    names_free(p.envd.names);
    settings_fini(&p.envd.settings);
    users_free(p.envd.users);
    uv_loop_close(&loop);
    return 0;
}
