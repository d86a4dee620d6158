// SPDX-License-Identifier: Apache-2.0
// Entropy, the time, and the name of a restored guest.
#include "sandbox-backend/envd/machine.h"

#include <ctype.h>
#include <errno.h>
#include <fcntl.h>
#include <linux/random.h>
#include <stdbool.h>
#include <string.h>
#include <sys/ioctl.h>
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
#define HOSTNAME_BYTES  64 // with its NUL (sethostname(2))
#define HOSTS_MAX_BYTES (1 << 20)
#define ENTROPY_MAX     512
#define OOM_SCORE_SELF  "-900"

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
    int fd auto_close = open("/dev/random", O_WRONLY | O_CLOEXEC);
    if (fd < 0 || ioctl(fd, RNDADDENTROPY, &pool) < 0 || ioctl(fd, RNDRESEEDCRNG) < 0)
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

static bool is_hostname(const char *s)
{
    size_t len = strlen(s);
    for (size_t i = 0; i < len; i++)
        if (!isalnum((unsigned char)s[i]) && s[i] != '-' && s[i] != '.')
            return false;
    return len > 0 && len < HOSTNAME_BYTES;
}

// Not atomic on purpose: these files may be mounts of their own, and nobody runs yet.
static int overwrite(const char *path, const char *text, size_t len, struct err *e)
{
    int fd auto_close = open(path, O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0644);
    if (fd < 0)
        return err_sys(e, errno, "open %s", path);
    return fd_write_all(fd, text, len, e);
}

// sudo looks the host's own name up, and would ask the network when /etc/hosts did not have it.
static int set_hosts(const char *hostname, struct err *e)
{
    static const char OWN[] = "127.0.1.1";
    struct buf old auto_buf = BUF_INIT;
    struct err missing = ERR_INIT;
    if (file_read("/etc/hosts", HOSTS_MAX_BYTES, &old, &missing) < 0)
        buf_clear(&old);
    struct buf text auto_buf = BUF_INIT;
    for (const char *p = buf_str(&old); *p;) {
        size_t n = strcspn(p, "\n");
        n += p[n] == '\n';
        if (!str_starts(p, OWN))
            buf_add(&text, p, n);
        p += n;
    }
    if (text.len && text.data[text.len - 1] != '\n')
        buf_addc(&text, '\n');
    buf_printf(&text, "%s %s\n", OWN, hostname);
    return overwrite("/etc/hosts", buf_str(&text), text.len, e);
}

int machine_set_name(const char *hostname, struct err *e)
{
    if (!is_hostname(hostname))
        return err_set(e, ERR_INVALID, "hostname must be 1 to %d letters, digits, '-' and '.'",
                       HOSTNAME_BYTES - 1);
    if (sethostname(hostname, strlen(hostname)) < 0)
        return err_sys(e, errno, "set the host name");
    char *id auto_free = random_hex(16);
    char *line auto_free = str_printf("%s\n", id);
    char *name auto_free = str_printf("%s\n", hostname);
    if (overwrite("/etc/machine-id", line, strlen(line), e) < 0 ||
        overwrite("/etc/hostname", name, strlen(name), e) < 0)
        return -1;
    return set_hosts(hostname, e);
}

void machine_protect_self(void)
{
    struct err e = ERR_INIT;
    if (overwrite("/proc/self/oom_score_adj", OOM_SCORE_SELF, strlen(OOM_SCORE_SELF), &e) < 0)
        log_warn("envd.unprotected", "%s", e.msg);
}
