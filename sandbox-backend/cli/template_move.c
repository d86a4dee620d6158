// SPDX-License-Identifier: Apache-2.0
// cubby template export|import|finish|gc: move templates between machines, complete them, and
// remove what builds left.
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include "sandbox-backend/base/fd.h"
#include "sandbox-backend/base/home.h"
#include "sandbox-backend/base/json.h"
#include "sandbox-backend/base/mem.h"
#include "sandbox-backend/base/str.h"
#include "sandbox-backend/cli/cli.h"
#include "sandbox-backend/cli/template.h"
#include "sandbox-backend/drivers/host/tool.h"
#include "sandbox-backend/drivers/template_dirs.h"
#include "sandbox-backend/template/build.h"
#include "sandbox-backend/template/finish.h"
#include "sandbox-backend/template/move/collect.h"
#include "sandbox-backend/template/move/transfer.h"

#define MIB         (1024LL * 1024)
#define DAY_S       (24 * 3600LL)
#define UNUSED_DAYS (COLLECT_UNUSED_S / DAY_S)
#define DAYS_MAX    3650

static int fail(const struct err *e)
{
    cli_fail(e);
    return template_exit_status(e);
}

// ---- export
int template_export_verb(int argc, char **argv)
{
    bool with_machine = false, as_json = false;
    const struct opt opts[] = {
        CLI_FLAG("json", &as_json, "print the digest as JSON"),
        CLI_FLAG("with-machine", &with_machine,
                 "also write the saved machine, which a host without KVM and with the same version "
                 "of QEMU takes over: it neither boots it nor warms it up"),
    };
    const struct cli_usage usage = {
        .synopsis = "template export [--with-machine] [--json] NAME FILE",
        .text = "Writes a template to FILE, compressed, for \"cubby template import\" on another\n"
                "machine, and prints the SHA-256 digest of its contents. FILE must not exist.",
        .opts = opts,
        .opt_count = ARRAY_LEN(opts)};
    int status = cli_begin(&usage, &argc, argv);
    if (status >= 0)
        return status;
    if (argc != 3)
        return cli_usage_error("template export takes a NAME and a FILE");
    if (str_eq(argv[2], "-"))
        return cli_usage_error("template export does not write to standard output: give a FILE "
                               "(./- for a file of that name)");
    struct err e = ERR_INIT;
    struct sha256 digest;
    char hex[SHA256_HEX_CHARS + 1];
    char *home auto_free = home_open(&e);
    if (!home)
        return cli_fail(&e);
    if (!template_name_ok(argv[1]))
        return cli_usage_error("\"%s\" is not a valid template name", argv[1]);
    tool_watch_signals();
    int result = transfer_export(home, argv[1], argv[2], with_machine, &digest, &e);
    tool_unwatch_signals();
    if (result < 0)
        return fail(&e);
    sha256_to_hex(&digest, hex);
    cli_print_word("sha256", hex, as_json);
    return 0;
}

// ---- import
struct import_options {
    const char *name, *accel, *digest;
    const char *templates; // directory of the system that gets the template; NULL: the home
    bool force, json, system, microvm_only;
};

static const char *text_of(const json_t *object, const char *key)
{
    return json_string_value(json_object_get(object, key));
}

static int build_imported(const struct import_options *o, const char *home,
                          const struct transfer *t, struct err *e)
{
    const json_t *facts = t->template;
    const json_t *environment = json_object_get(facts, "environment");
    const json_t *start = json_object_get(facts, "start");
    char *disk auto_free = str_printf("%s/" TEMPLATE_DISK, t->dir);
    char *kernel auto_free = str_printf("%s/" TEMPLATE_KERNEL, t->dir);
    char *initramfs auto_free = str_printf("%s/" TEMPLATE_INITRD, t->dir);
    const struct saved_machine saved = {.dir = t->dir, .facts = json_object_get(facts, "saved")};
    struct template_build spec = {
        .home = home,
        .templates = o->templates,
        .name = o->name ? o->name : text_of(facts, "name"),
        .kernel = kernel,
        .kernel_release = text_of(facts, "kernel"),
        .initramfs = initramfs,
        .accel = o->accel,
        .microvm_only = o->microvm_only,
        .memory_mb = json_integer_value(json_object_get(facts, "memory_mb")),
        .cpus = json_integer_value(json_object_get(facts, "cpus")),
        .disk_mb = json_integer_value(json_object_get(facts, "disk_mb")),
        .progress = stderr,
        .terminal = isatty(STDERR_FILENO) == 1,
        .source = {.kind = FROM_DISK, .disk = disk},
        .saved = saved.facts ? &saved : NULL,
        .environment = {.variables = json_object_get(environment, "variables"),
                        .directory = text_of(environment, "directory"),
                        .user = text_of(environment, "user")},
        .start = text_of(start, "command"),
        .ready = text_of(start, "ready"),
        .key = text_of(facts, "key"),
        .image = json_object_get(facts, "image"),
        .extra_modules = text_of(facts, "modules")};
    struct template built;
    if (template_build(&spec, &built, e) < 0)
        return -1;
    template_print(home, o->templates, &built, o->json);
    template_fini(&built);
    return 0;
}

// Check before anything is read that the name is free.
static int check_name(const struct import_options *o, const char *home, const char *name,
                      struct err *e)
{
    char *dir auto_free =
        o->templates ? str_printf("%s/%s", o->templates, name) : template_dir(home, name);
    if (!template_name_ok(name))
        return err_set(e, ERR_INVALID, "\"%s\" is not a valid template name", name);
    if (o->force || !file_exists(dir))
        return 0;
    return err_set(e, ERR_CONFLICT,
                   "there is a template \"%s\" already; use --name NAME, or --force to replace it",
                   name);
}

static int import(const struct import_options *o, const char *home, const char *from,
                  const struct sha256 *expected, struct err *e)
{
    bool is_url = str_starts(from, "http://") || str_starts(from, "https://");
    collect_quietly(home, false); // an earlier import may have been killed
    char *file auto_free = is_url ? transfer_fetch(home, from, e) : xstrdup(from);
    struct transfer t = {.lock = -1};
    if (!file)
        return -1;
    int result = transfer_read(&t, home, file, expected, e);
    if (is_url)
        unlink(file);
    if (result == 0 && !o->name)
        result = check_name(o, home, text_of(t.template, "name"), e);
    if (result == 0)
        result = build_imported(o, home, &t, e);
    transfer_fini(&t);
    return result;
}

int template_import_verb(int argc, char **argv)
{
    struct import_options o = {.accel = "auto"};
    const struct opt opts[] = {
        CLI_STRING("name", &o.name, "NAME", "another name for the template"),
        CLI_STRING("sha256", &o.digest, "DIGEST", "refuse an archive with another digest"),
        {.name = "accel",
         .env = "CUBBY_ACCEL",
         .type = OPT_STRING,
         .value = &o.accel,
         .arg = "auto|kvm|tcg",
         .choices = "auto|kvm|tcg",
         .help = "as of template build"},
        {.name = "force", .type = OPT_FLAG, .value = &o.force, .help = "replace a template"},
        CLI_FLAG("system", &o.system, "make it for all users of this host, as root"),
        CLI_FLAG("microvm-only", &o.microvm_only,
                 "make it without its part for gVisor, which \"template finish\" adds"),
        {.name = "json", .type = OPT_FLAG, .value = &o.json, .help = "print the result as JSON"},
    };
    const struct cli_usage usage = {
        .synopsis = "template import [OPTIONS] FILE|URL",
        .text = "Makes a template of a file that \"cubby template export\" wrote. The file is\n"
                "checked first; then the machine is booted and saved on this host.",
        .opts = opts,
        .opt_count = ARRAY_LEN(opts)};
    struct sha256 expected;
    struct err e = ERR_INIT;
    int status = cli_begin(&usage, &argc, argv);
    if (status >= 0)
        return status;
    if (argc != 2)
        return cli_usage_error("template import takes one FILE or URL");
    if (o.digest && !sha256_from_hex(o.digest, &expected))
        return cli_usage_error("--sha256 takes %d hexadecimal digits", SHA256_HEX_CHARS);
    char *home auto_free = home_open(&e);
    if (!home)
        return cli_fail(&e);
    char *templates auto_free = o.system ? template_dirs_system_make(&e) : NULL;
    if (o.system && !templates)
        return cli_fail(&e);
    o.templates = templates;
    tool_watch_signals();
    int result = o.name ? check_name(&o, home, o.name, &e) : 0;
    if (result == 0)
        result = import(&o, home, argv[1], o.digest ? &expected : NULL, &e);
    tool_unwatch_signals();
    return result < 0 ? fail(&e) : 0;
}

// ---- finish
int template_finish_verb(int argc, char **argv)
{
    bool as_json = false;
    const struct opt opts[] = {
        CLI_FLAG("json", &as_json, "print the name as JSON"),
    };
    const struct cli_usage usage = {
        .synopsis = "template finish [--json] [NAME]",
        .text = "Adds the part for gVisor to a template that was made without it, for example\n"
                "before runsc or erofs-utils was installed. The template can be used meanwhile,\n"
                "and its sandboxes and snapshots stay usable. The default NAME is \"default\".",
        .opts = opts,
        .opt_count = ARRAY_LEN(opts)};
    int status = cli_begin(&usage, &argc, argv);
    if (status >= 0)
        return status;
    if (argc > 2)
        return cli_usage_error("template finish takes one NAME");
    struct err e = ERR_INIT;
    char *home auto_free = home_open(&e);
    if (!home)
        return cli_fail(&e);
    const struct template_finish spec = {.home = home,
                                         .name = argc == 2 ? argv[1] : TEMPLATE_DEFAULT,
                                         .progress = stderr,
                                         .terminal = isatty(STDERR_FILENO) == 1};
    bool made = false;
    if (template_finish(&spec, &made, &e) < 0)
        return fail(&e);
    if (as_json)
        cli_print_word("template", spec.name, true);
    else
        template_say(stdout, "template \"%s\" has its part for gVisor%s", spec.name,
                     made ? "" : " already");
    return 0;
}

// ---- gc
struct removed {
    json_t *json; // an array, or NULL for lines
    int64_t bytes;
    const char *verb;
};

static void on_removed(const struct collect_item *item, void *ctx)
{
    struct removed *r = ctx;
    r->bytes += item->bytes;
    if (r->json)
        json_array_append_new(r->json, json_pack("{s:s, s:s, s:I}", "kind", item->kind, "name",
                                                 item->name, "bytes", (json_int_t)item->bytes));
    else
        template_say(stdout, "%s %s %s, %lld MB", r->verb, item->kind, item->name,
                     (long long)(item->bytes / MIB));
}

int template_gc_verb(int argc, char **argv)
{
    int64_t days = UNUSED_DAYS, size = COLLECT_BYTES_MAX, count = COLLECT_COUNT_MAX;
    struct collect_spec spec = {0};
    bool json = false;
    const struct opt opts[] = {
        {.name = "unused",
         .type = OPT_INT,
         .value = &days,
         .arg = "DAYS",
         .max = DAYS_MAX,
         .help = "remove layers that no build has used for DAYS days (default 30)"},
        {.name = "size",
         .type = OPT_SIZE,
         .value = &size,
         .arg = "SIZE",
         .max = INT64_MAX,
         .help = "then remove the least recently used ones beyond this size (default 20G)"},
        {.name = "layers",
         .type = OPT_INT,
         .value = &count,
         .arg = "N",
         .max = INT64_MAX,
         .help = "and until there are no more than N (default 500)"},
        {.name = "dry-run", .type = OPT_FLAG, .value = &spec.dry_run, .help = "only list them"},
        {.name = "json", .type = OPT_FLAG, .value = &json, .help = "print a JSON array"},
    };
    const struct cli_usage usage = {
        .synopsis = "template gc [OPTIONS]",
        .text =
            "Removes what builds keep to be quick the next time (layers and hidden templates),\n"
            "and what interrupted builds and imports left. Templates and snapshots stay.",
        .opts = opts,
        .opt_count = ARRAY_LEN(opts)};
    struct err e = ERR_INIT;
    int status = cli_begin(&usage, &argc, argv);
    if (status >= 0)
        return status;
    if (argc > 1)
        return cli_usage_error("template gc takes no operand, not \"%s\"", argv[1]);
    char *home auto_free = home_open(&e);
    if (!home)
        return cli_fail(&e);
    struct removed r = {.json = json ? json_array() : NULL,
                        .verb = spec.dry_run ? "would remove" : "removed"};
    int64_t kept = 0;
    spec.home = home;
    spec.unused_s = days * DAY_S;
    spec.bytes_max = size;
    spec.count_max = count;
    if (collect_run(&spec, on_removed, &r, &kept, &e) < 0)
        status = cli_fail(&e);
    else if (json)
        cli_print_json(r.json);
    else
        template_say(stdout, "%lld MB %s; layers that stay: %lld MB", (long long)(r.bytes / MIB),
                     spec.dry_run ? "would be freed" : "freed", (long long)(kept / MIB));
    json_decref(r.json);
    return status < 0 ? 0 : status;
}
