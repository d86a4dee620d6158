// SPDX-License-Identifier: Apache-2.0
// The saved machine from which gVisor's sandboxes of a template go on.
#include "sandbox-backend/template/gvisor_save.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>

#include "sandbox-backend/base/fd.h"
#include "sandbox-backend/base/mem.h"
#include "sandbox-backend/base/str.h"
#include "sandbox-backend/drivers/gvisor/gvisor.h"
#include "sandbox-backend/template/gvisor_fold.h"
#include "sandbox-backend/template/gvisor_image.h"
#include "sandbox-backend/template/trial.h"
#include "sandbox-backend/template/warm.h"

#define SETTLE_MS 300
#define SAVED     "saved"

// Move the files of `from` into `to`, and remove `from`. (machine_save fills an empty directory.)
static int move_files(const char *from, const char *to, struct err *e)
{
    DIR *dir = opendir(from);
    if (!dir)
        return err_sys(e, errno, "read %s", from);
    int result = 0;
    for (const struct dirent *d; result == 0 && (d = readdir(dir));) {
        if (d->d_name[0] == '.')
            continue;
        char *old auto_free = str_printf("%s/%s", from, d->d_name);
        char *new auto_free = str_printf("%s/%s", to, d->d_name);
        if (rename(old, new) < 0)
            result = err_sys(e, errno, "move %s to %s", old, new);
    }
    closedir(dir);
    return result < 0 ? -1 : dir_remove(from, e);
}

static int warm_and_save(struct trial *t, struct pump *p, const char *parts,
                         const struct template_setup *setup, struct err *e)
{
    const char *vmnet = trial_vmnet(t);
    char *saved auto_free = str_printf("%s/" SAVED, parts);
    // The guest must have seen the end of the last connection of the warm-up: one that is open in
    // the saved machine would be open in every sandbox. Nothing tells the host when it has.
    if (setup_settings(p, vmnet, setup, e) < 0 ||
        template_warm_up(p, vmnet, setup->python, setup->foreign, setup->log, e) < 0 ||
        (setup->python && gvisor_fold(p, vmnet, parts, setup->log, e) < 0) ||
        setup_start(p, vmnet, setup, e) < 0 || pump_pause(p, SETTLE_MS, e) < 0 ||
        dir_make(saved, 0700, e) < 0)
        return -1;
    return trial_save(t, saved, e);
}

int gvisor_save(struct pump *p, const char *dir, const struct template_setup *setup, struct err *e)
{
    char *parts auto_free = str_printf("%s/" GVISOR_DIR, dir);
    char *saved auto_free = str_printf("%s/" SAVED, parts);
    struct trial *t = trial_start(p, &gvisor_driver, dir, e);
    if (!t)
        return -1;
    int result = warm_and_save(t, p, parts, setup, e);
    if (trial_close(t, result == 0 ? e : NULL) < 0)
        result = -1;
    return result < 0 ? -1 : move_files(saved, parts, e);
}
