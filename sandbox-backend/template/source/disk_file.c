// SPDX-License-Identifier: Apache-2.0
// A template's disk from a file that has an ext4 file system.
//
// The host looks at two bytes of the file, and never mounts it.
#include "sandbox-backend/template/source/disk_file.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <sys/stat.h>
#include <unistd.h>

#include "sandbox-backend/base/mem.h"
#include "sandbox-backend/base/str.h"
#include "sandbox-backend/drivers/microvm/image/template.h"

#define MIB          (1024LL * 1024)
#define DISK_MB_MAX  (1024LL * 1024)
#define MAGIC_AT     1080 // s_magic of the superblock, in the kernel's fs/ext4/ext4.h
#define MAGIC_FIRST  0x53
#define MAGIC_SECOND 0xEF

static int check(const char *file, struct err *e)
{
    unsigned char magic[2] = {0};
    struct stat st;
    int fd auto_close = open(file, O_RDONLY | O_CLOEXEC | O_NONBLOCK);
    if (fd < 0 || fstat(fd, &st) < 0)
        return err_sys(e, errno, "open the disk file %s", file);
    if (!S_ISREG(st.st_mode))
        return err_set(e, ERR_INVALID, "%s is not a regular file", file);
    if (pread(fd, magic, sizeof magic, MAGIC_AT) != (ssize_t)sizeof magic ||
        magic[0] != MAGIC_FIRST || magic[1] != MAGIC_SECOND)
        return err_set(e, ERR_INVALID,
                       "%s has no ext4 file system: a disk file is the file system itself, without "
                       "partitions",
                       file);
    return 0;
}

static int copy(const char *file, const char *name, const struct tool *tool, struct err *e)
{
    const char *argv[] = {
        "cp", "--sparse=always", "--reflink=auto", "--no-preserve=all", "--", file, name, NULL};
    return tool_run_like(tool, argv, "coreutils", e);
}

int disk_file_move(const char *file, const char *name, const struct tool *tool, struct err *e)
{
    char *to auto_free = str_printf("%s/%s", tool->cwd, name);
    if (rename(file, to) == 0)
        return 0;
    if (errno != EXDEV)
        return err_sys(e, errno, "move %s", file);
    if (copy(file, name, tool, e) < 0)
        return -1;
    unlink(file);
    return 0;
}

static int grow(const char *disk, int64_t *disk_mb, struct err *e)
{
    struct stat st;
    if (stat(disk, &st) < 0)
        return err_sys(e, errno, "look at %s", disk);
    int64_t has_mb = (st.st_size + MIB - 1) / MIB;
    if (has_mb > DISK_MB_MAX)
        return err_set(e, ERR_INVALID, "the disk file has %lld MB, but at most %lld are possible",
                       (long long)has_mb, (long long)DISK_MB_MAX);
    *disk_mb = has_mb > *disk_mb ? has_mb : *disk_mb;
    if (truncate(disk, *disk_mb * MIB) < 0 || chmod(disk, 0644) < 0)
        return err_sys(e, errno, "give %s its size", disk);
    return 0;
}

int disk_file_take(const char *file, bool keeps, const struct tool *tool, int64_t *disk_mb,
                   struct err *e)
{
    char *to auto_free = str_printf("%s/" TEMPLATE_DISK, tool->cwd);
    char *from auto_free = realpath(file, NULL);
    if (!from)
        return err_sys(e, errno, "find the disk file %s", file);
    if (check(from, e) < 0)
        return -1;
    if ((keeps ? copy(from, TEMPLATE_DISK, tool, e)
               : disk_file_move(from, TEMPLATE_DISK, tool, e)) < 0)
        return -1;
    return grow(to, disk_mb, e);
}
