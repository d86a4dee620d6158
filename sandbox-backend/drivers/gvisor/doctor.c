// SPDX-License-Identifier: Apache-2.0
// The gvisor driver's part of `cubby doctor`. Sandboxes of the other tiers work without gVisor, so
// nothing here is more than a note.
#include <stdlib.h>
#include <string.h>

#include "sandbox-backend/base/fd.h"
#include "sandbox-backend/base/mem.h"
#include "sandbox-backend/base/str.h"
#include "sandbox-backend/drivers/gvisor/attempt.h"
#include "sandbox-backend/drivers/gvisor/bundle.h"
#include "sandbox-backend/drivers/gvisor/checkpoint.h"
#include "sandbox-backend/drivers/gvisor/container.h"
#include "sandbox-backend/drivers/gvisor/runsc.h"
#include "sandbox-backend/drivers/gvisor/runsc_pin.h"
#include "sandbox-backend/drivers/template_dirs.h"

#define TEMPLATE "default"
#define REBUILD  "cubby template build " TEMPLATE
#define FINISH   "cubby template finish " TEMPLATE

static void look_at_template(const char *home, finding_cb add, void *ctx)
{
    struct err e = ERR_INIT;
    struct bundle_template t;
    char *dir auto_free = template_dirs_find(home, TEMPLATE);
    char *saved auto_free = str_printf("%s/" BUNDLE_DIR, dir);
    char *facts auto_free = str_printf("%s/template.json", dir);
    if (!file_exists(facts)) // the microvm driver's part says so, and what to do
        return;
    if (bundle_load(dir, &t, &e) < 0 && template_dirs_is_in_work(dir)) {
        add(ctx, FINDING_NOTE, "gvisor", NULL,
            "the part of template \"" TEMPLATE "\" for gVisor is being made; until then its "
            "sandboxes are microVMs");
        return;
    }
    if (err_is(&e)) {
        char *failed auto_free = attempt_reason(dir);
        char *text auto_free =
            failed ? str_printf("%s (the last attempt failed: %s)", e.msg, failed) : NULL;
        add(ctx, FINDING_NOTE, "gvisor", FINISH, text ? text : e.msg);
        return;
    }
    if (checkpoint_check(saved, &t, &e) < 0) {
        char *text auto_free =
            str_printf("template \"" TEMPLATE "\" has no usable snapshot for gVisor: %s", e.msg);
        add(ctx, FINDING_NOTE, "gvisor", REBUILD, text);
        return;
    }
    add(ctx, FINDING_OK, "gvisor", NULL, "template \"" TEMPLATE "\" has a snapshot for gVisor");
}

void gvisor__doctor(const char *home, finding_cb add, void *ctx)
{
    struct err e = ERR_INIT;
    char *runsc auto_free = runsc_find(gvisor__runsc(), &e);
    if (!runsc) {
        add(ctx, FINDING_NOTE, "runsc", "make runsc, then make install", e.msg);
        return;
    }
    char *text auto_free = str_printf("%s, version " RUNSC_VERSION, runsc);
    add(ctx, FINDING_OK, "runsc", NULL, text);
    if (home)
        look_at_template(home, add, ctx);
}
