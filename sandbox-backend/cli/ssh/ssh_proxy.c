// SPDX-License-Identifier: Apache-2.0
// cubby ssh-proxy: the ProxyCommand of the configuration that `cubby ssh-config` makes. It starts
// OpenSSH's server in the sandbox, for this one connection, with its standard streams as the
// connection. So the sandbox needs no network and listens on no port.
//
// 1. A shell in the sandbox says where the server is, and which environment commands have.
// 2. This host makes a host key for the connection (ssh_keys.h).
// 3. A shell in the sandbox writes keys and configuration to a directory of its own, runs the
//    server as the user who logs in, and removes the directory. So the server needs no privileges,
//    and a user who is not root can only become itself.
//
// ssh ends its ProxyCommand by SIGHUP, and a terminal sends SIGINT to both. Both are blocked here:
// the end of our standard input ends the server, and then this program, in order.
#include <signal.h>
#include <stdlib.h>
#include <string.h>

#include "sandbox-backend/base/buf.h"
#include "sandbox-backend/base/home.h"
#include "sandbox-backend/base/mem.h"
#include "sandbox-backend/base/str.h"
#include "sandbox-backend/cli/cli.h"
#include "sandbox-backend/cli/connection.h"
#include "sandbox-backend/cli/copy/remote.h"
#include "sandbox-backend/cli/exec.h"
#include "sandbox-backend/cli/ssh/ssh_config.h"
#include "sandbox-backend/cli/ssh/ssh_keys.h"

#define ANSWER_BYTES_MAX (1 << 20)
#define SSH_ENV_BYTES    (64 << 10) // of all variables that sessions get

// Print the path of the server on a line, and then the environment as /proc has it.
static const char LOOK[] =
    "(PATH=$PATH:/usr/local/sbin:/usr/sbin:/sbin; command -v sshd) || {\n"
    "  echo 'the sandbox has no ssh server: install the package openssh-server in it, or build its"
    " template again with --packages openssh-server' >&2; exit 1; }\n"
    "cat /proc/self/environ";

// $1: the path of the server. A shell that is killed cannot remove its keys; the next one does.
static const char SERVE[] =
    "tmp=${TMPDIR:-/tmp}\n"
    "for left in \"$tmp\"/.cubby-ssh-*; do\n"
    "  pid=${left##*/.cubby-ssh-}; pid=${pid%%-*}\n"
    "  [ -e \"/proc/$pid\" ] || rm -rf \"$left\"\n"
    "done 2>/dev/null\n"
    "old=$(umask); umask 077\n"
    "dir=$(mktemp -d \"$tmp/.cubby-ssh-$$-XXXXXX\") || exit 1\n"
    "trap 'rm -rf \"$dir\"' EXIT\n"
    "trap 'exit 1' HUP INT TERM\n"
    "printf '%s' \"$CUBBY_SSH_HOST\" >\"$dir/host\" &&\n"
    "printf '%s' \"$CUBBY_SSH_CERTIFICATE\" >\"$dir/host-cert.pub\" &&\n"
    "printf '%s' \"$CUBBY_SSH_USER\" >\"$dir/user\" &&\n"
    "printf 'HostKey \"%s/host\"\\nHostCertificate \"%s/host-cert.pub\"\\n"
    "AuthorizedKeysFile \"%s/user\"\\n%s' \"$dir\" \"$dir\" \"$dir\" \"$CUBBY_SSH_CONFIG\" "
    ">\"$dir/config\" || exit 1\n"
    "unset CUBBY_SSH_HOST CUBBY_SSH_CERTIFICATE CUBBY_SSH_USER CUBBY_SSH_CONFIG\n"
    // Where a root's server keeps its unprivileged half.
    "[ \"$(id -u)\" != 0 ] || [ -d /run/sshd ] || mkdir -p -m 755 /run/sshd\n"
    "umask \"$old\"\n"
    "\"$1\" -i -e -f \"$dir/config\"";

// The key is the only way in. A server that lost its client without a word ends by itself after
// three minutes.
static const char CONFIG[] = "AuthenticationMethods publickey\n"
                             "PermitRootLogin prohibit-password\n"
                             "UsePAM no\n"
                             "StrictModes no\n"
                             "AllowAgentForwarding no\n"
                             "X11Forwarding no\n"
                             "PermitUserEnvironment no\n"
                             "UseDNS no\n"
                             "PidFile none\n"
                             "PrintLastLog no\n"
                             "LogLevel ERROR\n"
                             "MaxSessions 100\n"
                             "ClientAliveInterval 60\n"
                             "Subsystem sftp internal-sftp\n"
                             "AcceptEnv LANG LC_* COLORTERM\n";

struct proxy {
    const char *user; // NULL: the sandbox's default user
    const char *name; // by which ssh calls the sandbox
};

// ---- the environment of sessions

// Tell whether the session has its own value of a variable, or the shell of LOOK made it.
static bool is_own(const char *name, size_t len)
{
    static const char *const OWN[] = {"HOME",   "USER",  "LOGNAME", "SHELL", "PWD",
                                      "OLDPWD", "SHLVL", "TERM",    "MAIL",  "_"};
    for (size_t i = 0; i < ARRAY_LEN(OWN); i++)
        if (strlen(OWN[i]) == len && memcmp(OWN[i], name, len) == 0)
            return true;
    return strncmp(name, "SSH_", 4) == 0;
}

// Tell whether sshd_config(5) can hold the variable NAME=VALUE.
static bool can_be_told(const char *variable)
{
    static const char LETTERS[] = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz_0123456789";
    size_t len = strspn(variable, LETTERS);
    if (!len || variable[len] != '=' || is_own(variable, len))
        return false;
    for (const char *c = variable; *c; c++)
        if ((unsigned char)*c < ' ' || *c == 127)
            return false;
    return true;
}

static void add_quoted(struct buf *out, const char *text)
{
    buf_adds(out, " \"");
    for (; *text; text++) {
        if (*text == '"' || *text == '\\')
            buf_addc(out, '\\');
        buf_addc(out, *text);
    }
    buf_addc(out, '"');
}

// Append the line that gives sessions the variables of an environment as /proc has it.
static void add_environment(struct buf *out, const char *environ, size_t len)
{
    struct buf line auto_buf = BUF_INIT;
    for (const char *at = environ, *end = environ + len; at < end;) {
        char *one auto_free = xstrndup(at, strnlen(at, (size_t)(end - at)));
        if (can_be_told(one) && line.len + strlen(one) < SSH_ENV_BYTES)
            add_quoted(&line, one);
        at += strlen(one) + 1;
    }
    if (line.len)
        buf_printf(out, "SetEnv%s\n", buf_str(&line));
}

// ---- the connection

// Ask the sandbox. *server: a new string; the configuration is added to `config`.
static int look(struct connection *c, const char *id, const char *user, char **server,
                struct buf *config, struct err *e)
{
    struct buf answer auto_buf = BUF_INIT;
    struct remote r;
    remote_open(&r, c, id, user);
    int result = remote_script(&r, LOOK, NULL, &answer, ANSWER_BYTES_MAX, e);
    remote_close(&r);
    if (result < 0)
        return -1;
    size_t len = strcspn(buf_str(&answer), "\n");
    *server = xstrndup(buf_str(&answer), len);
    if (**server != '/' || buf_str(&answer)[len] != '\n')
        return err_set(e, ERR_INTERNAL, "the sandbox named no path of its ssh server");
    buf_adds(config, CONFIG);
    add_environment(config, answer.data + len + 1, answer.len - len - 1);
    return 0;
}

static int make_keys(const char *name, struct ssh_server_keys *keys, struct err *e)
{
    char *home auto_free = home_open(e);
    *keys = (struct ssh_server_keys){0};
    return home ? ssh_server_keys_make(home, name, keys, e) : -1;
}

static int serve(struct connection *c, const char *id, const void *ctx)
{
    const struct proxy *p = ctx;
    struct ssh_server_keys keys = {0};
    struct buf config auto_buf = BUF_INIT;
    char *server auto_free = NULL;
    struct err e = ERR_INIT;
    if (look(c, id, p->user, &server, &config, &e) < 0 || make_keys(p->name, &keys, &e) < 0) {
        ssh_server_keys_fini(&keys);
        exec_complain(&e);
        return 1;
    }
    const char *words[] = {"-c", SERVE, "sh", server, NULL};
    const struct command_opts want = {
        .cmd = "/bin/sh",
        .args = words,
        .user = p->user,
        .open_stdin = true,
        .envs = json_pack("{s:s, s:s, s:s, s:s}", "CUBBY_SSH_HOST", buf_str(&keys.host),
                          "CUBBY_SSH_CERTIFICATE", buf_str(&keys.certificate), "CUBBY_SSH_USER",
                          buf_str(&keys.user), "CUBBY_SSH_CONFIG", buf_str(&config)),
    };
    ssh_server_keys_fini(&keys);
    int status = exec_run_shown(c, id, &want);
    json_decref(want.envs);
    return status;
}

static void block_signals(void)
{
    sigset_t set;
    sigemptyset(&set);
    sigaddset(&set, SIGHUP);
    sigaddset(&set, SIGINT);
    sigprocmask(SIG_BLOCK, &set, NULL);
}

int verb_ssh_proxy(int argc, char **argv)
{
    struct backend_opts server = {0};
    struct proxy p = {0};
    const struct opt opts[] = {
        CLI_STRING("user", &p.user, "NAME",
                   "user who logs in (default: the sandbox's default user)"),
        CLI_STRING("name", &p.name, "NAME", "name by which ssh calls it (default: as given)"),
    };
    const struct cli_usage usage = {
        .synopsis = "ssh-proxy [OPTIONS] ID[" SSH_SUFFIX "]",
        .text = "Serves ssh as the ProxyCommand of the configuration that cubby ssh-config makes:\n"
                "runs the sandbox's sshd on standard input and output. Do not run it yourself.",
        .opts = opts,
        .opt_count = ARRAY_LEN(opts),
        .server = &server,
    };
    int done = cli_begin(&usage, &argc, argv);
    if (done >= 0)
        return done;
    if (argc != 2)
        return cli_usage_error("ssh-proxy takes the id of one sandbox; see cubby ssh-proxy --help");
    bool has_suffix = str_ends(argv[1], SSH_SUFFIX);
    char *id auto_free = xstrndup(argv[1], strlen(argv[1]) - (has_suffix ? strlen(SSH_SUFFIX) : 0));
    p.name = p.name ? p.name : argv[1];
    block_signals();
    return connection_on_one(&server, id, serve, &p);
}
