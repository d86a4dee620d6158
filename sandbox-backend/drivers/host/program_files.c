// SPDX-License-Identifier: Apache-2.0
// The files that a program needs to start, as its dynamic linker lists them.
#include "sandbox-backend/drivers/host/program_files.h"

#include <elf.h>
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stdint.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include "sandbox-backend/base/buf.h"
#include "sandbox-backend/base/fd.h"
#include "sandbox-backend/base/mem.h"
#include "sandbox-backend/base/str.h"
#include "sandbox-backend/drivers/host/spawn.h"

#define PROGRAMS_MAX   8 // QEMU, netd and egress, and room for the programs of tests
#define FILES_MAX      256
#define LIST_BYTES_MAX 65536
#define HEADERS_MAX    64
#define LINKER_CACHE   "/etc/ld.so.cache"

struct entry {
    char *program; // owned; NULL: the entry is free
    struct file_stamp program_stamp, cache_stamp;
    char **files; // owned, with its strings
};

// One loop and one thread use this in each process, so a plain variable is enough.
static struct entry known[PROGRAMS_MAX];
static int next_entry;

static void forget(struct entry *entry)
{
    for (char **file = entry->files; file && *file; file++)
        free(*file);
    free(entry->files);
    free(entry->program);
    *entry = (struct entry){0};
}

// ---- asking

// Read the path of an ELF program's dynamic linker (elf(5), PT_INTERP). New string. NULL without an
// error means that the program has no linker, as static programs.
static char *interpreter_of(const char *program, struct err *e)
{
    Elf64_Ehdr head;
    Elf64_Phdr parts[HEADERS_MAX];
    char path[PATH_MAX] = "";
    int fd auto_close = open(program, O_RDONLY | O_CLOEXEC);
    if (fd < 0) {
        err_sys(e, errno, "open %s", program);
        return NULL;
    }
    if (pread(fd, &head, sizeof head, 0) != sizeof head ||
        memcmp(head.e_ident, ELFMAG, SELFMAG) != 0 || head.e_phnum > HEADERS_MAX ||
        pread(fd, parts, head.e_phnum * sizeof parts[0], (off_t)head.e_phoff) !=
            (ssize_t)(head.e_phnum * sizeof parts[0])) {
        err_set(e, ERR_INVALID, "%s cannot run in a jail, because it is not an ELF file", program);
        return NULL;
    }
    for (int i = 0; i < head.e_phnum; i++) {
        if (parts[i].p_type != PT_INTERP || parts[i].p_filesz >= sizeof path)
            continue;
        if (pread(fd, path, parts[i].p_filesz, (off_t)parts[i].p_offset) > 0)
            return xstrdup(path);
    }
    return NULL;
}

static int read_all(int fd, struct buf *out, struct err *e)
{
    char piece[4096];
    for (ssize_t n; (n = read(fd, piece, sizeof piece)) != 0;) {
        if (n < 0 && errno == EINTR)
            continue;
        if (n < 0)
            return err_sys(e, errno, "read from a pipe");
        if (out->len + (size_t)n > LIST_BYTES_MAX)
            return err_set(e, ERR_TOO_LARGE, "the list of libraries is too long");
        buf_add(out, piece, (size_t)n);
    }
    return 0;
}

// Append the output of `linker --list program` to `out`.
static int ask(const char *linker, const char *program, struct buf *out, struct err *e)
{
    int ends[2];
    if (pipe2(ends, O_CLOEXEC) != 0)
        return err_sys(e, errno, "make a pipe");
    int from auto_close = ends[0];
    int to auto_close = ends[1];
    char *const argv[] = {(char *)(uintptr_t)linker, (char *)(uintptr_t) "--list",
                          (char *)(uintptr_t)program, NULL};
    const int fds[] = {-1, to, -1};
    const struct spawn_opts opts = {
        .file = linker, .argv = argv, .fds = fds, .fd_count = ARRAY_LEN(fds), .dies_with_us = true};
    pid_t pid = spawn_program(&opts, e);
    if (pid < 0)
        return -1;
    close(steal_fd(&to));
    int rc = read_all(from, out, e), status = 0;
    close(steal_fd(&from));
    while (waitpid(pid, &status, 0) < 0 && errno == EINTR)
        ;
    return rc == 0 && status != 0 ? err_set(e, ERR_PRECONDITION, "%s lacks a library", program)
                                  : rc;
}

static void add_file(struct entry *entry, int *count, const char *path, size_t len)
{
    if (*count < FILES_MAX)
        entry->files[(*count)++] = xstrndup(path, len);
}

// Add the files of the listing, whose lines are "\tlibz.so.1 => /lib/.../libz.so.1 (0x...)",
// "\t/lib64/ld-linux... (0x...)" or "\tlinux-vdso...".
static void add_listed(struct entry *entry, int *count, char *text)
{
    for (char *rest = text, *line; (line = strsep(&rest, "\n"));) {
        const char *path = strstr(line, "=> /");
        path = path ? path + 3 : strncmp(line, "\t/", 2) == 0 ? line + 1 : NULL;
        if (path)
            add_file(entry, count, path, strcspn(path, " "));
    }
}

static int list(struct entry *entry, const char *program, struct err *e)
{
    struct buf text auto_buf = BUF_INIT;
    struct err failed = ERR_INIT;
    int count = 0;
    char *linker auto_free = interpreter_of(program, &failed);
    if (err_is(&failed))
        return err_set(e, failed.code, "%s", failed.msg);
    if (linker && ask(linker, program, &text, e) != 0)
        return -1;
    entry->files = xcalloc(FILES_MAX + 1, sizeof(char *));
    entry->program = xstrdup(program);
    add_file(entry, &count, program, strlen(program));
    if (!linker)
        return 0;
    add_file(entry, &count, linker, strlen(linker));
    if (file_exists(LINKER_CACHE)) // without it the linker tries each directory for each library
        add_file(entry, &count, LINKER_CACHE, strlen(LINKER_CACHE));
    char *lines auto_free = buf_take(&text);
    add_listed(entry, &count, lines);
    return 0;
}

// ---- remembering

static bool is_current(const struct entry *entry, const struct file_stamp *program,
                       const struct file_stamp *cache)
{
    return file_stamp_equal(&entry->program_stamp, program) &&
           file_stamp_equal(&entry->cache_stamp, cache);
}

const char *const *program_files(const char *program, struct err *e)
{
    struct file_stamp stamp, cache;
    struct entry *entry = NULL;
    file_stamp_get(LINKER_CACHE, &cache);
    if (!file_stamp_get(program, &stamp)) {
        err_sys(e, ENOENT, "%s", program);
        return NULL;
    }
    for (size_t i = 0; i < ARRAY_LEN(known) && !entry; i++)
        entry = str_eq(known[i].program, program) ? &known[i] : NULL;
    if (!entry) {
        entry = &known[next_entry];
        next_entry = (next_entry + 1) % PROGRAMS_MAX;
    }
    if (str_eq(entry->program, program) && is_current(entry, &stamp, &cache))
        return (const char *const *)entry->files;
    forget(entry);
    if (list(entry, program, e) != 0)
        return NULL;
    entry->program_stamp = stamp;
    entry->cache_stamp = cache;
    return (const char *const *)entry->files;
}
