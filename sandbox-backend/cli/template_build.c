// SPDX-License-Identifier: Apache-2.0
// cubby template build: its options.
#include <stdbool.h>
#include <stdlib.h>
#include <unistd.h>

#include "sandbox-backend/base/buf.h"
#include "sandbox-backend/base/fd.h"
#include "sandbox-backend/base/home.h"
#include "sandbox-backend/base/json.h"
#include "sandbox-backend/base/mem.h"
#include "sandbox-backend/base/str.h"
#include "sandbox-backend/cli/cli.h"
#include "sandbox-backend/cli/template.h"
#include "sandbox-backend/cli/template_recipe.h"
#include "sandbox-backend/drivers/template_dirs.h"
#include "sandbox-backend/template/build.h"
#include "sandbox-backend/template/move/collect.h"

#define MIB              (1024LL * 1024)
#define EXIT_CANCELED    130
#define MEMORY_MIN       (128 * MIB)
#define MEMORY_MAX       (64LL * 1024 * MIB)
#define DISK_MIN         (1024 * MIB)
#define DISK_MAX         (1024LL * 1024 * MIB)
#define CPUS_MAX         64
#define CONFIG_BYTES_MAX (256 * 1024)

// An image holds only what differs from its template, and cannot be used with another one.
static void warn_of_users(const char *home, const char *name)
{
    char *snapshots auto_free = template_snapshots(home, name);
    char *hibernated auto_free = template_hibernated(home, name);
    if (snapshots)
        template_say(
            stderr,
            "These snapshots need the present template \"%s\" and cannot be used after it is "
            "replaced: %s",
            name, snapshots);
    if (hibernated) {
        template_say(
            stderr,
            "These hibernated sandboxes cannot be woken after the template \"%s\" is replaced: %s",
            name, hibernated);
        template_say(stderr,
                     "Stop with Ctrl-C and use or kill them first, or build under another name.");
    }
}

void template_print(const char *home, const char *templates, const struct template *t, bool json)
{
    char *dir auto_free =
        templates ? str_printf("%s/%s", templates, t->name) : template_dir(home, t->name);
    json_t *made = template_to_json(home, t, dir);
    if (json)
        cli_print_json(made);
    else
        template_say(stdout, "template \"%s\": kernel %s, %s, %lld MB of memory, %lld MB on disk",
                     t->name, t->kernel, t->accel, (long long)t->memory_mb,
                     (long long)(dir_disk_bytes(dir) / MIB));
    json_decref(made);
}

int template_exit_status(const struct err *e)
{
    return e->code == ERR_CANCELED ? EXIT_CANCELED : 1;
}

int template_check_name(const char *name)
{
    if (template_name_ok(name))
        return 0;
    return cli_usage_error(
        "\"%.80s\" is not a valid template name: use a-z, 0-9, '.', '_' and '-', "
        "at most %d characters",
        name, TEMPLATE_NAME_MAX);
}

static int run_build(const struct template_build *spec, bool json)
{
    struct err e = ERR_INIT;
    struct template t;
    warn_of_users(spec->home, spec->name);
    if (template_build(spec, &t, &e) < 0) {
        cli_fail(&e);
        return template_exit_status(&e);
    }
    template_print(spec->home, spec->templates, &t, json);
    template_fini(&t);
    collect_quietly(spec->home, true);
    return 0;
}

static struct {
    struct template_build spec;
    int64_t memory, disk;          // bytes
    const char *image, *disk_file; // sources
    const char *config;            // file
    struct template_wish wish;
    bool json, system;
} build_options = {
    .spec = {.name = TEMPLATE_DEFAULT, .accel = "auto", .cpus = TEMPLATE_CPUS_DEFAULT},
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
     .help = "memory of each sandbox (default 512M, or the recipe's)"},
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
     .help = "maximum size of the disk (default 8G, or the recipe's)"},
    {.name = "packages",
     .type = OPT_STRING,
     .value = &build_options.spec.packages,
     .arg = "A,B",
     .help = "additional Debian packages"},
    {.name = "pip",
     .type = OPT_STRING,
     .value = &build_options.wish.pip,
     .arg = "A,B",
     .help = "additional Python packages, from the host's index of pip"},
    {.name = "npm",
     .type = OPT_STRING,
     .value = &build_options.wish.npm,
     .arg = "A,B",
     .help = "additional packages of npm; brings nodejs and npm"},
    {.name = "script",
     .type = OPT_STRING,
     .value = &build_options.wish.script,
     .arg = "FILE",
     .help = "a shell script that runs as root in the new system, after all packages"},
    {.name = "from",
     .type = OPT_STRING,
     .value = &build_options.image,
     .arg = "IMAGE",
     .help = "take the files of an OCI image: python:3.12-slim, docker://HOST/NAME:TAG, oci:DIR, "
             "docker-archive:FILE (\"-\": docker save on stdin)"},
    {.name = "authfile",
     .type = OPT_STRING,
     .value = &build_options.spec.source.authfile,
     .arg = "FILE",
     .help = "with --from: credentials of registries, as skopeo login writes them (default: "
             "skopeo's own file)"},
    {.name = "plain-http",
     .type = OPT_FLAG,
     .value = &build_options.spec.source.plain_http,
     .help = "with --from: the registry may have no TLS"},
    {.name = "from-disk",
     .type = OPT_STRING,
     .value = &build_options.disk_file,
     .arg = "FILE",
     .help = "take a copy of a file with an ext4 file system, without partitions"},
    {.name = "config",
     .type = OPT_STRING,
     .value = &build_options.config,
     .arg = "FILE",
     .help = "what commands get, as JSON: {\"variables\": {}, \"directory\": \"/app\", \"user\": "
             "\"app\", \"start\": \"...\", \"ready\": \"...\"}"},
    {.name = "start",
     .type = OPT_STRING,
     .value = &build_options.spec.start,
     .arg = "COMMAND",
     .help = "a command that runs in each sandbox from its beginning"},
    {.name = "ready",
     .type = OPT_STRING,
     .value = &build_options.spec.ready,
     .arg = "COMMAND",
     .help = "with --start: a command that succeeds when the first one is ready"},
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
     .arg = "DIR|docker",
     .help = "\"docker\": the kernel modules of Docker's engine; with --kernel: directory of its "
             "modules (default: the kernel has everything built in)"},
    {.name = "system",
     .type = OPT_FLAG,
     .value = &build_options.system,
     .help = "build it for all users of this host, as root (docs/templates.md)"},
    {.name = "json",
     .type = OPT_FLAG,
     .value = &build_options.json,
     .help = "print the result as JSON"},
};

static const struct cli_usage BUILD_USAGE = {
    .synopsis = "template build [OPTIONS] [NAME]\n"
                "       cubby template build [OPTIONS] NAME -f DOCKERFILE [CONTEXT]",
    .text =
        "Builds a template: a root file system of Debian packages, an image or a disk, and the\n"
        "saved state of a machine that runs it. The default NAME is \"default\". An existing "
        "template is replaced when the new\n"
        "one is complete; running sandboxes keep the old one.\n"
        "`cubby template build -f DOCKERFILE --help` shows the options with a Dockerfile.\n"
        "These names are recipes, unless a source is given:\n"
        "  full             what MiroFlow and E2B's code interpreter install, with node\n"
        "                   (also code-interpreter-v1)\n"
        "  all_pip_apt_pkg  full, with torch and torchvision\n"
        "  agents           node, git, Claude Code, Codex\n"
        "  browser          Chromium with Playwright\n"
        "  docker           Docker's engine, started",
    .opts = BUILD_OPTS,
    .opt_count = ARRAY_LEN(BUILD_OPTS)};

static int check_source(struct template_build *spec)
{
    struct template_source *source = &spec->source;
    bool foreign = build_options.image || build_options.disk_file;
    if (build_options.image && build_options.disk_file)
        return cli_usage_error("--from and --from-disk exclude each other"), -1;
    if (foreign && spec->packages)
        return cli_usage_error("--packages is for templates of Debian packages"), -1;
    if ((source->authfile || source->plain_http) && !build_options.image)
        return cli_usage_error("--authfile and --plain-http need --from"), -1;
    source->kind = build_options.image       ? FROM_IMAGE
                   : build_options.disk_file ? FROM_DISK
                                             : FROM_PACKAGES;
    source->reference = build_options.image;
    source->disk = build_options.disk_file;
    source->keeps_disk = true;
    return 0;
}

// ---- --config
static int take_config(struct template_build *spec, const json_t *config, struct err *e)
{
    static const char *const KNOWN[] = {"variables", "directory", "user", "start", "ready"};
    const char *key, *text[ARRAY_LEN(KNOWN)] = {NULL};
    json_t *value;
    json_object_foreach ((json_t *)(uintptr_t)config, key, value) {
        size_t i = 0;
        while (i < ARRAY_LEN(KNOWN) && !str_eq(key, KNOWN[i]))
            i++;
        if (i == ARRAY_LEN(KNOWN))
            return err_set(e, ERR_INVALID, "unknown member \"%.64s\"", key);
    }
    for (size_t i = 1; i < ARRAY_LEN(KNOWN); i++)
        if (json_get_string(config, KNOWN[i], &text[i], NULL, e) < 0)
            return -1;
    if (json_get_string_map(config, KNOWN[0], &spec->environment.variables, e) < 0)
        return -1;
    spec->environment.directory = text[1];
    spec->environment.user = text[2];
    spec->start = spec->start ? spec->start : text[3];
    spec->ready = spec->ready ? spec->ready : text[4];
    return 0;
}

// *config: new reference, whose strings `spec` borrows.
static int read_config(struct template_build *spec, json_t **config, struct err *e)
{
    struct buf text auto_buf = BUF_INIT;
    if (build_options.config) {
        if (file_read(build_options.config, CONFIG_BYTES_MAX, &text, e) < 0)
            return -1;
        *config = json_parse(buf_str(&text), text.len, e);
        if (!json_is_object(*config))
            err_set(e, ERR_INVALID, "it is not a JSON object");
        if (!json_is_object(*config) || take_config(spec, *config, e) < 0)
            return err_wrap(e, "--config %s", build_options.config);
    }
    if (spec->ready && !spec->start)
        return err_set(e, ERR_INVALID, "--ready needs --start");
    return 0;
}

int template_build_verb(int argc, char **argv)
{
    struct template_build *spec = &build_options.spec;
    int status = cli_begin(&BUILD_USAGE, &argc, argv);
    if (status >= 0)
        return status;
    if (argc > 2)
        return cli_usage_error("template build takes one NAME");
    if (argc == 2)
        spec->name = argv[1];
    if (template_check_name(spec->name))
        return CLI_USAGE;
    if (check_source(spec) < 0)
        return CLI_USAGE;
    if (template_take_modules(spec) < 0)
        return CLI_USAGE;
    spec->minimal |= str_eq(spec->name, TEMPLATE_MINIMAL);
    struct err e = ERR_INIT;
    char *home auto_free = home_open(&e);
    json_t *config = NULL;
    char *templates auto_free = build_options.system ? template_dirs_system_make(&e) : NULL;
    if (err_is(&e))
        return cli_fail(&e);
    spec->templates = templates;
    if (!home || read_config(spec, &config, &e) < 0 ||
        template_take_recipe(spec, &build_options.wish, &e) < 0)
        return cli_fail(&e);
    spec->home = home;
    if (build_options.memory)
        spec->memory_mb = build_options.memory / MIB;
    if (build_options.disk)
        spec->disk_mb = build_options.disk / MIB;
    spec->progress = stderr; // stdout has the result
    spec->terminal = isatty(STDERR_FILENO) == 1;
    status = run_build(spec, build_options.json);
    json_decref(config);
    template_wish_fini(&build_options.wish);
    return status;
}
