// SPDX-License-Identifier: Apache-2.0
// Entropy, the clock, the disk and the trusted authority of a guest.
#include "sandbox-backend/envd/guest/renewal.h"

#include <errno.h>
#include <fcntl.h>
#include <linux/fs.h>
#include <linux/random.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/statfs.h>
#include <time.h>
#include <unistd.h>

#include "sandbox-backend/base/buf.h"
#include "sandbox-backend/base/clock.h"
#include "sandbox-backend/base/fd.h"
#include "sandbox-backend/base/mem.h"
#include "sandbox-backend/base/str.h"
#include "sandbox-backend/log/log.h"

#define NS_PER_MS       1000000LL
#define CLOCK_BEHIND_NS (50 * NS_PER_MS)
#define CLOCK_AHEAD_NS  (5000 * NS_PER_MS)
#define ENTROPY_MAX     512
#define OOM_SCORE_SELF  "-900"
#define DISK            "/dev/vda"
#define BYTES_PER_MB    ((int64_t)1 << 20)
#define DISK_STEP_MS    5 // the device has told the kernel, whose worker reads the size later
#define DISK_STEPS_MAX  400
// From ext4 (Documentation/filesystems/ext4 of the kernel); no header for programs has it.
#define EXT4_IOC_RESIZE_FS _IOW('f', 16, uint64_t)

static int random_fd = -1; // /dev/random, open as long as envd runs

int renewal_add_entropy(const void *bytes, size_t len, struct err *e)
{
    struct {
        int entropy_count; // bits
        int buf_size;
        char buf[ENTROPY_MAX];
    } pool = {0};
    if (len > sizeof pool.buf)
        len = sizeof pool.buf;
    pool.entropy_count = (int)len * 8;
    pool.buf_size = (int)len;
    memcpy(pool.buf, bytes, len);
    if (ioctl(random_fd, RNDADDENTROPY, &pool) == 0 && ioctl(random_fd, RNDRESEEDCRNG) == 0)
        return 0;
    // gVisor's kernel keeps no pool: it asks the host each time, so copies share nothing.
    return errno == ENOTTY ? 0 : err_sys(e, errno, "add entropy to the kernel");
}

int renewal_set_clock(int64_t wall_ns, struct err *e)
{
    int64_t ahead = clock_wall_ns() - wall_ns;
    if (ahead >= -CLOCK_BEHIND_NS && ahead <= CLOCK_AHEAD_NS)
        return 0;
    struct timespec t = {.tv_sec = wall_ns / (1000 * NS_PER_MS),
                         .tv_nsec = wall_ns % (1000 * NS_PER_MS)};
    // A kernel that lets nobody set the clock shows the host's (gVisor), and `wall_ns` came late.
    if (clock_settime(CLOCK_REALTIME, &t) < 0 && errno != EPERM && errno != ENOSYS)
        return err_sys(e, errno, "set the clock");
    return 0;
}

void renewal_prepare(void)
{
    int fd auto_close = open("/proc/self/oom_score_adj", O_WRONLY | O_CLOEXEC);
    struct err e = ERR_INIT;
    if (fd < 0 || fd_write_all(fd, OOM_SCORE_SELF, strlen(OOM_SCORE_SELF), &e) < 0)
        log_warn("envd.unprotected", "error=%s", strerror(errno));
    random_fd = open("/dev/random", O_WRONLY | O_CLOEXEC);
    if (random_fd < 0)
        log_error("renewal.random", "error=%s", strerror(errno));
}

// ---- the disk

static int wait_for_size(int64_t bytes, struct err *e)
{
    const struct timespec step = {.tv_nsec = DISK_STEP_MS * NS_PER_MS};
    uint64_t now = 0;
    int fd auto_close = open(DISK, O_RDONLY | O_CLOEXEC);
    if (fd < 0)
        return err_sys(e, errno, "open " DISK);
    for (int i = 0; i < DISK_STEPS_MAX; i++) {
        if (ioctl(fd, BLKGETSIZE64, &now) < 0)
            return err_sys(e, errno, "ask " DISK " for its size");
        if ((int64_t)now >= bytes)
            return 0;
        nanosleep(&step, NULL);
    }
    return err_set(e, ERR_TIMEOUT, DISK " has %lld MB instead of the expected %lld MB",
                   (long long)((int64_t)now / BYTES_PER_MB), (long long)(bytes / BYTES_PER_MB));
}

int renewal_grow_disk(int64_t mb, struct err *e)
{
    struct statfs fs;
    int root auto_close = open("/", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    if (wait_for_size(mb * BYTES_PER_MB, e) < 0)
        return -1;
    if (root < 0 || fstatfs(root, &fs) < 0)
        return err_sys(e, errno, "stat the root file system");
    uint64_t blocks = (uint64_t)(mb * BYTES_PER_MB / fs.f_bsize);
    if (ioctl(root, EXT4_IOC_RESIZE_FS, &blocks) < 0)
        return err_sys(e, errno, "grow the root file system");
    return 0;
}

// ---- a certificate authority that the guest trusts in addition to those of its system
//
// The system's bundle itself changes. A copy that environment variables name would not reach
// programs under sudo, services, and programs with an environment of their own. A comment, which
// readers of PEM skip, marks where the original bundle ends.

#define BUNDLE_MAX_BYTES (4 << 20)
#define MARK             "# The authority of this sandbox (cubby); what follows is replaced.\n"
#define PEM_BEGIN        "-----BEGIN CERTIFICATE-----\n"
#define PEM_END          "-----END CERTIFICATE-----"

int trust_check(const char *pem, struct err *e)
{
    const char *begin = strstr(pem, PEM_BEGIN);
    if (strlen(pem) > TRUST_MAX_BYTES)
        return err_set(e, ERR_INVALID, "caBundle is longer than %d bytes", TRUST_MAX_BYTES);
    if (!begin || !strstr(begin, PEM_END))
        return err_set(e, ERR_INVALID, "caBundle contains no certificate in PEM form");
    return 0;
}

static int write_file(const char *path, const char *text, size_t len, struct err *e)
{
    char *dir auto_free = xstrndup(path, (size_t)(strrchr(path, '/') - path));
    if (dir_make(dir, 0755, e) < 0)
        return -1;
    return file_replace(path, text, len, 0644, e);
}

static int change_bundle(const char *path, const char *pem, struct err *e)
{
    struct buf text auto_buf = BUF_INIT;
    if (file_exists(path) && file_read(path, BUNDLE_MAX_BYTES, &text, e) < 0)
        return -1;
    const char *mark = strstr(buf_str(&text), MARK);
    size_t own = mark ? (size_t)(mark - text.data) : text.len;
    if (!mark && !*pem)
        return 0;
    struct buf next auto_buf = BUF_INIT;
    buf_add(&next, text.data, own);
    if (*pem)
        buf_printf(&next, MARK "%s\n", pem);
    return write_file(path, next.data, next.len, e);
}

// By default OpenSSL reads one file and a directory. Debian has only the directory, whose file
// names would have to be computed, so link the file to the bundle.
static int point_default(const char *root, struct err *e)
{
    char *path auto_free = str_printf("%s" TRUST_DEFAULT, root);
    if (symlink(TRUST_BUNDLE, path) == 0 || errno == EEXIST || errno == ENOENT)
        return 0;
    return err_sys(e, errno, "link %s", path);
}

int trust_install(const char *root, const char *pem, struct err *e)
{
    char *bundle auto_free = str_printf("%s" TRUST_BUNDLE, root);
    char *own auto_free = str_printf("%s" TRUST_CERTIFICATE, root);
    if (change_bundle(bundle, pem, e) < 0)
        return -1;
    if (*pem)
        return write_file(own, pem, strlen(pem), e) < 0 ? -1 : point_default(root, e);
    if (unlink(own) < 0 && errno != ENOENT)
        return err_sys(e, errno, "remove %s", own);
    return 0;
}
