// SPDX-License-Identifier: Apache-2.0
// cubby volume: volumes and their files.
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "sandbox-backend/base/fd.h"
#include "sandbox-backend/base/mem.h"
#include "sandbox-backend/base/str.h"
#include "sandbox-backend/cli/cli.h"
#include "sandbox-backend/cli/connection.h"

static const char TEXT[] =
    "  create NAME             makes a volume, a directory that outlives sandboxes\n"
    "  ls                      lists the volumes\n"
    "  ls NAME:/path           lists a directory of a volume\n"
    "  cp FILE NAME:/path      copies a file into a volume, and makes the directories above it\n"
    "  cp NAME:/path FILE      copies a file out of a volume\n"
    "  rm NAME...              removes volumes with all files in them\n"
    "  rm NAME:/path...        removes files, and directories with all in them\n\n"
    "\"cubby create --volume NAME:/path\" shows a volume in a sandbox. To copy a tree, show the\n"
    "volume in a sandbox and use \"cubby cp\".";

// NAME or NAME:/path.
struct place {
    char *name, *path;     // owned; path: NULL: none
    json_t *volume;        // owned
    struct volume_ref ref; // borrows from `volume`
};

static void place_parse(const char *spec, struct place *out)
{
    const char *colon = strstr(spec, ":/");
    *out = (struct place){.name = xstrndup(spec, colon ? (size_t)(colon - spec) : strlen(spec)),
                          .path = colon ? xstrdup(colon + 1) : NULL};
}

static void place_fini(struct place *p)
{
    free(p->name);
    free(p->path);
    json_decref(p->volume);
}

// Return the id of the volume that a word means: its id, or its name if it is the caller's own. On
// the unix socket the list has volumes of others, with their owners. Borrowed; NULL: none.
static const char *choose(const json_t *all, const char *word)
{
    const char *id = NULL;
    size_t i;
    const json_t *one;
    json_array_foreach (all, i, one) {
        if (str_eq(cli_text(one, "volumeID"), word))
            return word;
        if (str_eq(cli_text(one, "name"), word) && !json_object_get(one, "owner"))
            id = cli_text(one, "volumeID");
    }
    return id;
}

// Find a volume and its token.
static int place_find(struct connection *c, struct place *p, struct err *e)
{
    json_t *all = connection_volumes(c, e);
    const char *id = choose(all, p->name);
    if (id)
        p->volume = connection_volume(c, id, e);
    else if (all)
        err_set(e, ERR_NOT_FOUND, "there is no volume \"%.128s\"; see cubby volume ls", p->name);
    json_decref(all);
    p->ref = (struct volume_ref){cli_text(p->volume, "volumeID"), cli_text(p->volume, "token")};
    return p->volume ? 0 : -1;
}

static int place_open(struct connection *c, const char *spec, struct place *p, struct err *e)
{
    place_parse(spec, p);
    return place_find(c, p, e);
}

// ---- the verbs

static int make(struct connection *c, char **args, int count, bool as_json)
{
    struct err e = ERR_INIT;
    (void)count;
    json_t *made = connection_volume_make(c, args[0], &e);
    if (!made)
        return cli_fail(&e);
    json_object_del(made, "token"); // what is printed may be kept
    if (as_json)
        cli_print_json(made);
    else
        cli_print_line(cli_text(made, "name"));
    json_decref(made);
    return 0;
}

static int compare(const void *a, const void *b, void *member)
{
    return strcmp(cli_text(*(json_t *const *)a, member), cli_text(*(json_t *const *)b, member));
}

// Return the list in the order of a string member. New reference; takes `list`.
static json_t *sorted(json_t *list, const char *member)
{
    json_t *out = json_array();
    size_t count = json_array_size(list), i;
    json_t **items auto_free = xcalloc(count + 1, sizeof(json_t *));
    for (i = 0; i < count; i++)
        items[i] = json_array_get(list, i);
    qsort_r(items, count, sizeof(json_t *), compare, (void *)(uintptr_t)member);
    for (i = 0; i < count; i++)
        json_array_append(out, items[i]);
    json_decref(list);
    return out;
}

static void print_table(const json_t *list, const char *const *headings, const char *const *members,
                        int columns)
{
    struct table t;
    size_t i;
    const json_t *one;
    table_init_headed(&t, headings, columns);
    json_array_foreach (list, i, one) {
        for (int at = 0; at < columns; at++)
            table_cell(&t, cli_text(one, members[at]));
    }
    table_print(&t, stdout);
    table_fini(&t);
}

static int list_files(struct connection *c, const char *spec, bool as_json)
{
    static const char *const HEADINGS[] = {"PATH", "TYPE"}, *const MEMBERS[] = {"path", "type"};
    struct err e = ERR_INIT;
    struct place p;
    json_t *files = NULL;
    if (place_open(c, spec, &p, &e) == 0)
        files = connection_volume_files(c, &p.ref, p.path ? p.path : "/", &e);
    place_fini(&p);
    if (!files)
        return cli_fail(&e);
    files = sorted(files, "path");
    if (as_json)
        cli_print_json(files);
    else
        print_table(files, HEADINGS, MEMBERS, ARRAY_LEN(HEADINGS));
    json_decref(files);
    return 0;
}

static int list(struct connection *c, char **args, int count, bool as_json)
{
    static const char *const HEADINGS[] = {"NAME", "VOLUME", "OWNER"};
    static const char *const MEMBERS[] = {"name", "volumeID", "owner"};
    struct err e = ERR_INIT;
    if (count)
        return list_files(c, args[0], as_json);
    json_t *all = connection_is_idle(c) ? json_array() : connection_volumes(c, &e);
    if (!all)
        return cli_fail(&e);
    all = sorted(all, "name");
    if (as_json)
        cli_print_json(all);
    else
        print_table(all, HEADINGS, MEMBERS, ARRAY_LEN(HEADINGS));
    json_decref(all);
    return 0;
}

static int remove_one(struct connection *c, const char *spec, struct err *e)
{
    struct place p;
    int result = place_open(c, spec, &p, e);
    if (result == 0 && p.path)
        result = connection_volume_unlink(c, &p.ref, p.path, e);
    else if (result == 0)
        result = connection_volume_remove(c, p.ref.id, e);
    place_fini(&p);
    return result;
}

static int remove_all(struct connection *c, char **args, int count, bool as_json)
{
    int status = 0;
    for (int i = 0; i < count; i++) {
        struct err e = ERR_INIT;
        if (remove_one(c, args[i], &e) == 0)
            cli_print_word("removed", args[i], as_json);
        else
            status = cli_fail(&e);
    }
    return status;
}

// ---- cp

// Make the directories above a path of the volume.
static int make_above(struct connection *c, const struct place *p, struct err *e)
{
    char *above auto_free = xstrdup(p->path);
    char *slash = strrchr(above, '/');
    *slash = '\0';
    return *above ? connection_volume_make_dir(c, &p->ref, above, e) : 0;
}

static int put(struct connection *c, const char *file, const struct place *p, struct err *e)
{
    int fd = open(file, O_RDONLY | O_CLOEXEC);
    if (fd < 0)
        return err_sys(e, errno, "open %.200s", file);
    if (make_above(c, p, e) < 0) {
        close(fd);
        return -1;
    }
    return connection_volume_upload(c, &p->ref, fd, p->path, e);
}

// The file gets its name when it is whole.
static int get(struct connection *c, const struct place *p, const char *to, struct err *e)
{
    struct stat st;
    bool is_dir = stat(to, &st) == 0 && S_ISDIR(st.st_mode);
    char *file auto_free = is_dir ? str_printf("%s/%s", to, str_base(p->path)) : xstrdup(to);
    char *part auto_free = str_printf("%s.part-XXXXXX", file);
    int fd = mkostemp(part, O_CLOEXEC);
    if (fd < 0)
        return err_sys(e, errno, "make %.200s", part);
    mode_t mask = umask(0);
    umask(mask);
    if (fchmod(fd, 0666 & ~mask) == 0 &&
        connection_volume_download(c, &p->ref, p->path, fd, e) == 0 && rename(part, file) == 0)
        return 0;
    if (!err_is(e))
        err_sys(e, errno, "write %.200s", file);
    unlink(part);
    return -1;
}

static int copy(struct connection *c, char **args, int count, bool as_json)
{
    struct err e = ERR_INIT;
    struct place from, to;
    (void)count;
    place_parse(args[0], &from);
    place_parse(args[1], &to);
    int result = 0;
    if (to.path && str_ends(to.path, "/")) {
        char *above auto_free = to.path;
        to.path = str_printf("%s%s", above, str_base(args[0]));
    }
    if (!from.path == !to.path)
        err_set(&e, ERR_INVALID, "cp takes a file of this host and a NAME:/path of a volume");
    else if (to.path)
        result = place_find(c, &to, &e) < 0 ? -1 : put(c, args[0], &to, &e);
    else
        result = place_find(c, &from, &e) < 0 ? -1 : get(c, &from, args[1], &e);
    place_fini(&from);
    place_fini(&to);
    if (result < 0 || err_is(&e))
        return cli_fail(&e);
    if (as_json)
        cli_print_word("copied", args[1], true);
    return 0;
}

// ---- the command line

static const struct {
    const char *word;
    int least, most; // operands
    int (*run)(struct connection *c, char **args, int count, bool as_json);
} ACTIONS[] = {
    {"create", 1, 1, make}, {"ls", 0, 1, list}, {"cp", 2, 2, copy}, {"rm", 1, 1 << 16, remove_all}};

int verb_volume(int argc, char **argv)
{
    bool as_json = false;
    struct backend_opts server = {0};
    const struct opt opts[] = {CLI_FLAG("json", &as_json, "print JSON")};
    const struct cli_usage usage = {
        .synopsis = "volume create NAME | ls [NAME[:/path]] | cp FROM TO | rm NAME[:/path]...",
        .text = TEXT,
        .opts = opts,
        .opt_count = ARRAY_LEN(opts),
        .server = &server,
    };
    int done = cli_begin(&usage, &argc, argv);
    if (done >= 0)
        return done;
    size_t at = 0;
    while (at < ARRAY_LEN(ACTIONS) && (argc < 2 || !str_eq(argv[1], ACTIONS[at].word)))
        at++;
    int count = argc - 2;
    if (at == ARRAY_LEN(ACTIONS) || count < ACTIONS[at].least || count > ACTIONS[at].most)
        return cli_usage_error("volume takes create NAME, ls, cp FROM TO, or rm NAME; see cubby "
                               "volume --help");
    struct err e = ERR_INIT;
    struct connection c;
    enum connect_mode mode = at == 0 ? CONNECT_STARTS : CONNECT_STARTS_IF_USED;
    if (connection_open(&c, &server, mode, &e) < 0)
        return cli_fail(&e);
    int status = ACTIONS[at].run(&c, argv + 2, count, as_json);
    connection_close(&c);
    return status;
}
