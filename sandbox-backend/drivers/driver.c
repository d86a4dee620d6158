// SPDX-License-Identifier: Apache-2.0
// The drivers of this program, by the names that templates use for them.
#include "sandbox-backend/drivers/driver.h"

#include "sandbox-backend/base/fd.h"
#include "sandbox-backend/base/mem.h"
#include "sandbox-backend/base/str.h"
#include "sandbox-backend/drivers/tier.h"

const struct driver *driver_find(const char *name)
{
    for (size_t i = 0; DRIVERS[i]; i++)
        if (!name || str_eq(DRIVERS[i]->name, name))
            return DRIVERS[i];
    return NULL;
}

int driver_need(const struct driver *driver, enum driver_can what, struct err *e)
{
    static const struct {
        enum driver_can can;
        const char *text;
    } NAMES[] = {
        {DRIVER_PAUSES, "pause a sandbox"},
        {DRIVER_SAVES, "save a sandbox's state"},
        {DRIVER_POLICY, "change the network policy of a running sandbox"},
        {DRIVER_SIZES, "give a sandbox another size than its template's"},
        {DRIVER_DISKS, "give a sandbox another disk size than its template's"},
        {DRIVER_SECRETS, "keep secrets from a sandbox"},
        {DRIVER_MOUNTS, "mount a directory of the host"},
        {DRIVER_DISK_IMAGES, "save a sandbox's disk without its memory"},
    };
    for (size_t i = 0; i < ARRAY_LEN(NAMES); i++)
        if (what & NAMES[i].can & ~driver->can) {
            const char *why = NAMES[i].can == DRIVER_MOUNTS ? driver->no_mounts : NULL;
            return err_set(e, ERR_UNIMPLEMENTED, "driver '%s' cannot %s%s%s", driver->name,
                           NAMES[i].text, why ? ": " : "", why ? why : "");
        }
    return 0;
}

int driver_check_disk(const struct driver *driver, const char *dir, struct err *e)
{
    return dir_check_free(dir, driver->disk_mb * 1000000, "a sandbox needs", e);
}

int drivers_open(uv_loop_t *loop, const char *home, const struct driver_jail *jail, struct err *e)
{
    for (size_t i = 0; DRIVERS[i]; i++)
        if (DRIVERS[i]->open && DRIVERS[i]->open(loop, home, jail, e) < 0)
            return -1;
    tiers_prepare(home);
    return 0;
}

void drivers_close(void)
{
    for (size_t i = 0; DRIVERS[i]; i++)
        if (DRIVERS[i]->close)
            DRIVERS[i]->close();
}

void drivers_sweep(const char *sandboxes_dir)
{
    for (size_t i = 0; DRIVERS[i]; i++)
        if (DRIVERS[i]->sweep)
            DRIVERS[i]->sweep(sandboxes_dir);
}

bool drivers_own(const char *program)
{
    for (size_t i = 0; DRIVERS[i]; i++)
        if (DRIVERS[i]->owns && DRIVERS[i]->owns(program))
            return true;
    return false;
}
