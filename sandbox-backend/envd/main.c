// SPDX-License-Identifier: Apache-2.0
// envd: runs commands and moves files in a sandbox, for whoever reaches its port.
#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "sandbox-backend/base/fd.h"
#include "sandbox-backend/base/limits.h"
#include "sandbox-backend/base/mem.h"
#include "sandbox-backend/base/opts.h"
#include "sandbox-backend/base/str.h"
#include "sandbox-backend/base/version.h"
#include "sandbox-backend/envd/envd.h"
#include "sandbox-backend/envd/freeze.h"
#include "sandbox-backend/envd/machine.h"
#include "sandbox-backend/envd/relay.h"
#include "sandbox-backend/envd/rpc.h"
#include "sandbox-backend/envd/server.h"
#include "sandbox-backend/envd/watch_rpc.h"
#include "sandbox-backend/log/log.h"

#define STATE_DIR   "/run/e2b"
#define CGROUP_ROOT "/sys/fs/cgroup"

struct config {
    const char *bind;
    const char *unix_path;
    const char *state_dir;
    const char *cgroup;
    const char *machine;
    int64_t port;
    int64_t relay_port; // -1: none
    int64_t ready_fd;
    int64_t freeze_max_ms;
    bool version, help;
};

struct program {
    struct envd envd;
    struct relay *relay; // owned; NULL: none
    uv_signal_t terminate;
    uv_signal_t interrupt;
};

static int parse_options(struct config *c, int argc, char **argv, struct err *e)
{
    const struct opt table[] = {
        {.name = "port",
         .type = OPT_INT,
         .value = &c->port,
         .arg = "PORT",
         .help = "TCP port; 0: one that the kernel chooses (default 49983)",
         .max = 65535},
        {.name = "relay-port",
         .type = OPT_INT,
         .value = &c->relay_port,
         .arg = "PORT",
         .help = "TCP port for connections to ports of the loopback; 0: one that the kernel "
                 "chooses (default: none)",
         .max = 65535},
        {.name = "bind",
         .type = OPT_STRING,
         .value = &c->bind,
         .arg = "ADDRESS",
         .help = "address to listen on (default 0.0.0.0)"},
        {.name = "unix",
         .type = OPT_STRING,
         .value = &c->unix_path,
         .arg = "PATH",
         .help = "listen on this unix socket too"},
        {.name = "state-dir",
         .type = OPT_STRING,
         .value = &c->state_dir,
         .arg = "DIR",
         .help = "where what /init has set is kept (default " STATE_DIR ")"},
        {.name = "cgroup",
         .type = OPT_STRING,
         .value = &c->cgroup,
         .arg = "DIR",
         .help = "cgroup2 directory for commands (default: with --machine " CGROUP_ROOT ")"},
        {.name = "freeze-max",
         .type = OPT_INT,
         .value = &c->freeze_max_ms,
         .arg = "MS",
         .help = "how long what /freeze has frozen stays so at most (default 25000)",
         .min = 1,
         .max = 600000},
        {.name = "machine",
         .type = OPT_STRING,
         .value = &c->machine,
         .arg = "MODE",
         .help = "/init may set clock, host name, entropy (default no)",
         .choices = "yes|no"},
        {.name = "ready-fd",
         .type = OPT_INT,
         .value = &c->ready_fd,
         .arg = "FD",
         .help = "where to say \"ready port=N\", and \" relay=N\" (default 1)",
         .max = 1023},
        {.name = "version", .type = OPT_FLAG, .value = &c->version, .help = "print the version"},
        {.name = "help", .type = OPT_FLAG, .value = &c->help, .help = "print this"},
    };
    if (opts_parse(table, ARRAY_LEN(table), &argc, argv, false, e) < 0)
        return -1;
    if (argc > 1)
        return err_set(e, ERR_INVALID, "unexpected argument \"%s\"", argv[1]);
    if (c->help) {
        puts("Usage: envd [OPTION]...\nRuns commands and moves files in a sandbox.\n");
        opts_help(stdout, table, ARRAY_LEN(table));
    }
    return 0;
}

// Descriptors 0 to 2 must be something: what is opened next would take their place.
static void fill_standard_streams(void)
{
    int fd;
    do
        fd = open("/dev/null", O_RDWR);
    while (fd >= 0 && fd <= STDERR_FILENO);
    mem_close_fd(&fd);
}

static int listen_all(struct program *p, const struct config *c, struct err *e)
{
    struct envd *envd = &p->envd;
    if (http_server_listen_tcp(envd->server, c->bind, (int)c->port, e) < 0)
        return -1;
    if (c->relay_port >= 0)
        p->relay = relay_listen(envd->loop, c->bind, (int)c->relay_port, e);
    if (err_is(e))
        return -1;
    return c->unix_path ? http_server_listen_unix(envd->server, c->unix_path, 0600, e) : 0;
}

static int start(struct program *p, const struct config *c, struct err *e)
{
    struct envd *envd = &p->envd;
    const struct http_server_opts opts = {.on_request = server_on_request, .ctx = envd};
    envd->owns_machine = strcmp(c->machine, "yes") == 0;
    if (dir_make(c->state_dir, 0755, e) < 0 || settings_init(&envd->settings, c->state_dir, e) < 0)
        return -1;
    names_init(&envd->names);
    if (envd->owns_machine) {
        machine_prepare();
        names_open(&envd->names, c->state_dir);
    }
    const char *cgroup = envd->owns_machine && !c->cgroup ? CGROUP_ROOT : c->cgroup;
    envd->users = users_new("/etc");
    envd->processes = processes_new(envd->loop, cgroup);
    envd->freeze = freeze_new(envd->loop, cgroup, c->freeze_max_ms);
    envd->server = http_server_new(envd->loop, &opts);
    rpc_hooks_init(envd);
    return listen_all(p, c, e);
}

static void on_server_closed(void *ctx)
{
    struct program *p = ctx;
    rpc_hooks_close(&p->envd);
    freeze_close(p->envd.freeze);
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

static void say_ready(const struct config *c, const struct program *p)
{
    struct err e = ERR_INIT;
    struct buf line auto_buf = BUF_INIT;
    buf_printf(&line, "ready port=%d", http_server_port(p->envd.server));
    if (p->relay)
        buf_printf(&line, " relay=%d", relay_port(p->relay));
    buf_addc(&line, '\n');
    if (fd_write_all((int)c->ready_fd, line.data, line.len, &e) < 0)
        log_warn("envd.ready", "%s", e.msg);
    if (c->ready_fd > STDERR_FILENO)
        close((int)c->ready_fd);
}

int main(int argc, char **argv)
{
    static struct program p;
    struct config config = {
        .bind = "0.0.0.0",
        .port = ENVD_PORT,
        .state_dir = STATE_DIR,
        .relay_port = -1,
        .machine = "no",
        .ready_fd = STDOUT_FILENO,
        .freeze_max_ms = FREEZE_MAX_MS,
    };
    struct err e = ERR_INIT;
    fill_standard_streams();
    if (parse_options(&config, argc, argv, &e) < 0) {
        fprintf(stderr, "envd: %s\n", e.msg);
        return 2;
    }
    if (config.version)
        puts(ENVD_VERSION);
    if (config.version || config.help)
        return 0;
    umask(022);
    uv_loop_t loop;
    uv_loop_init(&loop);
    p.envd.loop = &loop;
    handle_signals(&p);
    if (start(&p, &config, &e) < 0) {
        fprintf(stderr, "envd: %s\n", e.msg);
        return 1;
    }
    say_ready(&config, &p);
    uv_run(&loop, UV_RUN_DEFAULT);
    names_close(&p.envd.names);
    settings_fini(&p.envd.settings);
    users_free(p.envd.users);
    uv_loop_close(&loop);
    return 0;
}
