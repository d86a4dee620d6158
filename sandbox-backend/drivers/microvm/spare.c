// SPDX-License-Identifier: Apache-2.0
// Spares of microVMs.
//
//   LISTED --> TAKEN --> freed     (spare_yield: its QEMU is a machine's now)
//      |         |
//      +---------+--> DROPPED --> freed once its QEMU has ended
//
// A QEMU that ends while its spare is listed drops the spare.
#include "sandbox-backend/drivers/microvm/spare.h"

#include <dirent.h>
#include <errno.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/queue.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "sandbox-backend/base/fd.h"
#include "sandbox-backend/base/mem.h"
#include "sandbox-backend/base/str.h"
#include "sandbox-backend/drivers/microvm/fit.h"
#include "sandbox-backend/drivers/microvm/image/vmstate.h"
#include "sandbox-backend/drivers/microvm/machine.h"
#include "sandbox-backend/host/proc.h"
#include "sandbox-backend/log/log.h"

#define ROOT         "spares" // in the home
#define NAME_BYTES   6        // random
#define NAME         "cubby-spare"
#define GONE_WAIT_MS 2000

enum spare_state { SPARE_LISTED, SPARE_TAKEN, SPARE_DROPPED };

struct spare {
    LIST_ENTRY(spare) link; // in `all`, until it is freed
    enum spare_state state;
    char *template; // owned; its directory
    char *dir;      // owned
    char *overlay;  // owned; files in `dir`
    char *qmp;
    struct machine_size size;
    struct file_stamp memory; // the file that its memory is a mapping of
    struct launched qemu;
};

static char *root; // owned
static LIST_HEAD(, spare) all = LIST_HEAD_INITIALIZER(all);

static void set_state(struct spare *s, enum spare_state to)
{
    if (to <= s->state)
        abort();
    s->state = to;
}

// ---- its end

static void destroy(struct spare *s)
{
    LIST_REMOVE(s, link);
    if (s->qemu.process)
        subproc_close(s->qemu.process, NULL, NULL);
    launched_close(&s->qemu);
    dir_remove(s->dir, NULL);
    free(s->template);
    free(s->dir);
    free(s->overlay);
    free(s->qmp);
    free(s);
}

void spare_drop(struct spare *s)
{
    if (!s)
        return;
    set_state(s, SPARE_DROPPED);
    if (!s->qemu.process || subproc_has_exited(s->qemu.process))
        destroy(s);
    else
        subproc_kill(s->qemu.process);
}

static void on_exit_of_qemu(struct subproc *p, int status, void *ctx)
{
    struct spare *s = ctx;
    char how[64];
    subproc_describe(status, how, sizeof how);
    if (s->state != SPARE_DROPPED)
        log_warn("spare.ended", "template=%s pid=%d: the QEMU of a spare %s", s->template,
                 (int)subproc_pid(p), how);
    if (s->state == SPARE_LISTED)
        spare_drop(s);
    else if (s->state == SPARE_DROPPED)
        destroy(s);
}

// ---- its start

static int make_files(struct spare *s, struct err *e)
{
    char *from auto_free = str_printf("%s/" TEMPLATE_OVERLAY, s->template);
    return dir_make(s->dir, 0700, e) < 0 ? -1 : file_copy(from, s->overlay, 0600, e);
}

static int start_qemu(struct spare *s, uv_loop_t *loop, const struct template *t,
                      const char *binary, struct err *e)
{
    char *memory auto_free = str_printf("%s/" TEMPLATE_MEMORY, s->template);
    char *path auto_free = str_printf("%s/" TEMPLATE_VMSTATE, s->template);
    int vmstate auto_close = vmstate_open_bare(path, e);
    const struct launch l = {.template = t,
                             .template_dir = s->template,
                             .binary = binary,
                             .name = NAME,
                             .memory = memory,
                             .overlay = s->overlay,
                             .qmp = s->qmp,
                             .vmstate = vmstate,
                             .no_header = true};
    if (vmstate < 0)
        return -1;
    // The stamp comes first: if the template is replaced after it, the spare fits no machine.
    if (!file_stamp_get(memory, &s->memory))
        return err_set(e, ERR_NOT_FOUND, "%s cannot be read", memory);
    return launch(loop, &l, on_exit_of_qemu, s, &s->qemu, e);
}

static struct spare *new_spare(const char *template_dir, const struct template *t)
{
    char *name auto_free = random_hex(NAME_BYTES);
    struct spare *s = xcalloc(1, sizeof *s);
    *s = (struct spare){
        .template = xstrdup(template_dir),
        .dir = str_printf("%s/%s", root, name),
        .size = {.cpus = (int)t->cpus, .memory_mb = t->memory_mb, .disk_mb = t->disk_mb},
        .qemu = LAUNCHED_NONE};
    s->overlay = str_printf("%s/" MACHINE_OVERLAY, s->dir);
    s->qmp = str_printf("%s/" MACHINE_QMP, s->dir);
    LIST_INSERT_HEAD(&all, s, link);
    return s;
}

static bool has_memory_of(const struct spare *s, const char *memory)
{
    struct file_stamp now;
    return file_stamp_get(memory, &now) && file_stamp_equal(&s->memory, &now);
}

static struct spare *find(const char *template_dir)
{
    struct spare *s;
    LIST_FOREACH (s, &all, link)
        if (s->state == SPARE_LISTED && str_eq(s->template, template_dir))
            return s;
    return NULL;
}

// Return the template's spare, unless the template was rebuilt or removed: then drop the spare.
static struct spare *find_current(const char *template_dir)
{
    char *memory auto_free = str_printf("%s/" TEMPLATE_MEMORY, template_dir);
    struct spare *s = find(template_dir);
    if (!s || has_memory_of(s, memory))
        return s;
    spare_drop(s);
    return NULL;
}

static void make_spare(uv_loop_t *loop, const char *template_dir)
{
    struct template t;
    char *binary = NULL;
    struct err e = ERR_INIT;
    if (find_current(template_dir) || fit_load(template_dir, &t, &binary, &e) < 0)
        return;
    struct spare *s = new_spare(template_dir, &t);
    if (make_files(s, &e) < 0 || start_qemu(s, loop, &t, binary, &e) < 0) {
        log_info("spare.none", "template=%s reason=\"%s\"", template_dir, e.msg);
        spare_drop(s);
    } else {
        log_debug("spare.started", "template=%s pid=%d", template_dir,
                  (int)subproc_pid(s->qemu.process));
    }
    template_fini(&t);
    free(binary);
}

static void drop_spare(const char *template_dir)
{
    spare_drop(find(template_dir));
}

struct spares spare_shelves = SPARES_INITIALIZER(spare_shelves, make_spare, drop_spare);

// ---- its use

static bool runs(const struct spare *s)
{
    struct pollfd ended = {.events = POLLIN};
    if (subproc_has_exited(s->qemu.process))
        return false;
    ended.fd = subproc_pidfd(s->qemu.process);
    return poll(&ended, 1, 0) == 0;
}

static bool is_size(int64_t wanted, int64_t of_template)
{
    return wanted == 0 || wanted == of_template;
}

struct spare *spare_take(const char *template_dir, const struct machine_size *size)
{
    struct spare *s = find(template_dir);
    bool fits = s && !size->booted && is_size(size->cpus, s->size.cpus) &&
                is_size(size->memory_mb, s->size.memory_mb) &&
                is_size(size->disk_mb, s->size.disk_mb);
    if (!fits || !runs(s))
        return NULL;
    set_state(s, SPARE_TAKEN);
    return s;
}

static int move_file(const char *from, const char *to, struct err *e)
{
    return rename(from, to) == 0 ? 0 : err_sys(e, errno, "move %s to %s", from, to);
}

int spare_move_disk(struct spare *s, const char *path, struct err *e)
{
    return move_file(s->overlay, path, e);
}

bool spare_yield(struct spare *s, const char *memory, const char *qmp, subproc_exit_cb on_exit,
                 void *ctx, struct launched *out)
{
    struct err e = ERR_INIT;
    if (!runs(s) || !has_memory_of(s, memory) || move_file(s->qmp, qmp, &e) < 0)
        return false;
    log_debug("spare.taken", "template=%s pid=%d", s->template, (int)subproc_pid(s->qemu.process));
    *out = s->qemu;
    s->qemu = LAUNCHED_NONE;
    subproc_retarget(out->process, on_exit, ctx);
    destroy(s);
    return true;
}

// ---- all spares

void spares_open(const char *home)
{
    free(root);
    root = str_printf("%s/" ROOT, home);
}

void spares_end(void)
{
    struct spare *s, *next;
    spares_close(&spare_shelves);
    for (s = LIST_FIRST(&all); s; s = next) {
        next = LIST_NEXT(s, link);
        if (s->state == SPARE_LISTED)
            spare_drop(s);
    }
    free(steal(&root));
}

static bool is_live(const char *dir)
{
    const struct spare *s;
    LIST_FOREACH (s, &all, link)
        if (str_eq(s->dir, dir))
            return true;
    return false;
}

// A QEMU, or the cubby-jail that was about to become it.
static void kill_user(const char *pid, int pidfd, void *ctx)
{
    const char *dir = ctx;
    char *program auto_free = proc_program(pid);
    struct pollfd gone = {.fd = pidfd, .events = POLLIN};
    if (!(str_starts(program, "cubby") || microvm_driver.owns(program)) ||
        !proc_uses(pid, dir, "", NULL))
        return;
    log_warn("spare.kill", "pid=%s dir=%s", pid, dir);
    if (syscall(SYS_pidfd_send_signal, pidfd, SIGKILL, NULL, 0) == 0)
        poll(&gone, 1, GONE_WAIT_MS);
}

void spares_sweep(void)
{
    DIR *dirs = opendir(root);
    if (!dirs)
        return;
    for (struct dirent *entry; (entry = readdir(dirs));) {
        char *dir auto_free = str_printf("%s/%s", root, entry->d_name);
        if (entry->d_name[0] == '.' || is_live(dir))
            continue;
        proc_each(geteuid(), kill_user, dir);
        dir_remove(dir, NULL);
    }
    closedir(dirs);
}
