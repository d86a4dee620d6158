// SPDX-License-Identifier: Apache-2.0
// cubby cp: copy a file or a directory between the host and a sandbox. The rules for names are
// those of cp -r: a directory that exists gets the copy inside, and "SOURCE/." stands for what is
// in the source.
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "sandbox-backend/base/json.h"
#include "sandbox-backend/base/mem.h"
#include "sandbox-backend/base/str.h"
#include "sandbox-backend/cli/cli.h"
#include "sandbox-backend/cli/connection.h"
#include "sandbox-backend/cli/copy/copy.h"
#include "sandbox-backend/cli/copy/listing.h"
#include "sandbox-backend/cli/copy/moving.h"
#include "sandbox-backend/cli/copy/remote.h"

#define SIGNAL_STATUS 128

struct cp {
    const char *user;
    bool resumes, quiet, as_json, keeps_links;
    const char *host, *guest;         // the two paths
    const char *source, *destination; // as they were given
    bool is_inward;                   // to the sandbox
};

// Where a copy goes.
struct place {
    char *path;     // owned
    char type;      // what is there, as in struct remote_stat; 0: nothing
    bool is_within; // the directory that was given exists, and gets the copy inside
};

bool copy_operand(const char *text, char **id, const char **path)
{
    const char *colon = strchr(text, ':');
    if (!colon || colon == text || memchr(text, '/', (size_t)(colon - text)) || *text == '.')
        return false;
    *id = xstrndup(text, (size_t)(colon - text));
    *path = colon[1] ? colon + 1 : ".";
    return true;
}

// Return whether a path stands for what is in a directory: ".", "..", "~", or it ends with "/.".
static bool means_contents(const char *path)
{
    const char *base = str_base(path);
    return str_eq(base, ".") || str_eq(base, "..") || str_eq(path, "~");
}

// Return a path without slashes at its end. New string.
static char *trimmed(const char *path)
{
    size_t len = strlen(path);
    while (len > 1 && path[len - 1] == '/')
        len--;
    return xstrndup(path, len);
}

char *copy_absolute(struct remote *r, const char *path, struct err *e)
{
    struct remote_stat home;
    if (*path == '/')
        return trimmed(path);
    if (remote_stat(r, ".", &home, e) < 0)
        return NULL;
    const char *below = str_starts(path, "~/") ? path + 2 : path;
    char *whole auto_free = home.path ? str_printf("%s/%s", home.path, below) : NULL;
    free(home.path);
    if (!whole)
        err_set(e, ERR_NOT_FOUND, "the user has no home in the sandbox; give an absolute path");
    return whole ? trimmed(whole) : NULL;
}

// ---- what is there already
static bool is_same(const struct entry *a, const struct entry *b)
{
    return b && a->type == b->type &&
           (a->type == 'd' || (a->type == 'f' && a->size == b->size && a->seconds == b->seconds));
}

// Remove the entries that `other` has, too.
static void drop_same(struct moving *t, struct listing *l, const struct listing *other)
{
    size_t kept = 0;
    for (size_t i = 0; i < l->count; i++) {
        if (is_same(&l->entries[i], listing_find(other, l->entries[i].path))) {
            t->count.unchanged += l->entries[i].type == 'f';
            entry_fini(&l->entries[i]);
        } else {
            l->entries[kept++] = l->entries[i];
        }
    }
    l->count = kept;
}

int64_t copy_total(const struct listing *l)
{
    int64_t total = 0;
    for (size_t i = 0; i < l->count; i++)
        total += l->entries[i].size;
    return total;
}

// ---- into the sandbox
static struct entry entry_of(const struct stat *st, char *path)
{
    return (struct entry){.path = path,
                          .type = 'f',
                          .mode = st->st_mode & 07777,
                          .size = st->st_size,
                          .seconds = st->st_mtim.tv_sec,
                          .nanoseconds = st->st_mtim.tv_nsec};
}

// envd writes files as root, so it does not refuse this. $1: the destination, which is absolute.
static const char MAY_WRITE[] =
    "d=${1%/*}; until [ -e \"${d:-/}\" ]; do d=${d%/*}; done; [ -w \"${d:-/}\" ] && exit 0; "
    "echo \"the user may not write in ${d:-/}; with --user root, root writes\" >&2; exit 1";

static int send_one(const struct cp *o, struct moving *t, int fd, const struct stat *st,
                    const char *to, struct err *e)
{
    struct err why = ERR_INIT;
    struct remote_stat there;
    struct entry entry = entry_of(st, NULL);
    if (remote_stat(t->remote, to, &there, e) < 0)
        return -1;
    bool same = there.type == 'f' && there.size == entry.size && there.seconds == entry.seconds;
    free(there.path);
    if (o->resumes && same) {
        t->count.unchanged++;
        return 0;
    }
    const char *args[] = {to, NULL};
    bool bare = remote_script(t->remote, MAY_WRITE, args, NULL, 0, &why) < 0;
    if (bare && why.code != ERR_NOT_FOUND)
        return err_set(e, why.code, "%s", why.msg);
    bar_start(&t->bar, !o->quiet, entry.size);
    if (moving_send_file(t, fd, &entry, to, &bare, e) < 0)
        return -1;
    if (bare)
        moving_skip(t, to, "its permissions and time, because the sandbox has no shell");
    t->count.files = 1;
    t->count.bytes = entry.size;
    return 0;
}

static int send_tree(const struct cp *o, struct moving *t, const struct stat *st, bool exists,
                     struct err *e)
{
    struct listing here = {0};
    struct listing there = {0};
    int result = listing_of_host(&here, t->root, NULL, e);
    if (result == 0 && o->resumes && exists)
        result = listing_of_sandbox(&there, t->remote, t->path, NULL, e);
    if (result == 0 && o->resumes)
        drop_same(t, &here, &there);
    bar_start(&t->bar, !o->quiet, copy_total(&here));
    if (result == 0)
        result = moving_send(t, &here, st->st_mode & 07777, e);
    listing_fini(&here);
    listing_fini(&there);
    return result;
}

// The last name of the host's source. New string.
static char *host_name(const char *path, struct err *e)
{
    char *real auto_free = realpath(path, NULL);
    if (!real)
        err_sys(e, errno, "%.200s", path);
    return real ? xstrdup(str_base(real)) : NULL;
}

// Find where a copy of the host's source goes.
static int send_to(const struct cp *o, struct remote *r, bool is_dir, struct place *to,
                   struct err *e)
{
    struct remote_stat there;
    char *given auto_free = trimmed(o->host);
    char *name auto_free = host_name(o->host, e);
    if (!name || remote_stat(r, o->guest, &there, e) < 0)
        return -1;
    to->path = there.path ? there.path : copy_absolute(r, o->guest, e);
    to->type = there.type;
    if (!to->path)
        return -1;
    if (there.type != 'd' || (is_dir && means_contents(given)))
        return 0;
    char *above auto_free = to->path;
    to->path = str_printf("%s/%s", str_eq(above, "/") ? "" : above, name);
    to->is_within = true;
    if (remote_stat(r, to->path, &there, e) < 0)
        return -1;
    to->type = there.type;
    free(there.path);
    return 0;
}

static int send_source(const struct cp *o, struct moving *t, int fd, const struct stat *st,
                       const struct place *to, struct err *e)
{
    bool is_dir = S_ISDIR(st->st_mode);
    char type = to->type;
    if (is_dir && type && type != 'd')
        return err_set(e, ERR_INVALID, "%.200s in the sandbox is not a directory", to->path);
    if (!is_dir && (type == 'd' || (!type && !to->is_within && str_ends(o->guest, "/"))))
        return err_set(e, ERR_INVALID, "%.200s in the sandbox is %s directory", to->path,
                       type ? "a" : "no");
    t->root = fd;
    t->path = to->path;
    return is_dir ? send_tree(o, t, st, type == 'd', e) : send_one(o, t, fd, st, to->path, e);
}

static int copy_in(const struct cp *o, struct moving *t, bool *makes, struct err *e)
{
    struct stat st;
    struct place to = {0};
    int fd auto_close = open(o->host, O_RDONLY | O_NONBLOCK | O_CLOEXEC);
    if (fd < 0 || fstat(fd, &st) < 0)
        return err_sys(e, errno, "%.200s", o->host);
    bool is_dir = S_ISDIR(st.st_mode);
    if (!is_dir && !S_ISREG(st.st_mode))
        return err_set(e, ERR_INVALID, "%.200s is neither a file nor a directory", o->host);
    int result = send_to(o, t->remote, is_dir, &to, e);
    *makes = result == 0 && is_dir && !to.type && !to.is_within;
    if (result == 0)
        result = send_source(o, t, fd, &st, &to, e);
    free(to.path);
    return result;
}

// ---- to the host
static int fetch_one(const struct cp *o, struct moving *t, const struct remote_stat *from,
                     const char *to, struct err *e)
{
    struct stat st;
    char *above auto_free = xstrndup(to, (size_t)(str_base(to) - to));
    struct entry entry = {.path = (char *)(uintptr_t)str_base(to),
                          .type = 'f',
                          .mode = from->mode,
                          .size = from->size,
                          .seconds = from->seconds};
    int root auto_close = open(*above ? above : ".", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    if (root < 0)
        return err_sys(e, errno, "%.200s", *above ? above : ".");
    if (o->resumes && fstatat(root, entry.path, &st, AT_SYMLINK_NOFOLLOW) == 0 &&
        S_ISREG(st.st_mode) && st.st_size == entry.size && st.st_mtim.tv_sec == entry.seconds) {
        t->count.unchanged++;
        return 0;
    }
    t->root = root;
    bar_start(&t->bar, !o->quiet, entry.size);
    if (moving_fetch_file(t, from->path, &entry, e) < 0)
        return -1;
    t->count.files = 1;
    t->count.bytes = entry.size;
    return 0;
}

static int fetch_tree(const struct cp *o, struct moving *t, const struct remote_stat *from,
                      const char *to, struct err *e)
{
    struct listing here = {0};
    struct listing there = {0};
    if (listing_of_sandbox(&there, t->remote, from->path, NULL, e) < 0) {
        listing_fini(&there);
        return -1;
    }
    bool is_new = mkdir(to, 0777) == 0;
    int root auto_close = open(to, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    int result = root < 0 ? err_sys(e, errno, "%.200s", to) : 0;
    if (result == 0 && o->resumes && !is_new)
        result = listing_of_host(&here, root, NULL, e);
    if (result == 0 && o->resumes)
        drop_same(t, &there, &here);
    t->root = root;
    t->path = from->path;
    t->keeps_links = o->keeps_links;
    bar_start(&t->bar, !o->quiet, copy_total(&there));
    if (result == 0)
        result = moving_fetch(t, &there, e);
    listing_fini(&here);
    listing_fini(&there);
    return result;
}

// The name of the copy is what the person wrote, never what the sandbox answers.
static char *fetch_to(const struct cp *o, bool is_dir, struct err *e)
{
    struct stat st;
    char *from auto_free = trimmed(o->guest);
    char *to auto_free = trimmed(o->host);
    bool exists = stat(to, &st) == 0;
    if (!exists && errno != ENOENT) {
        err_sys(e, errno, "%.200s", to);
        return NULL;
    }
    bool is_below = exists && S_ISDIR(st.st_mode) && !(is_dir && means_contents(from));
    if (is_dir && exists && !S_ISDIR(st.st_mode))
        err_set(e, ERR_INVALID, "%.200s is not a directory", to);
    else if (!is_dir && !exists && str_ends(o->host, "/"))
        err_set(e, ERR_NOT_FOUND, "there is no directory %.200s", to);
    if (err_is(e))
        return NULL;
    return is_below ? str_printf("%s/%s", to, str_base(from)) : xstrdup(to);
}

static int copy_out(const struct cp *o, struct moving *t, bool *makes, struct err *e)
{
    struct stat st;
    struct remote_stat from;
    if (remote_stat(t->remote, o->guest, &from, e) < 0)
        return -1;
    char *path auto_free = from.path;
    if (!from.type)
        return err_set(e, ERR_NOT_FOUND, "the sandbox has no %.200s", o->guest);
    if (from.type == 'o')
        return err_set(e, ERR_INVALID, "%.200s in the sandbox is neither a file nor a directory",
                       path);
    char *given auto_free = trimmed(o->host);
    char *to auto_free = fetch_to(o, from.type == 'd', e);
    if (!to)
        return -1;
    *makes = from.type == 'd' && lstat(to, &st) < 0 && str_eq(to, given);
    return from.type == 'd' ? fetch_tree(o, t, &from, to, e) : fetch_one(o, t, &from, to, e);
}

// ---- the verb
void copy_report(const struct moving_count *n, bool as_json)
{
    size_t i = 0;
    const json_t *one = NULL;
    if (as_json) {
        json_t *all = json_pack("{s:I, s:I, s:I, s:I, s:I, s:O}", "files", (json_int_t)n->files,
                                "directories", (json_int_t)n->directories, "links",
                                (json_int_t)n->links, "bytes", (json_int_t)n->bytes, "unchanged",
                                (json_int_t)n->unchanged, "skipped", n->skipped);
        cli_print_json(all);
        json_decref(all);
        return;
    }
    json_array_foreach (n->skipped, i, one) {
        char *line auto_free =
            str_printf("cubby: left out %s: %s\n", cli_text(one, "path"), cli_text(one, "reason"));
        line[strlen(line) - 1] = '\0';
        cli_print_safe(stderr, line);
        fputc('\n', stderr);
    }
}

static int copy(struct connection *c, const char *id, const void *ctx)
{
    const struct cp *o = ctx;
    struct err e = ERR_INIT;
    struct remote r;
    struct moving t;
    json_t *sandbox = connection_get(c, id, &e);
    if (!sandbox)
        return cli_fail(&e);
    json_decref(sandbox);
    remote_open(&r, c, id, o->user);
    moving_init(&t, &r, -1, NULL);
    bool makes = false; // the directory that was given, so a second copy would go inside
    int result = o->is_inward ? copy_in(o, &t, &makes, &e) : copy_out(o, &t, &makes, &e);
    bar_end(&t.bar);
    int caught = r.caught;
    if (result == 0)
        copy_report(&t.count, o->as_json);
    moving_fini(&t);
    remote_close(&r);
    if (result < 0 && caught)
        err_wrap(&e, "the copy is not complete; cubby cp --resume %s%s %s goes on with it",
                 o->source, makes ? "/." : "", o->destination);
    if (result < 0)
        cli_fail(&e);
    return result == 0 ? 0 : caught ? SIGNAL_STATUS + caught : 1;
}

int verb_cp(int argc, char **argv)
{
    struct backend_opts server = {0};
    struct cp o = {0};
    const struct opt opts[] = {
        CLI_FLAG("resume", &o.resumes,
                 "leave out files that the destination has with the same size and time"),
        CLI_FLAG("keep-links", &o.keeps_links,
                 "to the host: make symbolic links that lead out of the directory, too"),
        CLI_STRING("user", &o.user, "NAME",
                   "user of the sandbox who reads or writes (default: its default user)"),
        CLI_FLAG("quiet", &o.quiet, "show no progress"),
        CLI_FLAG("json", &o.as_json, "print the result as JSON"),
    };
    const struct cli_usage usage = {
        .synopsis = "cp [OPTIONS] SOURCE ID:PATH | cp [OPTIONS] ID:PATH DESTINATION",
        .text =
            "Copies a file or a directory into a sandbox, or out of it, with permissions, times\n"
            "and symbolic links. A directory that exists gets the copy inside; SOURCE/. copies\n"
            "what is in SOURCE. Write ./NAME for a path of the host that has a colon.",
        .opts = opts,
        .opt_count = ARRAY_LEN(opts),
        .server = &server,
    };
    int done = cli_begin(&usage, &argc, argv);
    if (done >= 0)
        return done;
    char *id auto_free = NULL;
    char *other auto_free = NULL;
    const char *unused = NULL;
    if (argc != 3)
        return cli_usage_error("cp takes a source and a destination; see cubby cp --help");
    bool is_outward = copy_operand(argv[1], &id, &o.guest);
    o.is_inward = copy_operand(argv[2], is_outward ? &other : &id, is_outward ? &unused : &o.guest);
    if (is_outward == o.is_inward)
        return cli_usage_error("one of the two paths must be in a sandbox: ID:PATH");
    o.source = argv[1];
    o.destination = argv[2];
    o.host = argv[is_outward ? 2 : 1];
    if (!*o.host)
        return cli_usage_error("the path of the host is empty");
    return connection_on_one(&server, id, copy, &o);
}
