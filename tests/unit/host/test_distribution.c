// SPDX-License-Identifier: Apache-2.0
// The command that installs packages, by distribution.
#include <stdlib.h>

#include "sandbox-backend/base/mem.h"
#include "sandbox-backend/host/distribution.h"
#include "tests/lib/harness/tap.h"

#define QEMU "qemu-system-x86 qemu-utils"

static void check(const char *os_release, const char *packages, const char *expected)
{
    char *command auto_free = distribution_install_for(os_release, packages);
    is_str(command, expected, "%s", expected);
}

int main(void)
{
    check("PRETTY_NAME=\"Debian GNU/Linux 12\"\nID=debian\n", QEMU,
          "sudo apt-get install qemu-system-x86 qemu-utils");
    check("ID=linuxmint\nID_LIKE=\"ubuntu debian\"\n", QEMU,
          "sudo apt-get install qemu-system-x86 qemu-utils");
    check("NAME='Fedora Linux'\nID=fedora\n", QEMU, "sudo dnf install qemu-system-x86 qemu-img");
    check("ID=arch", QEMU, "sudo pacman -S qemu-system-x86 qemu-img");
    check("ID=manjaro\nID_LIKE=arch\n", "uidmap", "sudo pacman -S shadow");
    check("ID=\"rocky\"\nID_LIKE=\"rhel centos fedora\"\n", QEMU,
          "install what this distribution calls Debian's qemu-system-x86 qemu-utils");
    check("ID=fedora\n", "mmdebstrap", "install what this distribution calls Debian's mmdebstrap");
    check("VERSION_ID=1\n", "curl", "install what this distribution calls Debian's curl");
    check("", "curl", "install what this distribution calls Debian's curl");
    check("ID=debian\n", "any  thing", "sudo apt-get install any thing");
    return tap_done();
}
