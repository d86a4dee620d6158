// SPDX-License-Identifier: Apache-2.0
// Make a template's files for gVisor: two file systems and an OCI specification.
#include "sandbox-backend/template/gvisor_image.h"

#include <errno.h>
#include <jansson.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "sandbox-backend/base/fd.h"
#include "sandbox-backend/base/json.h"
#include "sandbox-backend/base/mem.h"
#include "sandbox-backend/base/str.h"
#include "sandbox-backend/drivers/host/tool.h"
#include "sandbox-backend/keys/sha256.h"
#include "sandbox-backend/template/rootfs.h"

#define PACKAGE   "erofs-utils"
#define TOOLS_DIR "tools"
#define PAGES_DIR "pages" // has one file of the same name
// gVisor reads no file whose end is stored beside its inode ("Unsupported data layout").
#define LAYOUT       "-Enoinline_data"
#define UNIQUE_BYTES 16

// gVisor puts a file system of its own over an empty /tmp. With this directory, which X has on
// every other Debian, /tmp stays a part of the root file system.
#define TMP_ENTRY "tmp/.X11-unix"

// Under fakeroot, one process tree must both unpack the archive and make the image: the file owners
// exist only inside it.
static const char FAKEROOT_SCRIPT[] =
    "set -eu; mkdir -p \"$2\"; tar -C \"$2\" -xf \"$1\" " ROOTFS_TAR_OPTIONS
    "; mkdir -p -m 1777 \"$2/" TMP_ENTRY "\"\n"
    "exec mkfs.erofs --quiet " LAYOUT " \"$3\" \"$2\"";

// ---- the file systems
static int make_rootfs(const struct gvisor_image_spec *spec, struct err *e)
{
    static const char OUT[] = GVISOR_DIR "/" GVISOR_ROOTFS;
    if (geteuid() != 0) {
        char *mkfs auto_free = tool_find("mkfs.erofs", PACKAGE, e);
        const char *argv[] = {"fakeroot", "--",       "sh",       "-c", FAKEROOT_SCRIPT,
                              "sh",       ROOTFS_TAR, ROOTFS_DIR, OUT,  NULL};
        return mkfs ? tool_run_like(&spec->tool, argv, "fakeroot", e) : -1;
    }
    char *entry auto_free = str_printf("%s/" ROOTFS_DIR "/" TMP_ENTRY, spec->build_dir);
    if ((mkdir(entry, 01777) < 0 && errno != EEXIST) || chmod(entry, 01777) < 0)
        return err_sys(e, errno, "make %s", entry);
    const char *argv[] = {"mkfs.erofs", "--quiet", LAYOUT, OUT, ROOTFS_DIR, NULL};
    return tool_run_like(&spec->tool, argv, PACKAGE, e);
}

// The file has a mark that no other build has, so that the hash differs, too.
static int make_memory(const struct gvisor_image_spec *spec, struct err *e)
{
    char *dir auto_free = str_printf("%s/" PAGES_DIR, spec->build_dir);
    char *file auto_free = str_printf("%s/pages", dir);
    char *unique auto_free = random_hex(UNIQUE_BYTES);
    char *mark auto_free = str_printf(GVISOR_PAGES_MARK "%s", unique);
    static const char TO[] = GVISOR_DIR "/" GVISOR_MEMORY;
    const char *argv[] = {"mkfs.erofs", "--quiet", "--all-root", LAYOUT, TO, PAGES_DIR, NULL};
    if (!spec->fold)
        return 0;
    if (dir_make(dir, 0755, e) < 0 || file_replace(file, mark, strlen(mark), 0644, e) < 0)
        return -1;
    if (chmod(dir, 0755) < 0 || truncate(file, GVISOR_PAGES_BYTES) < 0)
        return err_sys(e, errno, "make %s", file);
    return tool_run_like(&spec->tool, argv, PACKAGE, e) < 0 ? -1 : dir_remove(dir, e);
}

static int make_tools(const struct gvisor_image_spec *spec, struct err *e)
{
    char *dir auto_free = str_printf("%s/" TOOLS_DIR, spec->build_dir);
    char *init auto_free = str_printf("%s/init", dir);
    char *envd auto_free = str_printf("%s/envd", dir);
    char *fold auto_free = str_printf("%s/fold", dir);
    static const char TO[] = GVISOR_DIR "/" GVISOR_TOOLS_FILE;
    const char *argv[] = {"mkfs.erofs", "--quiet", "--all-root", LAYOUT, TO, TOOLS_DIR, NULL};
    if (dir_make(dir, 0755, e) < 0 || file_copy(spec->init, init, 0755, e) < 0 ||
        file_copy(spec->envd, envd, 0755, e) < 0 ||
        (spec->fold && file_copy(spec->fold, fold, 0755, e) < 0) ||
        tool_run_like(&spec->tool, argv, PACKAGE, e) < 0)
        return -1;
    return dir_remove(dir, e);
}

// ---- the specification
// The capabilities of root in the sandbox: all that gVisor has. None of them reaches the host.
static const char *const CAPABILITIES[] = {
    "CHOWN",
    "DAC_OVERRIDE",
    "DAC_READ_SEARCH",
    "FOWNER",
    "FSETID",
    "KILL",
    "SETGID",
    "SETUID",
    "SETPCAP",
    "LINUX_IMMUTABLE",
    "NET_BIND_SERVICE",
    "NET_BROADCAST",
    "NET_ADMIN",
    "NET_RAW",
    "IPC_LOCK",
    "IPC_OWNER",
    "SYS_CHROOT",
    "SYS_PTRACE",
    "SYS_PACCT",
    "SYS_ADMIN",
    "SYS_BOOT",
    "SYS_NICE",
    "SYS_RESOURCE",
    "SYS_TIME",
    "SYS_TTY_CONFIG",
    "MKNOD",
    "LEASE",
    "AUDIT_WRITE",
    "AUDIT_CONTROL",
    "SETFCAP",
};

static json_t *capabilities(void)
{
    static const char *const SETS[] = {"bounding", "effective", "permitted"};
    json_t *sets = json_object();
    for (size_t i = 0; i < ARRAY_LEN(SETS); i++) {
        json_t *names = json_array();
        for (size_t k = 0; k < ARRAY_LEN(CAPABILITIES); k++) {
            char *name auto_free = str_printf("CAP_%s", CAPABILITIES[k]);
            json_array_append_new(names, json_string(name));
        }
        json_object_set_new(sets, SETS[i], names);
    }
    return sets;
}

static json_t *process(void)
{
    return json_pack("{s:{s:i,s:i}, s:[s,s,s], s:[s,s], s:s, s:o, s:b}", "user", "uid", 0, "gid", 0,
                     "args", GVISOR_TOOLS "/init", "--container", GVISOR_TOOLS "/envd", "env",
                     "PATH=/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin",
                     "HOME=/root", "cwd", "/", "capabilities", capabilities(), "noNewPrivileges",
                     0);
}

// Add a mount. `size`: its share of the memory, as a guest kernel limits it, or NULL.
static void add_mount(json_t *mounts, const char *where, const char *type, const char *source,
                      const char *options, const char *size)
{
    json_t *list = json_array();
    char *copy auto_free = xstrdup(options);
    char *rest = copy;
    for (char *word; (word = strsep(&rest, ","));)
        json_array_append_new(list, json_string(word));
    if (size)
        json_array_append_new(list, json_string(size));
    json_array_append_new(mounts, json_pack("{s:s, s:s, s:s, s:o}", "destination", where, "type",
                                            type, "source", source, "options", list));
}

static json_t *mounts(int64_t memory_mb, bool folds)
{
    char *half auto_free = str_printf("size=%lldm", (long long)memory_mb / 2);
    json_t *all = json_array();
    add_mount(all, "/proc", "proc", "proc", "nosuid,noexec,nodev", NULL);
    add_mount(all, "/sys", "sysfs", "sysfs", "nosuid,noexec,nodev", NULL);
    add_mount(all, "/dev", "tmpfs", "dev", "nosuid,mode=0755", NULL);
    add_mount(all, "/dev/pts", "devpts", "devpts", "nosuid,noexec", NULL);
    add_mount(all, "/dev/shm", "tmpfs", "shm", "nosuid,nodev,mode=1777", half);
    add_mount(all, "/run", "tmpfs", "run", "nosuid,nodev,mode=0755", half);
    add_mount(all, "/run/lock", "tmpfs", "run", "nosuid,nodev,noexec,mode=1777", "size=4m");
    add_mount(all, "/sys/fs/cgroup", "cgroup", "cgroup", "nosuid,noexec,nodev", NULL);
    add_mount(all, GVISOR_TOOLS, "erofs", GVISOR_TOOLS_FILE, "ro,nosuid,nodev", NULL);
    if (folds)
        add_mount(all, GVISOR_PAGES_DIR, "erofs", GVISOR_MEMORY, "ro,nosuid,nodev", NULL);
    return all;
}

void gvisor_config(struct buf *out, int64_t memory_mb, bool folds)
{
    static const char *const NAMESPACES[] = {"pid", "network", "ipc", "uts", "mount"};
    json_t *namespaces = json_array();
    for (size_t i = 0; i < ARRAY_LEN(NAMESPACES); i++)
        json_array_append_new(namespaces, json_pack("{s:s}", "type", NAMESPACES[i]));
    json_t *config =
        json_pack("{s:s, s:o, s:{s:s, s:b}, s:s, s:o, s:{s:o}}", "ociVersion", "1.0.2", "process",
                  process(), "root", "path", "rootfs", "readonly", 0, "hostname", "sandbox",
                  "mounts", mounts(memory_mb, folds), "linux", "namespaces", namespaces);
    json_to_buf(out, config);
    buf_addc(out, '\n');
    json_decref(config);
}

static int write_config(const struct gvisor_image_spec *spec, struct err *e)
{
    struct buf text auto_buf = BUF_INIT;
    char *path auto_free = str_printf("%s/" GVISOR_DIR "/" GVISOR_CONFIG, spec->build_dir);
    gvisor_config(&text, spec->memory_mb, spec->fold != NULL);
    return file_replace(path, text.data, text.len, 0644, e);
}

// ---- the whole
static int hash(const struct gvisor_image_spec *spec, char *digest, struct err *e)
{
    static const char *const FILES[] = {GVISOR_ROOTFS, GVISOR_TOOLS_FILE, GVISOR_CONFIG,
                                        GVISOR_MEMORY};
    struct sha256 each[ARRAY_LEN(FILES)] = {0};
    size_t count = ARRAY_LEN(FILES) - !spec->fold;
    for (size_t i = 0; i < count; i++) {
        char *path auto_free = str_printf("%s/" GVISOR_DIR "/%s", spec->build_dir, FILES[i]);
        if (sha256_of_file(path, &each[i], e) < 0)
            return -1;
    }
    struct sha256 all = sha256_of(each, sizeof each);
    hex_encode(digest, all.bytes, sizeof all.bytes);
    return 0;
}

int gvisor_image_make(const struct gvisor_image_spec *spec, char *digest, struct err *e)
{
    char *dir auto_free = str_printf("%s/" GVISOR_DIR, spec->build_dir);
    if (dir_make(dir, 0755, e) < 0 || make_rootfs(spec, e) < 0 || make_tools(spec, e) < 0 ||
        make_memory(spec, e) < 0 || write_config(spec, e) < 0 || hash(spec, digest, e) < 0)
        return err_wrap(e, "make gVisor's file systems");
    return 0;
}
