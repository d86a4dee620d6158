// SPDX-License-Identifier: Apache-2.0
// Whether a template can be restored on this host.
#include "sandbox-backend/drivers/microvm/fit.h"

#include <string.h>
#include <unistd.h>

#include "sandbox-backend/base/mem.h"
#include "sandbox-backend/base/str.h"
#include "sandbox-backend/drivers/microvm/qemu_binary.h"

#define KVM_DEVICE "/dev/kvm"

static const char *const NEEDED[] = {TEMPLATE_MEMORY, TEMPLATE_VMSTATE, TEMPLATE_DISK,
                                     TEMPLATE_OVERLAY};

static int check_files(const char *dir, const char *name, struct err *e)
{
    for (size_t i = 0; i < ARRAY_LEN(NEEDED); i++) {
        char *path auto_free = str_printf("%s/%s", dir, NEEDED[i]);
        if (access(path, R_OK) != 0)
            return err_set(e, ERR_NOT_FOUND,
                           "template %s is not whole (%s cannot be read): run \"cubby template "
                           "build %s\"",
                           name, path, name);
    }
    return 0;
}

static int check_host(const struct template *t, const char *binary, struct err *e)
{
    const char *version = qemu_binary_version(binary, e);
    if (!version)
        return -1;
    if (!str_eq(version, t->qemu))
        return err_set(e, ERR_NOT_FOUND,
                       "template %s was made with QEMU %s and this host has %s: run \"cubby "
                       "template build %s\"",
                       t->name, t->qemu, version, t->name);
    if (str_eq(t->accel, "kvm") && access(KVM_DEVICE, R_OK | W_OK) != 0)
        return err_set(e, ERR_NOT_FOUND,
                       "template %s needs KVM and " KVM_DEVICE
                       " cannot be used: allow it for this user (group kvm), or run \"cubby "
                       "template build %s --accel tcg\"",
                       t->name, t->name);
    return 0;
}

int fit_load(const char *template_dir, struct template *t, char **binary, struct err *e)
{
    char *found auto_free = NULL;
    if (template_load(template_dir, t, e) != 0)
        return -1;
    found = qemu_binary_find(e);
    if (!found || check_host(t, found, e) != 0 || check_files(template_dir, t->name, e) != 0) {
        template_fini(t);
        return -1;
    }
    *binary = steal(&found);
    return 0;
}
