// SPDX-License-Identifier: Apache-2.0
// The files of a template for gVisor: what is said of those that are missing or wrong, and the
// bundle of a machine.
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "sandbox-backend/base/buf.h"
#include "sandbox-backend/base/fd.h"
#include "sandbox-backend/base/mem.h"
#include "sandbox-backend/base/str.h"
#include "sandbox-backend/drivers/gvisor/bundle.h"
#include "tests/lib/harness/tap.h"

#define FACTS \
    "{\"cpus\": 2, \"memory_mb\": 512, \"disk_mb\": 8192, \"gvisor\": {\"rootfs\": \"abc\"}}"

static char home[] = "/tmp/gvisor-bundle-XXXXXX";
static char *template_dir;

static void put(const char *name, const char *text)
{
    char *path auto_free = str_printf("%s/%s", template_dir, name);
    struct err e = ERR_INIT;
    is_int(file_replace(path, text, strlen(text), 0600, &e), 0, "%s: %s", name, e.msg);
}

// Open the template, and check that the error names this file and no descriptor.
static void refused(const char *name)
{
    struct err e = ERR_INIT;
    struct bundle_template t;
    char *path auto_free = str_printf("%s/%s", template_dir, name);
    is_int(bundle_open(template_dir, &t, &e), -1, "refused");
    ok(strstr(e.msg, path) && !strstr(e.msg, "/proc/"), "%s", e.msg);
}

static void test_what_is_refused(void)
{
    refused("template.json");
    put("template.json", "{");
    refused("template.json");
    put("template.json", FACTS);
    refused("gvisor/rootfs.erofs");
}

static void test_a_bundle(void)
{
    struct err e = ERR_INIT, missing = ERR_INIT;
    struct bundle_template t;
    struct buf text auto_buf = BUF_INIT;
    put("gvisor/rootfs.erofs", "");
    int fd auto_close = bundle_open(template_dir, &t, &e);
    ok(fd >= 0, "a template: %s", e.msg);
    is_int(t.disk_mb, 1024, "its layer is in memory, so it is twice the memory");
    is_int(bundle_make(home, fd, template_dir, 64, &missing), -1, "no specification");
    char *path auto_free = str_printf("%s/gvisor/config.json", template_dir);
    ok(strstr(missing.msg, path) && !strstr(missing.msg, "/proc/"), "%s", missing.msg);
    put("gvisor/config.json", "{\"mounts\": [{\"type\": \"erofs\", \"source\": \"tools.erofs\"}]}");
    is_int(bundle_make(home, fd, template_dir, 64, &e), 0, "a bundle: %s", e.msg);
    char *made auto_free = str_printf("%s/config.json", home);
    is_int(file_read(made, 4096, &text, &e), 0, "is written: %s", e.msg);
    ok(strstr(buf_str(&text), "/proc/self/fd/3/gvisor/tools.erofs"), "files have runsc's names");
    ok(strstr(buf_str(&text), "size=67108864"), "and the layer its size: %s", buf_str(&text));
}

int main(void)
{
    if (!mkdtemp(home))
        abort();
    template_dir = str_printf("%s/template", home);
    char *parts auto_free = str_printf("%s/gvisor", template_dir);
    mkdir(template_dir, 0700);
    mkdir(parts, 0700);
    test_what_is_refused();
    test_a_bundle();
    dir_remove(home, NULL);
    free(template_dir);
    return tap_done();
}
