// SPDX-License-Identifier: Apache-2.0
// The cause of a machine's end, as found in the last lines of the guest's console.
#include <string.h>

#include "sandbox-backend/base/mem.h"
#include "sandbox-backend/drivers/microvm/qemu/console.h"
#include "tests/lib/harness/tap.h"

static void check(const char *text, const char *want, const char *what)
{
    char *got auto_free = console_panic(text, strlen(text));
    is_str(got, want, "%s", what);
}

int main(void)
{
    check("", NULL, "nothing");
    check("[ 1.0] all is well\r\n", NULL, "no panic");
    check("x\r\n[  9.1] Kernel panic - not syncing: sysrq triggered crash\r\n[  9.2] CPU: 0\r\n"
          "---[ end Kernel panic - not syncing: other ]---",
          "sysrq triggered crash", "the first, without what follows");
    check("Kernel panic - not syncing: ", "", "cut off");
    check("Kernel panic - not syncing: a\033[31m\xff", "a?[31m?", "made printable");
    char long_text[600] = "Kernel panic - not syncing: ";
    memset(long_text + strlen(long_text), 'y', 400);
    char *got auto_free = console_panic(long_text, strlen(long_text));
    is_int(strlen(got), 160, "bounded");
    char *nul auto_free = console_panic("\0Kernel panic - not syncing: z\0", 31);
    is_str(nul, "z?", "NULs in the text");
    return tap_done();
}
