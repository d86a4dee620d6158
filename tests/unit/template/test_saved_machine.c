// SPDX-License-Identifier: Apache-2.0
// Which saved machine of an archive fits this host, and the move of its files.
#include <jansson.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#include "sandbox-backend/base/fd.h"
#include "sandbox-backend/base/mem.h"
#include "sandbox-backend/base/str.h"
#include "sandbox-backend/drivers/microvm/image/template.h"
#include "sandbox-backend/drivers/microvm/qemu/qemu.h"
#include "sandbox-backend/template/source/saved_machine.h"
#include "tests/lib/harness/tap.h"

static char dir[] = "/tmp/cubby-test-XXXXXX";

static void write_text(const char *path, const char *text, mode_t mode)
{
    ok(file_write_atomic(path, text, strlen(text), mode, NULL) == 0, "%s is written", path);
}

static json_t *facts(const char *qemu, const char *accel, const char *machine, const char *cpu)
{
    return json_pack("{s:s, s:s, s:s, s:s}", "qemu", qemu, "accel", accel, "machine", machine,
                     "cpu_model", cpu);
}

static void fits(const char *program, const char *accel, json_t *of, const char *why_not)
{
    const struct saved_machine saved = {.dir = dir, .facts = of};
    struct err why = ERR_INIT;
    bool fit = saved_machine_fits(&saved, program, accel, &why);
    ok(fit == !why_not, "%s", why_not ? why_not : "it fits");
    ok(!why_not || strstr(why.msg, why_not), "the reason is named: %s", why.msg);
    json_decref(of);
}

static void test_fits(void)
{
    char *program auto_free = str_printf("%s/qemu", dir);
    const char *cpu = qemu_cpu_model("tcg");
    write_text(program, "#!/bin/sh\necho QEMU emulator version 7.2.22\n", 0755);
    fits(program, "tcg", facts("7.2.22", "tcg", QEMU_MACHINE, cpu), NULL);
    fits(program, "kvm", facts("7.2.22", "tcg", QEMU_MACHINE, cpu),
         "another accelerator, and this host has \"kvm\"");
    fits(program, "tcg", facts("7.2.21", "tcg", QEMU_MACHINE, cpu),
         "another version of QEMU, and this host has \"7.2.22\"");
    fits(program, "tcg", facts("7.2.22", "tcg", "pc", cpu), "another machine");
    fits(program, "tcg", facts("7.2.22", "tcg", QEMU_MACHINE, "max"), "another processor");
    fits(program, "tcg", json_object(), "another accelerator");
    fits("/nonexistent", "tcg", facts("7.2.22", "tcg", QEMU_MACHINE, cpu), "/nonexistent");
}

static void test_take(void)
{
    static const char *const FILES[] = {TEMPLATE_MEMORY, TEMPLATE_VMSTATE, TEMPLATE_PACKAGES};
    char *from auto_free = str_printf("%s/from", dir);
    char *to auto_free = str_printf("%s/to", dir);
    const struct saved_machine saved = {.dir = from};
    const struct tool tool = {.cwd = to};
    struct err e = ERR_INIT;
    ok(dir_make(from, 0700, NULL) == 0 && dir_make(to, 0700, NULL) == 0, "directories");
    ok(saved_machine_take(&saved, &tool, &e) < 0, "files are missing: %s", e.msg);
    for (size_t i = 0; i < ARRAY_LEN(FILES); i++) {
        char *path auto_free = str_printf("%s/%s", from, FILES[i]);
        write_text(path, FILES[i], 0600);
    }
    e = (struct err)ERR_INIT;
    is_int(saved_machine_take(&saved, &tool, &e), 0, "moves them: %s", e.msg);
    for (size_t i = 0; i < ARRAY_LEN(FILES); i++) {
        struct stat st;
        char *path auto_free = str_printf("%s/%s", to, FILES[i]);
        ok(stat(path, &st) == 0 && (st.st_mode & 0777) == 0644, "%s can be read by a jail",
           FILES[i]);
    }
}

int main(void)
{
    if (!mkdtemp(dir))
        return 1;
    test_fits();
    test_take();
    dir_remove(dir, NULL);
    return tap_done();
}
