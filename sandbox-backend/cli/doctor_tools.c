// SPDX-License-Identifier: Apache-2.0
// cubby doctor: programs. QEMU, our own, and those that a template build runs.
#include <stdlib.h>

#include "sandbox-backend/base/mem.h"
#include "sandbox-backend/base/self.h"
#include "sandbox-backend/base/str.h"
#include "sandbox-backend/cli/doctor.h"
#include "sandbox-backend/drivers/microvm/qemu_binary.h"
#include "sandbox-backend/drivers/microvm/template_tool.h"

static void look_for_qemu(struct doctor *d)
{
    struct err e = ERR_INIT;
    d->qemu = qemu_binary_find(&e);
    const char *version = d->qemu ? qemu_binary_version(d->qemu, &e) : NULL;
    if (version)
        doctor_ok(d, "qemu", "%s, version %s", d->qemu, version);
    else
        doctor_add(d, FINDING_MISSING, "qemu", "sudo apt-get install qemu-system-x86", "%s", e.msg);
}

// Ours come with the installation; what is missing was not built.
static void look_for_parts(struct doctor *d)
{
    static const char *const PROGRAMS[] = {"cubbyd", "cubby-netd", "cubby-egress", "cubby-jail",
                                           "cubby-qemu.so"};
    static const char *const PARTS[] = {"init", "envd"};
    struct err e = ERR_INIT;
    for (size_t i = 0; i < ARRAY_LEN(PROGRAMS) && !err_is(&e); i++)
        free(self_program(PROGRAMS[i], &e));
    for (size_t i = 0; i < ARRAY_LEN(PARTS) && !err_is(&e); i++)
        free(self_guest(PARTS[i], &e));
    if (err_is(&e))
        doctor_add(d, FINDING_MISSING, "programs", "run make, or install Cubby again", "%s", e.msg);
    else
        doctor_ok(d, "programs", "all there, and the guest's init and envd");
}

// Without them a template cannot be built, but one that is there can be used.
static void look_for_builders(struct doctor *d)
{
    static const char *const TOOLS[][2] = {{"mmdebstrap", "mmdebstrap"},
                                           {"mke2fs", "e2fsprogs"},
                                           {"qemu-img", "qemu-utils"},
                                           {"dpkg-deb", "dpkg"}};
    struct buf missing auto_buf = BUF_INIT;
    for (size_t i = 0; i < ARRAY_LEN(TOOLS); i++) {
        char *path auto_free = tool_find(TOOLS[i][0], TOOLS[i][1], NULL);
        if (!path)
            buf_printf(&missing, " %s", TOOLS[i][1]);
    }
    char *remedy auto_free = str_printf("sudo apt-get install%s", buf_str(&missing));
    if (missing.len)
        doctor_add(d, FINDING_NOTE, "template tools", remedy, "templates cannot be built without%s",
                   buf_str(&missing));
    else
        doctor_ok(d, "template tools", "mmdebstrap, mke2fs, qemu-img, dpkg-deb");
}

void doctor_tools(struct doctor *d)
{
    look_for_qemu(d);
    look_for_parts(d);
    look_for_builders(d);
}
