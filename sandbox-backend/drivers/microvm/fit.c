// SPDX-License-Identifier: Apache-2.0
// Check that this host can restore a template.
#include "sandbox-backend/drivers/microvm/fit.h"

#include <errno.h>
#include <fcntl.h>
#include <linux/magic.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/vfs.h>
#include <unistd.h>

#include "sandbox-backend/base/fd.h"
#include "sandbox-backend/base/mem.h"
#include "sandbox-backend/base/str.h"
#include "sandbox-backend/drivers/microvm/image/processor.h"
#include "sandbox-backend/drivers/microvm/qemu/qemu_binary.h"

#define KVM_DEVICE       "/dev/kvm"
#define STAT_BLOCK_BYTES 512 // the unit of st_blocks, stat(2)

static const char *const NEEDED[] = {TEMPLATE_MEMORY, TEMPLATE_VMSTATE, TEMPLATE_DISK,
                                     TEMPLATE_OVERLAY};

static int check_files(const char *dir, const char *name, struct err *e)
{
    for (size_t i = 0; i < ARRAY_LEN(NEEDED); i++) {
        char *path auto_free = str_printf("%s/%s", dir, NEEDED[i]);
        if (access(path, R_OK) != 0)
            return err_set(e, ERR_NOT_FOUND,
                           "template %s is incomplete (%s cannot be read): run \"cubby template "
                           "build %s\"",
                           name, path, name);
    }
    return 0;
}

// Open the device rather than look at its mode: a control group can forbid what the mode allows.
static int check_kvm(const struct template *t, struct err *e)
{
    int fd auto_close = open(KVM_DEVICE, O_RDWR | O_CLOEXEC);
    if (fd < 0)
        return err_set(e, ERR_NOT_FOUND,
                       "template %s needs KVM, but " KVM_DEVICE
                       " cannot be opened (%s): add this user to the group kvm, or run \"cubby "
                       "template build %s --accel tcg\"",
                       t->name, strerror(errno), t->name);
    return fit_check_processor(t, e);
}

int fit_check_processor(const struct template *t, struct err *e)
{
    char *here auto_free = str_eq(t->accel, "kvm") ? processor_here() : NULL;
    struct buf why auto_buf = BUF_INIT;
    if (processor_fits(t->processor, here, &why))
        return 0;
    return err_set(e, ERR_NOT_FOUND,
                   "template %s does not fit this host's processor (%s): run \"cubby template "
                   "build %s\"",
                   t->name, buf_str(&why), t->name);
}

static int check_host(const struct template *t, const char *binary, struct err *e)
{
    const char *version = qemu_binary_version(binary, e);
    if (!version)
        return -1;
    if (!str_eq(version, t->qemu))
        return err_set(e, ERR_NOT_FOUND,
                       "template %s was made with QEMU %s and this host has %s: run \"cubby "
                       "template build %s\"",
                       t->name, t->qemu, version, t->name);
    return str_eq(t->accel, "kvm") ? check_kvm(t, e) : 0;
}

int fit_load(const char *template_dir, struct template *t, char **binary, struct err *e)
{
    char *found auto_free = NULL;
    if (template_load(template_dir, t, e) != 0)
        return -1;
    found = qemu_binary_find(e);
    if (!found || check_host(t, found, e) != 0 || check_files(template_dir, t->name, e) != 0) {
        template_fini(t);
        return -1;
    }
    *binary = steal(&found);
    return 0;
}

static bool has_holes_in_memory(int fd)
{
    struct statfs fs;
    struct stat st;
    return fstatfs(fd, &fs) == 0 && fs.f_type == TMPFS_MAGIC && fstat(fd, &st) == 0 &&
           S_ISREG(st.st_mode) && st.st_blocks * STAT_BLOCK_BYTES < st.st_size;
}

int fit_reserve(const char *memory, struct err *e)
{
    int fd auto_close = open(memory, O_RDONLY | O_CLOEXEC);
    struct stat st;
    if (fd < 0 || !has_holes_in_memory(fd) || fstat(fd, &st) < 0)
        return 0; // the file is opened again later, which reports errors
    int writer auto_close = open(memory, O_RDWR | O_CLOEXEC);
    if (writer < 0)
        return err_sys(e, errno, "open %s", memory);
    if (fallocate(writer, FALLOC_FL_KEEP_SIZE, 0, st.st_size) == 0)
        return 0;
    if (errno != ENOSPC)
        return err_sys(e, errno, "reserve %s", memory);
    return err_set(e, ERR_NO_SPACE,
                   "the host's disk is full: the memory of a sandbox's template (%s) needs %lld MB "
                   "more, and %lld MB are free; make room, or set CUBBY_HOME to a directory on a "
                   "larger file system",
                   memory, (long long)((st.st_size - st.st_blocks * STAT_BLOCK_BYTES) >> 20),
                   (long long)(dir_free_bytes(memory) >> 20));
}
