// SPDX-License-Identifier: Apache-2.0
// cubby template build|ls|rm|unpack: the templates that sandboxes start from.
#include <jansson.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "sandbox-backend/base/clock.h"
#include "sandbox-backend/base/fd.h"
#include "sandbox-backend/base/home.h"
#include "sandbox-backend/base/json.h"
#include "sandbox-backend/base/mem.h"
#include "sandbox-backend/base/str.h"
#include "sandbox-backend/cli/cli.h"
#include "sandbox-backend/cli/template.h"
#include "sandbox-backend/cli/template_plan.h"
#include "sandbox-backend/drivers/microvm/image/template.h"
#include "sandbox-backend/drivers/template_dirs.h"
#include "sandbox-backend/template/move/collect.h"
#include "sandbox-backend/template/unpack.h"

#define MIB (1024LL * 1024)

static const char *last_use(const char *home, const char *dir, char out[CLOCK_RFC3339_BYTES])
{
    clock_rfc3339(out, template_dirs_used_s(home, dir) * 1000000000LL);
    return out;
}

static const char *place_of(const char *home, const char *dir)
{
    return template_dirs_is_system(home, dir) ? "system" : "home";
}

// A path need not be UTF-8.
json_t *template_to_json(const char *home, const struct template *t, const char *dir)
{
    json_t *tiers = json_pack("[s]", "microvm");
    if (t->gvisor_rootfs)
        json_array_append_new(tiers, json_string("gvisor"));
    if (template_is_unpacked(home, dir))
        json_array_append_new(tiers, json_string("bubblewrap"));
    char used[CLOCK_RFC3339_BYTES];
    return json_pack("{s:s,s:o,s:s,s:s,s:s,s:s,s:s,s:s,s:s,s:I,s:I,s:I,s:I,s:o,s:s*,s:O*,s:O*,s:O*,"
                     "s:s,s:s*,s:s*,s:s}",
                     "name", t->name, "tiers", tiers, "accel", t->accel, "kernel", t->kernel,
                     "qemu", t->qemu, "machine", t->machine, "cpu_model", t->cpu_model,
                     "envd_version", t->envd_version, "created_at", t->created_at, "memory_mb",
                     (json_int_t)t->memory_mb, "cpus", (json_int_t)t->cpus, "disk_mb",
                     (json_int_t)t->disk_mb, "bytes", (json_int_t)dir_disk_bytes(dir), "dir",
                     json_lossy_string(dir, strlen(dir)), "python_kernel", t->python_kernel,
                     "environment", t->environment, "image", t->image, "start", t->start,
                     "last_used", last_use(home, dir, used), "modules", t->modules, "missing",
                     t->missing, "place", place_of(home, dir));
}

void template_say(FILE *to, const char *fmt, ...)
{
    va_list ap;
    va_start(ap, fmt);
    char *text auto_free = str_vprintf(fmt, ap);
    va_end(ap);
    cli_print_safe(to, text);
    fputc('\n', to);
}

// ---- ls
struct listing {
    const char *home;
    json_t *json; // an array, or NULL for a table
    struct table table;
    bool bad;
};

static const char *const HEADINGS[] = {"NAME", "TIERS", "ACCEL", "KERNEL",  "MEMORY",  "CPUS",
                                       "DISK", "USED",  "PLACE", "CREATED", "LAST USE"};

static void number_cell(struct table *table, int64_t value, const char *unit)
{
    char *text auto_free = str_printf("%lld%s", (long long)value, unit);
    table_cell(table, text);
}

static int on_template(const struct template *t, const char *dir, void *ctx)
{
    struct listing *l = ctx;
    if (t->hidden)
        return 0;
    if (l->json) {
        json_array_append_new(l->json, template_to_json(l->home, t, dir));
        return 0;
    }
    table_cell(&l->table, t->name);
    char *tiers auto_free = str_printf("microvm%s%s", t->gvisor_rootfs ? ", gvisor" : "",
                                       template_is_unpacked(l->home, dir) ? ", bubblewrap" : "");
    table_cell(&l->table, tiers);
    table_cell(&l->table, t->accel);
    table_cell(&l->table, t->kernel);
    number_cell(&l->table, t->memory_mb, "M");
    number_cell(&l->table, t->cpus, "");
    number_cell(&l->table, t->disk_mb, "M");
    number_cell(&l->table, dir_disk_bytes(dir) / MIB, "M");
    char used[CLOCK_RFC3339_BYTES];
    table_cell(&l->table, place_of(l->home, dir));
    table_cell(&l->table, t->created_at);
    table_cell(&l->table, last_use(l->home, dir, used));
    return 0;
}

static void on_bad(const char *name, const struct err *why, void *ctx)
{
    (void)name;
    ((struct listing *)ctx)->bad = true;
    cli_fail(why);
}

static int show_listing(const struct listing *l)
{
    if (l->json)
        cli_print_json(l->json);
    else if (l->table.count > (int)ARRAY_LEN(HEADINGS))
        table_print(&l->table, stdout);
    else
        fputs("There are no templates. Build one: cubby template build\n", stderr);
    return l->bad ? 1 : 0;
}

static int list(int argc, char **argv)
{
    bool json = false;
    const struct opt opts[] = {
        {.name = "json", .type = OPT_FLAG, .value = &json, .help = "print a JSON array"},
    };
    const struct cli_usage usage = {
        .synopsis = "template ls [--json]",
        .text = "Lists the templates of this home, and those of the system, which all users share.",
        .opts = opts,
        .opt_count = ARRAY_LEN(opts)};
    int status = cli_begin(&usage, &argc, argv);
    if (status >= 0)
        return status;
    if (argc > 1)
        return cli_usage_error("template ls takes no operand, not \"%s\"", argv[1]);
    struct err e = ERR_INIT;
    char *home auto_free = home_open(&e);
    struct listing l = {.home = home, .json = json ? json_array() : NULL};
    table_init_headed(&l.table, HEADINGS, ARRAY_LEN(HEADINGS));
    if (!home || template_list(home, on_template, on_bad, &l, &e) < 0)
        status = cli_fail(&e);
    else
        status = show_listing(&l);
    json_decref(l.json);
    table_fini(&l.table);
    return status;
}

// ---- rm
static int refuse_system(const char *name, const char *dir)
{
    struct err e = ERR_INIT;
    err_set(&e, ERR_CONFLICT,
            "template \"%s\" belongs to the system, in %s, and serves all users; its owner removes "
            "it with: cubby template rm --system %s",
            name, dir, name);
    cli_fail(&e);
    return -1;
}

// Other homes may have sandboxes and snapshots of it, which cannot be known here. Running sandboxes
// keep their open files.
static int remove_system(const char *home, const char *name, bool force)
{
    struct err e = ERR_INIT;
    char *templates auto_free = template_dirs_system_make(&e);
    if (!templates || (!force && template_check_unused(home, name, &e) < 0) ||
        template_remove_from(templates, name, &e) < 0) {
        cli_fail(&e);
        return -1;
    }
    return 0;
}

static int remove_one(const char *home, const char *name, bool force)
{
    struct err e = ERR_INIT;
    char *useless auto_free = template_snapshots(home, name);
    char *dir auto_free = template_dir(home, name);
    char *meant auto_free = template_dirs_find(home, name);
    if (template_name_ok(name) && template_dirs_is_system(home, meant))
        return refuse_system(name, meant);
    // The unpacked root goes first: without root, only cubby-nest can remove it.
    if ((!force && template_check_unused(home, name, &e) < 0) ||
        (template_name_ok(name) && template_unpack_remove(dir, force, &e) < 0) ||
        template_remove(home, name, true, &e) < 0) {
        cli_fail(&e);
        return -1;
    }
    if (useless) {
        template_say(stderr, "These snapshots of the template \"%s\" cannot be used any more: %s.",
                     name, useless);
        template_say(stderr, "Delete them: cubby snapshot rm ID");
    }
    return 0;
}

static int rm(int argc, char **argv)
{
    bool force = false, system = false, as_json = false;
    const struct opt opts[] = {
        CLI_FLAG("json", &as_json, "print the names as JSON, one object a line"),
        CLI_FLAG("system", &system,
                 "remove templates that serve all users; snapshots and hibernated sandboxes of "
                 "any user become useless"),
        {.name = "force",
         .type = OPT_FLAG,
         .value = &force,
         .help =
             "remove it although sandboxes use it (they run on, but those of bubblewrap lose its "
             "files) or snapshots need it (they become "
             "useless)"},
    };
    const struct cli_usage usage = {.synopsis = "template rm [--force] [--system] [--json] NAME...",
                                    .text = "Removes templates.",
                                    .opts = opts,
                                    .opt_count = ARRAY_LEN(opts)};
    int status = cli_begin(&usage, &argc, argv);
    if (status >= 0)
        return status;
    if (argc < 2)
        return cli_usage_error("template rm needs the NAME of a template");
    struct err e = ERR_INIT;
    char *home auto_free = home_open(&e);
    if (!home)
        return cli_fail(&e);
    int result = 0;
    for (int i = 1; i < argc; i++)
        if ((system ? remove_system : remove_one)(home, argv[i], force) < 0)
            result = 1;
        else if (as_json)
            cli_print_word("template", argv[i], true);
    collect_quietly(home, false);
    return result;
}

// ---- unpack
static int check_name(const char *name, struct err *e)
{
    return template_name_ok(name)
               ? 0
               : err_set(e, ERR_INVALID, "\"%s\" is not a valid template name", name);
}

static int unpack(int argc, char **argv)
{
    bool as_json = false;
    const struct opt opts[] = {
        CLI_FLAG("json", &as_json, "print the name as JSON"),
    };
    const struct cli_usage usage = {
        .synopsis = "template unpack [--json] [NAME]",
        .text =
            "Unpacks the disk of a template into a directory, which the tier bubblewrap needs.\n"
            "The default NAME is \"default\".",
        .opts = opts,
        .opt_count = ARRAY_LEN(opts)};
    int status = cli_begin(&usage, &argc, argv);
    if (status >= 0)
        return status;
    if (argc > 2)
        return cli_usage_error("template unpack takes one NAME");
    struct err e = ERR_INIT;
    const char *name = argc == 2 ? argv[1] : TEMPLATE_DEFAULT;
    char *home auto_free = home_open(&e);
    bool made = false;
    if (!home || check_name(name, &e) < 0 || template_unpack(home, name, &made, &e) < 0)
        return cli_fail(&e);
    if (as_json)
        cli_print_word("template", name, true);
    else
        template_say(stdout, "template \"%s\" is unpacked%s", name, made ? "" : " already");
    return 0;
}

static void help(FILE *to)
{
    fputs("Usage: cubby template build [OPTIONS] [NAME]\n"
          "       cubby template build [OPTIONS] NAME -f DOCKERFILE [CONTEXT]\n"
          "       cubby template export [--with-machine] NAME FILE\n"
          "       cubby template import [OPTIONS] FILE|URL\n"
          "       cubby template finish [NAME]\n"
          "       cubby template gc [OPTIONS]\n"
          "       cubby template ls [--json]\n"
          "       cubby template rm [--force] [--system] NAME...\n"
          "       cubby template unpack [NAME]\n\n"
          "A template is the saved machine that sandboxes start from. Each verb has --help.\n",
          to);
}

int verb_template(int argc, char **argv)
{
    static const struct {
        const char *name;
        int (*run)(int argc, char **argv);
    } VERBS[] = {{"build", template_build_verb},
                 {"export", template_export_verb},
                 {"import", template_import_verb},
                 {"finish", template_finish_verb},
                 {"gc", template_gc_verb},
                 {"ls", list},
                 {"rm", rm},
                 {"unpack", unpack}};
    const char *name = argc > 1 ? argv[1] : NULL;
    if (name && (str_eq(name, "--help") || str_eq(name, "-h"))) {
        help(stdout);
        return 0;
    }
    if (str_eq(name, "build") && template_plan_is_meant(argc - 1, argv + 1))
        return template_plan_verb(argc - 1, argv + 1);
    for (size_t i = 0; name && i < ARRAY_LEN(VERBS); i++)
        if (str_eq(VERBS[i].name, name))
            return VERBS[i].run(argc - 1, argv + 1);
    if (!name) {
        help(stderr);
        return CLI_USAGE;
    }
    return cli_usage_error("unknown verb \"template %s\"; see cubby template --help", name);
}
