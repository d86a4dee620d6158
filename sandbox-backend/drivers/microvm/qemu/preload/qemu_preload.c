// SPDX-License-Identifier: Apache-2.0
// cubby-qemu.so, which is preloaded into QEMU: it gives QEMU the guest's memory by a read-only
// descriptor.
//
// QEMU opens the file of its guest's memory by name, and for writing even if it then maps the file
// privately. But all sandboxes share a template's memory file. So QEMU's command line has a name
// that does not exist, and this object answers open(2) of that name with the descriptor that QEMU
// was started with. Without this object QEMU finds no memory and ends.
//
// To give back a page that the guest has freed, QEMU punches a hole into the file and then drops
// the page from its mapping. A read-only file must not get a hole, and the kernel would refuse it.
// Only the drop is needed: at the next access the guest sees the file's page again. So this object
// reports success for the hole.
//
// It is built without _FORTIFY_SOURCE, whose headers define open() themselves. It uses system calls
// instead of dlsym(3), so that nothing must be looked up before main.
#include <errno.h>
#include <fcntl.h>
#include <stdarg.h>
#include <stdbool.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "sandbox-backend/drivers/microvm/qemu/qemu.h"

#define EXPORTED __attribute__((visibility("default")))

// The function that open() becomes in callers compiled with _FORTIFY_SOURCE.
int __open_2(const char *path, int flags);
int __open64_2(const char *path, int flags);

static int open_it(const char *path, int flags, mode_t mode)
{
    if (strcmp(path, QEMU_MEMORY_PATH) == 0)
        return fcntl(QEMU_FD_MEMORY, F_DUPFD_CLOEXEC, QEMU_FD_COUNT);
    return (int)syscall(SYS_openat, AT_FDCWD, path, flags, mode);
}

static mode_t mode_in(int flags, va_list args)
{
    return flags & (O_CREAT | (O_TMPFILE & ~O_DIRECTORY)) ? va_arg(args, mode_t) : 0;
}

EXPORTED int open(const char *path, int flags, ...)
{
    va_list args;
    va_start(args, flags);
    mode_t mode = mode_in(flags, args);
    va_end(args);
    return open_it(path, flags, mode);
}

EXPORTED int open64(const char *path, int flags, ...)
{
    va_list args;
    va_start(args, flags);
    mode_t mode = mode_in(flags, args);
    va_end(args);
    return open_it(path, flags | O_LARGEFILE, mode);
}

EXPORTED int __open_2(const char *path, int flags)
{
    return open_it(path, flags, 0);
}

EXPORTED int __open64_2(const char *path, int flags)
{
    return open_it(path, flags | O_LARGEFILE, 0);
}

// Tell whether `fd` is read-only guest memory. During a template build the memory is writable, and
// then a hole is really punched.
static bool is_read_only_memory(int fd)
{
    struct stat memory, file;
    int flags = fcntl(fd, F_GETFL);
    return flags >= 0 && (flags & O_ACCMODE) == O_RDONLY && fstat(QEMU_FD_MEMORY, &memory) == 0 &&
           fstat(fd, &file) == 0 && memory.st_dev == file.st_dev && memory.st_ino == file.st_ino;
}

EXPORTED int fallocate(int fd, int mode, off_t offset, off_t len)
{
    if (mode & FALLOC_FL_PUNCH_HOLE && is_read_only_memory(fd))
        return 0;
    return (int)syscall(SYS_fallocate, fd, mode, offset, len);
}

EXPORTED int fallocate64(int fd, int mode, off64_t offset, off64_t len)
{
    return fallocate(fd, mode, offset, len);
}
