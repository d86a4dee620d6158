// SPDX-License-Identifier: Apache-2.0
// cubby template build|ls|rm|unpack: the templates that sandboxes start from.
#include <jansson.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "sandbox-backend/base/fd.h"
#include "sandbox-backend/base/home.h"
#include "sandbox-backend/base/json.h"
#include "sandbox-backend/base/mem.h"
#include "sandbox-backend/base/str.h"
#include "sandbox-backend/cli/cli.h"
#include "sandbox-backend/drivers/microvm/image/template.h"
#include "sandbox-backend/template/build.h"
#include "sandbox-backend/template/unpack.h"

#define MIB           (1024LL * 1024)
#define EXIT_CANCELED 130
#define MEMORY_MIN    (128 * MIB)
#define MEMORY_MAX    (64LL * 1024 * MIB)
#define DISK_MIN      (1024 * MIB)
#define DISK_MAX      (1024LL * 1024 * MIB)
#define CPUS_MAX      64

// A path need not be UTF-8.
static json_t *to_json(const struct template *t, const char *dir)
{
    json_t *tiers = json_pack("[s]", "microvm");
    if (t->gvisor_rootfs)
        json_array_append_new(tiers, json_string("gvisor"));
    if (template_is_unpacked(dir))
        json_array_append_new(tiers, json_string("bubblewrap"));
    return json_pack("{s:s,s:o,s:s,s:s,s:s,s:s,s:s,s:s,s:s,s:I,s:I,s:I,s:I,s:o}", "name", t->name,
                     "tiers", tiers, "accel", t->accel, "kernel", t->kernel, "qemu", t->qemu,
                     "machine", t->machine, "cpu_model", t->cpu_model, "envd_version",
                     t->envd_version, "created_at", t->created_at, "memory_mb",
                     (json_int_t)t->memory_mb, "cpus", (json_int_t)t->cpus, "disk_mb",
                     (json_int_t)t->disk_mb, "bytes", (json_int_t)dir_disk_bytes(dir), "dir",
                     json_lossy_string(dir, strlen(dir)));
}

// Print a line in which a terminal obeys nothing: a template's files may hold any text.
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
// An image holds only what differs from its template, and cannot be used with another one.
static void warn_of_users(const char *home, const char *name)
{
    char *snapshots auto_free = template_snapshots(home, name);
    char *hibernated auto_free = template_hibernated(home, name);
    if (snapshots)
        say(stderr,
            "These snapshots need the present template \"%s\" and cannot be used after it is "
            "replaced: %s",
            name, snapshots);
    if (hibernated) {
        say(stderr,
            "These hibernated sandboxes cannot be woken after the template \"%s\" is replaced: %s",
            name, hibernated);
        say(stderr, "Stop with Ctrl-C and use or kill them first, or build under another name.");
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
            t.kernel, t.accel, (long long)t.memory_mb, (long long)(dir_disk_bytes(dir) / MIB));
    json_decref(made);
    template_fini(&t);
    return 0;
}

static struct {
    struct template_build spec;
    int64_t memory, disk; // bytes
    bool json;
} build_options = {
    .spec = {.name = TEMPLATE_DEFAULT, .accel = "auto", .cpus = TEMPLATE_CPUS_DEFAULT},
    .memory = TEMPLATE_MEMORY_MB_DEFAULT * MIB,
    .disk = TEMPLATE_DISK_MB_DEFAULT * MIB,
};

static const struct opt BUILD_OPTS[] = {
    {.name = "accel",
     .env = "CUBBY_ACCEL",
     .type = OPT_STRING,
     .value = &build_options.spec.accel,
     .arg = "auto|kvm|tcg",
     .choices = "auto|kvm|tcg",
     .help = "auto (default): KVM if the guest kernel boots under it, else TCG"},
    {.name = "memory",
     .type = OPT_SIZE,
     .value = &build_options.memory,
     .arg = "SIZE",
     .min = MEMORY_MIN,
     .max = MEMORY_MAX,
     .help = "memory of each sandbox (default 512M)"},
    {.name = "cpus",
     .type = OPT_INT,
     .value = &build_options.spec.cpus,
     .arg = "N",
     .min = 1,
     .max = CPUS_MAX,
     .help = "virtual CPUs of each sandbox (default 1)"},
    {.name = "disk",
     .type = OPT_SIZE,
     .value = &build_options.disk,
     .arg = "SIZE",
     .min = DISK_MIN,
     .max = DISK_MAX,
     .help = "maximum size of the disk (default 8G)"},
    {.name = "packages",
     .type = OPT_STRING,
     .value = &build_options.spec.packages,
     .arg = "A,B",
     .help = "additional Debian packages"},
    {.name = "minimal",
     .type = OPT_FLAG,
     .value = &build_options.spec.minimal,
     .help = "without the Python kernel, numpy, pandas and matplotlib (the name \"minimal\" "
             "implies this)"},
    {.name = "kernel",
     .type = OPT_STRING,
     .value = &build_options.spec.kernel,
     .arg = "PATH",
     .help = "a kernel image of your own (default: Debian's cloud kernel)"},
    {.name = "modules",
     .type = OPT_STRING,
     .value = &build_options.spec.modules,
     .arg = "DIR",
     .help =
         "with --kernel: directory of its modules (default: the kernel has everything built in)"},
    {.name = "json",
     .type = OPT_FLAG,
     .value = &build_options.json,
     .help = "print the result as JSON"},
};

static const struct cli_usage BUILD_USAGE = {
    .synopsis = "template build [OPTIONS] [NAME]",
    .text =
        "Builds a template: a Debian root file system, and the saved state of a machine that\n"
        "runs it. The default NAME is \"default\". An existing template is replaced when the new\n"
        "one is complete; running sandboxes keep the old one.",
    .opts = BUILD_OPTS,
    .opt_count = ARRAY_LEN(BUILD_OPTS)};

static int build(int argc, char **argv)
{
    struct template_build *spec = &build_options.spec;
    int status = cli_begin(&BUILD_USAGE, &argc, argv);
    if (status >= 0)
        return status;
    if (argc > 2)
        return cli_usage_error("template build takes one NAME");
    if (spec->modules && !spec->kernel)
        return cli_usage_error("--modules needs --kernel");
    if (argc == 2)
        spec->name = argv[1];
    spec->minimal |= str_eq(spec->name, TEMPLATE_MINIMAL);
    struct err e = ERR_INIT;
    char *home auto_free = home_open(&e);
    if (!home)
        return cli_fail(&e);
    spec->home = home;
    spec->memory_mb = build_options.memory / MIB;
    spec->disk_mb = build_options.disk / MIB;
    spec->progress = stderr; // stdout has the result
    spec->terminal = isatty(STDERR_FILENO) == 1;
    return run_build(spec, build_options.json);
}

// ---- ls
struct listing {
    json_t *json; // an array, or NULL for a table
    struct table table;
    bool bad;
};

static const char *const HEADINGS[] = {"NAME", "TIERS", "ACCEL", "KERNEL", "MEMORY",
                                       "CPUS", "DISK",  "USED",  "CREATED"};

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
    char *tiers auto_free = str_printf("microvm%s%s", t->gvisor_rootfs ? ", gvisor" : "",
                                       template_is_unpacked(dir) ? ", bubblewrap" : "");
    table_cell(&l->table, tiers);
    table_cell(&l->table, t->accel);
    table_cell(&l->table, t->kernel);
    number_cell(&l->table, t->memory_mb, "M");
    number_cell(&l->table, t->cpus, "");
    number_cell(&l->table, t->disk_mb, "M");
    number_cell(&l->table, dir_disk_bytes(dir) / MIB, "M");
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
        fputs("There are no templates. Build one: cubby template build\n", stderr);
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
        return cli_usage_error("template ls takes no operand, not \"%s\"", argv[1]);
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
    char *dir auto_free = template_dir(home, name);
    // The unpacked root goes first: without root, only cubby-nest can remove it.
    if ((!force && template_check_unused(home, name, &e) < 0) ||
        (template_name_ok(name) && template_unpack_remove(dir, force, &e) < 0) ||
        template_remove(home, name, true, &e) < 0) {
        cli_fail(&e);
        return -1;
    }
    if (useless) {
        say(stderr, "These snapshots of the template \"%s\" cannot be used any more: %s.", name,
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
             "remove it although sandboxes use it (they run on, but those of bubblewrap lose its "
             "files) or snapshots need it (they become "
             "useless)"},
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

// ---- unpack
static int check_name(const char *name, struct err *e)
{
    return template_name_ok(name)
               ? 0
               : err_set(e, ERR_INVALID, "\"%s\" is not a valid template name", name);
}

static int unpack(int argc, char **argv)
{
    const struct cli_usage usage = {
        .synopsis = "template unpack [NAME]",
        .text =
            "Unpacks the disk of a template into a directory, which the tier bubblewrap needs.\n"
            "The default NAME is \"default\"."};
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
    say(stdout, "template \"%s\" is unpacked%s", name, made ? "" : " already");
    return 0;
}

static void help(FILE *to)
{
    fputs("Usage: cubby template build [OPTIONS] [NAME]\n"
          "       cubby template ls [--json]\n"
          "       cubby template rm [--force] NAME...\n"
          "       cubby template unpack [NAME]\n\n"
          "A template is the saved machine that sandboxes start from. Each verb has --help.\n",
          to);
}

int verb_template(int argc, char **argv)
{
    static const struct {
        const char *name;
        int (*run)(int argc, char **argv);
    } VERBS[] = {{"build", build}, {"ls", list}, {"rm", rm}, {"unpack", unpack}};
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
    return cli_usage_error("unknown verb \"template %s\"; see cubby template --help", name);
}
