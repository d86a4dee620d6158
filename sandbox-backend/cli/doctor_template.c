// SPDX-License-Identifier: Apache-2.0
// cubby doctor: the template that sandboxes are restored from, and whether it fits this machine.
#include "sandbox-backend/base/fd.h"
#include "sandbox-backend/base/mem.h"
#include "sandbox-backend/base/str.h"
#include "sandbox-backend/cli/doctor.h"
#include "sandbox-backend/drivers/microvm/qemu_binary.h"
#include "sandbox-backend/drivers/microvm/template.h"

#define REBUILD "cubby template build " TEMPLATE_DEFAULT

void doctor_template(struct doctor *d)
{
    struct err e = ERR_INIT;
    struct template t = {0};
    if (!d->home)
        return;
    char *dir auto_free = template_dir(d->home, TEMPLATE_DEFAULT);
    if (template_load(dir, &t, &e) < 0) {
        doctor_add(d, FINDING_MISSING, "template", REBUILD, "%s", e.msg);
        return;
    }
    const char *qemu = d->qemu ? qemu_binary_version(d->qemu, NULL) : NULL;
    if (qemu && !str_eq(qemu, t.qemu)) {
        doctor_add(d, FINDING_MISSING, "template", REBUILD,
                   "it was made by QEMU %s and cannot be restored by %s", t.qemu, qemu);
    } else {
        d->has_template = true;
        doctor_ok(d, "template", "%s: kernel %s, %lld MB, %s", t.name, t.kernel,
                  (long long)t.memory_mb, t.accel);
    }
    template_fini(&t);
}
