// SPDX-License-Identifier: Apache-2.0
// Building a template: from Debian packages, an image or a disk to a saved machine, from which
// sandboxes are restored.
//
// The build has eight stages (stages.c): the guest's files (packages by mmdebstrap, an image by
// skopeo, or a disk file), disk (mke2fs -d, no mount), initramfs (Cubby's init and envd with the
// guest kernel's modules), accelerator (does a guest boot under KVM?), boot, warm-up and start
// command, save, and a restore as the proof. With runsc there are two more, for gVisor: save a warm
// sandbox, and a restore as the proof. Where gVisor fails, the template is built without its part.
// All stages work in a directory that becomes the template by one rename at the end (build_dir.h).
// So there is never half a template, and the previous template stays usable until then.
//
// A failed stage leaves only its log, <home>/build-<name>.log, whose last lines are shown. Missing
// prerequisites of the host are reported as early as possible: missing tools before the first
// stage.
//
// Nothing of an image runs on the host. The guests of a build run in the jail of sandboxes, without
// a network, and so does the program that reads the layers of an image.
//
// Measured on 2 cores without hardware virtualisation: packages 40 s (30 s with a warm cache), disk
// 2 s, initramfs 3 s, probe 5 s on a host where /dev/kvm hangs, boot 5 s, warm-up 20 s, save 1 s.
#include "sandbox-backend/template/build.h"

#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

#include "sandbox-backend/base/fd.h"
#include "sandbox-backend/base/home.h"
#include "sandbox-backend/base/mem.h"
#include "sandbox-backend/base/str.h"
#include "sandbox-backend/drivers/gvisor/gvisor.h"
#include "sandbox-backend/drivers/gvisor/runsc.h"
#include "sandbox-backend/drivers/microvm/microvm.h"
#include "sandbox-backend/drivers/microvm/qemu/qemu_binary.h"
#include "sandbox-backend/log/log.h"
#include "sandbox-backend/template/build_internal.h"

#define LOG_TAIL_LINES 15
#define LOG_BYTES_MAX  (16 * 1024 * 1024)

void build_tick(void *ctx)
{
    struct build *b = ctx;
    progress_tick(&b->progress);
    disk_space_look(&b->space);
    disk_space_look(&b->temporary);
}

char *build_file(const struct build *b, const char *file)
{
    return str_printf("%s/%s", b->dir.path, file);
}

// Name a missing tool before the first stage, which may take a minute.
static int find_tools(const struct template_build *spec, struct err *e)
{
    bool packages = spec->source.kind == FROM_PACKAGES;
    const struct {
        const char *name, *package;
        bool needed;
    } TOOLS[] = {
        {"mmdebstrap", "mmdebstrap", packages},
        {"mke2fs", "e2fsprogs", spec->source.kind != FROM_DISK},
        {"qemu-img", "qemu-utils", true},
        {"dpkg-deb", "dpkg", !spec->kernel},
        {"fakeroot", "fakeroot", geteuid() != 0 && spec->source.kind != FROM_DISK},
        {"newuidmap", "uidmap", geteuid() != 0 && packages},
    };
    for (size_t i = 0; i < ARRAY_LEN(TOOLS); i++) {
        char *path auto_free =
            TOOLS[i].needed ? tool_find(TOOLS[i].name, TOOLS[i].package, e) : NULL;
        if (TOOLS[i].needed && !path)
            return -1;
    }
    return 0;
}

static int find_programs(struct build *b, struct err *e)
{
    if (find_tools(b->spec, e) < 0)
        return -1;
    if (b->spec->extra_modules)
        err_set(&b->no_runsc, ERR_UNIMPLEMENTED, "gVisor's kernel has no modules");
    else if (b->spec->microvm_only)
        err_set(&b->no_runsc, ERR_UNIMPLEMENTED, "it is made later");
    else
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
    if (!b->site)
        return -1;
    if (b->spec->extras.files && !(b->files = self_guest(b->spec->extras.files, e)))
        return -1;
    b->python = b->spec->minimal ? NULL : self_guest("kernel", e);
    return b->python || b->spec->minimal ? 0 : -1;
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
    const char *const paths[] = {spec->kernel, spec->modules, spec->source.disk,
                                 spec->source.authfile};
    for (size_t i = 0; i < ARRAY_LEN(paths); i++)
        if (paths[i] && access(paths[i], R_OK) < 0)
            return err_sys(e, errno, "%s", paths[i]);
    return 0;
}

// The guests of a build run in the same jail as sandboxes, and so does what reads foreign files.
static int start_jail(struct build *b, struct err *e)
{
    const struct driver_jail jail = {.ends_with_daemon = true};
    log_set_level(LOG_WARN); // people read the stages
    pump_init(&b->pump, build_tick, b);
    b->pumping = true;
    if (microvm_driver.open(&b->pump.loop, b->spec->home, &jail, e) < 0)
        return -1;
    b->microvm_is_open = true;
    return 0;
}

int build_open(struct build *b, struct err *e)
{
    disk_space_init(&b->space, b->templates,
                    b->spec->templates ? "CUBBY_SYSTEM_TEMPLATES" : "CUBBY_HOME");
    disk_space_init(&b->temporary, fd_temp_dir(), "TMPDIR");
    if (check_files(b->spec, e) < 0 || find_programs(b, e) < 0 ||
        build_dir_open(&b->dir, b->templates, b->spec->name, b->spec->templates != NULL, e) < 0)
        return -1;
    char *log auto_free = build_file(b, TEMPLATE_LOG);
    b->log = open(log, O_WRONLY | O_CREAT | O_APPEND | O_CLOEXEC, 0600);
    if (b->log < 0)
        return err_sys(e, errno, "create %s", log);
    disk_space_reserve_log(b->log);
    if (start_jail(b, e) < 0)
        return -1;
    take_cache(b);
    b->tool = (struct tool){.cwd = b->dir.path,
                            .out = b->log,
                            .log = b->log,
                            .keep = b->dir.lock,
                            .tick = build_tick,
                            .ctx = b};
    b->rootfs = (struct rootfs_spec){.build_dir = b->dir.path,
                                     .cache_dir = b->cache,
                                     .extra = b->spec->packages,
                                     .python = b->python,
                                     .site = b->site,
                                     .extras = b->spec->extras,
                                     .kernel = !b->spec->kernel,
                                     .tool = b->tool};
    b->rootfs.extras.files = b->files;
    b->disk = (struct base_disk_spec){.build_dir = b->dir.path, .tool = b->tool};
    b->setup = (struct template_setup){.environment = b->spec->environment,
                                       .foreign = b->spec->source.kind != FROM_PACKAGES,
                                       .python = b->python != NULL,
                                       .start = b->spec->start,
                                       .ready = b->spec->ready,
                                       .log = b->log};
    b->disk_mb = b->spec->disk_mb;
    b->image = json_incref(b->spec->image);
    b->python_kernel = b->setup.python ? "warm" : NULL;
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

void build_name_full_disk(struct build *b, enum disk_evidence needs, struct err *e)
{
    b->space.needs = needs;
    b->temporary.needs = needs == DISK_LITTLE_ROOM ? DISK_WORDS : needs;
    struct disk_space *const spaces[] = {&b->space, &b->temporary};
    bool temporary_first = b->temporary.least < b->space.least;
    char *log auto_free = b->dir.path ? build_file(b, TEMPLATE_LOG) : NULL;
    if (e->code != ERR_CANCELED && !disk_space_explain(spaces[temporary_first], log, e))
        disk_space_explain(spaces[!temporary_first], log, e);
}

static void explain(struct build *b, struct err *e)
{
    char *log auto_free = build_file(b, TEMPLATE_LOG);
    char *console auto_free = build_file(b, TEMPLATE_CONSOLE);
    char *kept auto_free = str_printf("%s/build-%s.log", b->spec->home, b->spec->name);
    show_tail(b->spec->progress, "the build's log", log);
    show_tail(b->spec->progress, "the guest's console", console);
    if (!b->spec->hidden && file_copy(log, kept, 0600, NULL) == 0)
        fprintf(b->spec->progress, "--- the whole log: %s\n", kept);
    build_name_full_disk(b, DISK_LITTLE_ROOM, e);
    err_wrap(e, "%s", b->progress.stages[b->progress.at].name);
}

int build_run(struct build *b, int first, struct err *e)
{
    const struct progress_stage *stages = build_stages_shown(b->spec->source.kind) + first;
    int count = BUILD_STAGES - first - (b->runsc ? 0 : BUILD_STAGES_GVISOR);
    progress_init(&b->progress, b->spec->progress, b->spec->terminal, stages, count);
    for (int i = 0; i < count; i++) {
        progress_next(&b->progress);
        if (BUILD_STAGE[first + i](b, e) < 0) {
            int at = b->progress.at;
            progress_fail(&b->progress);
            b->progress.at = at;
            if (e->code != ERR_CANCELED)
                explain(b, e);
            return e->code != ERR_CANCELED ? -1
                                           : err_wrap(e, "%d/%d %s", i + 1, count, stages[i].name);
        }
    }
    progress_done(&b->progress);
    return 0;
}

void build_close(struct build *b)
{
    if (b->guest)
        template_guest_close(b->guest);
    if (b->gvisor_is_open)
        gvisor_driver.close();
    if (b->microvm_is_open)
        microvm_driver.close();
    if (b->pumping)
        pump_fini(&b->pump);
    if (b->log >= 0)
        close(b->log);
    build_dir_close(&b->dir);
    if (b->cache_lock >= 0)
        close(b->cache_lock);
    json_decref(b->image);
    json_decref(b->variables);
    buf_fini(&b->missing);
    char *owned[] = {b->cache,  b->qemu,  b->netd,    b->init,  b->envd,      b->fold, b->site,
                     b->python, b->files, b->release, b->runsc, b->directory, b->user};
    for (size_t i = 0; i < ARRAY_LEN(owned); i++)
        free(owned[i]);
}

static int commit(struct build *b, struct err *e)
{
    return disk_space_release_log(b->log, e) < 0 ? -1 : build_dir_commit(&b->dir, e);
}

int template_build(const struct template_build *spec, struct template *built, struct err *e)
{
    char *templates auto_free =
        spec->templates ? xstrdup(spec->templates) : home_path(spec->home, "templates");
    char *final auto_free = str_printf("%s/%s", templates, spec->name);
    struct build b = {
        .spec = spec, .templates = templates, .dir = {.lock = -1}, .log = -1, .cache_lock = -1};
    if (!template_name_ok(spec->name))
        return err_set(e, ERR_INVALID,
                       "\"%s\" is not a valid template name: use a-z, 0-9, '.', '_' and '-', at "
                       "most %d characters",
                       spec->name, TEMPLATE_NAME_MAX);
    // Programs in jails are other users, and read files of the build. cubbyd's children inherit a
    // stricter umask.
    mode_t before = umask(022);
    tool_watch_signals();
    int result = build_open(&b, e);
    if (result == 0)
        result = build_run(&b, 0, e);
    if (result == 0)
        result = commit(&b, e);
    if (result < 0)
        build_name_full_disk(&b, DISK_WORDS, e);
    build_close(&b);
    tool_unwatch_signals();
    umask(before);
    return result < 0 ? -1 : template_load(final, built, e);
}
