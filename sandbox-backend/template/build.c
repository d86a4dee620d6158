// SPDX-License-Identifier: Apache-2.0
// Building a template: from Debian packages to a saved machine, from which sandboxes are restored.
//
// The build has eight stages, in the order of this file: packages (mmdebstrap), disk (mke2fs -d, no
// mount), initramfs (Cubby's init and envd with the guest kernel's modules), accelerator (does a
// guest boot under KVM?), boot, warm-up, save, and a restore as the proof. With runsc there are two
// more, for gVisor: save a warm sandbox, and a restore as the proof. Where gVisor fails, the
// template is built without its part. All stages work in a directory that becomes the template by
// one rename at the end (build_dir.h). So there is never half a template, and the previous template
// stays usable until then.
//
// A failed stage leaves only its log, <home>/build-<name>.log, whose last lines are shown. Missing
// prerequisites of the host are reported as early as possible: missing tools before the first
// stage.
//
// Measured on 2 cores without hardware virtualisation: packages 40 s (30 s with a warm cache), disk
// 2 s, initramfs 3 s, probe 5 s on a host where /dev/kvm hangs, boot 5 s, warm-up 20 s, save 1 s.
#include "sandbox-backend/template/build.h"

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
#include "sandbox-backend/base/str.h"
#include "sandbox-backend/base/version.h"
#include "sandbox-backend/drivers/gvisor/gvisor.h"
#include "sandbox-backend/drivers/gvisor/runsc.h"
#include "sandbox-backend/drivers/host/tool.h"
#include "sandbox-backend/drivers/microvm/image/processor.h"
#include "sandbox-backend/drivers/microvm/microvm.h"
#include "sandbox-backend/drivers/microvm/qemu/accel.h"
#include "sandbox-backend/drivers/microvm/qemu/qemu.h"
#include "sandbox-backend/drivers/microvm/qemu/qemu_binary.h"
#include "sandbox-backend/keys/sha256.h"
#include "sandbox-backend/template/base_disk.h"
#include "sandbox-backend/template/build_dir.h"
#include "sandbox-backend/template/call.h"
#include "sandbox-backend/template/guest.h"
#include "sandbox-backend/template/gvisor_image.h"
#include "sandbox-backend/template/gvisor_save.h"
#include "sandbox-backend/template/initramfs.h"
#include "sandbox-backend/template/progress.h"
#include "sandbox-backend/template/rootfs.h"
#include "sandbox-backend/template/verify.h"
#include "sandbox-backend/template/warm.h"

#define BOOT_MS        120000 // a busy host without hardware virtualisation may need 20 s
#define SETTLE_MS      300
#define LOG_TAIL_LINES 15
#define LOG_BYTES_MAX  (16 * 1024 * 1024)
#define WHY_BYTES      200

struct build {
    const struct template_build *spec; // borrowed
    struct build_dir dir;
    struct progress progress;
    struct rootfs_spec rootfs;
    struct base_disk_spec disk;
    struct tool tool; // how the programs of the build run
    int log;
    int cache_lock; // -1: this build uses no cache
    char *cache;    // owned; directory of the cached packages
    char *qemu;     // this and the next four: owned; paths of programs
    char *netd;
    char *init;
    char *envd;
    char *fold;    // for gVisor
    char *site;    // sitecustomize.py
    char *python;  // sources of the Python kernel; NULL: a minimal template
    char *release; // owned; release of the guest kernel
    char *runsc;   // owned; NULL: the template has no part for gVisor, for the reason no_runsc
    struct err no_runsc;
    bool gvisor_is_open; // the driver
    char gvisor_digest[SHA256_HEX_CHARS + 1];
    const char *accel;
    char no_kvm[WHY_BYTES]; // why `accel` is "tcg"
    struct pump pump;       // of the boot and of the restore
    bool pumping;
    struct template_guest *guest; // owned
};

static int stage_packages(struct build *b, struct err *e);
static int stage_disk(struct build *b, struct err *e);
static int stage_initramfs(struct build *b, struct err *e);
static int stage_accel(struct build *b, struct err *e);
static int stage_boot(struct build *b, struct err *e);
static int stage_warm_up(struct build *b, struct err *e);
static int stage_save(struct build *b, struct err *e);
static int stage_verify(struct build *b, struct err *e);
static int stage_gvisor(struct build *b, struct err *e);
static int stage_gvisor_verify(struct build *b, struct err *e);

static const struct progress_stage SHOWN[] = {
    {"Debian packages", 45000},
    {"disk image", 2000},
    {"kernel and initramfs", 4000},
    {"accelerator", 5000},
    {"boot", 6000},
    {"warm-up", 20000},
    {"save", 1000},
    {"trial restore", 2000},
    {"gVisor save", 20000},
    {"gVisor trial restore", 1000},
};
static int (*const STAGES[])(struct build *b, struct err *e) = {
    stage_packages, stage_disk, stage_initramfs, stage_accel,  stage_boot,
    stage_warm_up,  stage_save, stage_verify,    stage_gvisor, stage_gvisor_verify,
};
#define GVISOR_STAGES 2 // the last, which a host without runsc leaves out

static char *in_dir(const struct build *b, const char *file)
{
    return str_printf("%s/%s", b->dir.path, file);
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
// A host on which gVisor's part cannot be made, for whatever reason, gets a template for microVMs.
// The failure is returned only if it is the end of the build.
static int leave_gvisor_out(struct build *b, const struct err *why, struct err *e)
{
    char *parts auto_free = in_dir(b, GVISOR_DIR);
    if (why->code == ERR_CANCELED)
        return err_set(e, ERR_CANCELED, "%s", why->msg);
    if (b->runsc)
        free(steal(&b->runsc));
    b->pump.dead = ERR_INIT; // the part's machine may have set it
    progress_say(&b->progress, "    gVisor: the template gets no files for gVisor, because %s",
                 why->msg);
    dprintf(b->log, "gVisor: the template gets no files for gVisor, because %s\n", why->msg);
    return dir_remove(parts, e);
}

static int make_gvisor_image(struct build *b, struct err *e)
{
    const struct gvisor_image_spec spec = {.build_dir = b->dir.path,
                                           .init = b->init,
                                           .envd = b->envd,
                                           .fold = b->python ? b->fold : NULL,
                                           .memory_mb = b->spec->memory_mb,
                                           .tool = b->tool};
    if (b->runsc && gvisor_image_make(&spec, b->gvisor_digest, &b->no_runsc) == 0)
        return 0;
    return leave_gvisor_out(b, &b->no_runsc, e);
}

static int stage_disk(struct build *b, struct err *e)
{
    char *tree auto_free = in_dir(b, ROOTFS_DIR);
    char *tar auto_free = in_dir(b, ROOTFS_TAR);
    if (base_disk_make(&b->disk, e) < 0 || base_disk_make_overlay(&b->disk, e) < 0 ||
        make_gvisor_image(b, e) < 0 || dir_remove(tree, e) < 0)
        return -1;
    unlink(tar);
    return 0;
}

// ---- 3. kernel and initramfs
static int take_kernel(struct build *b, struct err *e)
{
    char *to auto_free = in_dir(b, TEMPLATE_KERNEL);
    if (b->spec->kernel) {
        b->release = xstrdup(str_base(b->spec->kernel));
        return file_copy(b->spec->kernel, to, 0644, e);
    }
    if (rootfs_unpack_kernel(&b->rootfs, &b->release, e) < 0)
        return -1;
    char *from auto_free =
        str_printf("%s/%s/boot/vmlinuz-%s", b->dir.path, ROOTFS_KERNEL, b->release);
    return file_copy(from, to, 0644, e);
}

static int take_packages_list(const struct build *b, struct err *e)
{
    char *from auto_free = str_printf("%s/%s/packages.txt", b->dir.path, ROOTFS_OUT);
    char *to auto_free = in_dir(b, TEMPLATE_PACKAGES);
    return file_copy(from, to, 0644, e);
}

static int stage_initramfs(struct build *b, struct err *e)
{
    char *unpacked auto_free = in_dir(b, ROOTFS_KERNEL);
    char *lib auto_free = str_printf("%s/lib/modules", unpacked);
    char *fetched auto_free = in_dir(b, ROOTFS_OUT);
    char *out auto_free = in_dir(b, TEMPLATE_INITRD);
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
    char *why = b->no_kvm;
    char *kernel auto_free = in_dir(b, TEMPLATE_KERNEL);
    char *initrd auto_free = in_dir(b, TEMPLATE_INITRD);
    struct accel_probe probe = {.qemu = b->qemu,
                                .kernel = kernel,
                                .initrd = initrd,
                                .log = b->log,
                                .tick = on_tick,
                                .ctx = b};
    if (accel_choose(b->spec->accel, &probe, &b->accel, why, sizeof b->no_kvm, e) < 0)
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
    struct template_guest_spec spec = {.dir = b->dir.path,
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

// ---- 7. save
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
                         .no_kvm = str_eq(b->accel, "kvm") ? NULL : xstrdup(b->no_kvm),
                         .envd_version = xstrdup(ENVD_VERSION),
                         .processor = str_eq(b->accel, "kvm") ? processor_here() : NULL,
                         .gvisor_rootfs = b->runsc ? xstrdup(b->gvisor_digest) : NULL,
                         .memory_mb = b->spec->memory_mb,
                         .cpus = b->spec->cpus,
                         .disk_mb = b->spec->disk_mb,
                         .python = b->python != NULL,
                         .disk_grows = true,
                         .gives_back = true};
    int result = template_save(b->dir.path, &t, e);
    template_fini(&t);
    return result;
}

static int stage_save(struct build *b, struct err *e)
{
    // The guest kernel must have seen the end of our last connection before the save: a
    // connection that is open there would be open in every sandbox. Nothing tells the host when
    // that has happened.
    if (pump_pause(&b->pump, SETTLE_MS, e) < 0 || template_guest_settle(b->guest, e) < 0 ||
        template_guest_save(b->guest, e) < 0)
        return -1;
    template_guest_close(steal(&b->guest));
    return write_facts(b, e);
}

// ---- 8. a restore
static int stage_verify(struct build *b, struct err *e)
{
    return template_verify(&b->pump, &microvm_driver, b->dir.path, b->python, e);
}

// ---- 9. and 10. gVisor
// template.json names gVisor's part already.
static int end_gvisor(struct build *b, int result, const struct err *why, struct err *e)
{
    if (result == 0)
        return 0;
    return leave_gvisor_out(b, why, e) < 0 ? -1 : write_facts(b, e);
}

static int save_gvisor(struct build *b, struct err *e)
{
    const struct driver_jail jail = {.off = true};
    if (gvisor_driver.open(&b->pump.loop, b->spec->home, &jail, e) < 0)
        return -1;
    b->gvisor_is_open = true;
    gvisor_for_build();
    return gvisor_save(&b->pump, b->dir.path, b->python, b->log, e);
}

static int stage_gvisor(struct build *b, struct err *e)
{
    struct err why = ERR_INIT;
    return b->runsc ? end_gvisor(b, save_gvisor(b, &why), &why, e) : 0;
}

static int stage_gvisor_verify(struct build *b, struct err *e)
{
    struct err why = ERR_INIT;
    if (!b->runsc)
        return 0;
    int result = template_verify(&b->pump, &gvisor_driver, b->dir.path, b->python, &why);
    return end_gvisor(b, result, &why, e);
}

// ---- the whole build
static int find_programs(struct build *b, struct err *e)
{
    static const char *const TOOLS[][2] = {
        {"mmdebstrap", "mmdebstrap"}, {"mke2fs", "e2fsprogs"},  {"qemu-img", "qemu-utils"},
        {"dpkg-deb", "dpkg"},         {"fakeroot", "fakeroot"}, {"newuidmap", "uidmap"},
    };
    // Only a build without root needs the last two tools.
    size_t count = ARRAY_LEN(TOOLS) - (geteuid() == 0 ? 2 : 0);
    for (size_t i = 0; i < count; i++) {
        char *path auto_free = tool_find(TOOLS[i][0], TOOLS[i][1], e);
        if (!path)
            return -1;
    }
    b->runsc = runsc_find(NULL, &b->no_runsc);
    char *mkfs auto_free = b->runsc ? tool_find("mkfs.erofs", "erofs-utils", &b->no_runsc) : NULL;
    if (!mkfs)
        free(steal(&b->runsc));
    b->qemu = qemu_binary_find(e);
    b->netd = b->qemu ? self_program("cubby-netd", e) : NULL;
    b->init = b->netd ? self_guest("init", e) : NULL;
    b->envd = b->init ? self_guest("envd", e) : NULL;
    b->fold = b->envd ? self_guest("fold", e) : NULL;
    b->site = b->fold ? self_guest("python/sitecustomize.py", e) : NULL;
    if (!b->site || b->spec->minimal)
        return b->site ? 0 : -1;
    b->python = self_guest("kernel", e);
    return b->python ? 0 : -1;
}

// Only one build at a time uses the cache; a second build does without it.
static void take_cache(struct build *b)
{
    char *dir auto_free = home_path(b->spec->home, "cache");
    if (dir_make(dir, 0700, NULL) < 0)
        return;
    b->cache_lock = open(dir, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    if (b->cache_lock >= 0 && flock(b->cache_lock, LOCK_EX | LOCK_NB) == 0)
        b->cache = str_printf("%s/apt", dir);
}

// Check that the files that the user named exist, before the first stage takes minutes.
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
        build_dir_open(&b->dir, b->spec->home, b->spec->name, e) < 0)
        return -1;
    char *log auto_free = in_dir(b, TEMPLATE_LOG);
    b->log = open(log, O_WRONLY | O_CREAT | O_APPEND | O_CLOEXEC, 0600);
    if (b->log < 0)
        return err_sys(e, errno, "create %s", log);
    take_cache(b);
    b->tool = (struct tool){.cwd = b->dir.path,
                            .out = b->log,
                            .log = b->log,
                            .keep = b->dir.lock,
                            .tick = on_tick,
                            .ctx = b};
    b->rootfs = (struct rootfs_spec){.build_dir = b->dir.path,
                                     .cache_dir = b->cache,
                                     .extra = b->spec->packages,
                                     .python = b->python,
                                     .site = b->site,
                                     .kernel = !b->spec->kernel,
                                     .tool = b->tool};
    b->disk = (struct base_disk_spec){
        .build_dir = b->dir.path, .disk_mb = b->spec->disk_mb, .tool = b->tool};
    return 0;
}

// Print the last lines of a file, indented.
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
        for (char *c = line; *c; c++) // a guest's console output must not control the terminal
            if ((unsigned char)*c < ' ' && *c != '\t')
                *c = ' ';
        if (*line)
            fprintf(to, "    %s\n", line);
    }
}

static void explain(struct build *b, struct err *e)
{
    char *log auto_free = in_dir(b, TEMPLATE_LOG);
    char *console auto_free = in_dir(b, TEMPLATE_CONSOLE);
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
    int count = (int)ARRAY_LEN(STAGES) - (b->runsc ? 0 : GVISOR_STAGES);
    progress_init(&b->progress, b->spec->progress, b->spec->terminal, SHOWN, count);
    for (int i = 0; i < count; i++) {
        progress_next(&b->progress);
        if (STAGES[i](b, e) < 0) {
            int at = b->progress.at;
            progress_fail(&b->progress);
            b->progress.at = at;
            if (e->code != ERR_CANCELED)
                explain(b, e);
            return e->code != ERR_CANCELED ? -1
                                           : err_wrap(e, "%d/%d %s", i + 1, count, SHOWN[i].name);
        }
    }
    progress_done(&b->progress);
    return 0;
}

static void finish(struct build *b)
{
    if (b->guest)
        template_guest_close(b->guest);
    if (b->gvisor_is_open)
        gvisor_driver.close();
    if (b->pumping)
        pump_fini(&b->pump);
    if (b->log >= 0)
        close(b->log);
    build_dir_close(&b->dir);
    if (b->cache_lock >= 0)
        close(b->cache_lock);
    char *owned[] = {b->cache, b->qemu, b->netd,   b->init,    b->envd,
                     b->fold,  b->site, b->python, b->release, b->runsc};
    for (size_t i = 0; i < ARRAY_LEN(owned); i++)
        free(owned[i]);
}

int template_build(const struct template_build *spec, struct template *built, struct err *e)
{
    struct build b = {.spec = spec, .dir = {.lock = -1}, .log = -1, .cache_lock = -1};
    char *final auto_free = template_dir(spec->home, spec->name);
    if (!template_name_ok(spec->name))
        return err_set(e, ERR_INVALID,
                       "\"%s\" is not a valid template name: use a-z, 0-9, '.', '_' and '-', at "
                       "most %d characters",
                       spec->name, TEMPLATE_NAME_MAX);
    tool_watch_signals();
    int result = prepare(&b, e);
    if (result == 0)
        result = run_stages(&b, e);
    if (result == 0)
        result = build_dir_commit(&b.dir, e);
    finish(&b);
    tool_unwatch_signals();
    return result < 0 ? -1 : template_load(final, built, e);
}
