// SPDX-License-Identifier: Apache-2.0
// Building a template: from Debian packages to a snapshot that sandboxes are restored from.
//
// Eight stages, in the order of this file: packages (mmdebstrap), disk (mke2fs -d, no mount),
// initramfs (our init and envd with the kernel's modules), accelerator (does a guest boot under
// KVM?), boot, warm-up, snapshot, and a restore as the proof. All of it happens in a directory that
// becomes the template by one rename at the end (template_place.h), so there is never half a
// template, and the previous one is there until then.
//
// A failed stage leaves nothing but its log, <home>/build-<name>.log; its last lines are shown.
// What the host lacks is found out as early as possible: the tools before the first stage.
//
// Measured on 2 cores without hardware virtualisation: packages 40 s (30 s with a warm cache), disk
// 2 s, initramfs 3 s, probe 5 s where /dev/kvm hangs, boot 5 s, warm-up 20 s, snapshot 1 s.
#include "sandbox-backend/drivers/microvm/template_build.h"

#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <unistd.h>

#include "sandbox-backend/base/clock.h"
#include "sandbox-backend/base/fd.h"
#include "sandbox-backend/base/home.h"
#include "sandbox-backend/base/mem.h"
#include "sandbox-backend/base/self.h"
#include "sandbox-backend/base/str.h"
#include "sandbox-backend/base/version.h"
#include "sandbox-backend/drivers/microvm/accel.h"
#include "sandbox-backend/drivers/microvm/image.h"
#include "sandbox-backend/drivers/microvm/initramfs.h"
#include "sandbox-backend/drivers/microvm/progress.h"
#include "sandbox-backend/drivers/microvm/qemu.h"
#include "sandbox-backend/drivers/microvm/qemu_binary.h"
#include "sandbox-backend/drivers/microvm/rootfs.h"
#include "sandbox-backend/drivers/microvm/template_call.h"
#include "sandbox-backend/drivers/microvm/template_guest.h"
#include "sandbox-backend/drivers/microvm/template_place.h"
#include "sandbox-backend/drivers/microvm/template_tool.h"
#include "sandbox-backend/drivers/microvm/template_verify.h"
#include "sandbox-backend/drivers/microvm/template_warm.h"

#define BOOT_MS        120000 // a busy host without hardware virtualisation may need 20 s
#define SETTLE_MS      300
#define LOG_TAIL_LINES 15
#define LOG_BYTES_MAX  (16 * 1024 * 1024)
#define WHY_BYTES      200

struct build {
    const struct template_build *spec; // borrowed
    struct template_place place;
    struct progress progress;
    struct rootfs_spec rootfs;
    struct image_spec image;
    int log;
    int cache_lock; // -1: no cache in this build
    char *cache;    // owned; directory of the packages
    char *qemu;     // owned; paths of programs
    char *netd;
    char *init;
    char *envd;
    char *python;  // sources of the Python kernel; NULL: a minimal template
    char *release; // owned; of the kernel
    const char *accel;
    struct pump pump; // of the boot and of the restore
    bool pumping;
    struct template_guest *guest; // owned
};

static int stage_packages(struct build *b, struct err *e);
static int stage_disk(struct build *b, struct err *e);
static int stage_initramfs(struct build *b, struct err *e);
static int stage_accel(struct build *b, struct err *e);
static int stage_boot(struct build *b, struct err *e);
static int stage_warm_up(struct build *b, struct err *e);
static int stage_snapshot(struct build *b, struct err *e);
static int stage_verify(struct build *b, struct err *e);

static const struct progress_stage SHOWN[] = {
    {"Debian packages", 45000}, {"disk image", 2000},    {"kernel and initramfs", 4000},
    {"accelerator", 5000},      {"boot", 6000},          {"warm-up", 20000},
    {"snapshot", 1000},         {"trial restore", 2000},
};
static int (*const STAGES[])(struct build *b, struct err *e) = {
    stage_packages, stage_disk,    stage_initramfs, stage_accel,
    stage_boot,     stage_warm_up, stage_snapshot,  stage_verify,
};

static char *in_place(const struct build *b, const char *file)
{
    return str_printf("%s/%s", b->place.dir, file);
}

static void on_tick(void *ctx)
{
    progress_tick(&((struct build *)ctx)->progress);
}

// ---- 1. packages
static int stage_packages(struct build *b, struct err *e)
{
    return rootfs_build(&b->rootfs, e);
}

// ---- 2. disk
static int stage_disk(struct build *b, struct err *e)
{
    char *tree auto_free = in_place(b, ROOTFS_DIR);
    char *tar auto_free = in_place(b, ROOTFS_TAR);
    if (image_make_disk(&b->image, e) < 0 || image_make_overlay(&b->image, e) < 0 ||
        dir_remove(tree, e) < 0)
        return -1;
    unlink(tar);
    return 0;
}

// ---- 3. kernel and initramfs
static int take_kernel(struct build *b, struct err *e)
{
    char *to auto_free = in_place(b, TEMPLATE_KERNEL);
    if (b->spec->kernel) {
        b->release = xstrdup(str_base(b->spec->kernel));
        return file_copy(b->spec->kernel, to, 0644, e);
    }
    if (rootfs_unpack_kernel(&b->rootfs, &b->release, e) < 0)
        return -1;
    char *from auto_free =
        str_printf("%s/%s/boot/vmlinuz-%s", b->place.dir, ROOTFS_KERNEL, b->release);
    return file_copy(from, to, 0644, e);
}

static int take_packages_list(const struct build *b, struct err *e)
{
    char *from auto_free = str_printf("%s/%s/packages.txt", b->place.dir, ROOTFS_OUT);
    char *to auto_free = in_place(b, TEMPLATE_PACKAGES);
    return file_copy(from, to, 0644, e);
}

static int stage_initramfs(struct build *b, struct err *e)
{
    char *unpacked auto_free = in_place(b, ROOTFS_KERNEL);
    char *lib auto_free = str_printf("%s/lib/modules", unpacked);
    char *fetched auto_free = in_place(b, ROOTFS_OUT);
    char *out auto_free = in_place(b, TEMPLATE_INITRD);
    struct buf modules auto_buf = BUF_INIT;
    struct initramfs_spec spec = {.init = b->init,
                                  .envd = b->envd,
                                  .modules_dir = b->spec->kernel ? b->spec->modules : lib,
                                  .out = out};
    if (take_kernel(b, e) < 0 || initramfs_build(&spec, &modules, e) < 0 ||
        take_packages_list(b, e) < 0)
        return -1;
    (void)fd_write_all(b->log, modules.data, modules.len, NULL);
    return dir_remove(unpacked, e) < 0 ? -1 : dir_remove(fetched, e);
}

// ---- 4. accelerator
static int stage_accel(struct build *b, struct err *e)
{
    char why[WHY_BYTES];
    char *kernel auto_free = in_place(b, TEMPLATE_KERNEL);
    char *initrd auto_free = in_place(b, TEMPLATE_INITRD);
    struct accel_probe probe = {.qemu = b->qemu,
                                .kernel = kernel,
                                .initrd = initrd,
                                .log = b->log,
                                .tick = on_tick,
                                .ctx = b};
    if (accel_choose(b->spec->accel, &probe, &b->accel, why, sizeof(why), e) < 0)
        return -1;
    if (str_eq(b->accel, "kvm"))
        progress_say(&b->progress, "    accelerator: KVM (%s)", why);
    else
        progress_say(&b->progress, "    accelerator: TCG, emulation without KVM (%s)", why);
    return 0;
}

// ---- 5. boot
static int stage_boot(struct build *b, struct err *e)
{
    struct template_guest_spec spec = {.dir = b->place.dir,
                                       .qemu = b->qemu,
                                       .netd = b->netd,
                                       .accel = b->accel,
                                       .memory_mb = b->spec->memory_mb,
                                       .cpus = b->spec->cpus,
                                       .log = b->log};
    pump_init(&b->pump, on_tick, b);
    b->pumping = true;
    b->guest = template_guest_start(&b->pump, &spec, e);
    return b->guest ? call_await_envd(&b->pump, template_guest_vmnet(b->guest), BOOT_MS, e) : -1;
}

// ---- 6. warm-up
static int stage_warm_up(struct build *b, struct err *e)
{
    return template_warm_up(&b->pump, template_guest_vmnet(b->guest), b->python, b->log, e);
}

// ---- 7. snapshot
static int write_facts(const struct build *b, struct err *e)
{
    char created[CLOCK_RFC3339_BYTES];
    clock_rfc3339(created, clock_wall_ns() / 1000000000 * 1000000000);
    const char *version = qemu_binary_version(b->qemu, e);
    if (!version)
        return -1;
    struct template t = {.name = xstrdup(b->spec->name),
                         .created_at = xstrdup(created),
                         .kernel = xstrdup(b->release),
                         .qemu = xstrdup(version),
                         .machine = xstrdup(QEMU_MACHINE),
                         .cpu_model = xstrdup(qemu_cpu_model(b->accel)),
                         .accel = xstrdup(b->accel),
                         .envd_version = xstrdup(ENVD_VERSION),
                         .memory_mb = b->spec->memory_mb,
                         .cpus = b->spec->cpus,
                         .disk_mb = b->spec->disk_mb,
                         .python = b->python != NULL,
                         .disk_grows = true,
                         .gives_back = true};
    int result = template_save(b->place.dir, &t, e);
    template_fini(&t);
    return result;
}

static int stage_snapshot(struct build *b, struct err *e)
{
    // The guest's kernel must have seen the end of our last connection before it is frozen: what it
    // took for open then would be open in every sandbox. Nothing tells that from the outside.
    if (pump_pause(&b->pump, SETTLE_MS, e) < 0 || template_guest_settle(b->guest, e) < 0 ||
        template_guest_save(b->guest, e) < 0)
        return -1;
    template_guest_close(steal(&b->guest));
    return write_facts(b, e);
}

// ---- 8. a restore
static int stage_verify(struct build *b, struct err *e)
{
    return template_verify(&b->pump, b->place.dir, b->python, e);
}

// ---- the whole
static int find_programs(struct build *b, struct err *e)
{
    static const char *const TOOLS[][2] = {
        {"mmdebstrap", "mmdebstrap"}, {"mke2fs", "e2fsprogs"},  {"qemu-img", "qemu-utils"},
        {"dpkg-deb", "dpkg"},         {"fakeroot", "fakeroot"}, {"newuidmap", "uidmap"},
    };
    // The last two are what builds without root.
    size_t count = ARRAY_LEN(TOOLS) - (geteuid() == 0 ? 2 : 0);
    for (size_t i = 0; i < count; i++) {
        char *path auto_free = tool_find(TOOLS[i][0], TOOLS[i][1], e);
        if (!path)
            return -1;
    }
    b->qemu = qemu_binary_find(e);
    b->netd = b->qemu ? self_program("cubby-netd", e) : NULL;
    b->init = b->netd ? self_guest("init", e) : NULL;
    b->envd = b->init ? self_guest("envd", e) : NULL;
    if (!b->envd || b->spec->minimal)
        return b->envd ? 0 : -1;
    b->python = self_guest("kernel", e);
    return b->python ? 0 : -1;
}

// One build at a time uses the cache; another one does without.
static void take_cache(struct build *b)
{
    char *dir auto_free = home_path(b->spec->home, "cache");
    if (dir_make(dir, 0700, NULL) < 0)
        return;
    b->cache_lock = open(dir, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    if (b->cache_lock >= 0 && flock(b->cache_lock, LOCK_EX | LOCK_NB) == 0)
        b->cache = str_printf("%s/apt", dir);
}

// What the user named must be there before the minutes of the first stage are spent.
static int check_files(const struct template_build *spec, struct err *e)
{
    const char *const paths[] = {spec->kernel, spec->modules};
    for (size_t i = 0; i < ARRAY_LEN(paths); i++)
        if (paths[i] && access(paths[i], R_OK) < 0)
            return err_sys(e, errno, "%s", paths[i]);
    return 0;
}

static int prepare(struct build *b, struct err *e)
{
    if (check_files(b->spec, e) < 0 || find_programs(b, e) < 0 ||
        template_place_open(&b->place, b->spec->home, b->spec->name, e) < 0)
        return -1;
    char *log auto_free = in_place(b, TEMPLATE_LOG);
    b->log = open(log, O_WRONLY | O_CREAT | O_APPEND | O_CLOEXEC, 0600);
    if (b->log < 0)
        return err_sys(e, errno, "create %s", log);
    take_cache(b);
    b->rootfs = (struct rootfs_spec){.build_dir = b->place.dir,
                                     .cache_dir = b->cache,
                                     .extra = b->spec->packages,
                                     .python = b->python,
                                     .kernel = !b->spec->kernel,
                                     .log = b->log,
                                     .keep = b->place.lock,
                                     .tick = on_tick,
                                     .ctx = b};
    b->image = (struct image_spec){.build_dir = b->place.dir,
                                   .disk_mb = b->spec->disk_mb,
                                   .log = b->log,
                                   .keep = b->place.lock,
                                   .tick = on_tick,
                                   .ctx = b};
    return 0;
}

// Shows the last lines of a file, indented.
static void show_tail(FILE *to, const char *title, const char *path)
{
    struct buf text auto_buf = BUF_INIT;
    if (file_read(path, LOG_BYTES_MAX, &text, NULL) < 0 || text.len == 0)
        return;
    size_t start = text.len;
    for (int lines = 0; start > 0; start--)
        if (text.data[start - 1] == '\n' && start < text.len && ++lines == LOG_TAIL_LINES)
            break;
    fprintf(to, "--- the last lines of %s:\n", title);
    for (char *rest = text.data + start, *line; rest && (line = strsep(&rest, "\n"));) {
        for (char *c = line; *c; c++) // a guest's console is not to drive the terminal
            if ((unsigned char)*c < ' ' && *c != '\t')
                *c = ' ';
        if (*line)
            fprintf(to, "    %s\n", line);
    }
}

static void explain(struct build *b, struct err *e)
{
    char *log auto_free = in_place(b, TEMPLATE_LOG);
    char *console auto_free = in_place(b, TEMPLATE_CONSOLE);
    char *kept auto_free = str_printf("%s/build-%s.log", b->spec->home, b->spec->name);
    show_tail(b->spec->progress, "the build's log", log);
    if (b->pumping)
        show_tail(b->spec->progress, "the guest's console", console);
    if (file_copy(log, kept, 0600, NULL) == 0)
        fprintf(b->spec->progress, "--- the whole log: %s\n", kept);
    err_wrap(e, "%s", SHOWN[b->progress.at].name);
}

static int run_stages(struct build *b, struct err *e)
{
    progress_init(&b->progress, b->spec->progress, b->spec->terminal, SHOWN, ARRAY_LEN(SHOWN));
    for (size_t i = 0; i < ARRAY_LEN(STAGES); i++) {
        progress_next(&b->progress);
        if (STAGES[i](b, e) < 0) {
            int at = b->progress.at;
            progress_fail(&b->progress);
            b->progress.at = at;
            if (e->code != ERR_CANCELED)
                explain(b, e);
            return e->code != ERR_CANCELED
                       ? -1
                       : err_wrap(e, "%zu/%zu %s", i + 1, ARRAY_LEN(STAGES), SHOWN[i].name);
        }
    }
    progress_done(&b->progress);
    return 0;
}

static void finish(struct build *b)
{
    if (b->guest)
        template_guest_close(b->guest);
    if (b->pumping)
        pump_fini(&b->pump);
    if (b->log >= 0)
        close(b->log);
    template_place_close(&b->place);
    if (b->cache_lock >= 0)
        close(b->cache_lock);
    char *owned[] = {b->cache, b->qemu, b->netd, b->init, b->envd, b->python, b->release};
    for (size_t i = 0; i < ARRAY_LEN(owned); i++)
        free(owned[i]);
}

int template_build(const struct template_build *spec, struct template *built, struct err *e)
{
    struct build b = {.spec = spec, .place = {.lock = -1}, .log = -1, .cache_lock = -1};
    char *final auto_free = template_dir(spec->home, spec->name);
    if (!template_name_ok(spec->name))
        return err_set(
            e, ERR_INVALID,
            "\"%s\" is not a name for a template: a-z, 0-9, '.', '_' and '-', at most %d",
            spec->name, TEMPLATE_NAME_MAX);
    tool_watch_signals();
    int result = prepare(&b, e);
    if (result == 0)
        result = run_stages(&b, e);
    if (result == 0)
        result = template_place_commit(&b.place, e);
    finish(&b);
    tool_unwatch_signals();
    return result < 0 ? -1 : template_load(final, built, e);
}
