// SPDX-License-Identifier: Apache-2.0
// PID 1 of a guest: makes a usable Linux out of a kernel and a disk, and keeps envd running.
//
// It comes in the initramfs with envd and the kernel's modules and needs nothing of the disk but a
// Linux root file system; envd is started from its open file in the initramfs, which nothing in the
// guest can replace. It runs once per template: a sandbox is restored after its last step. So how
// long it takes is of little interest; what it leaves behind is in every sandbox.
//
// With "cubby.probe" on the kernel's command line it only proves that the kernel runs: it says
// PROBE_MARK and ends the machine. (drivers/microvm/accel.c is who asks.)
#include <errno.h>
#include <fcntl.h>
#include <stdbool.h>
#include <stdio.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <unistd.h>

#include "sandbox-backend/base/version.h"
#include "sandbox-backend/guest/modules.h"
#include "sandbox-backend/guest/mounts.h"
#include "sandbox-backend/guest/netif.h"
#include "sandbox-backend/guest/step.h"
#include "sandbox-backend/guest/supervise.h"

#define ENVD_FILE  "/envd" // in the initramfs
#define PROBE_WORD "cubby.probe"
#define PROBE_MARK "probe: the kernel runs"
#define HOSTNAME   "sandbox"

static void read_cmdline(char *out, size_t size)
{
    int fd = open("/proc/cmdline", O_RDONLY | O_CLOEXEC);
    ssize_t n = fd < 0 ? -1 : read(fd, out, size - 1);
    out[n < 0 ? 0 : n] = '\0';
    if (fd >= 0)
        close(fd);
}

static bool has_word(const char *cmdline, const char *word)
{
    size_t len = strlen(word);
    for (const char *at = cmdline; (at = strstr(at, word)); at += len)
        if ((at == cmdline || at[-1] == ' ') && strchr(" \n", at[len]))
            return true;
    return false;
}

// A file that may be a link (to what a service manager would write) becomes a plain one.
static void replace_file(const char *path, const char *text)
{
    unlink(path);
    step_write(path, text);
}

static void set_names(void)
{
    if (sethostname(HOSTNAME, strlen(HOSTNAME)) < 0)
        step_say("sethostname: %s", strerror(errno));
    replace_file("/etc/hostname", HOSTNAME "\n");
    replace_file("/etc/hosts", "127.0.0.1\tlocalhost\n127.0.1.1\t" HOSTNAME "\n");
    replace_file("/etc/resolv.conf", "nameserver " NETIF_DNS "\noptions timeout:2 attempts:2\n");
}

static void set_limits(void)
{
    const struct rlimit files = {.rlim_cur = 65536, .rlim_max = 1048576};
    const struct rlimit core = {.rlim_cur = 0, .rlim_max = RLIM_INFINITY};
    if (setrlimit(RLIMIT_NOFILE, &files) < 0 || setrlimit(RLIMIT_CORE, &core) < 0)
        step_say("setrlimit: %s", strerror(errno));
    umask(022);
}

static void set_kernel(void)
{
    // A kernel that has lost its way must end, not limp: the host then tells the user.
    step_write("/proc/sys/kernel/panic_on_oops", "1");
    // A guest stands still while it is stopped, saved and restored. These would take that for a
    // fault, and their timers cost time on a host without hardware virtualisation.
    step_write("/proc/sys/kernel/watchdog", "0");
    step_write("/sys/module/rcupdate/parameters/rcu_cpu_stall_suppress", "1");
    step_write("/proc/sys/kernel/hung_task_timeout_secs", "0");
    step_write("/proc/sys/vm/stat_interval", "120");
    // One queue whose other end is a file on the host: nothing to sort or to throttle.
    step_write("/sys/block/vda/queue/scheduler", "none");
    step_write("/sys/block/vda/queue/wbt_lat_usec", "0");
    // A huge page is 512 pages of this machine's own that its snapshot's sharing had saved.
    step_write("/sys/kernel/mm/transparent_hugepage/enabled", "madvise");
    // What a person may do on a computer of their own: any port, ping without privileges.
    step_write("/proc/sys/net/ipv4/ip_unprivileged_port_start", "0");
    step_write("/proc/sys/net/ipv4/ping_group_range", "0 2147483647");
}

int main(int argc, char **argv)
{
    if (argc > 1 && strcmp(argv[1], "--version") == 0) {
        puts("init (cubby) " CUBBY_VERSION);
        return 0;
    }
    if (getpid() != 1) {
        fputs("init is PID 1 of a Cubby guest; it does nothing elsewhere.\n", stderr);
        return argc > 1 && strcmp(argv[1], "--help") == 0 ? 0 : 2;
    }
    // 1. the kernel's file systems, and a console to speak on
    mounts_early();
    char cmdline[4096];
    read_cmdline(cmdline, sizeof(cmdline));
    // 2. only a probe?
    if (has_word(cmdline, PROBE_WORD)) {
        step_say(PROBE_MARK);
        step_end_machine();
    }
    // 3. drivers
    modules_load(cmdline);
    // 4. envd, while the initramfs can still be named
    int envd = open(ENVD_FILE, O_RDONLY | O_CLOEXEC);
    if (envd < 0)
        step_fatal(ENVD_FILE ": %s", strerror(errno));
    // 5. the disk as root
    mounts_enter_disk();
    // 6. names, limits, settings, network
    set_names();
    set_limits();
    set_kernel();
    netif_up();
    // 7. envd and the Python kernel, for ever
    supervise(envd);
}
