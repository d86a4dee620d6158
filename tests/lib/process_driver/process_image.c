// SPDX-License-Identifier: Apache-2.0
#include "tests/lib/process_driver/process_image.h"

#include <errno.h>
#include <ftw.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include "sandbox-backend/base/buf.h"
#include "sandbox-backend/base/fd.h"
#include "sandbox-backend/base/mem.h"
#include "sandbox-backend/base/str.h"

static const char *const PARTS[] = {"memory", "disk", "home"}; // the first is not on the disk

// Run a program that is killed with the daemon: a test that kills the daemon checks at once what is
// left.
static int run(const char *const argv[], struct err *e)
{
    int status = 0;
    pid_t pid = fork();
    if (pid == 0) {
        prctl(PR_SET_PDEATHSIG, SIGKILL);
        signal(SIGPIPE, SIG_DFL);
        execvp(argv[0], (char *const *)(uintptr_t)argv);
        _exit(127);
    }
    while (pid > 0 && waitpid(pid, &status, 0) < 0)
        if (errno != EINTR)
            return err_sys(e, errno, "wait for %s", argv[0]);
    if (pid < 0 || status != 0)
        return err_set(e, ERR_LIMIT, "%s failed", argv[0]);
    return 0;
}

// tar and cp keep file owners and links.
static int pack(const char *from, const char *tar, struct err *e)
{
    const char *argv[] = {"tar", "-C", from, "-cf", tar, ".", NULL};
    return run(argv, e);
}

static int unpack(const char *tar, const char *to, struct err *e)
{
    const char *argv[] = {"tar", "-C", to, "-xpf", tar, NULL};
    return mkdir(to, 0700) < 0 && errno != EEXIST ? err_sys(e, errno, "make %s", to) : run(argv, e);
}

static int copy(const char *from, const char *to, struct err *e)
{
    const char *argv[] = {"cp", "-a", "--reflink=auto", "-T", from, to, NULL};
    return run(argv, e);
}

// An image has plain files only: its directories are archives.
static int copy_parts(const char *machine, const char *image, bool saves, bool disk_only,
                      struct err *e)
{
    for (size_t i = disk_only; i < ARRAY_LEN(PARTS); i++) {
        char *ours auto_free = str_printf("%s/%s", machine, PARTS[i]);
        char *saved auto_free = str_printf("%s/%s%s", image, PARTS[i], i ? ".tar" : "");
        if (!file_exists(saves ? ours : saved))
            continue;
        int result = i == 0 ? (saves ? copy(ours, saved, e) : copy(saved, ours, e))
                            : (saves ? pack(ours, saved, e) : unpack(saved, ours, e));
        if (result < 0)
            return -1;
    }
    return 0;
}

static __thread int64_t sum;

static int add(const char *path, const struct stat *st, int flag, struct FTW *walk)
{
    (void)path;
    (void)flag;
    (void)walk;
    sum += (int64_t)st->st_blocks * 512;
    return 0;
}

static int64_t bytes_of(const char *dir)
{
    sum = 0;
    nftw(dir, add, 16, FTW_PHYS);
    return sum;
}

int64_t process_image_disk_bytes(const char *machine)
{
    char *disk auto_free = str_printf("%s/disk", machine);
    char *home auto_free = str_printf("%s/home", machine);
    return bytes_of(disk) + bytes_of(home);
}

static void empty(const char *dir)
{
    dir_remove(dir, NULL);
    mkdir(dir, 0700);
}

int process_image_write(const char *machine, const char *image, bool disk_only, int64_t *bytes,
                        struct err *e)
{
    char *path auto_free = str_printf("%s/image.json", image);
    if (copy_parts(machine, image, true, disk_only, e) < 0) {
        empty(image);
        return -1;
    }
    *bytes = bytes_of(image);
    char *text auto_free = str_printf("{\"bytes\": %lld, \"memory\": %s}\n", (long long)*bytes,
                                      disk_only ? "false" : "true");
    if (file_replace(path, text, strlen(text), 0600, e) == 0)
        return 0;
    empty(image);
    return -1;
}

int process_image_check(const char *image, const char *template_dir,
                        const struct machine_size *size, struct err *e)
{
    (void)template_dir;
    (void)size;
    char *path auto_free = str_printf("%s/image.json", image);
    char *memory auto_free = str_printf("%s/memory", image);
    char *home auto_free =
        str_printf("%s/home.tar", image); // of the real envd, whose memory is not saved here
    if (!file_exists(path))
        return err_set(e, ERR_NOT_FOUND, "%s is no whole image", image);
    struct buf text auto_buf = BUF_INIT;
    bool disk_only =
        file_read(path, 256, &text, NULL) == 0 && strstr(buf_str(&text), "\"memory\": false");
    if (!disk_only && !file_exists(memory) && !file_exists(home))
        return err_set(e, ERR_INVALID, "the image is damaged: %s is not there", memory);
    return 0;
}

int process_image_read(const char *image, const char *machine, struct err *e)
{
    char *path auto_free = str_printf("%s/image.json", image);
    if (!file_exists(path))
        return err_set(e, ERR_NOT_FOUND, "%s is no whole image", image);
    return copy_parts(machine, image, false, false, e);
}
