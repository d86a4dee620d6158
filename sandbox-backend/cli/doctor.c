// SPDX-License-Identifier: Apache-2.0
// cubby doctor: what this machine lacks, and what to do about it.
#include "sandbox-backend/cli/doctor.h"

#include <assert.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "sandbox-backend/base/home.h"
#include "sandbox-backend/base/json.h"
#include "sandbox-backend/base/mem.h"
#include "sandbox-backend/base/str.h"
#include "sandbox-backend/cli/cli.h"
#include "sandbox-backend/cli/table.h"

static const char *const LEVEL_NAMES[] = {"ok", "note", "missing"};

void doctor_ok(struct doctor *d, const char *name, const char *fmt, ...)
{
    assert(d->count < FINDINGS_MAX);
    va_list ap;
    va_start(ap, fmt);
    d->findings[d->count++] = (struct finding){.name = name, .text = str_vprintf(fmt, ap)};
    va_end(ap);
}

void doctor_add(struct doctor *d, enum finding_level level, const char *name, const char *remedy,
                const char *fmt, ...)
{
    assert(d->count < FINDINGS_MAX);
    va_list ap;
    va_start(ap, fmt);
    d->findings[d->count++] = (struct finding){.name = name,
                                               .level = level,
                                               .text = str_vprintf(fmt, ap),
                                               .remedy = remedy ? xstrdup(remedy) : NULL};
    va_end(ap);
}

static void print_table(const struct doctor *d)
{
    struct table t;
    table_init(&t, 3);
    for (int i = 0; i < d->count; i++) {
        const struct finding *f = &d->findings[i];
        table_cell(&t, LEVEL_NAMES[f->level]);
        table_cell(&t, f->name);
        table_cell(&t, f->text);
        if (f->remedy) {
            table_cell(&t, "");
            table_cell(&t, "");
            table_cell(&t, f->remedy);
        }
    }
    table_print(&t, stdout);
    table_fini(&t);
}

static void print_json(const struct doctor *d)
{
    json_t *list = json_array();
    for (int i = 0; i < d->count; i++) {
        const struct finding *f = &d->findings[i];
        json_t *item = json_pack("{s:s, s:s}", "name", f->name, "level", LEVEL_NAMES[f->level]);
        json_object_set_new(item, "text", json_lossy_string(f->text, strlen(f->text)));
        if (f->remedy)
            json_object_set_new(item, "remedy", json_lossy_string(f->remedy, strlen(f->remedy)));
        json_array_append_new(list, item);
    }
    cli_print_json(list);
    json_decref(list);
}

static void examine(struct doctor *d)
{
    struct err e = ERR_INIT;
    d->home = home_open(&e);
    if (d->home)
        doctor_ok(d, "state", "%s", d->home);
    else
        doctor_add(d, FINDING_MISSING, "state", "set CUBBY_HOME to a directory you can write to",
                   "%s", e.msg);
    doctor_tools(d);
    doctor_template(d);
    doctor_kvm(d);
    doctor_host(d);
    doctor_limits(d);
    doctor_jail(d);
    doctor_daemon(d);
}

static int verdict(const struct doctor *d)
{
    int status = 0;
    for (int i = 0; i < d->count; i++)
        if (d->findings[i].level == FINDING_MISSING)
            status = 1;
    return status;
}

static void doctor_fini(struct doctor *d)
{
    for (int i = 0; i < d->count; i++) {
        free(d->findings[i].text);
        free(d->findings[i].remedy);
    }
    free(d->home);
    free(d->qemu);
}

int verb_doctor(int argc, char **argv)
{
    bool as_json = false;
    const struct opt opts[] = {
        {"json", NULL, OPT_FLAG, &as_json, NULL, "print JSON", 0, 0, NULL},
    };
    const struct cli_usage usage = {
        "doctor [--json]",
        "Looks at what sandboxes need on this machine, and says of each thing that is missing,\n"
        "or could be better, what to do. Exit status 1 when something needed is missing.",
        opts, ARRAY_LEN(opts), false};
    int done = cli_begin(&usage, &argc, argv);
    if (done >= 0)
        return done;
    if (argc > 1)
        return cli_usage_error("doctor takes no operand; see cubby doctor --help");
    struct doctor d = {0};
    examine(&d);
    if (as_json)
        print_json(&d);
    else
        print_table(&d);
    int status = verdict(&d);
    doctor_fini(&d);
    return status;
}
