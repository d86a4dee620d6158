// SPDX-License-Identifier: Apache-2.0
// cubby create: create a sandbox and print its id.
#include "sandbox-backend/cli/create.h"

#include <stdio.h>
#include <string.h>

#include "sandbox-backend/base/mem.h"

void create_warn(const json_t *sandbox)
{
    const char *warning = json_string_value(json_object_get(sandbox, "tierWarning"));
    if (!warning)
        return;
    cli_print_safe(stderr, warning);
    fputc('\n', stderr);
}

int create_fail(const struct err *e)
{
    static const char *const NAMES[][2] = {{"cpuCount: ", "--cpus: "},
                                           {"memoryMB: ", "--memory, in MB: "},
                                           {"diskSizeMB: ", "--disk, in MB: "}};
    struct err told = *e;
    for (size_t i = 0; i < ARRAY_LEN(NAMES); i++) {
        const char *at = strstr(e->msg, NAMES[i][0]);
        if (at) {
            told = (struct err)ERR_INIT;
            err_set(&told, e->code, "%s%s", NAMES[i][1], at + strlen(NAMES[i][0]));
        }
    }
    return cli_fail(&told);
}

int create_mount_all(struct connection *c, const char *id, const struct create_opts *o,
                     struct err *e)
{
    struct err ignored = ERR_INIT;
    for (int i = 0; i < o->mounts.count; i++) {
        json_t *list = NULL;
        if (mount_one(c, id, o->mounts.items[i], &list, e) < 0) {
            connection_kill(c, id, &ignored);
            return -1;
        }
        json_decref(list);
    }
    return 0;
}

static int create(struct connection *c, const struct create_opts *o, bool as_json)
{
    struct err e = ERR_INIT;
    json_t *sandbox = connection_create(c, &o->want, &e);
    if (!sandbox)
        return create_fail(&e);
    if (create_mount_all(c, cli_text(sandbox, "sandboxID"), o, &e) < 0) {
        json_decref(sandbox);
        return cli_fail(&e);
    }
    if (as_json)
        cli_print_json(sandbox);
    else
        cli_print_line(cli_text(sandbox, "sandboxID"));
    create_warn(sandbox);
    json_decref(sandbox);
    return 0;
}

void create_opts_table(struct opt out[CREATE_OPTS_COUNT], struct create_opts *o)
{
    const struct opt rows[] = {
        CLI_STRING("template", &o->want.template, "NAME",
                   "template or snapshot to start from (default: \"default\")"),
        CLI_STRING("tier", &o->want.tier, "TIER",
                   "its tier: microvm, gvisor, bubblewrap, none, or auto for the best (default: "
                   "cubbyd --tier)"),
        CLI_INT("cpus", &o->want.cpus, "N", 1, 1024,
                "processors (default: as many as the template has)"),
        {"memory", NULL, OPT_SIZE, &o->memory, "SIZE",
         "memory, such as 2G (default: that of the template)", 1 << 20, INT64_MAX, NULL},
        {"disk", NULL, OPT_SIZE, &o->disk, "SIZE",
         "disk, such as 20G (default: that of the template, which is the least)", 1 << 20,
         INT64_MAX, NULL},
        CLI_INT("timeout", &o->want.timeout_s, "SECONDS", 1, INT64_MAX,
                "time to live (default 3600); " TTL_LIMIT),
        CLI_LIST("env", &o->envs, "NAME=VALUE",
                 "environment variable for its commands; may be repeated"),
        CLI_LIST("metadata", &o->metadata, "NAME=VALUE",
                 "metadata, which cubby ps shows; may be repeated"),
        CLI_LIST("secret", &o->secrets, "NAME",
                 "secret (cubbyd --secrets) that it may use; may be repeated"),
        CLI_LIST("mount", &o->mounts, "DIR:/path[:ro]",
                 "show a directory of this host there; may be repeated"),
        CLI_LIST("volume", &o->volumes, "NAME:/path",
                 "show a volume there (cubby volume); may be repeated"),
        CLI_FLAG("no-internet", &o->want.no_internet, "no network"),
        NETWORK_OPTS(&o->network),
    };
    _Static_assert(ARRAY_LEN(rows) == CREATE_OPTS_COUNT, "CREATE_OPTS_COUNT");
    o->want.timeout_s = TTL_DEFAULT_S;
    memcpy(out, rows, sizeof rows);
}

static int volumes_parse(const struct opt_list *list, json_t **out, struct err *e)
{
    *out = json_array();
    for (int i = 0; i < list->count; i++) {
        const char *spec = list->items[i], *colon = strstr(spec, ":/");
        json_t *one = colon && colon > spec ? json_pack("{s:s%, s:s}", "name", spec,
                                                        (size_t)(colon - spec), "path", colon + 1)
                                            : NULL;
        if (!one)
            return err_set(e, ERR_INVALID, "--volume: \"%.200s\" is not NAME:/path", spec);
        json_array_append_new(*out, one);
    }
    return 0;
}

int create_opts_parse(struct create_opts *o, struct err *e)
{
    struct sandbox_opts *want = &o->want;
    const struct network_opts *net = &o->network;
    if (want->no_internet && (net->what || net->allow.count || net->deny.count))
        return err_set(e, ERR_INVALID,
                       "--no-internet cannot be combined with --network, --allow or --deny");
    want->memory_mb = o->memory >> 20;
    want->disk_mb = o->disk >> 20;
    want->secrets = names_parse(&o->secrets, "--secret", e);
    if (!want->secrets || volumes_parse(&o->volumes, &want->volumes, e) < 0 ||
        network_opts_policy(net, &want->network, e) < 0 ||
        pairs_parse(&o->envs, "--env", &want->envs, e) < 0)
        return -1;
    return pairs_parse(&o->metadata, "--metadata", &want->metadata, e);
}

void create_opts_fini(struct create_opts *o)
{
    json_decref(o->want.network);
    json_decref(o->want.envs);
    json_decref(o->want.metadata);
    json_decref(o->want.secrets);
    json_decref(o->want.volumes);
}

int verb_create(int argc, char **argv)
{
    struct backend_opts server = {0};
    struct create_opts given = {0};
    bool as_json = false;
    struct opt opts[CREATE_OPTS_COUNT + 1] = {
        CLI_FLAG("json", &as_json, "print the API's JSON"),
    };
    create_opts_table(&opts[1], &given);
    const struct cli_usage usage = {
        .synopsis = "create [OPTIONS]",
        .text = "Creates a sandbox and prints its id.",
        .opts = opts,
        .opt_count = ARRAY_LEN(opts),
        .server = &server,
    };
    int done = cli_begin(&usage, &argc, argv);
    if (done >= 0)
        return done;
    if (argc > 1)
        return cli_usage_error("create takes no operand; see cubby create --help");
    struct err e = ERR_INIT;
    struct connection c;
    int status = 1;
    if (create_opts_parse(&given, &e) < 0) {
        status = cli_usage_error("%s", e.msg);
    } else if (connection_open(&c, &server, CONNECT_STARTS, &e) == 0) {
        status = create(&c, &given, as_json);
        connection_close(&c);
    } else {
        cli_fail(&e);
    }
    create_opts_fini(&given);
    return status;
}
