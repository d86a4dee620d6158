// SPDX-License-Identifier: Apache-2.0
// cubby sync: the verb, and the watching of both sides.
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <unistd.h>

#include "sandbox-backend/base/fd.h"
#include "sandbox-backend/base/mem.h"
#include "sandbox-backend/base/str.h"
#include "sandbox-backend/cli/cli.h"
#include "sandbox-backend/cli/connection.h"
#include "sandbox-backend/cli/copy/beneath.h"
#include "sandbox-backend/cli/copy/copy.h"
#include "sandbox-backend/cli/copy/listing.h"
#include "sandbox-backend/cli/copy/remote.h"
#include "sandbox-backend/cli/copy/sync_rules.h"
#include "sandbox-backend/cli/copy/sync_state.h"
#include "sandbox-backend/cli/copy/sync_turn.h"
#include "sandbox-backend/mountd/hidden.h"

#define SIGNAL_STATUS 128
#define WATCH_MS      1000
#define GUEST_EVERY   10 // turns of a watch between two looks at the sandbox without an event

// ---- the rules
//
// .git and .env stay where they are, because a host runs what is in the one and a sandbox has no
// need of the other; a line "!.git" in .cubbyignore brings it back. A file system of the host may
// take .GIT for .git. The sandbox has no say in the rules: .cubbyignore itself is never copied.
static struct sync_rules *read_ignored(const struct sync *o, int root, struct err *e)
{
    struct buf text auto_buf = BUF_INIT;
    struct err why = ERR_INIT;
    buf_adds(&text, ".[gG][iI][tT]\n.env\n");
    if (o->guards_secrets)
        buf_adds(&text, HIDDEN_BY_DEFAULT);
    int fd auto_close = beneath_open(root, SYNC_RULES_FILE, O_RDONLY | O_NONBLOCK, &why);
    if (fd < 0 && why.code != ERR_NOT_FOUND)
        return err_set(e, why.code, "%s", why.msg), NULL;
    if (fd >= 0 && fd_read_all(fd, SYNC_RULES_BYTES, &text, e) < 0)
        return NULL;
    buf_adds(&text, "\n/" SYNC_RULES_FILE "\n.cubby-*.part\n");
    return sync_rules_new(buf_str(&text), text.len, e);
}

// ---- watching
struct watch {
    struct client_op *op; // NULL: it has ended
    bool changed;
};

static void on_event(enum watch_kind kind, const char *name, void *ctx)
{
    (void)kind;
    (void)name;
    ((struct watch *)ctx)->changed = true;
}

static void on_watch_end(const struct err *e, void *ctx)
{
    (void)e; // the sandbox is then looked at from time to time only
    ((struct watch *)ctx)->op = NULL;
}

static bool has_changed_here(int root, const struct sync_rules *ignored,
                             const struct listing *before)
{
    struct listing now = {0};
    struct err unused = ERR_INIT;
    bool changed = listing_of_host(&now, root, ignored, &unused) < 0 || now.count != before->count;
    for (size_t i = 0; !changed && i < now.count; i++)
        changed = strcmp(now.entries[i].path, before->entries[i].path) != 0 ||
                  sync_state_differs(&now.entries[i], &before->entries[i]);
    listing_fini(&now);
    return changed;
}

static void on_wait(uv_timer_t *timer)
{
    *(bool *)timer->data = true;
}

static void wait_ms(struct remote *r, uint64_t ms)
{
    bool over = false;
    uv_timer_t timer;
    uv_timer_init(&r->c->loop, &timer);
    timer.data = &over;
    uv_timer_start(&timer, on_wait, ms, 0);
    while (!over && !r->caught)
        uv_run(&r->c->loop, UV_RUN_ONCE);
    uv_close((uv_handle_t *)&timer, NULL);
    uv_run(&r->c->loop, UV_RUN_NOWAIT);
}

// Wait until one side has changed, or it is time to look at the sandbox again.
static void wait_for_change(struct remote *r, int root, const struct sync_rules *ignored,
                            struct watch *w)
{
    struct listing before = {0};
    struct err unused = ERR_INIT;
    listing_of_host(&before, root, ignored, &unused);
    for (int turn = 0; turn < GUEST_EVERY && !r->caught && !w->changed; turn++) {
        wait_ms(r, WATCH_MS);
        if (has_changed_here(root, ignored, &before))
            break;
    }
    listing_fini(&before);
}

// Return whether the sandbox is paused. Asking the control plane does not wake it.
static bool is_paused(const struct remote *r)
{
    struct err unused = ERR_INIT;
    json_t *sandbox = connection_get(r->c, r->id, &unused);
    const char *state = json_string_value(json_object_get(sandbox, "state"));
    bool is = state && str_eq(state, "paused");
    json_decref(sandbox);
    return is;
}

// Wait until the sandbox runs, or a signal comes.
static void wait_until_running(struct remote *r)
{
    bool is_told = false;
    while (!r->caught && is_paused(r)) {
        if (!is_told)
            fprintf(stderr, "cubby: the sandbox is paused; the synchronisation goes on when it "
                            "runs again\n");
        is_told = true;
        wait_ms(r, WATCH_MS);
    }
    if (r->caught && r->dir && is_paused(r))
        remote_forget(r); // to remove the directory would wake it
}

// A turn with the rules as they are now.
static int turn(const struct sync *o, struct remote *r, int root, const char *path,
                bool *is_changing, struct err *e)
{
    struct sync_rules *ignored = read_ignored(o, root, e);
    if (!ignored)
        return -1;
    int result = sync_turn(o, r, root, path, ignored, is_changing, e);
    sync_rules_free(ignored);
    if (o->watches && result == 0)
        remote_clean(r); // it may be paused at any time
    return result;
}

// Wait for the next turn. Return false after a signal.
static bool wait_for_turn(const struct sync *o, struct remote *r, int root, struct watch *w,
                          bool is_soon)
{
    struct err unused = ERR_INIT;
    struct sync_rules *ignored = read_ignored(o, root, &unused); // the turn tells what is wrong
    if (is_soon || !ignored)
        wait_ms(r, WATCH_MS);
    else
        wait_for_change(r, root, ignored, w);
    sync_rules_free(ignored);
    wait_until_running(r);
    return !r->caught;
}

// Synchronise until a signal comes, which is no failure, or a turn fails. ERR_CONFLICT passes: the
// sandbox was paused, or something changed.
static int keep_watching(const struct sync *o, struct remote *r, int root, const char *path,
                         struct err *e)
{
    static const struct watch_events EVENTS = {.on_event = on_event, .on_end = on_watch_end};
    struct watch w = {0};
    bool is_soon = false;
    int result = turn(o, r, root, path, &is_soon, e);
    while (result == 0 || e->code == ERR_CONFLICT) {
        is_soon = is_soon || result < 0;
        *e = ERR_INIT;
        result = 0;
        if (!w.op && !is_soon)
            w.op = client_watch(r->c->client, r->id, path, true, r->user, &EVENTS, &w);
        if (!wait_for_turn(o, r, root, &w, is_soon))
            break;
        w.changed = false;
        result = turn(o, r, root, path, &is_soon, e);
    }
    if (w.op)
        client_cancel(w.op);
    while (w.op)
        uv_run(&r->c->loop, UV_RUN_ONCE);
    return result < 0 && r->caught ? 0 : result;
}

// ---- the verb
static int sync_both(struct connection *c, const char *id, const void *ctx)
{
    const struct sync *o = ctx;
    struct err e = ERR_INIT;
    struct remote r;
    bool is_changing = false;
    json_t *sandbox = connection_get(c, id, &e);
    int root auto_close = sandbox ? open(o->host, O_RDONLY | O_DIRECTORY | O_CLOEXEC) : -1;
    json_decref(sandbox);
    if (root < 0 && !err_is(&e))
        err_sys(&e, errno, "%.200s", o->host);
    if (err_is(&e))
        return cli_fail(&e);
    remote_open(&r, c, id, o->user);
    char *path auto_free = copy_absolute(&r, o->guest, &e);
    int result = !path        ? -1
                 : o->watches ? keep_watching(o, &r, root, path, &e)
                              : turn(o, &r, root, path, &is_changing, &e);
    int caught = r.caught;
    remote_close(&r);
    if (result == 0)
        return is_changing ? 1 : 0;
    if (caught)
        err_wrap(&e, "run cubby sync again, which goes on");
    cli_fail(&e);
    return caught ? SIGNAL_STATUS + caught : 1;
}

// Arrange that SIGTERM comes when the program that started this one ends, which is `parent`. Return
// false if it has ended already.
static bool ends_with(int64_t parent)
{
    return prctl(PR_SET_PDEATHSIG, SIGTERM) == 0 && getppid() == parent;
}

int verb_sync(int argc, char **argv)
{
    struct backend_opts server = {0};
    struct sync o = {0};
    int64_t parent = 0;
    const char *only = NULL;
    const struct opt opts[] = {
        {"only", NULL, OPT_STRING, &only, "in|out",
         "take only the changes of this host (in) or of the sandbox (out)", 0, 0, "in|out"},
        {"max-size", NULL, OPT_SIZE, &o.max_bytes, "SIZE",
         "copy nothing if more than this would be copied", 1, INT64_MAX, NULL},
        CLI_FLAG("no-hidden", &o.guards_hidden,
                 "take no change of the sandbox to names that begin with a dot"),
        CLI_FLAG("no-secrets", &o.guards_secrets,
                 "leave out what a mount hides by default, such as .npmrc and .ssh"),
        {"parent", NULL, OPT_INT, &parent, "PID",
         "stop when process PID, which started this command, ends", 1, INT_MAX, NULL},
        CLI_FLAG("watch", &o.watches, "go on until interrupted, and copy each change"),
        CLI_FLAG("force", &o.forces,
                 "delete also when one side has lost all its files, or with --only out most"),
        CLI_STRING("user", &o.user, "NAME",
                   "user of the sandbox who reads and writes (default: its default user)"),
        CLI_FLAG("quiet", &o.quiet, "show no progress"),
        CLI_FLAG("json", &o.as_json, "print the result as JSON"),
    };
    const struct cli_usage usage = {
        .synopsis = "sync [OPTIONS] DIR ID:PATH",
        .text =
            "Brings a directory of this host and one of a sandbox to the same state, both ways.\n"
            "A file that changed on both sides is kept in both versions, and named. .git, .env "
            "and\n"
            "what .cubbyignore lists stay where they are.",
        .opts = opts,
        .opt_count = ARRAY_LEN(opts),
        .server = &server,
    };
    int done = cli_begin(&usage, &argc, argv);
    if (done >= 0)
        return done;
    if (parent && !ends_with(parent)) {
        struct err e = ERR_INIT;
        err_set(&e, ERR_CANCELED, "process %lld did not start this one, or has ended",
                (long long)parent);
        return cli_fail(&e);
    }
    char *id auto_free = NULL;
    if (argc != 3 || !copy_operand(argv[2], &id, &o.guest))
        return cli_usage_error("sync takes a directory and ID:PATH; see cubby sync --help");
    o.host = argv[1];
    o.way = !only ? SYNC_BOTH : str_eq(only, "in") ? SYNC_IN : SYNC_OUT;
    return connection_on_one(&server, id, sync_both, &o);
}
