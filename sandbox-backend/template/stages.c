// SPDX-License-Identifier: Apache-2.0
// The stages of a template build, in the order of this file.
#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "sandbox-backend/base/clock.h"
#include "sandbox-backend/base/fd.h"
#include "sandbox-backend/base/mem.h"
#include "sandbox-backend/base/str.h"
#include "sandbox-backend/base/version.h"
#include "sandbox-backend/drivers/gvisor/attempt.h"
#include "sandbox-backend/drivers/gvisor/gvisor.h"
#include "sandbox-backend/drivers/microvm/image/processor.h"
#include "sandbox-backend/drivers/microvm/microvm.h"
#include "sandbox-backend/drivers/microvm/qemu/accel.h"
#include "sandbox-backend/drivers/microvm/qemu/qemu.h"
#include "sandbox-backend/drivers/microvm/qemu/qemu_binary.h"
#include "sandbox-backend/template/build_internal.h"
#include "sandbox-backend/template/call.h"
#include "sandbox-backend/template/gvisor_image.h"
#include "sandbox-backend/template/gvisor_save.h"
#include "sandbox-backend/template/initramfs.h"
#include "sandbox-backend/template/source/disk_file.h"
#include "sandbox-backend/template/source/flatten.h"
#include "sandbox-backend/template/source/guest_probe.h"
#include "sandbox-backend/template/source/guest_python.h"
#include "sandbox-backend/template/source/guest_site.h"
#include "sandbox-backend/template/source/image_pull.h"
#include "sandbox-backend/template/source/kernel_package.h"
#include "sandbox-backend/template/verify.h"
#include "sandbox-backend/template/warm.h"

#define BOOT_MS   120000 // a busy host without hardware virtualisation may need 20 s
#define SETTLE_MS 300
#define WARM_MS   600000

#define DISK_BEFORE_START "before.ext4" // in the build directory

// ---- 1. the guest's files
static int take_packages(struct build *b, struct err *e)
{
    char *out auto_free = build_file(b, ROOTFS_OUT);
    if (rootfs_build(&b->rootfs, e) < 0 || extras_check(&b->spec->extras, out, &b->missing, e) < 0)
        return -1;
    if (b->missing.len)
        progress_say(&b->progress, "    left out, because they cannot be installed: %s",
                     buf_str(&b->missing));
    return 0;
}

// What the caller gave goes before what the image says.
static void take_environment(struct build *b, const struct oci_config *config)
{
    struct template_environment *env = &b->setup.environment;
    b->variables = config->variables ? json_copy(config->variables) : json_object();
    if (env->variables)
        json_object_update(b->variables, env->variables);
    b->directory = config->directory ? xstrdup(config->directory) : NULL;
    b->user = config->user ? xstrdup(config->user) : NULL;
    env->variables = json_object_size(b->variables) ? b->variables : NULL;
    env->directory = env->directory ? env->directory : b->directory;
    env->user = env->user ? env->user : b->user;
}

static int take_image(struct build *b, struct err *e)
{
    const struct template_source *source = &b->spec->source;
    const struct image_pull_spec pull = {.reference = source->reference,
                                         .authfile = source->authfile,
                                         .plain_http = source->plain_http,
                                         .build_dir = b->dir.path,
                                         .python = b->python,
                                         .user = b->setup.environment.user,
                                         .max_bytes = b->disk_mb << 20,
                                         .tool = b->tool,
                                         .pump = &b->pump};
    struct oci_config config;
    json_t *about = NULL;
    if (image_pull(&pull, &config, &about, e) < 0)
        return -1;
    take_environment(b, &config);
    oci_config_fini(&config);
    if (b->image)
        json_decref(about);
    else
        b->image = about;
    return 0;
}

// The disk of a user is checked before it boots, in the jail. That of an earlier build was.
static int take_disk(struct build *b, struct err *e)
{
    const struct template_source *source = &b->spec->source;
    char *disk auto_free = build_file(b, TEMPLATE_DISK);
    char *out auto_free = build_file(b, ROOTFS_TAR);
    const struct flatten_spec check = {.build_dir = b->dir.path,
                                       .disk = disk,
                                       .user = b->setup.environment.user,
                                       .checks = true,
                                       .max_bytes = b->disk_mb << 20};
    if (disk_file_take(source->disk, source->keeps_disk, &b->tool, &b->disk_mb, e) < 0)
        return -1;
    bool is_own = source->keeps_disk && !b->finishes;
    int result = is_own ? flatten_run(&b->pump, &check, e) : 0;
    unlink(out);
    return result;
}

static int stage_source(struct build *b, struct err *e)
{
    const struct template_source *source = &b->spec->source;
    switch (source->kind) {
    case FROM_PACKAGES:
        return take_packages(b, e);
    case FROM_DISK:
        return take_disk(b, e);
    case FROM_IMAGE:
        return take_image(b, e);
    }
    return -1;
}

// ---- 2. disk
// The record goes with the template: where the part is added, into the directory that stays.
// Nothing is recorded if the disk may have been full. A tool that fails removes its files, so there
// must be room for all that the part may take: twice what the directory has, and a saved memory.
static void remember_failure(const struct build *b, const struct err *why)
{
    if (why->code == ERR_NO_SPACE)
        return;
    char *dir auto_free =
        b->finishes ? str_printf("%s/%s", b->templates, b->spec->name) : xstrdup(b->dir.path);
    int64_t needs = 2 * dir_disk_bytes(dir) + ((int64_t)b->spec->memory_mb << 20);
    int64_t free_bytes = dir_free_bytes(b->dir.path);
    if (free_bytes < 0 || free_bytes >= needs)
        attempt_failed(dir, why);
}

// A host on which gVisor's part cannot be made, for whatever reason, gets a template for microVMs.
// The failure is returned only if it is the end of the build.
static int leave_gvisor_out(struct build *b, const struct err *cause, struct err *e)
{
    char *parts auto_free = build_file(b, GVISOR_DIR);
    struct err why = *cause;
    b->gvisor_digest[0] = '\0';
    if (why.code == ERR_CANCELED)
        return err_set(e, ERR_CANCELED, "%s", why.msg);
    if (b->runsc) {
        build_name_full_disk(b, DISK_LITTLE_ROOM, &why);
        remember_failure(b, &why);
        free(steal(&b->runsc));
    }
    b->no_runsc = why;
    b->pump.dead = ERR_INIT; // the part's machine may have set it
    progress_say(&b->progress, "    gVisor: the template gets no files for gVisor, because %s",
                 why.msg);
    if (why.code == ERR_NO_SPACE && !b->finishes)
        progress_say(&b->progress, "    gVisor: when there is room: cubby template finish %s",
                     b->spec->name);
    dprintf(b->log, "gVisor: the template gets no files for gVisor, because %s\n", why.msg);
    return dir_remove(parts, e);
}

static int make_gvisor_image(struct build *b, struct err *e)
{
    const struct gvisor_image_spec spec = {.build_dir = b->dir.path,
                                           .init = b->init,
                                           .envd = b->envd,
                                           .fold = b->setup.python ? b->fold : NULL,
                                           .memory_mb = b->spec->memory_mb,
                                           .tool = b->tool};
    if (b->runsc && gvisor_image_make(&spec, b->gvisor_digest, &b->no_runsc) == 0)
        return 0;
    return leave_gvisor_out(b, &b->no_runsc, e);
}

static int stage_disk(struct build *b, struct err *e)
{
    char *tree auto_free = build_file(b, ROOTFS_DIR);
    char *tar auto_free = build_file(b, ROOTFS_TAR);
    b->disk.disk_mb = b->disk_mb;
    if (b->spec->source.kind == FROM_IMAGE && rootfs_unpack_tar(&b->tool, e) < 0)
        return -1;
    if (b->spec->source.kind != FROM_DISK && base_disk_make(&b->disk, e) < 0)
        return -1;
    // gVisor's files of another source are made of the disk, once the guest has changed it.
    if (base_disk_make_overlay(&b->disk, e) < 0 ||
        (b->spec->source.kind == FROM_PACKAGES && make_gvisor_image(b, e) < 0) ||
        dir_remove(tree, e) < 0)
        return -1;
    unlink(tar);
    return 0;
}

// ---- 3. kernel and initramfs
static int take_kernel(struct build *b, struct err *e)
{
    char *to auto_free = build_file(b, TEMPLATE_KERNEL);
    if (b->spec->kernel) {
        const char *release = b->spec->kernel_release;
        b->release = xstrdup(release ? release : str_base(b->spec->kernel));
        return file_copy(b->spec->kernel, to, 0644, e);
    }
    bool fetched = b->spec->source.kind == FROM_PACKAGES;
    if (!fetched && kernel_package_take(b->spec->home, &b->tool, e) < 0)
        return -1;
    if (rootfs_unpack_kernel(&b->rootfs, &b->release, e) < 0)
        return -1;
    char *from auto_free =
        str_printf("%s/%s/boot/vmlinuz-%s", b->dir.path, ROOTFS_KERNEL, b->release);
    return file_copy(from, to, 0644, e);
}

// The guest tells the packages of other sources.
static int take_packages_list(const struct build *b, struct err *e)
{
    if (b->spec->source.kind != FROM_PACKAGES)
        return 0;
    char *from auto_free = str_printf("%s/%s/packages.txt", b->dir.path, ROOTFS_OUT);
    char *to auto_free = build_file(b, TEMPLATE_PACKAGES);
    return file_copy(from, to, 0644, e);
}

static int stage_initramfs(struct build *b, struct err *e)
{
    char *unpacked auto_free = build_file(b, ROOTFS_KERNEL);
    char *lib auto_free = str_printf("%s/lib/modules", unpacked);
    char *fetched auto_free = build_file(b, ROOTFS_OUT);
    char *out auto_free = build_file(b, TEMPLATE_INITRD);
    struct buf modules auto_buf = BUF_INIT;
    struct initramfs_spec spec = {.init = b->init,
                                  .envd = b->envd,
                                  .modules_dir = b->spec->kernel ? b->spec->modules : lib,
                                  .extra_modules = b->spec->extra_modules,
                                  .out = out};
    const char *ready = b->spec->initramfs;
    if (take_kernel(b, e) < 0 ||
        (ready ? file_copy(ready, out, 0644, e) : initramfs_build(&spec, &modules, e)) < 0 ||
        take_packages_list(b, e) < 0)
        return -1;
    (void)fd_write_all(b->log, modules.data, modules.len, NULL);
    return dir_remove(unpacked, e) < 0 ? -1 : dir_remove(fetched, e);
}

// ---- 4. accelerator

// Take over the machine of an archive where it fits. Then there is nothing to boot, to warm up and
// to save, but the trial restore comes as ever.
static int choose_machine(struct build *b, struct err *e)
{
    const struct saved_machine *saved = b->spec->saved;
    struct err why = ERR_INIT;
    if (!saved)
        return 0;
    b->takes_saved =
        b->disk_mb == b->spec->disk_mb && saved_machine_fits(saved, b->qemu, b->accel, &why);
    if (!b->takes_saved) {
        progress_say(&b->progress, "    saved machine: that of the archive does not fit (%s)",
                     err_is(&why) ? why.msg : "its disk has another size");
        return 0;
    }
    b->setup.python = json_is_true(json_object_get(saved->facts, "python"));
    b->python_kernel = saved_machine_text(saved, "python_kernel");
    progress_say(&b->progress, "    saved machine: that of the archive fits this host");
    return saved_machine_take(saved, &b->tool, e);
}

static int stage_accel(struct build *b, struct err *e)
{
    char *why = b->no_kvm;
    char *kernel auto_free = build_file(b, TEMPLATE_KERNEL);
    char *initrd auto_free = build_file(b, TEMPLATE_INITRD);
    struct accel_probe probe = {
        .qemu = b->qemu, .kernel = kernel, .initrd = initrd, .tick = build_tick, .ctx = b};
    if (accel_choose(b->spec->accel, &probe, &b->accel, why, sizeof b->no_kvm, e) < 0)
        return -1;
    if (str_eq(b->accel, "kvm"))
        progress_say(&b->progress, "    accelerator: KVM (%s)", why);
    else
        progress_say(&b->progress, "    accelerator: TCG, emulation without KVM (%s)", why);
    return choose_machine(b, e);
}

// ---- 5. boot
static int stage_boot(struct build *b, struct err *e)
{
    if (b->takes_saved)
        return 0;
    struct template_guest_spec spec = {.dir = b->dir.path,
                                       .qemu = b->qemu,
                                       .netd = b->netd,
                                       .accel = b->accel,
                                       .memory_mb = b->spec->memory_mb,
                                       .cpus = b->spec->cpus,
                                       .log = b->log};
    b->guest = template_guest_start(&b->pump, &spec, e);
    return b->guest ? call_await_envd(&b->pump, template_guest_vmnet(b->guest), BOOT_MS, e) : -1;
}

// ---- 6. warm-up
// An image is a good one without this step, unless the build itself cannot go on.
static int do_without(struct build *b, const char *what, struct err *why, struct err *e)
{
    build_name_full_disk(b, DISK_CODE, why);
    if (why->code == ERR_CANCELED || why->code == ERR_NO_SPACE || err_is(&b->pump.dead))
        return err_set(e, why->code, "%s", why->msg);
    progress_say(&b->progress, "    %s: %s", what, why->msg);
    dprintf(b->log, "%s: %s\n", what, why->msg);
    return 0;
}

static int install_python(struct build *b, struct err *e)
{
    struct err why = ERR_INIT;
    return b->spec->source.kind != FROM_IMAGE || !b->python ||
                   guest_python_install(&b->pump, template_guest_vmnet(b->guest),
                                        b->setup.environment.variables, &b->tool, &why) == 0
               ? 0
               : do_without(b, "no warm Python kernel", &why, e);
}

static int settle_caches(struct build *b, struct err *e)
{
    struct err why = ERR_INIT;
    return guest_site_add(&b->pump, template_guest_vmnet(b->guest), b->site, &why) == 0
               ? 0
               : do_without(b, "Python's caches stay as they are", &why, e);
}

// The guest itself tells what foreign files have: nothing on the host reads them.
static int look_at_guest(struct build *b, struct err *e)
{
    static const char *const KERNELS[] = {
        [GUEST_PYTHON_FRESH] = "fresh", [GUEST_PYTHON_WARM] = "warm"};
    enum guest_python python;
    struct buf packages auto_buf = BUF_INIT;
    char *list auto_free = build_file(b, TEMPLATE_PACKAGES);
    if (install_python(b, e) < 0 ||
        guest_probe(&b->pump, template_guest_vmnet(b->guest), &python, &packages, e) < 0)
        return -1;
    if (python != GUEST_PYTHON_NONE && settle_caches(b, e) < 0)
        return -1;
    b->setup.python = python == GUEST_PYTHON_WARM;
    b->python_kernel = KERNELS[python];
    return file_replace(list, buf_str(&packages), packages.len, 0644, e);
}

// Run the caller's own command, so that sandboxes find its files in memory. Its failure is a
// warning: the template is usable.
static int run_warm(struct build *b, struct err *e)
{
    struct err why = ERR_INIT;
    struct buf out auto_buf = BUF_INIT;
    const char *args[] = {"-l", "-c", b->spec->warm, NULL};
    struct call_command command = {
        .user = TEMPLATE_USER, .cmd = "/bin/bash", .args = args, .timeout_ms = WARM_MS};
    if (!b->spec->warm ||
        call_run(&b->pump, template_guest_vmnet(b->guest), &command, &out, &why) == 0)
        return 0;
    if (why.code == ERR_CANCELED)
        return err_set(e, why.code, "%s", why.msg);
    progress_say(&b->progress, "    the warm-up command of the recipe failed: %s", why.msg);
    return 0;
}

// gVisor's machine runs the start command itself, so it must not find the files that the command of
// the microVM has written. The warm-up has synced the disk.
static int keep_disk_before_start(const struct build *b, struct err *e)
{
    const char *argv[] = {"cp",          "--sparse=always", "--reflink=auto",
                          TEMPLATE_DISK, DISK_BEFORE_START, NULL};
    bool needed = b->runsc && b->setup.foreign && b->setup.start;
    return needed ? tool_run_like(&b->tool, argv, "coreutils", e) : 0;
}

static int stage_warm_up(struct build *b, struct err *e)
{
    if (b->takes_saved)
        return 0;
    const char *vmnet = template_guest_vmnet(b->guest);
    const struct template_setup *setup = &b->setup;
    if (b->spec->source.kind == FROM_DISK)
        b->setup.disk_mb = b->disk_mb;
    if (setup_settings(&b->pump, vmnet, setup, e) < 0 ||
        (setup->foreign && look_at_guest(b, e) < 0) ||
        (setup->python && setup_python(&b->pump, vmnet, e) < 0) || run_warm(b, e) < 0 ||
        template_warm_up(&b->pump, vmnet, setup->python, setup->foreign, b->log, e) < 0)
        return -1;
    if (keep_disk_before_start(b, e) < 0)
        return -1;
    return setup_start(&b->pump, vmnet, setup, e);
}

// ---- 7. save
// Return the members of template.json that say what commands get, or NULL.
static json_t *environment_of(const struct build *b)
{
    const struct template_environment *env = &b->setup.environment;
    if (!env->variables && !env->directory && !env->user)
        return NULL;
    return json_pack("{s:O*, s:s*, s:s*}", "variables", env->variables, "directory", env->directory,
                     "user", env->user);
}

static json_t *start_of(const struct template_build *spec)
{
    return spec->start ? json_pack("{s:s, s:s*}", "command", spec->start, "ready", spec->ready)
                       : NULL;
}

// The other facts of a template that gets its part for gVisor stay.
static int write_finished(const struct build *b, struct err *e)
{
    struct template t = *b->finishes;
    char *digest auto_free = b->runsc ? xstrdup(b->gvisor_digest) : NULL;
    t.gvisor_rootfs = digest;
    return template_save(b->dir.path, &t, e);
}

static const char *envd_version_of(const struct build *b)
{
    return b->takes_saved ? saved_machine_text(b->spec->saved, "envd_version") : ENVD_VERSION;
}

static int write_facts(const struct build *b, struct err *e)
{
    if (b->finishes)
        return write_finished(b, e);
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
                         .envd_version = xstrdup(envd_version_of(b)),
                         .processor = str_eq(b->accel, "kvm") ? processor_here() : NULL,
                         .gvisor_rootfs =
                             b->runsc && *b->gvisor_digest ? xstrdup(b->gvisor_digest) : NULL,
                         .memory_mb = b->spec->memory_mb,
                         .cpus = b->spec->cpus,
                         .disk_mb = b->disk_mb,
                         .python = b->setup.python,
                         .python_kernel = b->python_kernel ? xstrdup(b->python_kernel) : NULL,
                         .key = b->spec->key ? xstrdup(b->spec->key) : NULL,
                         .hidden = b->spec->hidden,
                         .environment = environment_of(b),
                         .image = json_incref(b->image),
                         .start = start_of(b->spec),
                         .modules = b->spec->extra_modules ? xstrdup(b->spec->extra_modules) : NULL,
                         .missing = b->missing.len ? xstrdup(buf_str(&b->missing)) : NULL,
                         .disk_grows = true,
                         .gives_back = true};
    int result = template_save(b->dir.path, &t, e);
    template_fini(&t);
    return result;
}

static int stage_save(struct build *b, struct err *e)
{
    if (b->takes_saved)
        return write_facts(b, e);
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
static int verify(struct build *b, struct err *e)
{
    return template_verify(&b->pump, &microvm_driver, b->dir.path, b->setup.python, e);
}

// The trial has written to an overlay only, so the disk can be booted.
static int make_own_machine(struct build *b, const struct err *why, struct err *e)
{
    b->takes_saved = false;
    b->pump.dead = ERR_INIT; // the trial may have set it
    progress_say(&b->progress,
                 "    saved machine: that of the archive does not run here, because %s", why->msg);
    return stage_boot(b, e) < 0 || stage_warm_up(b, e) < 0 || stage_save(b, e) < 0 ? -1
                                                                                   : verify(b, e);
}

static int stage_verify(struct build *b, struct err *e)
{
    struct err why = ERR_INIT;
    if (!b->takes_saved)
        return verify(b, e);
    if (verify(b, &why) == 0)
        return 0;
    return why.code == ERR_CANCELED ? err_set(e, why.code, "%s", why.msg)
                                    : make_own_machine(b, &why, e);
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
    const struct driver_jail jail = {0}; // unused: runsc brings its own
    if (gvisor_driver.open(&b->pump.loop, b->spec->home, &jail, e) < 0)
        return -1;
    b->gvisor_is_open = true;
    gvisor_for_build();
    struct template_setup setup = b->setup;
    setup.disk_mb = 0; // its root has the size of what is in it
    return gvisor_save(&b->pump, b->dir.path, &setup, e);
}

// The guest has changed the disk, so the disk is the source. It is a guest's, and is read in the
// jail.
static int make_gvisor_of_disk(struct build *b, struct err *e)
{
    bool is_copy = b->setup.start && !b->takes_saved; // made before the start command ran
    char *disk auto_free = b->finishes ? xstrdup(b->spec->source.disk)
                                       : build_file(b, is_copy ? DISK_BEFORE_START : TEMPLATE_DISK);
    char *tree auto_free = build_file(b, ROOTFS_DIR);
    char *tar auto_free = build_file(b, ROOTFS_TAR);
    const struct flatten_spec flat = {
        .build_dir = b->dir.path, .disk = disk, .max_bytes = b->disk_mb << 20};
    int result = flatten_run(&b->pump, &flat, e);
    if (result == 0)
        result = rootfs_unpack_tar(&b->tool, e);
    if (result == 0)
        result = make_gvisor_image(b, e);
    unlink(tar);
    if (is_copy)
        unlink(disk);
    if (dir_remove(tree, result == 0 ? e : NULL) < 0)
        result = -1;
    return result;
}

static int stage_gvisor(struct build *b, struct err *e)
{
    struct err why = ERR_INIT;
    if (!b->runsc)
        return 0;
    int result = 0;
    if (b->spec->source.kind != FROM_PACKAGES) {
        result = make_gvisor_of_disk(b, &why);
        if (result == 0 && !b->runsc) // it was left out
            return 0;
        result = result < 0 ? -1 : write_facts(b, &why);
    }
    return end_gvisor(b, result < 0 ? -1 : save_gvisor(b, &why), &why, e);
}

static int stage_gvisor_verify(struct build *b, struct err *e)
{
    struct err why = ERR_INIT;
    if (!b->runsc)
        return 0;
    int result = template_verify(&b->pump, &gvisor_driver, b->dir.path, b->setup.python, &why);
    return end_gvisor(b, result, &why, e);
}

// ---- what is run and shown
static const struct progress_stage SHOWN[][BUILD_STAGES] = {
#define LAST                                                                                     \
    {"disk image", 2000}, {"kernel and initramfs", 4000}, {"accelerator", 5000}, {"boot", 6000}, \
        {"warm-up", 20000}, {"save", 1000}, {"trial restore", 2000}, {"gVisor save", 20000},     \
    {                                                                                            \
        "gVisor trial restore", 1000                                                             \
    }
    [FROM_PACKAGES] = {{"Debian packages", 45000}, LAST},
    [FROM_IMAGE] = {{"image", 20000}, LAST},
    [FROM_DISK] = {{"disk file", 2000}, LAST},
};

const struct progress_stage *build_stages_shown(enum template_source_kind kind)
{
    return SHOWN[kind];
}

int (*const BUILD_STAGE[BUILD_STAGES])(struct build *b, struct err *e) = {
    stage_source,  stage_disk, stage_initramfs, stage_accel,  stage_boot,
    stage_warm_up, stage_save, stage_verify,    stage_gvisor, stage_gvisor_verify,
};
