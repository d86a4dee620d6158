// SPDX-License-Identifier: Apache-2.0
// cubby template build NAME -f DOCKERFILE [CONTEXT], and --plan FILE: its options.
#include "sandbox-backend/cli/template_plan.h"

#include <jansson.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "sandbox-backend/base/fd.h"
#include "sandbox-backend/base/home.h"
#include "sandbox-backend/base/mem.h"
#include "sandbox-backend/base/str.h"
#include "sandbox-backend/build/engine.h"
#include "sandbox-backend/cli/cli.h"
#include "sandbox-backend/cli/template.h"
#include "sandbox-backend/drivers/template_dirs.h"
#include "sandbox-backend/template/move/collect.h"

#define MIB           (1024LL * 1024)
#define MEMORY_MIN    (128 * MIB)
#define MEMORY_MAX    (64LL * 1024 * MIB)
#define DISK_MIN      (1024 * MIB)
#define DISK_MAX      (1024LL * 1024 * MIB)
#define CPUS_MAX      64
#define TIMEOUT_MAX_S 82800

struct plan_options {
    struct engine_opts engine;
    struct opt_list args, allow;
    int64_t memory, disk; // bytes
    bool json, system;
};

static bool is_flag(const char *word, const char *name)
{
    size_t len = strlen(name);
    return strncmp(word, name, len) == 0 && (word[len] == '\0' || word[len] == '=');
}

bool template_plan_is_meant(int argc, char **argv)
{
    for (int i = 1; i < argc && !str_eq(argv[i], "--"); i++)
        if (str_eq(argv[i], "-f") || is_flag(argv[i], "--file") || is_flag(argv[i], "--plan"))
            return true;
    return false;
}

// ---- options
// --build-arg NAME=VALUE, or NAME, whose value is that of the environment. New reference.
static json_t *read_args(const struct opt_list *list)
{
    json_t *args = json_object();
    for (int i = 0; i < list->count; i++) {
        const char *equals = strchr(list->items[i], '=');
        char *name auto_free = equals ? xstrndup(list->items[i], (size_t)(equals - list->items[i]))
                                      : xstrdup(list->items[i]);
        const char *value = equals ? equals + 1 : getenv(name);
        if (value && (!*name || json_object_set_new(args, name, json_string(value)) < 0)) {
            json_decref(args);
            return NULL;
        }
    }
    return args;
}

static json_t *read_allow(const struct opt_list *list)
{
    json_t *allow = json_array();
    for (int i = 0; i < list->count; i++)
        json_array_append_new(allow, json_string(list->items[i]));
    return allow;
}

static int report_result(struct plan_options *o, bool unchanged)
{
    struct err e = ERR_INIT;
    struct template t;
    char *dir auto_free = o->engine.templates
                              ? str_printf("%s/%s", o->engine.templates, o->engine.name)
                              : template_dir(o->engine.home, o->engine.name);
    if (template_load(dir, &t, &e) < 0)
        return cli_fail(&e);
    json_t *made = template_to_json(o->engine.home, &t, dir);
    report_done(o->engine.report, made);
    if (!o->json)
        template_say(stdout, "template \"%s\": %s%lld MB of memory, %lld MB on disk", t.name,
                     unchanged ? "unchanged, " : "", (long long)t.memory_mb,
                     (long long)(dir_disk_bytes(dir) / MIB));
    json_decref(made);
    template_fini(&t);
    return 0;
}

static int run_plan(struct plan_options *o)
{
    struct err e = ERR_INIT;
    struct report report;
    bool unchanged = false;
    report_init(&report, o->json ? stdout : stderr, o->json, isatty(STDERR_FILENO) == 1);
    o->engine.report = &report;
    int status = 0;
    if (engine_build(&o->engine, &unchanged, &e) < 0) {
        report_error(&report, &e);
        if (!o->json)
            cli_fail(&e);
        status = template_exit_status(&e);
    } else {
        status = report_result(o, unchanged);
        if (!unchanged)
            collect_quietly(o->engine.home, true);
    }
    report_fini(&report);
    o->engine.report = NULL;
    return status;
}

static int run_with_lists(struct plan_options *o)
{
    struct err e = ERR_INIT;
    char *home auto_free = home_open(&e);
    char *templates auto_free = home && o->system ? template_dirs_system_make(&e) : NULL;
    json_t *args = read_args(&o->args), *allow = read_allow(&o->allow);
    int status = 1;
    o->engine.home = home;
    o->engine.templates = templates;
    o->engine.args = args;
    o->engine.allow = allow;
    o->engine.memory_mb = o->memory / MIB;
    o->engine.disk_mb = o->disk / MIB;
    if (!args)
        status = cli_usage_error("--build-arg must be NAME=VALUE");
    else
        status = err_is(&e) ? cli_fail(&e) : run_plan(o);
    json_decref(args);
    json_decref(allow);
    return status;
}

static int check_operands(const struct plan_options *o, int argc)
{
    bool file = o->engine.dockerfile != NULL;
    if (file == (o->engine.plan != NULL))
        return cli_usage_error("give either -f or --plan");
    if (argc < 2)
        return cli_usage_error("template build -f and --plan need the NAME of the template");
    if (argc > (file ? 3 : 2))
        return cli_usage_error(file ? "template build -f takes NAME and a context directory"
                                    : "template build --plan takes one NAME");
    return 0;
}

#define SIZE_OPT(v, n, a, lo, hi, h)                                                       \
    {                                                                                      \
        .name = (n), .type = OPT_SIZE, .value = (v), .arg = (a), .min = (lo), .max = (hi), \
        .help = (h)                                                                        \
    }

static int run_verb(struct plan_options *o, const struct opt *opts, int count, int argc,
                    char **argv)
{
    static char file_option[] = "--file"; // docker and others call it -f
    const struct cli_usage usage = {
        .synopsis = "template build [OPTIONS] NAME -f DOCKERFILE [CONTEXT]\n"
                    "       cubby template build [OPTIONS] NAME --plan FILE",
        .text = "Builds a template from a Dockerfile. RUN steps run in a sandbox. The result of\n"
                "each step is kept, and a step runs again only when it or a step before it has\n"
                "changed. COPY takes files from CONTEXT (default: the Dockerfile's directory).",
        .opts = opts,
        .opt_count = count};
    cli_spell_out(argc, argv, file_option);
    int status = cli_begin(&usage, &argc, argv);
    if (status >= 0)
        return status;
    status = check_operands(o, argc);
    if (!status)
        status = template_check_name(argv[1]);
    if (status)
        return status;
    o->engine.name = argv[1];
    o->engine.context = argc > 2 ? argv[2] : NULL;
    return run_with_lists(o);
}

// Refuse the options that only templates without a Dockerfile have.
static int check_other_options(int argc, char **argv)
{
    static const char *const BASES[] = {"--from", "--from-disk", "--config"};
    static const char *const CONTENTS[] = {"--packages", "--pip", "--npm", "--script"};
    for (int i = 1; i < argc && !str_eq(argv[i], "--"); i++) {
        for (size_t k = 0; k < ARRAY_LEN(BASES); k++)
            if (is_flag(argv[i], BASES[k]))
                return cli_usage_error("%s does not go with -f or --plan, where FROM names the "
                                       "base",
                                       BASES[k]);
        for (size_t k = 0; k < ARRAY_LEN(CONTENTS); k++)
            if (is_flag(argv[i], CONTENTS[k]))
                return cli_usage_error("%s does not go with -f or --plan, where a RUN step "
                                       "installs packages",
                                       CONTENTS[k]);
    }
    return 0;
}

int template_plan_verb(int argc, char **argv)
{
    int status = check_other_options(argc, argv);
    if (status)
        return status;
    struct plan_options o = {.engine = {.accel = "auto", .step_timeout_s = ENGINE_STEP_TIMEOUT_S}};
    const struct opt opts[] = {
        CLI_STRING("file", &o.engine.dockerfile, "DOCKERFILE",
                   "(or -f) build from this Dockerfile; \"-\" is stdin"),
        CLI_STRING("plan", &o.engine.plan, "FILE", "build from a plan in JSON"),
        CLI_STRING("target", &o.engine.target, "STAGE", "build this stage instead of the last one"),
        CLI_LIST("build-arg", &o.args, "NAME=VALUE", "set an ARG; may be repeated"),
        CLI_LIST("allow", &o.allow, "ENTRY",
                 "let steps connect to ENTRY, and to nothing else (default: the internet, but no "
                 "private address); may be repeated"),
        CLI_INT("step-timeout", &o.engine.step_timeout_s, "SECONDS", 1, TIMEOUT_MAX_S,
                "time after which a RUN is ended (default 1800)"),
        CLI_FLAG("no-cache", &o.engine.no_cache, "run all steps again, and pull images again"),
        CLI_FLAG("no-start", &o.engine.no_start,
                 "do not start CMD or ENTRYPOINT in the template's sandboxes"),
        CLI_STRING("start", &o.engine.start, "COMMAND",
                   "start this command instead of CMD or ENTRYPOINT"),
        CLI_STRING("ready", &o.engine.ready, "COMMAND",
                   "command that succeeds when the start command is ready (default: HEALTHCHECK)"),
        CLI_STRING("authfile", &o.engine.authfile, "FILE",
                   "credentials for registries (containers-auth.json)"),
        CLI_FLAG("plain-http", &o.engine.plain_http, "a registry may have no TLS"),
        {.name = "accel",
         .env = "CUBBY_ACCEL",
         .type = OPT_STRING,
         .value = &o.engine.accel,
         .arg = "auto|kvm|tcg",
         .choices = "auto|kvm|tcg",
         .help = "auto (default): KVM if the guest kernel boots under it, else TCG"},
        SIZE_OPT(&o.memory, "memory", "SIZE", MEMORY_MIN, MEMORY_MAX,
                 "memory of each sandbox (default: that of the base)"),
        CLI_INT("cpus", &o.engine.cpus, "N", 1, CPUS_MAX,
                "virtual CPUs of each sandbox (default: those of the base)"),
        SIZE_OPT(&o.disk, "disk", "SIZE", DISK_MIN, DISK_MAX,
                 "maximum size of the disk (default: that of the base)"),
        CLI_FLAG("system", &o.system, "build it for all users of this host, as root"),
        CLI_FLAG("json", &o.json, "print the progress and the result as JSON, one object a line"),
    };
    return run_verb(&o, opts, ARRAY_LEN(opts), argc, argv);
}
