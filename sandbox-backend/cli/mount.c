// SPDX-License-Identifier: Apache-2.0
// cubby mount: show a directory of this host in a sandbox.
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "sandbox-backend/base/mem.h"
#include "sandbox-backend/base/str.h"
#include "sandbox-backend/cli/cli.h"
#include "sandbox-backend/cli/connection.h"
#include "sandbox-backend/cli/create.h"

#define HIDDEN                                                                                   \
    "Secrets such as .env and .git/config are hidden from the sandbox; a file .cubbyignore in\n" \
    "the directory changes the rules."

struct mount_verb {
    const char *spec; // NULL: list
    bool remove, as_json;
};

int mount_one(struct connection *c, const char *id, const char *spec, json_t **list, struct err *e)
{
    char *source auto_free = NULL, *target auto_free = NULL;
    struct mount_opts want = {0};
    if (client_mount_parse(spec, &source, &target, &want.read_only, e) < 0)
        return -1;
    want.source = source;
    want.target = target;
    *list = connection_mount(c, id, &want, e);
    return *list ? 0 : -1;
}

static void print_table(const json_t *list)
{
    static const char *const HEADINGS[] = {"TARGET", "DIRECTORY", "ACCESS", "STATE"};
    struct table t;
    size_t i = 0;
    const json_t *one = NULL;
    table_init_headed(&t, HEADINGS, ARRAY_LEN(HEADINGS));
    json_array_foreach (list, i, one) {
        table_cell(&t, cli_text(one, "target"));
        const char *volume = json_string_value(json_object_get(one, "volume"));
        char *shown auto_free =
            volume ? str_printf("volume %s", volume) : xstrdup(cli_text(one, "source"));
        table_cell(&t, shown);
        table_cell(&t, json_is_true(json_object_get(one, "readOnly")) ? "read" : "write");
        table_cell(&t, cli_text(one, "state"));
    }
    table_print(&t, stdout);
    table_fini(&t);
}

// Tell what the sandbox does not see of a directory that was mounted.
static void tell_hidden(const json_t *list)
{
    const json_t *hidden =
        json_object_get(json_array_get(list, json_array_size(list) - 1), "hidden");
    size_t i;
    const json_t *one;
    if (!json_array_size(hidden))
        return;
    fputs("Hidden from the sandbox, unless .cubbyignore says otherwise:", stderr);
    json_array_foreach (hidden, i, one) {
        fputc(' ', stderr);
        cli_print_safe(stderr, json_string_value(one));
    }
    fputc('\n', stderr);
}

static int act(struct connection *c, const char *id, const void *ctx)
{
    const struct mount_verb *v = ctx;
    struct err e = ERR_INIT;
    json_t *list = NULL;
    if (v->remove)
        return connection_unmount(c, id, v->spec, &e) < 0 ? cli_fail(&e) : 0;
    if (v->spec && mount_one(c, id, v->spec, &list, &e) < 0)
        return cli_fail(&e);
    if (!v->spec && !(list = connection_mounts(c, id, &e)))
        return cli_fail(&e);
    if (v->as_json)
        cli_print_json(list);
    else
        print_table(list);
    if (v->spec)
        tell_hidden(list);
    json_decref(list);
    return 0;
}

int verb_mount(int argc, char **argv)
{
    struct mount_verb v = {0};
    struct backend_opts server = {0};
    const struct opt opts[] = {
        CLI_FLAG("remove", &v.remove, "unmount the directory at this path of the sandbox"),
        CLI_FLAG("json", &v.as_json, "print JSON"),
    };
    const struct cli_usage usage = {
        .synopsis = "mount [--json] ID DIR:/path[:ro]\n"
                    "       cubby mount [--json] ID\n"
                    "       cubby mount --remove ID /path",
        .text = "Shows a directory of this host in a sandbox, live and both ways, or with :ro for\n"
                "reading. Without a directory, lists the mounts. " HIDDEN,
        .opts = opts,
        .opt_count = ARRAY_LEN(opts),
        .server = &server,
    };
    int done = cli_begin(&usage, &argc, argv);
    if (done >= 0)
        return done;
    if (argc < 2 || argc > 3 || (v.remove && argc != 3))
        return cli_usage_error("mount takes the id of a sandbox and DIR:/path; see cubby mount "
                               "--help");
    v.spec = argc == 3 ? argv[2] : NULL;
    return connection_on_one(&server, argv[1], act, &v);
}
