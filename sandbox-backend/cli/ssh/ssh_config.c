// SPDX-License-Identifier: Apache-2.0
// cubby ssh-config: print the configuration by which ssh reaches sandboxes, or let ~/.ssh/config
// include it. Without an id it is one entry for all sandboxes, also for later ones.
//
// A guest is hostile. So ssh shows it no key but the one of this home, no agent and no password
// prompt, takes host keys only from the home's authority, and learns none.
#include "sandbox-backend/cli/ssh/ssh_config.h"

#include <errno.h>
#include <pwd.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "sandbox-backend/base/fd.h"
#include "sandbox-backend/base/home.h"
#include "sandbox-backend/base/mem.h"
#include "sandbox-backend/base/str.h"
#include "sandbox-backend/cli/cli.h"
#include "sandbox-backend/cli/connection.h"
#include "sandbox-backend/cli/copy/remote.h"
#include "sandbox-backend/cli/setup/setup.h"
#include "sandbox-backend/cli/ssh/ssh_keys.h"

#define USER_DEFAULT   "user" // of Cubby's templates
#define USER_BYTES_MAX 256
#define HOST_LETTERS   "abcdefghijklmnopqrstuvwxyz0123456789._-"
#define ID_LETTERS     HOST_LETTERS "ABCDEFGHIJKLMNOPQRSTUVWXYZ"

struct ssh_config {
    const char *name, *file; // options; may be NULL
    bool writes, yes;
    const struct backend_opts *server;
};

// ---- words of ssh_config(5)

// In a quoted path: ssh replaces %x and ${x}, and has no way to write a quote.
static int add_path(struct buf *out, const char *key, const char *path, struct err *e)
{
    if (strpbrk(path, "\"\n\\") || strstr(path, "${"))
        return err_set(e, ERR_INVALID,
                       "the path %.200s has characters that ssh's configuration cannot hold; set "
                       "CUBBY_HOME to another directory",
                       path);
    char *escaped auto_free = str_replace(path, "%", "%%");
    buf_printf(out, "    %s \"%s\"\n", key, escaped);
    return 0;
}

static void add_word(struct buf *out, const char *text)
{
    char *word auto_free = str_shell_word(text);
    char *escaped auto_free = str_replace(word, "%", "%%");
    buf_printf(out, " %s", escaped);
}

// The options of the backend, from the command line or the environment, but not the key: ssh's
// environment has it.
static void add_backend(struct buf *out, const struct backend_opts *server)
{
    struct backend_opts copy = *server;
    struct opt rows[BACKEND_OPTS_COUNT];
    backend_opts_table(rows, &copy);
    if (server->backend ? str_eq(server->backend, "local") : !server->client.api_url) {
        buf_adds(out, " --backend local");
        return;
    }
    for (size_t i = 0; i < BACKEND_OPTS_COUNT; i++) {
        const char *value = *(const char **)rows[i].value;
        if (!value || str_eq(rows[i].name, "api-key"))
            continue;
        buf_printf(out, " --%s", rows[i].name);
        add_word(out, value);
    }
}

// ssh lets the user's shell run the command. OpenSSH refuses names with the shell's characters
// since 9.6, and Debian since 12.4; the quotes are for older ones.
static int add_command(struct buf *out, const struct ssh_config *o, const char *id, struct err *e)
{
    char *program auto_free = self_program("cubby", e);
    const char *home = getenv("CUBBY_HOME");
    char *path auto_free = home && *home ? home_open(e) : NULL;
    if (!program || err_is(e))
        return -1;
    buf_adds(out, "    ProxyCommand");
    if (path) {
        buf_adds(out, " env");
        char *variable auto_free = str_printf("CUBBY_HOME=%s", path);
        add_word(out, variable);
    }
    add_word(out, program);
    buf_adds(out, " ssh-proxy");
    add_backend(out, o->server);
    buf_adds(out, " --user '%r'");
    buf_adds(out, id ? " --name '%h'" : " '%h'");
    if (id)
        add_word(out, id);
    buf_addc(out, '\n');
    return 0;
}

// Append an entry for the sandbox `id`, or for all if it is NULL.
static int add_entry(struct buf *out, const struct ssh_config *o, const char *id, const char *user,
                     struct err *e)
{
    char *home auto_free = home_open(e);
    if (!home || ssh_keys_make(home, e) < 0)
        return -1;
    char *key auto_free = ssh_keys_path(home, "id");
    char *known auto_free = ssh_keys_path(home, "known_hosts");
    buf_printf(out, "Host %s\n    User %s\n", id ? (o->name ? o->name : id) : "*" SSH_SUFFIX, user);
    if (add_command(out, o, id, e) < 0 || add_path(out, "IdentityFile", key, e) < 0 ||
        add_path(out, "UserKnownHostsFile", known, e) < 0)
        return -1;
    buf_adds(out, "    GlobalKnownHostsFile /dev/null\n"
                  "    StrictHostKeyChecking yes\n"
                  "    HostKeyAlgorithms ssh-ed25519-cert-v01@openssh.com\n"
                  "    PubkeyAcceptedAlgorithms ssh-ed25519-cert-v01@openssh.com\n"
                  "    UpdateHostKeys no\n"
                  "    CheckHostIP no\n"
                  "    IdentitiesOnly yes\n"
                  "    IdentityAgent none\n"
                  "    PreferredAuthentications publickey\n"
                  "    ForwardAgent no\n"
                  "    ForwardX11 no\n");
    return 0;
}

// ---- for all sandboxes, in the user's configuration

// The file of ssh, which looks for it in the home that the user database has.
static char *user_file(const struct ssh_config *o, struct err *e)
{
    const struct passwd *me = getpwuid(getuid());
    if (o->file)
        return xstrdup(o->file);
    if (!me)
        err_set(e, ERR_NOT_FOUND, "this user has no home directory: name the file with --file");
    return me ? str_printf("%s/.ssh/config", me->pw_dir) : NULL;
}

static bool has_line(const char *text, const char *line)
{
    size_t len = strlen(line);
    for (const char *at = text; (at = strstr(at, line)); at += len)
        if ((at == text || at[-1] == '\n') && (at[len] == '\n' || !at[len]))
            return true;
    return false;
}

// The line comes first: below a Host line it would be part of that entry, and of two values for
// one option ssh takes the first.
static int include(const struct ssh_config *o, const char *own, struct err *e)
{
    struct buf before auto_buf = BUF_INIT;
    struct buf after auto_buf = BUF_INIT;
    struct buf line auto_buf = BUF_INIT;
    char *path auto_free = user_file(o, e);
    if (!path || change_read(path, &before, e) < 0 || add_path(&line, "Include", own, e) < 0)
        return -1;
    char *text auto_free = xstrndup(line.data + 4, line.len - 5); // without indentation and newline
    if (!has_line(buf_str(&before), text))
        buf_printf(&after, "%s\n%s", text, before.len ? "\n" : "");
    buf_add(&after, buf_str(&before), before.len);
    return change_apply(path, &before, &after, o->yes, e);
}

static int write_config(const struct ssh_config *o, const struct buf *entry, struct err *e)
{
    char *home auto_free = home_open(e);
    char *own auto_free = home ? ssh_keys_path(home, "config") : NULL;
    if (!own)
        return -1;
    printf("%s:\n\n%s\n", own, buf_str(entry));
    int result = include(o, own, e);
    if (result < 0 || result == CHANGE_REFUSED)
        return result;
    if (file_write_atomic(own, entry->data, entry->len, 0600, e) < 0)
        return -1;
    printf("\nWritten. ssh ID" SSH_SUFFIX " reaches the sandbox ID.\n");
    return result;
}

static int for_all(const struct ssh_config *o)
{
    struct err e = ERR_INIT;
    struct buf entry auto_buf = BUF_INIT;
    buf_adds(&entry, "# Made by cubby ssh-config: ssh ID" SSH_SUFFIX " reaches a sandbox.\n");
    if (add_entry(&entry, o, NULL, USER_DEFAULT, &e) < 0)
        return cli_fail(&e);
    if (!o->writes) {
        fputs(buf_str(&entry), stdout);
        return 0;
    }
    int result = write_config(o, &entry, &e);
    if (result < 0)
        return cli_fail(&e);
    return result == CHANGE_REFUSED;
}

// ---- for one sandbox

// Return the user who runs commands in the sandbox. New string, or NULL.
static char *default_user(struct connection *c, const char *id, struct err *e)
{
    struct buf answer auto_buf = BUF_INIT;
    struct remote r;
    remote_open(&r, c, id, NULL);
    int result = remote_script(&r, "id -un", NULL, &answer, USER_BYTES_MAX, e);
    remote_close(&r);
    if (result < 0)
        return NULL;
    size_t len = strspn(buf_str(&answer), ID_LETTERS);
    if (!len || *answer.data == '-' || buf_str(&answer)[len] != '\n') {
        err_set(e, ERR_INTERNAL, "the sandbox named no user");
        return NULL;
    }
    return xstrndup(answer.data, len);
}

static int for_one(struct connection *c, const char *id, const void *ctx)
{
    struct err e = ERR_INIT;
    if (id[strspn(id, ID_LETTERS)]) { // a server chose it
        err_set(&e, ERR_INVALID, "ssh's configuration cannot hold the id %.80s", id);
        return cli_fail(&e);
    }
    struct buf entry auto_buf = BUF_INIT;
    char *user auto_free = default_user(c, id, &e);
    if (!user || add_entry(&entry, ctx, id, user, &e) < 0)
        return cli_fail(&e);
    fputs(buf_str(&entry), stdout);
    return 0;
}

// ---- the verb

static int check(const struct ssh_config *o, bool has_id)
{
    if (o->writes && has_id)
        return cli_usage_error("--write makes one entry for all sandboxes, and takes no id");
    if ((o->yes || o->file) && !o->writes)
        return cli_usage_error("--yes and --file belong to --write");
    if (o->name && !has_id)
        return cli_usage_error("--name belongs to the id of a sandbox");
    if (o->name && (!*o->name || *o->name == '-' || o->name[strspn(o->name, HOST_LETTERS)]))
        return cli_usage_error("the name for ssh must have lower-case letters, digits, '.', '_' "
                               "and '-' only");
    return -1;
}

int verb_ssh_config(int argc, char **argv)
{
    struct backend_opts server = {0};
    struct ssh_config o = {.server = &server};
    const struct opt opts[] = {
        CLI_STRING("name", &o.name, "NAME", "name of this sandbox for ssh (default: its id)"),
        CLI_FLAG("write", &o.writes, "let ssh's configuration include the entry for all sandboxes"),
        CLI_FLAG("yes", &o.yes, "with --write: do not ask"),
        CLI_STRING("file", &o.file, "FILE",
                   "with --write: ssh's configuration (default: ~/.ssh/config)"),
    };
    const struct cli_usage usage = {
        .synopsis = "ssh-config [ID [--name NAME]]\n"
                    "       cubby ssh-config --write [--yes] [--file FILE]",
        .text = "Prints the configuration by which ssh, scp, sftp, rsync and editors reach\n"
                "sandboxes: an entry for all of them, as ID" SSH_SUFFIX ", or for one. --write "
                "shows what it\n"
                "would write, asks, and lets ~/.ssh/config include the entry for all. A sandbox\n"
                "needs OpenSSH's sshd, but no network and no open port.",
        .opts = opts,
        .opt_count = ARRAY_LEN(opts),
        .server = &server,
    };
    int done = cli_begin(&usage, &argc, argv);
    if (done >= 0)
        return done;
    if (argc > 2)
        return cli_usage_error("ssh-config takes the id of one sandbox; see cubby ssh-config "
                               "--help");
    int status = check(&o, argc == 2);
    if (status >= 0)
        return status;
    return argc == 2 ? connection_on_one(&server, argv[1], for_one, &o) : for_all(&o);
}
