// SPDX-License-Identifier: Apache-2.0
// cubby template build|ls|rm: the snapshots that sandboxes are restored from.
#include <fts.h>
#include <jansson.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "sandbox-backend/base/home.h"
#include "sandbox-backend/base/json.h"
#include "sandbox-backend/base/mem.h"
#include "sandbox-backend/base/str.h"
#include "sandbox-backend/cli/cli.h"
#include "sandbox-backend/cli/table.h"
#include "sandbox-backend/drivers/microvm/template.h"
#include "sandbox-backend/drivers/microvm/template_build.h"

#define MIB           (1024LL * 1024)
#define EXIT_CANCELED 130
#define STAT_BLOCK    512 // of st_blocks, whatever the file system's own is
#define MEMORY_MIN    (128 * MIB)
#define MEMORY_MAX    (64LL * 1024 * MIB)
#define DISK_MIN      (1024 * MIB)
#define DISK_MAX      (1024LL * 1024 * MIB)
#define CPUS_MAX      64

static int64_t bytes_on_disk(const char *dir)
{
    char *path auto_free = xstrdup(dir);
    char *paths[] = {path, NULL};
    int64_t total = 0;
    FTS *fts = fts_open(paths, FTS_PHYSICAL | FTS_NOCHDIR, NULL);
    for (FTSENT *f; fts && (f = fts_read(fts));)
        if (f->fts_info == FTS_F)
            total += (int64_t)f->fts_statp->st_blocks * STAT_BLOCK;
    if (fts)
        fts_close(fts);
    return total;
}

// A path may be no UTF-8.
static json_t *to_json(const struct template *t, const char *dir)
{
    return json_pack("{s:s,s:s,s:s,s:s,s:s,s:s,s:s,s:s,s:I,s:I,s:I,s:I,s:o}", "name", t->name,
                     "accel", t->accel, "kernel", t->kernel, "qemu", t->qemu, "machine", t->machine,
                     "cpu_model", t->cpu_model, "envd_version", t->envd_version, "created_at",
                     t->created_at, "memory_mb", (json_int_t)t->memory_mb, "cpus",
                     (json_int_t)t->cpus, "disk_mb", (json_int_t)t->disk_mb, "bytes",
                     (json_int_t)bytes_on_disk(dir), "dir", json_lossy_string(dir, strlen(dir)));
}

// For people: what a template, or whoever wrote its files, says of itself is obeyed by no terminal.
static void say(FILE *to, const char *fmt, ...) __attribute__((format(printf, 2, 3)));
static void say(FILE *to, const char *fmt, ...)
{
    va_list ap;
    va_start(ap, fmt);
    char *text auto_free = str_vprintf(fmt, ap);
    va_end(ap);
    cli_print_safe(to, text);
    fputc('\n', to);
}

// ---- build
// An image is what differs from the template, and means nothing with another one.
static void warn_of_users(const char *home, const char *name)
{
    char *snapshots auto_free = template_snapshots(home, name);
    char *hibernated auto_free = template_hibernated(home, name);
    if (snapshots)
        say(stderr,
            "These snapshots are of the template \"%s\" that there is, and cannot be used once it "
            "is replaced: %s",
            name, snapshots);
    if (hibernated) {
        say(stderr,
            "These hibernated sandboxes cannot be woken any more once the template \"%s\" is "
            "replaced: %s",
            name, hibernated);
        say(stderr, "Stop with Ctrl-C, and use or kill them first, or build under another name.");
    }
}

static int run_build(const struct template_build *spec, bool json)
{
    struct err e = ERR_INIT;
    struct template t;
    warn_of_users(spec->home, spec->name);
    if (template_build(spec, &t, &e) < 0) {
        cli_fail(&e);
        return e.code == ERR_CANCELED ? EXIT_CANCELED : e.code == ERR_INVALID ? CLI_USAGE : 1;
    }
    char *dir auto_free = template_dir(spec->home, spec->name);
    json_t *made = to_json(&t, dir);
    if (json)
        cli_print_json(made);
    else
        say(stdout, "template \"%s\": kernel %s, %s, %lld MB of memory, %lld MB on disk", t.name,
            t.kernel, t.accel, (long long)t.memory_mb, (long long)(bytes_on_disk(dir) / MIB));
    json_decref(made);
    template_fini(&t);
    return 0;
}

static int build(int argc, char **argv)
{
    bool json = false;
    int64_t memory = TEMPLATE_MEMORY_MB_DEFAULT * MIB;
    int64_t disk = TEMPLATE_DISK_MB_DEFAULT * MIB;
    struct template_build spec = {
        .name = TEMPLATE_DEFAULT, .accel = "auto", .cpus = TEMPLATE_CPUS_DEFAULT};
    const struct opt opts[] = {
        {.name = "accel",
         .env = "CUBBY_ACCEL",
         .type = OPT_STRING,
         .value = &spec.accel,
         .arg = "auto|kvm|tcg",
         .choices = "auto|kvm|tcg",
         .help = "auto (default): KVM if the kernel really boots under it, else TCG"},
        {.name = "memory",
         .type = OPT_SIZE,
         .value = &memory,
         .arg = "SIZE",
         .min = MEMORY_MIN,
         .max = MEMORY_MAX,
         .help = "of each sandbox (default 512M)"},
        {.name = "cpus",
         .type = OPT_INT,
         .value = &spec.cpus,
         .arg = "N",
         .min = 1,
         .max = CPUS_MAX,
         .help = "virtual CPUs of each sandbox (default 1)"},
        {.name = "disk",
         .type = OPT_SIZE,
         .value = &disk,
         .arg = "SIZE",
         .min = DISK_MIN,
         .max = DISK_MAX,
         .help = "size the disk may grow to (default 8G)"},
        {.name = "packages",
         .type = OPT_STRING,
         .value = &spec.packages,
         .arg = "A,B",
         .help = "more Debian packages"},
        {.name = "minimal",
         .type = OPT_FLAG,
         .value = &spec.minimal,
         .help = "without the Python kernel, numpy, pandas and matplotlib (so is \"minimal\")"},
        {.name = "kernel",
         .type = OPT_STRING,
         .value = &spec.kernel,
         .arg = "PATH",
         .help = "a kernel image of your own (default: Debian's cloud kernel)"},
        {.name = "modules",
         .type = OPT_STRING,
         .value = &spec.modules,
         .arg = "DIR",
         .help = "with --kernel: its modules (default: all it needs is built in)"},
        {.name = "json", .type = OPT_FLAG, .value = &json, .help = "print the result as JSON"},
    };
    const struct cli_usage usage = {
        .synopsis = "template build [OPTIONS] [NAME]",
        .text =
            "Makes a template: a Debian root file system and a snapshot of a machine that runs "
            "it.\nNAME is \"default\" when it is left out. An existing template is replaced "
            "when the new\none is whole; sandboxes that run from the old one are not disturbed.",
        .opts = opts,
        .opt_count = ARRAY_LEN(opts)};
    int status = cli_begin(&usage, &argc, argv);
    if (status >= 0)
        return status;
    if (argc > 2)
        return cli_usage_error("template build takes one NAME");
    if (spec.modules && !spec.kernel)
        return cli_usage_error("--modules is for --kernel");
    if (argc == 2)
        spec.name = argv[1];
    spec.minimal |= str_eq(spec.name, TEMPLATE_MINIMAL);
    struct err e = ERR_INIT;
    char *home auto_free = home_open(&e);
    if (!home)
        return cli_fail(&e);
    spec.home = home;
    spec.memory_mb = memory / MIB;
    spec.disk_mb = disk / MIB;
    spec.progress = stderr; // stdout has the result
    spec.terminal = isatty(STDERR_FILENO) == 1;
    return run_build(&spec, json);
}

// ---- ls
struct listing {
    json_t *json; // an array, or NULL for a table
    struct table table;
    bool bad;
};

static const char *const HEADINGS[] = {"NAME", "ACCEL", "KERNEL", "MEMORY",
                                       "CPUS", "DISK",  "USED",   "CREATED"};

static void number_cell(struct table *table, int64_t value, const char *unit)
{
    char *text auto_free = str_printf("%lld%s", (long long)value, unit);
    table_cell(table, text);
}

static int on_template(const struct template *t, const char *dir, void *ctx)
{
    struct listing *l = ctx;
    if (l->json) {
        json_array_append_new(l->json, to_json(t, dir));
        return 0;
    }
    table_cell(&l->table, t->name);
    table_cell(&l->table, t->accel);
    table_cell(&l->table, t->kernel);
    number_cell(&l->table, t->memory_mb, "M");
    number_cell(&l->table, t->cpus, "");
    number_cell(&l->table, t->disk_mb, "M");
    number_cell(&l->table, bytes_on_disk(dir) / MIB, "M");
    table_cell(&l->table, t->created_at);
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
        fputs("There are no templates. Make one with: cubby template build\n", stderr);
    return l->bad ? 1 : 0;
}

static int list(int argc, char **argv)
{
    bool json = false;
    const struct opt opts[] = {
        {.name = "json", .type = OPT_FLAG, .value = &json, .help = "print a JSON array"},
    };
    const struct cli_usage usage = {.synopsis = "template ls [--json]",
                                    .text = "Lists the templates.",
                                    .opts = opts,
                                    .opt_count = ARRAY_LEN(opts)};
    int status = cli_begin(&usage, &argc, argv);
    if (status >= 0)
        return status;
    if (argc > 1)
        return cli_usage_error("template ls takes no \"%s\"", argv[1]);
    struct err e = ERR_INIT;
    char *home auto_free = home_open(&e);
    struct listing l = {.json = json ? json_array() : NULL};
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
static int remove_one(const char *home, const char *name, bool force)
{
    struct err e = ERR_INIT;
    char *useless auto_free = template_snapshots(home, name);
    if (template_remove(home, name, force, &e) < 0) {
        cli_fail(&e);
        return -1;
    }
    if (useless) {
        say(stderr, "These snapshots of template \"%s\" cannot be used any more: %s.", name,
            useless);
        say(stderr, "Delete them: cubby snapshot rm ID");
    }
    return 0;
}

static int rm(int argc, char **argv)
{
    bool force = false;
    const struct opt opts[] = {
        {.name = "force",
         .type = OPT_FLAG,
         .value = &force,
         .help =
             "also when sandboxes use it, which run on until they are killed, or snapshots need "
             "it, which become useless"},
    };
    const struct cli_usage usage = {.synopsis = "template rm [--force] NAME...",
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
        if (remove_one(home, argv[i], force) < 0)
            result = 1;
    return result;
}

static void help(FILE *to)
{
    fputs("Usage: cubby template build [OPTIONS] [NAME]\n"
          "       cubby template ls [--json]\n"
          "       cubby template rm [--force] NAME...\n\n"
          "A template is the snapshot that sandboxes are restored from. Each has --help.\n",
          to);
}

int verb_template(int argc, char **argv)
{
    static const struct {
        const char *name;
        int (*run)(int argc, char **argv);
    } VERBS[] = {{"build", build}, {"ls", list}, {"rm", rm}};
    const char *name = argc > 1 ? argv[1] : NULL;
    if (name && (str_eq(name, "--help") || str_eq(name, "-h"))) {
        help(stdout);
        return 0;
    }
    for (size_t i = 0; name && i < ARRAY_LEN(VERBS); i++)
        if (str_eq(VERBS[i].name, name))
            return VERBS[i].run(argc - 1, argv + 1);
    if (!name) {
        help(stderr);
        return CLI_USAGE;
    }
    return cli_usage_error("there is no \"template %s\"; see cubby template --help", name);
}
