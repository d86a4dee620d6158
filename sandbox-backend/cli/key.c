// SPDX-License-Identifier: Apache-2.0
// cubby key: the API keys with which programs use cubbyd over TCP.
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "sandbox-backend/base/buf.h"
#include "sandbox-backend/base/clock.h"
#include "sandbox-backend/base/fd.h"
#include "sandbox-backend/base/home.h"
#include "sandbox-backend/base/json.h"
#include "sandbox-backend/base/mem.h"
#include "sandbox-backend/base/str.h"
#include "sandbox-backend/cli/cli.h"
#include "sandbox-backend/cli/connection.h"
#include "sandbox-backend/keys/token_file.h"

#define KEYS_FILE     "keys.json"  // as in the daemon's api_keys.h
#define KEYS_ENV      "CUBBY_KEYS" // as of the daemon's option
#define CONFIG_FILE   "cubbyd.json"
#define SECRETS_FILE  "secrets/index.json"
#define WEBHOOKS_FILE "webhooks.json"
#define STATE_BYTES   (16 << 20) // of each
#define LIMIT_MAX     1000000    // the file takes no larger limit

static const char TEXT[] =
    "  new NAME   creates a key, and prints what to export so that E2B's SDKs use it. The key\n"
    "             is shown only now: Cubby keeps its hash. Starts the daemon if cubbyd.json lets\n"
    "             it listen. The daemon checks the limits when the key creates, forks or wakes\n"
    "             sandboxes\n"
    "  ls         lists the keys\n"
    "  rm NAME    revokes a key, and removes its secrets, webhooks and events. Its\n"
    "             sandboxes stay. Other daemons that use the file follow in a few seconds.\n"
    "             --keep leaves all to a new key of that name\n\n"
    "Programs need a key where cubbyd listens on TCP (cubbyd --listen). A key sees only the\n"
    "sandboxes that were created with it. On the unix socket no key is needed.\n\n"
    "The keys are in the file that the running cubbyd of this home uses, else in that of\n"
    "CUBBY_KEYS or of cubbyd.json, else in $CUBBY_HOME/keys.json. --keys names another file.";

// The file with the keys.
struct key_file {
    const char *home; // borrowed
    char *path;       // owned
    bool is_foreign;  // the daemon of this home uses another one
};

// The members of keys.json, in the order of the columns of ls.
enum { SANDBOXES, MEMORY, CPUS, SNAPSHOTS, DISK, PORTS, BUILDS, LIMITS };
static const char *const MEMBERS[LIMITS] = {"max_sandboxes", "max_memory_mb", "max_cpus",
                                            "max_snapshots", "max_disk_mb",   "max_ports",
                                            "max_builds"};

// Return a member of the daemon's configuration, a new string; NULL: it is not set.
static char *configured(const char *home, const char *member)
{
    char *path auto_free = home_path(home, CONFIG_FILE);
    struct buf text auto_buf = BUF_INIT;
    if (file_read(path, STATE_BYTES, &text, NULL) < 0)
        return NULL;
    json_t *config = json_parse(buf_str(&text), text.len, NULL);
    const char *value = json_string_value(json_object_get(config, member));
    char *copy = value ? xstrdup(value) : NULL;
    json_decref(config);
    return copy;
}

// Ask the running daemon for its file. NULL: none runs, or its version does not tell.
static char *path_of_daemon(void)
{
    const struct backend_opts local = {.backend = "local"};
    struct connection c;
    struct err e = ERR_INIT;
    if (connection_open(&c, &local, CONNECT_NEVER_STARTS, &e) < 0)
        return NULL;
    json_t *health = connection_health(&c, &e);
    const char *path = json_string_value(json_object_get(health, "keys"));
    char *copy = path ? xstrdup(path) : NULL;
    connection_close(&c);
    json_decref(health);
    return copy;
}

// Return the file of this home's daemon, or the one that it will use when it is started.
static char *default_path(const char *home)
{
    const char *env = getenv(KEYS_ENV);
    char *path = path_of_daemon();
    if (!path && env && *env)
        path = xstrdup(env);
    if (!path)
        path = configured(home, "keys");
    return path ? path : home_path(home, KEYS_FILE);
}

static int find_file(struct key_file *f, const char *home, const char *given, struct err *e)
{
    char *usual auto_free = default_path(home);
    char *usual_absolute auto_free = file_absolute(usual);
    f->home = home;
    f->path = file_absolute(given ? given : usual);
    if (!f->path)
        return err_set(e, ERR_NOT_FOUND, "the directory of the keys file does not exist: %s",
                       given ? given : usual);
    f->is_foreign = !str_eq(usual_absolute, f->path);
    return 0;
}

// Start the daemon, unless it runs. Its first answer tells that it listens.
static int start_daemon(struct err *e)
{
    const struct backend_opts local = {.backend = "local"};
    struct connection c;
    if (connection_open(&c, &local, CONNECT_STARTS, e) < 0)
        return -1;
    json_t *list = connection_list(&c, e);
    connection_close(&c);
    json_decref(list);
    return list ? 0 : -1;
}

static void explain_no_url(const char *home, bool is_configured, const struct err *why)
{
    if (is_configured && err_is(why))
        fprintf(
            stderr,
            "cubby: cubbyd does not start (%s). When it runs, cubby daemon status shows the URL "
            "for\nE2B_API_URL and E2B_SANDBOX_URL\n",
            why->msg);
    else if (is_configured)
        fprintf(stderr,
                "cubby: cubbyd runs, but has not read \"listen\" in %s/" CONFIG_FILE ": stop it\n"
                "(cubby daemon stop --keep), and start it again (cubby ps). Then cubby daemon "
                "status shows\nthe URL for E2B_API_URL and E2B_SANDBOX_URL\n",
                home);
    else
        fprintf(stderr,
                "cubby: cubbyd does not listen on TCP. Put {\"listen\": \"127.0.0.1:3000\"} into\n"
                "%s/" CONFIG_FILE ", stop it (cubby daemon stop --keep), start it again\n"
                "(cubby daemon), and export E2B_API_URL=http://127.0.0.1:3000 and\n"
                "E2B_SANDBOX_URL=http://127.0.0.1:3000 too\n",
                home);
}

static void print_exports(const char *home, const char *key)
{
    struct err why = ERR_INIT;
    char *listen auto_free = configured(home, "listen");
    char *url auto_free = daemon_url(home);
    if (!url && listen && start_daemon(&why) == 0)
        url = daemon_url(home);
    if (url)
        printf("export E2B_API_URL=%s\nexport E2B_SANDBOX_URL=%s\n", url, url);
    printf("export E2B_API_KEY=%s\n", key);
    fflush(stdout);
    if (!url)
        explain_no_url(home, listen != NULL, &why);
}

static int key_new(const struct key_file *f, const char *name, bool plain,
                   const struct token_wish *wish)
{
    struct err e = ERR_INIT;
    char *key auto_free = token_file_add_limited(f->path, name, &TOKEN_API_KEY, wish, &e);
    if (!key)
        return cli_fail(&e);
    if (plain)
        puts(key);
    else if (f->is_foreign) // its daemon's URL is not known
        printf("export E2B_API_KEY=%s\n", key);
    else
        print_exports(f->home, key);
    return 0;
}

static json_t *to_json(const struct token *t)
{
    char until[CLOCK_RFC3339_BYTES] = "";
    if (t->expires_ns != INT64_MAX)
        clock_rfc3339(until, t->expires_ns);
    json_t *key = json_pack("{s:s}", "name", t->name);
    if (*until)
        json_object_set_new(key, "expires", json_string(until));
    const int64_t values[LIMITS] = {t->max_sandboxes, t->max_memory_mb, t->max_cpus,
                                    t->max_snapshots, t->max_disk_mb,   t->max_ports,
                                    t->max_builds};
    for (int i = 0; i < LIMITS; i++)
        if (values[i] > 0)
            json_object_set_new(key, MEMBERS[i], json_integer(values[i]));
    if (t->admin)
        json_object_set_new(key, "admin", json_true());
    if (*t->tiers)
        json_object_set_new(key, "tiers", token_tiers_to_json(t->tiers));
    return key;
}

static void print_json(const struct token_list *keys)
{
    json_t *list = json_array();
    for (int i = 0; i < keys->count; i++)
        json_array_append_new(list, to_json(&keys->items[i]));
    cli_print_json(list);
    json_decref(list);
}

static void print_table(const struct token_list *keys)
{
    static const char *const HEADINGS[] = {"NAME",   "EXPIRES",   "MAX SANDBOXES", "MEMORY MB",
                                           "CPUS",   "SNAPSHOTS", "DISK MB",       "PORTS",
                                           "BUILDS", "TIERS"};
    struct table t;
    table_init_headed(&t, HEADINGS, ARRAY_LEN(HEADINGS));
    for (int i = 0; i < keys->count; i++) {
        json_t *key = to_json(&keys->items[i]);
        const char *until = json_string_value(json_object_get(key, "expires"));
        table_cell(&t, keys->items[i].name);
        table_cell(&t, until ? until : "never");
        for (int limit = 0; limit < LIMITS; limit++) {
            const json_t *value = json_object_get(key, MEMBERS[limit]);
            char count[24] = "-";
            if (value)
                snprintf(count, sizeof count, "%lld", (long long)json_integer_value(value));
            table_cell(&t, count);
        }
        table_cell(&t, *keys->items[i].tiers ? keys->items[i].tiers : "-");
        json_decref(key);
    }
    table_print(&t, stdout);
    table_fini(&t);
}

static int key_ls(const char *path, bool as_json)
{
    struct err e = ERR_INIT;
    struct token_list keys = {0};
    if (file_exists(path) && token_file_read(path, &keys, &e) < 0)
        return cli_fail(&e);
    if (as_json)
        print_json(&keys);
    else
        print_table(&keys);
    token_list_fini(&keys);
    return 0;
}

// Return whether something in a file of the daemon may belong to the key.
static bool may_own(const char *home, const char *file, const char *list, const char *name)
{
    char *path auto_free = home_path(home, file);
    struct buf text auto_buf = BUF_INIT;
    struct err e = ERR_INIT;
    if (file_read(path, STATE_BYTES, &text, &e) < 0)
        return e.code != ERR_NOT_FOUND;
    json_t *all = json_parse(buf_str(&text), text.len, &e), *one;
    bool found = !all;
    size_t i;
    json_array_foreach (json_object_get(all, list), i, one)
        found |= str_eq(json_string_value(json_object_get(one, "owner")), name);
    json_decref(all);
    return found;
}

static bool has_belongings(const char *home, const char *name)
{
    char *events auto_free = str_printf("%s/events/key-%s", home, name);
    return may_own(home, SECRETS_FILE, "secrets", name) ||
           may_own(home, WEBHOOKS_FILE, "webhooks", name) || file_exists(events);
}

// Let the daemon remove what is the key's.
static int remove_belongings(const char *name, enum connect_mode mode, struct err *e)
{
    const struct backend_opts local = {.backend = "local"};
    struct connection c;
    if (connection_open(&c, &local, mode, e) < 0)
        return -1;
    int result = connection_key_removed(&c, name, e);
    connection_close(&c);
    return result;
}

// A daemon that runs is always asked: for up to a second it still takes the key.
static int key_rm(const struct key_file *f, const char *name, bool keep)
{
    struct err e = ERR_INIT, later = ERR_INIT;
    bool removed = token_file_remove(f->path, name, keep, &e) == 0;
    if (!removed && (keep || f->is_foreign || e.code != ERR_NOT_FOUND))
        return cli_fail(&e);
    if (keep || f->is_foreign)
        return 0;
    bool has = has_belongings(f->home, name);
    enum connect_mode mode = has ? CONNECT_STARTS : CONNECT_NEVER_STARTS;
    if (remove_belongings(name, mode, &later) == 0)
        return 0;
    if (later.code == ERR_NOT_FOUND || (!has && later.code == ERR_UNAVAILABLE))
        return removed ? 0 : cli_fail(&e);
    if (removed)
        err_wrap(&later,
                 "the key is revoked, but what belongs to it is still there; run this again");
    return cli_fail(&later);
}

#define LIMIT_OPT(name, which, arg, help)                                                \
    {                                                                                    \
        name, NULL, OPT_INT, &limits[which].value, arg, "new: " help, 0, LIMIT_MAX, NULL \
    }

int verb_key(int argc, char **argv)
{
    struct token_limit limits[LIMITS];
    for (int i = 0; i < LIMITS; i++)
        limits[i] = (struct token_limit){MEMBERS[i], -1};
    const char *keys = NULL;
    bool as_json = false;
    bool plain = false;
    bool keep = false;
    struct token_wish wish = {.limits = limits, .count = LIMITS};
    const struct opt opts[] = {
        CLI_STRING("keys", &keys, "FILE", "the file with the keys, as of cubbyd --keys"),
        CLI_FLAG("json", &as_json, "ls: print JSON"),
        CLI_FLAG("plain", &plain, "new: print only the key"),
        CLI_FLAG("keep", &keep, "rm: keep the key's secrets, webhooks and events"),
        CLI_FLAG("admin", &wish.admin, "new: let the key make and delete API keys (/api-keys)"),
        LIMIT_OPT("max-sandboxes", SANDBOXES, "N", "maximum of running and paused sandboxes"),
        LIMIT_OPT("max-memory-mb", MEMORY, "MB",
                  "maximum memory of all guests, without hibernated ones"),
        LIMIT_OPT("max-cpus", CPUS, "N", "maximum of virtual CPUs of running sandboxes"),
        LIMIT_OPT("max-snapshots", SNAPSHOTS, "N", "maximum of snapshots"),
        LIMIT_OPT("max-disk-mb", DISK, "MB", "maximum disk space of snapshots and templates"),
        LIMIT_OPT("max-ports", PORTS, "N", "maximum of ports that sandboxes expose on the host"),
        LIMIT_OPT("max-builds", BUILDS, "N",
                  "let the key build templates, at most N at once (default: none)"),
        {.name = "tiers",
         .type = OPT_STRING,
         .value = &wish.tiers,
         .arg = "TIER,...",
         .help = "new: the tiers that the key may ask for, of those that cubbyd offers (default: "
                 "all that do not share the host's kernel)"},
    };
    const struct cli_usage usage = {
        .synopsis = "key new NAME | ls | rm NAME",
        .text = TEXT,
        .opts = opts,
        .opt_count = ARRAY_LEN(opts),
    };
    int done = cli_begin(&usage, &argc, argv);
    if (done >= 0)
        return done;
    const char *what = argc > 1 ? argv[1] : "";
    bool takes_name = strcmp(what, "new") == 0 || strcmp(what, "rm") == 0;
    if (!(takes_name && argc == 3) && !(strcmp(what, "ls") == 0 && argc == 2))
        return cli_usage_error("key takes new NAME, ls, or rm NAME; see cubby key --help");
    struct err e = ERR_INIT;
    struct key_file file = {0};
    char *home auto_free = home_open(&e);
    if (!home || find_file(&file, home, keys, &e) < 0)
        return cli_fail(&e);
    int status = strcmp(what, "new") == 0  ? key_new(&file, argv[2], plain, &wish)
                 : strcmp(what, "ls") == 0 ? key_ls(file.path, as_json)
                                           : key_rm(&file, argv[2], keep);
    free(file.path);
    return status;
}
