// SPDX-License-Identifier: Apache-2.0
// The initramfs: its archive format, and its modules in their order.
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "sandbox-backend/base/fd.h"
#include "sandbox-backend/base/mem.h"
#include "sandbox-backend/base/str.h"
#include "sandbox-backend/template/initramfs.h"
#include "sandbox-backend/template/initramfs_modules.h"
#include "tests/lib/harness/tap.h"

static char dir[] = "/tmp/cubby-test-XXXXXX";

static char *put(const char *path, const void *data, size_t len)
{
    char *full = str_printf("%s/%s", dir, path);
    char *parent auto_free = xstrndup(full, (size_t)(strrchr(full, '/') - full));
    dir_make(parent, 0700, NULL);
    file_write_atomic(full, data, len, 0600, NULL);
    return full;
}

// A file that has a module's .modinfo entries somewhere in it.
static void put_module(const char *path, const char *depends)
{
    struct buf b auto_buf = BUF_INIT;
    buf_add(&b, "\177ELF rubbish\0license=GPL\0depends=", 33);
    buf_adds(&b, depends);
    buf_add(&b, "\0name=x\0", 8);
    free(put(path, b.data, b.len));
}

static void test_entry(void)
{
    struct buf b auto_buf = BUF_INIT;
    initramfs_add(
        &b, &(struct initramfs_entry){.name = "a/b", .mode = 0100644, .data = "hello", .len = 5},
        9);
    is_int(b.len, 124, "110 of header, name and data, each padded to four");
    ok(memcmp(b.data, "07070100000009000081A4", 22) == 0, "magic, inode, mode");
    ok(memcmp(b.data + 54, "00000005", 8) == 0, "size of the file");
    ok(memcmp(b.data + 94, "00000004", 8) == 0, "size of the name, with its NUL");
    ok(memcmp(b.data + 110, "a/b", 4) == 0, "the name");
    ok(memcmp(b.data + 116, "hello\0\0\0", 8) == 0, "the data, padded");
    initramfs_end(&b);
    ok(memmem(b.data, b.len, "TRAILER!!!", 11), "the end");
    is_int(b.len % 4, 0, "is padded too");
}

static void test_modinfo(void)
{
    static const char IMAGE[] = "xx\0depends=a,b\0alias=y\0last=no end";
    is_str(initramfs_modinfo(IMAGE, sizeof(IMAGE), "depends"), "a,b", "found");
    is_str(initramfs_modinfo(IMAGE, sizeof(IMAGE), "alias"), "y", "found");
    ok(!initramfs_modinfo(IMAGE, sizeof(IMAGE), "pends"), "not in the middle of a word");
    ok(!initramfs_modinfo(IMAGE, sizeof(IMAGE) - 1, "last"), "nothing past the end of the image");
    ok(!initramfs_modinfo(NULL, 0, "x"), "of nothing");
}

static int position(const struct initramfs_modules *set, const char *name)
{
    for (int i = 0; i < set->count; i++)
        if (str_eq(set->items[i].name, name))
            return i;
    return -1;
}

static void test_order(void)
{
    struct initramfs_modules set = {0};
    struct err e = ERR_INIT;
    put_module("tree/drivers/virtio/virtio.ko", "");
    put_module("tree/drivers/virtio/virtio_ring.ko", "virtio");
    put_module("tree/drivers/virtio/virtio_mmio.ko", "virtio,virtio_ring");
    put_module("tree/drivers/net/virtio_net.ko", "net_failover,virtio,virtio_ring");
    put_module("tree/net/core/failover.ko", "");
    put_module("tree/drivers/net/net-failover.ko", "failover");
    put_module("tree/drivers/char/virtio-rng.ko", "virtio,built_in_one");
    put_module("tree/drivers/other.ko", "virtio");
    char *tree auto_free = str_printf("%s/tree", dir);
    is_int(initramfs_modules_load(&set, tree, NULL, &e), 0, "loads: %s", e.msg);
    is_int(set.count, 7, "what is needed, once each");
    ok(position(&set, "virtio") < position(&set, "virtio_ring"), "virtio first");
    ok(position(&set, "virtio_ring") < position(&set, "virtio_mmio"), "then its users");
    ok(position(&set, "failover") < position(&set, "net_failover"), "dependencies of dependencies");
    ok(position(&set, "net_failover") < position(&set, "virtio_net"), "under either spelling");
    ok(position(&set, "virtio_rng") >= 0, "a name with a dash");
    is_int(position(&set, "other"), -1, "nothing else");
    initramfs_modules_fini(&set);
}

static void test_extra_modules(void)
{
    struct initramfs_modules set = {0};
    struct err e = ERR_INIT;
    put_module("docker/virtio_mmio.ko", "");
    put_module("docker/llc.ko", "");
    put_module("docker/bridge.ko", "llc");
    put_module("docker/xt_MASQUERADE.ko", "");
    put_module("docker/btrfs.ko", "");
    char *tree auto_free = str_printf("%s/docker", dir);
    ok(initramfs_modules_is_extra("docker") && !initramfs_modules_is_extra("podman") &&
           !initramfs_modules_is_extra(NULL),
       "the names of sets");
    is_int(initramfs_modules_load(&set, tree, NULL, &e), 0, "without the set: %s", e.msg);
    is_int(set.count, 1, "nothing of it is there");
    initramfs_modules_fini(&set);
    is_int(initramfs_modules_load(&set, tree, "docker", &e), 0, "with the set: %s", e.msg);
    is_int(set.count, 4, "all of it is there, and nothing else");
    ok(position(&set, "llc") < position(&set, "bridge"), "dependencies first");
    initramfs_modules_fini(&set);
}

static void test_bad_trees(void)
{
    struct initramfs_modules set = {0};
    struct err e = ERR_INIT;
    char *empty auto_free = str_printf("%s/empty", dir);
    dir_make(empty, 0700, NULL);
    is_int(initramfs_modules_load(&set, empty, NULL, &e), -1, "an empty tree");
    is_int(e.code, ERR_NOT_FOUND, "%s", e.msg);
    e = ERR_INIT;
    put_module("loop/virtio_mmio.ko", "virtio");
    put_module("loop/virtio.ko", "virtio_mmio");
    char *loop auto_free = str_printf("%s/loop", dir);
    is_int(initramfs_modules_load(&set, loop, NULL, &e), -1, "modules that need each other");
    is_int(set.count, 0, "%s", e.msg);
}

static void test_build(void)
{
    char *init auto_free = put("init", "INIT!", 5);
    char *envd auto_free = put("envd", "ENVD!", 5);
    char *out auto_free = str_printf("%s/out.cpio", dir);
    char *tree auto_free = str_printf("%s/tree", dir);
    struct initramfs_spec spec = {.init = init, .envd = envd, .modules_dir = tree, .out = out};
    struct buf names auto_buf = BUF_INIT;
    struct buf archive auto_buf = BUF_INIT;
    struct err e = ERR_INIT;
    is_int(initramfs_build(&spec, &names, &e), 0, "builds: %s", e.msg);
    is_int(file_read(out, 1 << 20, &archive, &e), 0, "is there");
    ok(memmem(archive.data, archive.len, "INIT!", 5), "has init");
    ok(memmem(archive.data, archive.len, "ENVD!", 5), "has envd");
    ok(memmem(archive.data, archive.len, "modules/load", 13), "has the order of the modules");
    ok(strstr(buf_str(&names), "virtio_mmio\n"), "and says the modules");
    spec.envd = "/nonexistent";
    is_int(initramfs_build(&spec, NULL, &e), -1, "needs envd");
    is_int(e.code, ERR_NOT_FOUND, "%s", e.msg);
}

int main(void)
{
    if (!mkdtemp(dir))
        return 1;
    test_entry();
    test_modinfo();
    test_order();
    test_extra_modules();
    test_bad_trees();
    test_build();
    dir_remove(dir, NULL);
    return tap_done();
}
