// SPDX-License-Identifier: Apache-2.0
// A machine that was saved on another host.
#include "sandbox-backend/template/source/saved_machine.h"

#include <errno.h>
#include <sys/stat.h>

#include "sandbox-backend/base/mem.h"
#include "sandbox-backend/base/str.h"
#include "sandbox-backend/drivers/microvm/image/template.h"
#include "sandbox-backend/drivers/microvm/qemu/qemu.h"
#include "sandbox-backend/drivers/microvm/qemu/qemu_binary.h"
#include "sandbox-backend/template/source/disk_file.h"

#define FILE_MODE 0644

const char *saved_machine_text(const struct saved_machine *s, const char *key)
{
    return json_string_value(json_object_get(s->facts, key));
}

bool saved_machine_fits(const struct saved_machine *s, const char *qemu, const char *accel,
                        struct err *why)
{
    const char *version = qemu_binary_version(qemu, why);
    const struct {
        const char *key, *name, *here;
    } FACTS[] = {{"accel", "accelerator", accel},
                 {"qemu", "version of QEMU", version},
                 {"machine", "machine", QEMU_MACHINE},
                 {"cpu_model", "processor", qemu_cpu_model("tcg")}};
    for (size_t i = 0; version && i < ARRAY_LEN(FACTS); i++) {
        if (str_eq(saved_machine_text(s, FACTS[i].key), FACTS[i].here))
            continue;
        // The archive's own text is not shown: anybody may have written it.
        err_set(why, ERR_PRECONDITION, "it needs another %s, and this host has \"%s\"",
                FACTS[i].name, FACTS[i].here);
        return false;
    }
    return version != NULL;
}

int saved_machine_take(const struct saved_machine *s, const struct tool *tool, struct err *e)
{
    static const char *const FILES[] = {TEMPLATE_MEMORY, TEMPLATE_VMSTATE, TEMPLATE_PACKAGES};
    for (size_t i = 0; i < ARRAY_LEN(FILES); i++) {
        char *from auto_free = str_printf("%s/%s", s->dir, FILES[i]);
        char *to auto_free = str_printf("%s/%s", tool->cwd, FILES[i]);
        if (disk_file_move(from, FILES[i], tool, e) < 0)
            return -1;
        // Programs in jails are other users.
        if (chmod(to, FILE_MODE) < 0)
            return err_sys(e, errno, "change the mode of %s", to);
    }
    return 0;
}
