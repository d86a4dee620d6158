// SPDX-License-Identifier: Apache-2.0
// cubby git-remote: git's remote helper (gitremote-helpers(7)) for repositories in sandboxes. git
// starts it as git-remote-cubby. It has the capability "connect": it runs git-upload-pack or
// git-receive-pack in the sandbox, and passes git's protocol on as bytes. No network of the guest
// is needed, and on this host only the user's own git reads what the sandbox sends.
#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "sandbox-backend/base/fd.h"
#include "sandbox-backend/base/mem.h"
#include "sandbox-backend/base/str.h"
#include "sandbox-backend/cli/cli.h"
#include "sandbox-backend/cli/connection.h"
#include "sandbox-backend/cli/exec.h"

#define LINE_BYTES   256
#define NOT_THERE    127
#define URL_FORM     "cubby::ID/PATH, or cubby::ID/~/PATH for a path below the user's home"
#define UPLOAD_PACK  "git-upload-pack"
#define RECEIVE_PACK "git-receive-pack"

struct helper {
    char *id;   // owned
    char *path; // owned; absolute, or "./" and a path below the home
    const char *service;
};

// Read a line of git without its newline. What follows a command belongs to the service, so no byte
// after the newline may be read. -1: the end of the input, or no line of git.
static int read_line(char out[LINE_BYTES])
{
    for (size_t len = 0; len < LINE_BYTES; len++) {
        ssize_t n = read(STDIN_FILENO, &out[len], 1);
        if (n < 0 && errno == EINTR) {
            len--;
            continue;
        }
        if (n != 1)
            return -1;
        if (out[len] == '\n') {
            out[len] = '\0';
            return 0;
        }
    }
    return -1;
}

static int say(const char *text)
{
    struct err e = ERR_INIT;
    return fd_write_all(STDOUT_FILENO, text, strlen(text), &e) < 0 ? cli_fail(&e) : 0;
}

// Parse "ID/PATH", "ID/~/PATH", "ID:PATH" or one of these after "cubby://".
static int parse_url(const char *url, struct helper *h, struct err *e)
{
    static const char SCHEME[] = "cubby://";
    const char *at = str_starts(url, SCHEME) ? url + strlen(SCHEME) : url;
    size_t len = strcspn(at, "/:");
    const char *path = at + len + (at[len] == ':');
    if (str_starts(path, "/~/"))
        path += 3;
    if (!len || !*path)
        return err_set(e, ERR_INVALID, "the URL of a repository in a sandbox is " URL_FORM);
    h->id = xstrndup(at, len);
    h->path = *path == '/' ? xstrdup(path) : str_printf("./%s", path);
    return 0;
}

static int serve(struct connection *c, const char *id, const void *ctx)
{
    const struct helper *h = ctx;
    const char *args[] = {h->path, NULL};
    const struct command_opts want = {.cmd = h->service, .args = args, .open_stdin = true};
    struct err e = ERR_INIT;
    if (say("\n") != 0) // connected
        return 1;
    int status = exec_run_shown(c, id, &want);
    if (status != NOT_THERE)
        return status;
    err_set(&e, ERR_NOT_FOUND, "the sandbox has no %s: install git in it", h->service);
    return cli_fail(&e);
}

// Answer git's commands until it asks for a service.
static int talk(struct helper *h, const struct backend_opts *server)
{
    static const char CONNECT[] = "connect ";
    char line[LINE_BYTES];
    while (read_line(line) == 0 && *line) {
        if (str_eq(line, "capabilities")) {
            if (say("connect\n\n") != 0)
                return 1;
        } else if (str_eq(line, "connect " UPLOAD_PACK) || str_eq(line, "connect " RECEIVE_PACK)) {
            h->service = line + strlen(CONNECT);
            return connection_on_one(server, h->id, serve, h);
        } else if (str_starts(line, CONNECT)) {
            if (say("fallback\n") != 0)
                return 1;
        } else {
            return cli_usage_error("git asked for \"%s\", which git-remote-cubby does not offer",
                                   line);
        }
    }
    return 0;
}

int verb_git_remote(int argc, char **argv)
{
    struct backend_opts server = {0};
    const struct cli_usage usage = {
        .synopsis = "git-remote NAME URL",
        .text = "Serves git as its remote helper git-remote-cubby. Do not run it yourself: use\n"
                "git remote add box cubby::ID/~/project, and then git fetch box or git push box.\n"
                "A path after ID/ is absolute, one after ID/~/ is below the home of the user.",
        .server = &server,
    };
    int done = cli_begin(&usage, &argc, argv);
    if (done >= 0)
        return done;
    struct helper h = {0};
    struct err e = ERR_INIT;
    if (argc < 2 || argc > 3)
        return cli_usage_error("git-remote takes a name and a URL; see cubby git-remote --help");
    int status = parse_url(argv[argc - 1], &h, &e) < 0 ? cli_fail(&e) : talk(&h, &server);
    free(h.id);
    free(h.path);
    return status;
}
