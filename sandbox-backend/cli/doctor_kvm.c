// SPDX-License-Identifier: Apache-2.0
// cubby doctor: KVM. That /dev/kvm can be opened proves little: the template's kernel has to boot
// under it, and that is tried.
#include <errno.h>
#include <fcntl.h>
#include <string.h>
#include <unistd.h>

#include "sandbox-backend/base/home.h"
#include "sandbox-backend/base/mem.h"
#include "sandbox-backend/base/str.h"
#include "sandbox-backend/cli/doctor.h"
#include "sandbox-backend/drivers/microvm/accel.h"
#include "sandbox-backend/drivers/microvm/template.h"

#define DEVICE       "/dev/kvm"
#define WITHOUT      "sandboxes run without it, several times slower (TCG)"
#define ELSEWHERE    "use a machine with hardware virtualisation, or turn it on (BIOS, nested VM)"
#define TEMPLATE_KVM "cubby template build default, so that it uses KVM"

static void report(struct doctor *d, bool works, const char *why, const char *accel)
{
    if (works && str_eq(accel, "kvm"))
        doctor_ok(d, "kvm", "%s", why);
    else if (works)
        doctor_add(d, FINDING_NOTE, "kvm", TEMPLATE_KVM, "%s, but the template was made without",
                   why);
    else if (str_eq(accel, "kvm"))
        doctor_add(d, FINDING_MISSING, "kvm", "cubby template build default",
                   "%s, and the template needs it", why);
    else
        doctor_add(d, FINDING_NOTE, "kvm", ELSEWHERE, "%s; " WITHOUT, why);
}

static void boot_under_it(struct doctor *d)
{
    struct err e = ERR_INIT;
    struct template t = {0};
    char *dir auto_free = template_dir(d->home, TEMPLATE_DEFAULT);
    char *kernel auto_free = str_printf("%s/" TEMPLATE_KERNEL, dir);
    char *initrd auto_free = str_printf("%s/" TEMPLATE_INITRD, dir);
    const struct accel_probe probe = {
        .qemu = d->qemu, .kernel = kernel, .initrd = initrd, .log = -1};
    bool works = false;
    char why[ERR_MSG_BYTES];
    if (template_load(dir, &t, &e) == 0 && accel_try_kvm(&probe, &works, why, sizeof why, &e) == 0)
        report(d, works, why, t.accel);
    else
        doctor_add(d, FINDING_NOTE, "kvm", NULL, "it could not be tried: %s", e.msg);
    template_fini(&t);
}

void doctor_kvm(struct doctor *d)
{
    int fd auto_close = open(DEVICE, O_RDWR | O_CLOEXEC);
    if (fd < 0 && errno == EACCES)
        doctor_add(d, FINDING_NOTE, "kvm", "sudo adduser $USER kvm, then log in again",
                   "you may not open " DEVICE "; " WITHOUT);
    else if (fd < 0)
        doctor_add(d, FINDING_NOTE, "kvm", ELSEWHERE, DEVICE ": %s; " WITHOUT, strerror(errno));
    else if (d->qemu && d->has_template)
        boot_under_it(d);
    else
        doctor_add(d, FINDING_NOTE, "kvm", NULL,
                   DEVICE " can be opened; whether a guest boots under it is tried when there is a "
                          "template");
}
