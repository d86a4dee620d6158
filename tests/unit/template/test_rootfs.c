// SPDX-License-Identifier: Apache-2.0
// The apt sources from which a template is built, and those that its guest gets.
#include <stdlib.h>

#include "sandbox-backend/base/mem.h"
#include "sandbox-backend/template/rootfs.h"
#include "tests/lib/harness/tap.h"

static void sources(const char *targets, bool for_guest, const char *want, const char *what)
{
    struct buf got auto_buf = BUF_INIT;
    rootfs_sources(&got, targets, "bookworm", for_guest);
    is_str(buf_str(&got), want, "%s", what);
}

static void test_sources(void)
{
    sources("", false, "", "no answer");
    sources("junk\n|||\nhttp://m.example/|bookworm\n", false, "", "nonsense");
    sources("http://m.example/debian/|bookworm|main|$(SIGNED_BY)|Debian\n"
            "http://m.example/debian/|bookworm|main|$(SIGNED_BY)|Debian\n"
            "http://m.example/debian/|bookworm-updates|main|$(SIGNED_BY)|$(ORIGIN)\n"
            "http://m.example/sec/|bookworm-security|main|/k/debian-archive-keyring.gpg|\n",
            false,
            "deb http://m.example/debian/ bookworm main\n"
            "deb http://m.example/debian/ bookworm-updates main\n"
            "deb http://m.example/sec/ bookworm-security main\n",
            "Debian's, each once");
    sources("http://x.example/|bookworm|stable|/k/other.gpg|$(ORIGIN)\n"
            "http://x.example/|bookworm|main||Other\n"
            "http://x.example/|bookworm-backports|main||Debian\n"
            "http://x.example/|bookworm-pgdg|main||\n"
            "http://x.example/|trixie|main||Debian\n",
            false, "", "not those of others, nor of other releases");
}

static void test_guest_sources(void)
{
    static const char TARGETS[] = "http://m.example/d/|bookworm|main||Debian\n"
                                  "https://user:secret@m.example/d/|bookworm|main||Debian\n"
                                  "file:/srv/mirror/|bookworm|main||Debian\n"
                                  "mirror+file:/etc/apt/list/|bookworm-updates|main||Debian\n"
                                  "https://m.example/a@b/|bookworm-security|main||Debian\n";
    sources(TARGETS, true,
            "deb http://m.example/d/ bookworm main\n"
            "deb https://m.example/a@b/ bookworm-security main\n",
            "a guest gets no password and no path of the host");
}

static void test_os_release(void)
{
    static const char TEXT[] = "NAME=\"Debian GNU/Linux\"\nID=debian\nID_LIKE='a b'\n"
                               "VERSION_CODENAME=bookworm\nEMPTY=\n";
    char *a auto_free = rootfs_os_release(TEXT, "NAME");
    char *b auto_free = rootfs_os_release(TEXT, "ID");
    char *c auto_free = rootfs_os_release(TEXT, "ID_LIKE");
    char *d auto_free = rootfs_os_release(TEXT, "VERSION");
    char *f auto_free = rootfs_os_release(TEXT, "EMPTY");
    is_str(a, "Debian GNU/Linux", "double quotes");
    is_str(b, "debian", "no quotes, and not ID_LIKE");
    is_str(c, "a b", "single quotes");
    ok(!d, "not there");
    is_str(f, "", "empty");
}

int main(void)
{
    test_sources();
    test_guest_sources();
    test_os_release();
    return tap_done();
}
