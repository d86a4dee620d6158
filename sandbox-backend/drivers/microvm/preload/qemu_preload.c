// SPDX-License-Identifier: Apache-2.0
// cubby-qemu.so, which is preloaded into QEMU: the guest's memory by a descriptor that is open for
// reading only.
//
// QEMU opens the file of its guest's memory by name, and for writing even where it then maps it
// privately; a template's memory is every other sandbox's too. So the name on its command line is
// one that does not exist, and open(2) of it is answered here with the descriptor QEMU was started
// with. Without this object QEMU finds no memory and ends.
//
// To give back a page that the guest has freed, QEMU punches a hole into the file and then drops
// the page from its mapping. In a file for reading only there is to be no hole, and the kernel
// would refuse one; the dropping alone is what is wanted: the next look finds the file's page
// again. So the hole is answered with success.
//
// Built without _FORTIFY_SOURCE, which would make open() a macro of sorts; and by system calls, not
// dlsym(3), so that nothing has to be found before main.
#include <errno.h>
#include <fcntl.h>
#include <stdarg.h>
#include <stdbool.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "sandbox-backend/drivers/microvm/qemu.h"

#define EXPORTED __attribute__((visibility("default")))

// What open() becomes where the caller was compiled with _FORTIFY_SOURCE.
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

// While a template is built its memory is written, and a hole in it is one.
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
