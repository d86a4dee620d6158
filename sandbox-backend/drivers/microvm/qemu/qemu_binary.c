// SPDX-License-Identifier: Apache-2.0
// The search for QEMU, its version, which is asked once for each binary, and its files.
#include "sandbox-backend/drivers/microvm/qemu/qemu_binary.h"

#include <assert.h>
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include "sandbox-backend/base/buf.h"
#include "sandbox-backend/base/mem.h"
#include "sandbox-backend/base/str.h"
#include "sandbox-backend/drivers/host/arch.h"
#include "sandbox-backend/drivers/host/spawn.h"
#include "sandbox-backend/host/distribution.h"

#define VERSION_TEXT_BYTES 512

// One loop and one thread use this in each process, so a plain variable is enough.
static struct {
    char *binary; // owned
    struct stat identity;
    char version[32];
} known;

static bool is_program(const char *path)
{
    struct stat st;
    return stat(path, &st) == 0 && S_ISREG(st.st_mode) && access(path, X_OK) == 0;
}

char *qemu_binary_find(struct err *e)
{
    const char *chosen = getenv("CUBBY_QEMU");
    if (chosen && chosen[0]) {
        if (chosen[0] == '/' && is_program(chosen))
            return xstrdup(chosen);
        err_set(e, ERR_NOT_FOUND, "CUBBY_QEMU must be the absolute path of a program, not %s",
                chosen);
        return NULL;
    }
    const char *path = getenv("PATH");
    for (const char *at = path ? path : "/usr/bin"; *at;) {
        size_t len = strcspn(at, ":");
        char *candidate auto_free = str_printf("%.*s/" ARCH_QEMU, (int)len, at);
        if (candidate[0] == '/' && is_program(candidate))
            return steal(&candidate);
        at += len + (at[len] == ':');
    }
    char *how auto_free = distribution_install(ARCH_QEMU_PACKAGE " qemu-utils");
    err_set(e, ERR_NOT_FOUND,
            ARCH_QEMU " is not in PATH; to install it: %s; or set CUBBY_QEMU to its path", how);
    return NULL;
}

// Parse "QEMU emulator version 7.2.22 (Debian 1:7.2+dfsg...)".
static bool parse_version(const char *text, char *out, size_t size)
{
    static const char lead[] = "QEMU emulator version ";
    const char *at = strstr(text, lead);
    if (!at)
        return false;
    at += sizeof lead - 1;
    size_t len = strspn(at, "0123456789.");
    if (len == 0 || len >= size)
        return false;
    memcpy(out, at, len);
    out[len] = '\0';
    return true;
}

// Run `binary --version` and store the output in `text`.
static int ask(const char *binary, char text[VERSION_TEXT_BYTES], struct err *e)
{
    int ends[2];
    if (pipe2(ends, O_CLOEXEC) != 0)
        return err_sys(e, errno, "make a pipe");
    int from auto_close = ends[0];
    int to auto_close = ends[1];
    char *const argv[] = {(char *)(uintptr_t)binary, (char *)(uintptr_t) "--version", NULL};
    const int fds[] = {-1, to, -1};
    struct spawn_opts opts = {
        .file = binary, .argv = argv, .fds = fds, .fd_count = 3, .dies_with_us = true};
    pid_t pid = spawn_program(&opts, e);
    if (pid < 0)
        return -1;
    close(steal_fd(&to));
    size_t len = 0;
    for (ssize_t n; len < VERSION_TEXT_BYTES - 1; len += (size_t)n) {
        n = read(from, text + len, VERSION_TEXT_BYTES - 1 - len);
        if (n < 0 && errno == EINTR)
            n = 0;
        else if (n <= 0)
            break;
    }
    text[len] = '\0';
    close(steal_fd(&from));
    int status = 0;
    while (waitpid(pid, &status, 0) < 0 && errno == EINTR)
        ;
    if (status != 0)
        return err_set(e, ERR_NOT_FOUND, "the command %s --version failed", binary);
    return 0;
}

static bool same_file(const struct stat *a, const struct stat *b)
{
    return a->st_dev == b->st_dev && a->st_ino == b->st_ino && a->st_size == b->st_size &&
           a->st_mtim.tv_sec == b->st_mtim.tv_sec && a->st_mtim.tv_nsec == b->st_mtim.tv_nsec;
}

const char *qemu_binary_version(const char *binary, struct err *e)
{
    struct stat now;
    if (stat(binary, &now) != 0) {
        err_sys(e, errno, "%s", binary);
        return NULL;
    }
    if (str_eq(known.binary, binary) && same_file(&known.identity, &now))
        return known.version;
    char text[VERSION_TEXT_BYTES];
    if (ask(binary, text, e) != 0)
        return NULL;
    free(known.binary);
    known.binary = NULL;
    if (!parse_version(text, known.version, sizeof known.version)) {
        err_set(e, ERR_NOT_FOUND, "%s --version prints no version of QEMU", binary);
        return NULL;
    }
    known.binary = xstrdup(binary);
    known.identity = now;
    return known.version;
}

// ---- its files

// Debian's QEMU has the accelerator in a module. A restored machine needs the firmware too: QEMU
// loads it before it loads the saved state.
static const char *const FILES[] = {
    "/usr/lib/x86_64-linux-gnu/qemu/accel-tcg-x86_64.so",
    "/usr/lib/qemu/accel-tcg-x86_64.so",
    "/usr/lib64/qemu/accel-tcg-x86_64.so",
    "/usr/share/qemu/bios-microvm.bin",
    "/usr/share/seabios/bios-microvm.bin",
    "/usr/share/qemu/linuxboot_dma.bin",
    "/usr/share/qemu/linuxboot.bin",
    "/usr/share/qemu/pvh.bin",
    "/usr/share/qemu/kvmvapic.bin",
};

void qemu_files(const char *out[QEMU_FILES_MAX], const char *kernel, const char *initrd)
{
    static_assert(ARRAY_LEN(FILES) + 3 <= QEMU_FILES_MAX, "room for all");
    size_t n = 0;
    for (; n < ARRAY_LEN(FILES); n++)
        out[n] = FILES[n];
    if (kernel)
        out[n++] = kernel;
    if (initrd)
        out[n++] = initrd;
    out[n] = NULL;
}
