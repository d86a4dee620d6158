// SPDX-License-Identifier: Apache-2.0
// cubby snapshot export|import: move snapshots between homes and machines.
#include <stdbool.h>
#include <stdlib.h>

#include "sandbox-backend/base/fd.h"
#include "sandbox-backend/base/home.h"
#include "sandbox-backend/base/json.h"
#include "sandbox-backend/base/mem.h"
#include "sandbox-backend/base/str.h"
#include "sandbox-backend/cli/cli.h"
#include "sandbox-backend/drivers/host/tool.h"
#include "sandbox-backend/template/move/snapshot_archive.h"

#define EXIT_CANCELED 130

static int fail(const struct err *e)
{
    cli_fail(e);
    return e->code == ERR_CANCELED ? EXIT_CANCELED : 1;
}

int snapshot_export_verb(int argc, char **argv)
{
    bool with_template = false, as_json = false;
    const struct opt opts[] = {
        CLI_FLAG("json", &as_json, "print the digest as JSON"),
        CLI_FLAG("with-template", &with_template,
                 "also write its template, with the saved machine, for a computer that has not "
                 "the same build of it"),
    };
    const struct cli_usage usage = {
        .synopsis = "snapshot export [--with-template] [--json] SNAPSHOT FILE",
        .text = "Writes a snapshot to FILE, compressed, for \"cubby snapshot import\", and prints "
                "the\n"
                "SHA-256 digest of its contents. FILE must not exist. It has the memory of the\n"
                "sandbox, with everything secret that is there.",
        .opts = opts,
        .opt_count = ARRAY_LEN(opts)};
    int status = cli_begin(&usage, &argc, argv);
    if (status >= 0)
        return status;
    if (argc != 3)
        return cli_usage_error("snapshot export takes a SNAPSHOT and a FILE");
    if (str_eq(argv[2], "-"))
        return cli_usage_error("snapshot export does not write to standard output: give a FILE "
                               "(./- for a file of that name)");
    struct err e = ERR_INIT;
    struct sha256 digest;
    char hex[SHA256_HEX_CHARS + 1];
    char *home auto_free = home_open(&e);
    if (!home)
        return cli_fail(&e);
    tool_watch_signals();
    int result = snapshot_archive_export(home, argv[1], with_template, argv[2], &digest, &e);
    tool_unwatch_signals();
    if (result < 0)
        return fail(&e);
    sha256_to_hex(&digest, hex);
    cli_print_word("sha256", hex, as_json);
    return 0;
}

static int import(struct snapshot_import *spec, bool json)
{
    struct err e = ERR_INIT;
    char *id auto_free = NULL, *template auto_free = NULL;
    tool_watch_signals();
    int result = snapshot_archive_import(spec, &id, &template, &e);
    tool_unwatch_signals();
    if (result < 0)
        return fail(&e);
    json_t *made = json_pack("{s:s, s:s*}", "snapshotID", id, "templateMade", template);
    if (json)
        cli_print_json(made);
    else
        cli_print_line(id);
    if (template && !json)
        fprintf(stderr, "The template \"%s\" came with it.\n", template);
    json_decref(made);
    return 0;
}

int snapshot_import_verb(int argc, char **argv)
{
    const char *digest = NULL;
    bool json = false;
    struct snapshot_import spec = {0};
    const struct opt opts[] = {
        CLI_STRING("name", &spec.name, "NAME", "another name for the snapshot"),
        CLI_STRING("sha256", &digest, "DIGEST", "refuse an archive with another digest"),
        CLI_FLAG("json", &json, "print the result as JSON"),
    };
    const struct cli_usage usage = {
        .synopsis = "snapshot import [OPTIONS] FILE",
        .text = "Makes a snapshot of a file that \"cubby snapshot export\" wrote, and prints its\n"
                "id. It needs the same build of the template, the same version of QEMU or runsc\n"
                "and, with KVM, a processor with the same features.",
        .opts = opts,
        .opt_count = ARRAY_LEN(opts)};
    struct sha256 expected;
    struct err e = ERR_INIT;
    int status = cli_begin(&usage, &argc, argv);
    if (status >= 0)
        return status;
    if (argc != 2)
        return cli_usage_error("snapshot import takes one FILE");
    if (digest && !sha256_from_hex(digest, &expected))
        return cli_usage_error("--sha256 takes %d hexadecimal digits", SHA256_HEX_CHARS);
    if (spec.name && !snapshot_archive_name_ok(spec.name))
        return cli_usage_error("\"%.80s\" is not a valid name of a snapshot", spec.name);
    char *home auto_free = home_open(&e);
    if (!home)
        return cli_fail(&e);
    spec.home = home;
    spec.path = argv[1];
    spec.expected = digest ? &expected : NULL;
    return import(&spec, json);
}
