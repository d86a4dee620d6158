// SPDX-License-Identifier: Apache-2.0
// cubby work: a branch of this repository goes into a sandbox, a command or a person works there,
// and the commits come out as a branch of this repository.
//
//   1. The commit of HEAD is pushed into the repository in the sandbox, which is made if needed. It
//      becomes the sandbox's branch of the same name, unless that branch has commits of its own.
//   2. The command runs in the sandbox, or a shell.
//   3. What is committed in the sandbox is fetched as a branch here. Nothing is checked out or
//      merged, and no branch here loses a commit.
//
// git itself moves the objects, through git-remote-cubby. It runs no hook and no filter of the
// sandbox's repository, because those belong to the sandbox's git.
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "sandbox-backend/base/json.h"
#include "sandbox-backend/base/mem.h"
#include "sandbox-backend/base/str.h"
#include "sandbox-backend/cli/cli.h"
#include "sandbox-backend/cli/connection.h"
#include "sandbox-backend/cli/copy/copy.h"
#include "sandbox-backend/cli/copy/remote.h"
#include "sandbox-backend/cli/exec.h"
#include "sandbox-backend/cli/git/git.h"
#include "sandbox-backend/cli/input.h"
#include "sandbox-backend/cli/shell.h"

#define SHORT_ID   8 // of an id, in the name of a branch
#define ANSWER_MAX 65536

struct work {
    const char *path, *branch;
    bool only_out, commits, as_json;
    char **command; // NULL: a shell
};

// One run. Strings are owned.
struct run {
    const struct work *o;
    struct connection *c; // borrowed, as id
    const char *id;
    char *top;    // this repository
    char *branch; // here, of the commits that come out
    char *name;   // of the branch in the sandbox
    char *dir;    // of the sandbox, absolute
    char *url;
    char *base; // the commit of HEAD
};

// ---- this repository
static char *ask_git(const char *const *args, struct err *e)
{
    struct buf out auto_buf = BUF_INIT;
    return git_output(args, &out, e) < 0 ? NULL : xstrdup(buf_str(&out));
}

static int look_here(struct run *r, struct err *e)
{
    struct err why = ERR_INIT;
    r->top = ask_git((const char *[]){"rev-parse", "--show-toplevel", NULL}, &why);
    if (!r->top || !*r->top)
        return err_set(e, why.code == ERR_NOT_FOUND ? why.code : ERR_PRECONDITION, "%s",
                       why.code == ERR_NOT_FOUND
                           ? why.msg
                           : "this is not the working tree of a git repository");
    r->base =
        ask_git((const char *[]){"rev-parse", "--verify", "--quiet", "HEAD^{commit}", NULL}, &why);
    if (!r->base)
        return err_set(e, ERR_PRECONDITION, "this repository has no commit yet; commit first");
    r->name = ask_git((const char *[]){"symbolic-ref", "--quiet", "--short", "HEAD", NULL}, &why);
    if (!r->name)
        r->name = xstrdup("work");
    r->branch = r->o->branch ? xstrdup(r->o->branch) : str_printf("cubby/%.*s", SHORT_ID, r->id);
    char *form auto_free = str_printf("refs/heads/%s", r->branch);
    if (git_run((const char *[]){"check-ref-format", form, NULL}, &why) < 0)
        return err_set(e, ERR_INVALID, "\"%.100s\" cannot be the name of a branch", r->branch);
    return 0;
}

static void warn_of_changes(void)
{
    struct err unused = ERR_INIT;
    char *changed auto_free = ask_git(
        (const char *[]){"status", "--porcelain", "--untracked-files=normal", NULL}, &unused);
    if (changed && *changed)
        fputs("cubby: changes that are not committed here do not go into the sandbox\n", stderr);
}

// ---- the repository in the sandbox
static int in_sandbox(struct run *r, const char *script, const char *const *args, struct buf *out,
                      struct err *e)
{
    struct remote remote;
    remote_open(&remote, r->c, r->id, NULL);
    int result = remote_script(&remote, script, args, out, ANSWER_MAX, e);
    remote_close(&remote);
    return result;
}

static int find_dir(struct run *r, struct err *e)
{
    char *own auto_free = str_printf("~/%s", str_base(r->top));
    struct remote remote;
    remote_open(&remote, r->c, r->id, NULL);
    r->dir = copy_absolute(&remote, r->o->path ? r->o->path : own, e);
    remote_close(&remote);
    if (!r->dir)
        return -1;
    r->url = str_printf("cubby::%s%s", r->id, r->dir);
    return 0;
}

static int send_in(struct run *r, struct err *e)
{
    static const char MAKE[] =
        "command -v git >/dev/null || { echo 'the sandbox has no git: install it' >&2; exit 1; }\n"
        "cd -- \"$1\" 2>/dev/null && git rev-parse --git-dir >/dev/null 2>&1 && exit 0\n"
        "[ ! -e \"$1\" ] || [ -z \"$(ls -A -- \"$1\")\" ] || {\n"
        "  echo \"$1 in the sandbox is in use and no git repository; choose another --path\" >&2\n"
        "  exit 1; }\n"
        "git init -q -- \"$1\" && cd -- \"$1\" &&\n"
        "git symbolic-ref HEAD \"refs/heads/$2\" &&\n"
        "git config user.name \"$3\" && git config user.email \"$4\"";
    static const char TAKE[] =
        "cd -- \"$1\" || exit 1; new=refs/cubby/in; branch=refs/heads/$2\n"
        "git rev-parse -q --verify \"$branch\" >/dev/null || {\n"
        "  git update-ref \"$branch\" $new && git symbolic-ref HEAD \"$branch\" &&\n"
        "  exec git reset -q --hard; }\n"
        "git merge-base --is-ancestor $new \"$branch\" && exit 0\n"
        "git merge-base --is-ancestor \"$branch\" $new || {\n"
        "  echo \"the branch $2 of the sandbox has commits that yours does not have: bring "
        "them\"\\\n"
        "    \"out with cubby work --out, and merge them first\" >&2; exit 1; }\n"
        "git checkout -q \"$2\" && exec git merge -q --ff-only $new";
    struct err unused = ERR_INIT;
    char *name auto_free = ask_git((const char *[]){"config", "user.name", NULL}, &unused);
    char *mail auto_free = ask_git((const char *[]){"config", "user.email", NULL}, &unused);
    const char *make[] = {r->dir, r->name, name ? name : "cubby", mail ? mail : "cubby@localhost",
                          NULL};
    const char *take[] = {r->dir, r->name, NULL};
    warn_of_changes();
    if (in_sandbox(r, MAKE, make, NULL, e) < 0)
        return err_wrap(e, "make the repository in the sandbox");
    if (git_run((const char *[]){"push", "--quiet", "--no-verify", "--recurse-submodules=no",
                                 r->url, "+HEAD:refs/cubby/in", NULL},
                e) < 0)
        return -1;
    return in_sandbox(r, TAKE, take, NULL, e) < 0 ? err_wrap(e, "take the commits over") : 0;
}

static int fetch_out(struct run *r, struct err *e)
{
    static const char COMMIT[] = "cd -- \"$1\" && [ -z \"$(git status --porcelain)\" ] ||\n"
                                 "  { git add -A && exec git commit -q -m 'Work in a sandbox'; }";
    static const char LOOK[] = "cd -- \"$1\" && git status --porcelain | wc -l";
    const char *args[] = {r->dir, NULL};
    struct buf count auto_buf = BUF_INIT;
    if (r->o->commits && in_sandbox(r, COMMIT, args, NULL, e) < 0)
        return err_wrap(e, "commit in the sandbox");
    if (in_sandbox(r, LOOK, args, &count, e) < 0)
        return err_wrap(e, "look at the repository in the sandbox");
    if (strtol(buf_str(&count), NULL, 10) > 0)
        fprintf(stderr, "cubby: changes that are not committed in the sandbox stay there; "
                        "cubby work --out --commit commits them\n");
    char *refs auto_free = str_printf("HEAD:refs/heads/%s", r->branch);
    return git_run((const char *[]){"fetch", "--no-tags", "--no-recurse-submodules",
                                    "--no-write-fetch-head", r->url, refs, NULL},
                   e);
}

// ---- what came out
static void print_lines(const char *text)
{
    char *copy auto_free = xstrdup(text);
    char *rest = NULL;
    for (char *line = strtok_r(copy, "\n", &rest); line; line = strtok_r(NULL, "\n", &rest))
        cli_print_line(line);
}

static int report_json(const struct run *r, const char *log)
{
    json_t *commits = json_array();
    char *copy auto_free = xstrdup(log);
    char *rest = NULL;
    for (char *line = strtok_r(copy, "\n", &rest); line; line = strtok_r(NULL, "\n", &rest)) {
        char *subject = strchr(line, ' ');
        if (subject)
            *subject++ = '\0';
        json_array_append_new(commits, json_pack("{s:s, s:o}", "commit", line, "subject",
                                                 json_lossy_string(subject ? subject : "",
                                                                   subject ? strlen(subject) : 0)));
    }
    json_t *all = json_pack("{s:s, s:o}", "branch", r->branch, "commits", commits);
    cli_print_json(all);
    json_decref(all);
    return 0;
}

static int report(const struct run *r, struct err *e)
{
    char *commits auto_free = str_printf("HEAD..refs/heads/%s", r->branch);
    char *changes auto_free = str_printf("HEAD...refs/heads/%s", r->branch);
    char *log auto_free =
        ask_git((const char *[]){"log", "--oneline", "--no-decorate", commits, "--", NULL}, e);
    char *stat auto_free =
        ask_git((const char *[]){"diff", "--stat", "--no-ext-diff", "--no-textconv", "--no-color",
                                 changes, "--", NULL},
                e);
    if (!log || !stat)
        return -1;
    if (r->o->as_json)
        return report_json(r, log);
    if (!*log) {
        puts("no new commits");
        return 0;
    }
    print_lines(log);
    print_lines(stat);
    char *last auto_free = str_printf("the commits are on the branch %s; see git diff HEAD...%s",
                                      r->branch, r->branch);
    cli_print_line(last);
    return 0;
}

// ---- the verb
static int run_command(struct run *r)
{
    bool left = false;
    struct command_opts want = {.cwd = r->dir};
    int status = 0;
    if (r->o->command) {
        want.cmd = r->o->command[0];
        want.args = (const char *const *)&r->o->command[1];
        want.open_stdin = input_is_wanted();
        return exec_run(r->c, r->id, &want);
    }
    want.cmd = "/bin/sh";
    want.args = (const char *[]){"-l", NULL};
    shell_add_environment(&want.envs);
    status = shell_run(r->c, r->id, &want, false, &left);
    json_decref(want.envs);
    return status;
}

static int work(struct connection *c, const char *id, const void *ctx)
{
    const struct work *o = ctx;
    struct run r = {.o = o, .c = c, .id = id};
    struct err e = ERR_INIT;
    int status = 0;
    int result = look_here(&r, &e) < 0 || find_dir(&r, &e) < 0 ? -1 : 0;
    if (result == 0 && !o->only_out)
        result = send_in(&r, &e);
    if (result == 0 && !o->only_out)
        status = run_command(&r);
    if (result == 0 && (fetch_out(&r, &e) < 0 || report(&r, &e) < 0))
        result = -1;
    free(r.top);
    free(r.branch);
    free(r.name);
    free(r.dir);
    free(r.url);
    free(r.base);
    return result < 0 ? cli_fail(&e) : status;
}

int verb_work(int argc, char **argv)
{
    struct backend_opts server = {0};
    struct work o = {0};
    struct err e = ERR_INIT;
    const struct opt opts[] = {
        CLI_STRING("path", &o.path, "PATH",
                   "repository in the sandbox (default: the name of this one, in the user's home)"),
        CLI_STRING("branch", &o.branch, "NAME",
                   "branch here that gets the commits (default: cubby/ and the id's beginning)"),
        CLI_FLAG("commit", &o.commits, "commit in the sandbox what is not committed there"),
        CLI_FLAG("out", &o.only_out, "only bring the commits out"),
        CLI_FLAG("json", &o.as_json, "print the branch and its new commits as JSON, last"),
    };
    const struct cli_usage usage = {
        .synopsis = "work [OPTIONS] ID [-- COMMAND [ARGUMENT...]]",
        .text = "Brings the commit that is checked out here into a sandbox, runs a command or a "
                "shell\n"
                "there, and brings the new commits out as a branch. Nothing is merged here.",
        .opts = opts,
        .opt_count = ARRAY_LEN(opts),
        .server = &server,
        .stop_at_operand = true,
    };
    int done = cli_begin(&usage, &argc, argv);
    if (done >= 0)
        return done;
    int command = argc > 2 && strcmp(argv[2], "--") == 0 ? 3 : 2;
    if (argc < 2)
        return cli_usage_error("work takes the id of a sandbox; see cubby work --help");
    if (o.only_out && argc > 2)
        return cli_usage_error("--out runs no command");
    o.command = argc > command ? &argv[command] : NULL;
    if (!o.only_out && !o.command && shell_check(&e) < 0)
        return cli_usage_error("work takes a command where there is no terminal");
    if (git_prepare(&server, &e) < 0)
        return cli_fail(&e);
    return connection_on_one(&server, argv[1], work, &o);
}
