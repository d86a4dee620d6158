// SPDX-License-Identifier: Apache-2.0
// The microvm driver's part of `cubby doctor`.
#include "sandbox-backend/drivers/microvm/fit.h"

#include <errno.h>
#include <fcntl.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "sandbox-backend/base/home.h"
#include "sandbox-backend/base/mem.h"
#include "sandbox-backend/base/str.h"
#include "sandbox-backend/drivers/host/tool.h"
#include "sandbox-backend/drivers/microvm/image/template.h"
#include "sandbox-backend/drivers/microvm/qemu/accel.h"
#include "sandbox-backend/drivers/microvm/qemu/known_holes.h"
#include "sandbox-backend/drivers/microvm/qemu/qemu_binary.h"
#include "sandbox-backend/drivers/template_dirs.h"
#include "sandbox-backend/host/distribution.h"

// The first template: that of the package if there is one, else a new one.
#define MAKE         "cubby setup"
#define REBUILD      "cubby template build " TEMPLATE_DEFAULT
#define KVM_DEVICE   "/dev/kvm"
#define WITHOUT      "sandboxes run without KVM, several times slower (TCG)"
#define ELSEWHERE    "use a machine with hardware virtualisation, or turn it on (BIOS, nested VM)"
#define TEMPLATE_KVM REBUILD ", so that it uses KVM"
#define WITHOUT_KVM  "or " REBUILD " --accel tcg"
#define JOIN_GROUP   "sudo adduser $USER kvm, then log in again"

struct look {
    const char *home; // NULL: there is no state directory
    finding_cb add;
    void *ctx;
    char *qemu;         // owned; NULL when it is missing
    char *dir;          // owned; the directory of the default template
    struct template *t; // the default template; NULL when it cannot be used
    bool needs_kvm;     // the default template was made with KVM, and cannot run without
};

static void __attribute__((format(printf, 5, 6)))
tell(const struct look *l, enum finding_level level, const char *name, const char *remedy,
     const char *fmt, ...)
{
    va_list ap;
    va_start(ap, fmt);
    char *text auto_free = str_vprintf(fmt, ap);
    va_end(ap);
    l->add(l->ctx, level, name, remedy, text);
}

// ---- programs

static void look_for_qemu(struct look *l)
{
    struct err e = ERR_INIT;
    l->qemu = qemu_binary_find(&e);
    const char *version = l->qemu ? qemu_binary_version(l->qemu, &e) : NULL;
    char *how auto_free = version ? NULL : distribution_install("qemu-system-x86");
    if (version)
        tell(l, FINDING_OK, "qemu", NULL, "%s, version %s", l->qemu, version);
    else
        tell(l, FINDING_MISSING, "qemu", how, "%s", e.msg);
}

// Name holes that a guest reaches. The jail stands behind them, so a note is enough.
static void look_for_holes(const struct look *l)
{
    const char *version = l->qemu ? qemu_binary_version(l->qemu, NULL) : NULL;
    char *holes auto_free = known_holes(version ? version : "");
    if (*holes)
        tell(l, FINDING_NOTE, "qemu holes",
             "upgrade QEMU, or see whether the distribution has fixed them: its package's "
             "changelog names each; docs/advisories.md says what stands behind",
             "QEMU %s has published holes in devices of a sandbox: %s", version, holes);
}

// Cubby's own programs are part of the installation; a missing one was not built.
static void look_for_parts(const struct look *l)
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
        tell(l, FINDING_MISSING, "programs", "run make, or install Cubby again", "%s", e.msg);
    else
        tell(l, FINDING_OK, "programs", NULL, "all installed, as are the guest's init and envd");
}

// Without these programs no template can be built, but an existing template can be used.
static void look_for_builders(const struct look *l)
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
    char *remedy auto_free = distribution_install(missing.len ? buf_str(&missing) + 1 : "");
    if (missing.len)
        tell(l, FINDING_NOTE, "template tools", remedy, "templates cannot be built without%s",
             buf_str(&missing));
    else
        tell(l, FINDING_OK, "template tools", NULL, "mmdebstrap, mke2fs, qemu-img, dpkg-deb");
}

// ---- the default template

static void look_at_template(struct look *l, struct template *t)
{
    struct err e = ERR_INIT;
    if (!l->home)
        return;
    l->dir = template_dirs_find(l->home, TEMPLATE_DEFAULT);
    if (template_dirs_check(l->home, TEMPLATE_DEFAULT, &e) < 0 ||
        template_load(l->dir, t, &e) < 0) {
        if (e.code == ERR_NOT_FOUND)
            tell(l, FINDING_MISSING, "template", MAKE, "there is no template in %s", l->dir);
        else
            tell(l, FINDING_MISSING, "template", REBUILD, "%s", e.msg);
        return;
    }
    l->needs_kvm = str_eq(t->accel, "kvm");
    const char *version = l->qemu ? qemu_binary_version(l->qemu, NULL) : NULL;
    if (version && !str_eq(version, t->qemu)) {
        tell(l, FINDING_MISSING, "template", REBUILD,
             "the template was made by QEMU %s, and this host's QEMU %s cannot restore it", t->qemu,
             version);
        return;
    }
    if (fit_check_processor(t, &e) != 0) {
        tell(l, FINDING_MISSING, "template", REBUILD, "%s", e.msg);
        return;
    }
    l->t = t;
    tell(l, FINDING_OK, "template", NULL, "%s: kernel %s, %lld MB, %s", t->name, t->kernel,
         (long long)t->memory_mb, t->accel);
}

// ---- KVM. A /dev/kvm that can be opened proves little: the template's kernel must boot under it.

static void report_kvm(const struct look *l, bool works, const char *why)
{
    if (works && str_eq(l->t->accel, "kvm"))
        tell(l, FINDING_OK, "kvm", NULL, "%s", why);
    else if (works)
        tell(l, FINDING_NOTE, "kvm", TEMPLATE_KVM, "%s, but the template was built without KVM",
             why);
    else if (str_eq(l->t->accel, "kvm"))
        tell(l, FINDING_MISSING, "kvm", REBUILD, "%s, and the template needs KVM", why);
    else
        tell(l, FINDING_NOTE, "kvm", ELSEWHERE, "%s; " WITHOUT, why);
}

static void boot_under_kvm(const struct look *l)
{
    struct err e = ERR_INIT;
    char *kernel auto_free = str_printf("%s/" TEMPLATE_KERNEL, l->dir);
    char *initrd auto_free = str_printf("%s/" TEMPLATE_INITRD, l->dir);
    const struct accel_probe probe = {.qemu = l->qemu, .kernel = kernel, .initrd = initrd};
    bool works = false;
    char why[ERR_MSG_BYTES];
    if (accel_try_kvm(&probe, &works, why, sizeof why, &e) == 0)
        report_kvm(l, works, why);
    else
        tell(l, FINDING_NOTE, "kvm", NULL, "KVM could not be tried: %s", e.msg);
}

// The device could not be opened, for the reason `error`, an errno.
static void report_closed(const struct look *l, int error)
{
    const char *remedy = error == EACCES ? JOIN_GROUP : ELSEWHERE;
    char *both auto_free = str_printf("%s; " WITHOUT_KVM, remedy);
    char *what auto_free = error == EACCES ? xstrdup("permission denied on " KVM_DEVICE)
                                           : str_printf(KVM_DEVICE ": %s", strerror(error));
    if (l->needs_kvm)
        tell(l, FINDING_MISSING, "kvm", both, "%s, and the template needs KVM", what);
    else
        tell(l, FINDING_NOTE, "kvm", remedy, "%s; " WITHOUT, what);
}

static void look_at_kvm(const struct look *l)
{
    int fd auto_close = open(KVM_DEVICE, O_RDWR | O_CLOEXEC);
    if (fd < 0)
        report_closed(l, errno);
    else if (l->qemu && l->t)
        boot_under_kvm(l);
    else
        tell(l, FINDING_NOTE, "kvm", NULL,
             KVM_DEVICE
             " can be opened; build a template to find out whether a guest boots under KVM");
}

void microvm_doctor(const char *home, finding_cb add, void *ctx)
{
    struct look l = {.home = home, .add = add, .ctx = ctx};
    struct template t = {0};
    look_for_qemu(&l);
    look_for_holes(&l);
    look_for_parts(&l);
    look_for_builders(&l);
    look_at_template(&l, &t);
    look_at_kvm(&l);
    template_fini(&t);
    free(l.qemu);
    free(l.dir);
}
