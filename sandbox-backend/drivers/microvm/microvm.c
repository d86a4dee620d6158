// SPDX-License-Identifier: Apache-2.0
// The microvm driver: what drivers/driver.h asks for, by QEMU.
#include <stdio.h>
#include <stdlib.h>

#include "sandbox-backend/base/fd.h"
#include "sandbox-backend/base/mem.h"
#include "sandbox-backend/base/str.h"
#include "sandbox-backend/drivers/driver.h"
#include "sandbox-backend/drivers/microvm/fit.h"
#include "sandbox-backend/drivers/microvm/host_jail.h"
#include "sandbox-backend/drivers/microvm/machine.h"
#include "sandbox-backend/drivers/microvm/machine_image.h"
#include "sandbox-backend/drivers/microvm/qemu.h"
#include "sandbox-backend/drivers/microvm/resolv_conf.h"
#include "sandbox-backend/drivers/microvm/sized.h"

#define JAIL_DIR "jail" // in the home

static int open_driver(uv_loop_t *loop, const char *home, const struct driver_jail *jail,
                       struct err *e)
{
    char *dir auto_free = str_printf("%s/" JAIL_DIR, home);
    if (dir_make(dir, 0700, e) != 0 || resolv_conf_open(loop, dir, e) != 0)
        return -1;
    return host_jail_open(jail, e);
}

static void close_driver(void)
{
    host_jail_close();
    resolv_conf_close();
}

static int facts(const char *template_dir, struct machine_facts *out, struct err *e)
{
    struct template t;
    char *binary = NULL;
    qemu_watch_clock();
    if (fit_load(template_dir, &t, &binary, e) != 0)
        return -1;
    *out = (struct machine_facts){.cpus = (int)t.cpus,
                                  .memory_mb = t.memory_mb,
                                  .disk_mb = t.disk_mb,
                                  .python = t.python,
                                  .disk_grows = t.disk_grows};
    snprintf(out->accel, sizeof out->accel, "%s", t.accel);
    template_fini(&t);
    free(binary);
    return 0;
}

static int image_check(const char *dir, const char *template_dir, const struct machine_size *size,
                       struct err *e)
{
    struct template t;
    char *memory auto_free = sized_load(&t, template_dir, size, e);
    if (!memory)
        return -1;
    int result = machine_image_check(dir, &t, e);
    template_fini(&t);
    return result;
}

const struct driver microvm_driver = {.name = "microvm",
                                      .isolation = "microvm",
                                      .open = open_driver,
                                      .close = close_driver,
                                      .jail = machine__jail_json,
                                      .facts = facts,
                                      .image_check = image_check,
                                      .create = machine__create,
                                      .adopt = machine__adopt,
                                      .sweep = machine__sweep};
