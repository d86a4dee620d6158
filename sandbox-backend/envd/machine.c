// SPDX-License-Identifier: Apache-2.0
// Entropy and the time of a restored guest.
#include "sandbox-backend/envd/machine.h"

#include <errno.h>
#include <fcntl.h>
#include <linux/random.h>
#include <string.h>
#include <sys/ioctl.h>
#include <time.h>
#include <unistd.h>

#include "sandbox-backend/base/clock.h"
#include "sandbox-backend/base/fd.h"
#include "sandbox-backend/base/mem.h"
#include "sandbox-backend/log/log.h"

#define NS_PER_MS       1000000LL
#define CLOCK_BEHIND_NS (50 * NS_PER_MS)
#define CLOCK_AHEAD_NS  (5000 * NS_PER_MS)
#define ENTROPY_MAX     512
#define OOM_SCORE_SELF  "-900"

static int random_fd = -1; // /dev/random, for as long as envd runs

int machine_add_entropy(const void *bytes, size_t len, struct err *e)
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
    if (ioctl(random_fd, RNDADDENTROPY, &pool) < 0 || ioctl(random_fd, RNDRESEEDCRNG) < 0)
        return err_sys(e, errno, "add entropy to the kernel");
    return 0;
}

int machine_set_clock(int64_t wall_ns, struct err *e)
{
    int64_t ahead = clock_wall_ns() - wall_ns;
    if (ahead >= -CLOCK_BEHIND_NS && ahead <= CLOCK_AHEAD_NS)
        return 0;
    struct timespec t = {.tv_sec = wall_ns / (1000 * NS_PER_MS),
                         .tv_nsec = wall_ns % (1000 * NS_PER_MS)};
    if (clock_settime(CLOCK_REALTIME, &t) < 0)
        return err_sys(e, errno, "set the clock");
    return 0;
}

void machine_prepare(void)
{
    int fd auto_close = open("/proc/self/oom_score_adj", O_WRONLY | O_CLOEXEC);
    struct err e = ERR_INIT;
    if (fd < 0 || fd_write_all(fd, OOM_SCORE_SELF, strlen(OOM_SCORE_SELF), &e) < 0)
        log_warn("envd.unprotected", "error=%s", strerror(errno));
    random_fd = open("/dev/random", O_WRONLY | O_CLOEXEC);
    if (random_fd < 0)
        log_error("machine.random", "error=%s", strerror(errno));
}
