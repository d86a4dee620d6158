// SPDX-License-Identifier: Apache-2.0
// gVisor's part of a template: the promises of its specification, and its two file systems.
#include <jansson.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "sandbox-backend/base/fd.h"
#include "sandbox-backend/base/json.h"
#include "sandbox-backend/base/mem.h"
#include "sandbox-backend/base/str.h"
#include "sandbox-backend/template/gvisor_image.h"
#include "sandbox-backend/template/rootfs.h"
#include "tests/lib/harness/tap.h"

#define SUPERBLOCK_AT 1024
#define EROFS_MAGIC   "\xe2\xe1\xf5\xe0"

static const json_t *mount_at(const json_t *config, const char *where)
{
    size_t i;
    const json_t *mount;
    json_array_foreach (json_object_get(config, "mounts"), i, mount) {
        if (str_eq(json_string_value(json_object_get(mount, "destination")), where))
            return mount;
    }
    return NULL;
}

static bool has_option(const json_t *mount, const char *option)
{
    size_t i;
    const json_t *one;
    json_array_foreach (json_object_get(mount, "options"), i, one) {
        if (str_eq(json_string_value(one), option))
            return true;
    }
    return false;
}

static void test_config(void)
{
    struct buf text auto_buf = BUF_INIT;
    struct err e = ERR_INIT;
    gvisor_config(&text, 512, true);
    json_t *config = json_parse(buf_str(&text), text.len, &e);
    ok(config, "the specification is JSON");
    const json_t *process = json_object_get(config, "process");
    const json_t *args = json_object_get(process, "args");
    is_str(json_string_value(json_array_get(args, 0)), GVISOR_TOOLS "/init", "init is PID 1");
    is_str(json_string_value(json_array_get(args, 2)), GVISOR_TOOLS "/envd", "and gets envd");
    ok(json_is_false(json_object_get(process, "noNewPrivileges")), "sudo may raise privileges");
    const json_t *tools = mount_at(config, GVISOR_TOOLS);
    is_str(json_string_value(json_object_get(tools, "source")), GVISOR_TOOLS_FILE,
           "their file system is named without a directory");
    ok(has_option(tools, "ro"), "and read-only");
    ok(has_option(mount_at(config, "/dev/shm"), "size=256m") &&
           has_option(mount_at(config, "/run"), "size=256m"),
       "what is in memory has a limit");
    is_str(json_string_value(json_object_get(mount_at(config, GVISOR_PAGES_DIR), "source")),
           GVISOR_MEMORY, "the folded memory is mounted");
    ok(!mount_at(config, "/tmp"), "/tmp belongs to the root file system");
    json_decref(config);
}

static void put(const char *dir, const char *name, const char *text)
{
    char *path auto_free = str_printf("%s/%s", dir, name);
    struct err e = ERR_INIT;
    if (file_replace(path, text, strlen(text), 0755, &e) < 0)
        ok(false, "%s", e.msg);
}

static bool is_erofs(const char *dir, const char *name)
{
    char *path auto_free = str_printf("%s/" GVISOR_DIR "/%s", dir, name);
    struct buf bytes auto_buf = BUF_INIT;
    struct err e = ERR_INIT;
    return file_read(path, 1 << 20, &bytes, &e) == 0 && bytes.len > SUPERBLOCK_AT + 4 &&
           memcmp(bytes.data + SUPERBLOCK_AT, EROFS_MAGIC, 4) == 0;
}

// Make a tree as a build has it: as root a directory, else an archive.
static void make_tree(const char *dir)
{
    char *command auto_free =
        str_printf("cd '%s' && mkdir -p " ROOTFS_DIR "/tmp && echo hello >" ROOTFS_DIR "/hello && "
                   "{ [ $(id -u) = 0 ] || tar -cf " ROOTFS_TAR " -C " ROOTFS_DIR " .; }",
                   dir);
    is_int(system(command), 0, "a tree");
}

static void test_images(void)
{
    char dir[] = "/tmp/gvisor-image-XXXXXX";
    char first[65] = "", second[65] = "", third[65] = "";
    struct err e = ERR_INIT;
    ok(mkdtemp(dir), "a directory");
    make_tree(dir);
    put(dir, "init.bin", "init");
    put(dir, "envd.bin", "envd");
    put(dir, "fold.bin", "fold");
    char *init auto_free = str_printf("%s/init.bin", dir);
    char *envd auto_free = str_printf("%s/envd.bin", dir);
    char *fold auto_free = str_printf("%s/fold.bin", dir);
    const struct gvisor_image_spec spec = {.build_dir = dir,
                                           .init = init,
                                           .envd = envd,
                                           .fold = fold,
                                           .memory_mb = 512,
                                           .tool = {.cwd = dir, .out = 2, .log = 2, .keep = -1}};
    is_int(gvisor_image_make(&spec, first, &e), 0, "both file systems are made: %s", e.msg);
    ok(is_erofs(dir, GVISOR_ROOTFS) && is_erofs(dir, GVISOR_TOOLS_FILE), "and are EROFS");
    ok(strlen(first) == 64, "with a hash");
    put(dir, "envd.bin", "envd of a later version");
    is_int(gvisor_image_make(&spec, second, &e), 0, "again, with another envd: %s", e.msg);
    ok(!str_eq(first, second), "the hash differs");
    unlink(envd);
    is_int(gvisor_image_make(&spec, third, &e), -1, "without an envd it fails: %s", e.msg);
    dir_remove(dir, NULL);
}

int main(void)
{
    test_config();
    test_images();
    return tap_done();
}
