// SPDX-License-Identifier: Apache-2.0
// The device state without its configuration section, and files that are none.
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "sandbox-backend/base/buf.h"
#include "sandbox-backend/base/fd.h"
#include "sandbox-backend/base/mem.h"
#include "sandbox-backend/drivers/microvm/image/vmstate.h"
#include "tests/lib/harness/tap.h"

#define BYTES(text) (text), sizeof(text) - 1
#define HEAD        "QEVM\0\0\0\3"
#define MACHINE     "\7\0\0\0\7microvm"
#define LIST \
    "\5\x1a" \
    "configuration/capabilities\0\0\0\1"
#define REST "\1\0\0\0\2\3ram and all that follows"

static char path[] = "/tmp/cubby-vmstate-XXXXXX";

static int open_bare(const char *data, size_t len, struct err *e)
{
    ok(file_replace(path, data, len, 0600, NULL) == 0, "the file");
    *e = ERR_INIT;
    return vmstate_open_bare(path, e);
}

static void gives(const char *data, size_t len, const char *what)
{
    struct err e;
    struct buf found auto_buf = BUF_INIT;
    int fd auto_close = open_bare(data, len, &e);
    ok(fd >= 0 && fd_read_all(fd, 4096, &found, &e) == 0, "%s: %s", what, e.msg);
    ok(found.len == sizeof(HEAD REST) - 1 && memcmp(found.data, HEAD REST, found.len) == 0, "%s",
       what);
}

static void refuses(const char *data, size_t len, const char *what)
{
    struct err e;
    int fd auto_close = open_bare(data, len, &e);
    ok(fd < 0 && strstr(e.msg, "does not begin as QEMU's device state does"), "%s", what);
}

int main(void)
{
    int fd auto_close = mkstemp(path);
    ok(fd >= 0, "a file");
    gives(BYTES(HEAD MACHINE REST), "a machine's name");
    gives(BYTES(HEAD MACHINE LIST "\0\0\0\1\x0fx-ignore-shared" REST), "a capability");
    gives(BYTES(HEAD MACHINE LIST "\0\0\0\2\3one\3two" REST), "two capabilities");
    gives(BYTES(HEAD REST), "no configuration");

    refuses(BYTES(""), "an empty file");
    refuses(BYTES("QEVM"), "half a head");
    refuses(BYTES("QEVM\0\0\0\2" MACHINE REST), "another version");
    refuses(BYTES(HEAD MACHINE), "nothing after the configuration");
    refuses(BYTES(HEAD "\7\xff\xff\xff\xffmicrovm" REST), "a name longer than the file");
    refuses(BYTES(HEAD MACHINE "\5\x12"
                               "configuration/uuid\0\0\0\1" REST),
            "another subsection");
    refuses(BYTES(HEAD MACHINE LIST "\xff\xff\xff\xff" REST),
            "more capabilities than the file has");
    refuses(BYTES(HEAD MACHINE LIST "\0\0\0\1\xffx" REST), "a capability longer than the file");
    unlink(path);
    struct err e = ERR_INIT;
    ok(vmstate_open_bare(path, &e) < 0 && strstr(e.msg, path), "no file: %s", e.msg);
    return tap_done();
}
