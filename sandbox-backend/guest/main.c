// SPDX-License-Identifier: Apache-2.0
// init, PID 1 of a guest: set up Linux in the guest, and keep envd running.
//
// In a virtual machine, init comes in the initramfs, with envd and the guest kernel's modules. The
// disk needs only a Linux root file system. init starts envd from its open file in the initramfs,
// which nothing in the guest can replace. init runs once for each template, and sandboxes are
// restored after its last step. So its duration matters little, but every sandbox contains the
// state that it leaves behind.
//
// In a container of gVisor, which starts `init --container ENVD`, file systems, network and console
// exist already. init and envd are in a read-only file system of their own (tools.erofs, mounted at
// /usr/lib/cubby/bin): a file of the root would change under its open descriptor when the guest's
// root user writes to it.
//
// In a guest of bubblewrap, which starts `init --shared ENVD`, the kernel is the host's, too: init
// has few rights, and the host name is set.
//
// With "cubby.probe" on the command line, init only proves that the guest kernel runs: it prints
// PROBE_MARK and ends the machine. (drivers/microvm/qemu/accel.c asks for it.) With "cubby.hold",
// the Python kernel waits for SIGHUP. (template/guest.c asks for it.)
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stdbool.h>
#include <stdio.h>
#include <string.h>
#include <sys/random.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <unistd.h>

#include "sandbox-backend/base/str.h"
#include "sandbox-backend/base/version.h"
#include "sandbox-backend/guest/modules.h"
#include "sandbox-backend/guest/mounts.h"
#include "sandbox-backend/guest/netif.h"
#include "sandbox-backend/guest/step.h"
#include "sandbox-backend/guest/supervise.h"

#define ENVD_FILE  "/envd" // in the initramfs
#define CONTAINER  "--container"
#define SHARED     "--shared"
#define PROBE_WORD "cubby.probe"
#define HOLD_WORD  "cubby.hold"
#define PROBE_MARK "probe: the kernel runs"
#define HOSTNAME   "sandbox"

#define MACHINE_ID_BYTES 16

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

// Replace a file, which may be a symbolic link to one of a service manager, by a regular file.
static void replace_file(const char *path, const char *text)
{
    unlink(path);
    step_write(path, text);
}

static void write_names(const char *host)
{
    char name[HOST_NAME_MAX + 2], hosts[HOST_NAME_MAX + 64];
    snprintf(name, sizeof(name), "%s\n", host);
    snprintf(hosts, sizeof(hosts), "127.0.0.1\tlocalhost\n127.0.1.1\t%s\n", host);
    replace_file("/etc/hostname", name);
    replace_file("/etc/hosts", hosts);
    replace_file("/etc/resolv.conf", "nameserver " NETIF_DNS "\noptions timeout:2 attempts:2\n");
}

static void set_names(void)
{
    if (sethostname(HOSTNAME, strlen(HOSTNAME)) < 0)
        step_say("sethostname: %s", strerror(errno));
    write_names(HOSTNAME);
}

// A copy of the template's id would be the same in all sandboxes.
static void renew_machine_id(void)
{
    unsigned char id[MACHINE_ID_BYTES];
    char text[2 * MACHINE_ID_BYTES + 2] = "";
    if (getrandom(id, sizeof(id), 0) != sizeof(id))
        return;
    hex_encode(text, id, sizeof(id));
    text[2 * MACHINE_ID_BYTES] = '\n';
    replace_file("/etc/machine-id", text);
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
    // A broken guest kernel must stop, so that the host can report it.
    step_write("/proc/sys/kernel/panic_on_oops", "1");
    // A guest does not run while it is frozen, saved or restored. Watchdogs would take that for a
    // fault, and their timers cost time on a host without hardware virtualisation.
    step_write("/proc/sys/kernel/watchdog", "0");
    step_write("/sys/module/rcupdate/parameters/rcu_cpu_stall_suppress", "1");
    step_write("/proc/sys/kernel/hung_task_timeout_secs", "0");
    step_write("/proc/sys/vm/stat_interval", "120");
    // The disk is one queue to a file on the host: there is nothing to sort or to throttle.
    step_write("/sys/block/vda/queue/scheduler", "none");
    step_write("/sys/block/vda/queue/wbt_lat_usec", "0");
    // A huge page costs 512 pages of memory that the machine otherwise shares with its template.
    step_write("/sys/kernel/mm/transparent_hugepage/enabled", "madvise");
    // Allow what users do on their own computer: any port, and ping without privileges.
    step_write("/proc/sys/net/ipv4/ip_unprivileged_port_start", "0");
    step_write("/proc/sys/net/ipv4/ping_group_range", "0 2147483647");
}

// What udev does elsewhere: users mount file systems of their own.
static void set_devices(void)
{
    if (chmod("/dev/fuse", 0666) < 0 && errno != ENOENT)
        step_say("/dev/fuse: %s", strerror(errno));
}

// Make /tmp writable for everybody, as systemd-tmpfiles does elsewhere: an image may lack it, or
// let only root write there. A link is not changed.
static void set_tmp(void)
{
    struct stat st;
    if (mkdir("/tmp", 01777) < 0 && errno != EEXIST)
        step_say("mkdir /tmp: %s", strerror(errno));
    if (lstat("/tmp", &st) == 0 && S_ISDIR(st.st_mode) && (st.st_mode & 07777) != 01777 &&
        chmod("/tmp", 01777) < 0)
        step_say("/tmp: %s", strerror(errno));
}

static int open_envd(const char *path)
{
    int fd = open(path, O_RDONLY | O_CLOEXEC);
    if (fd < 0)
        step_fatal("%s: %s", path, strerror(errno));
    return fd;
}

static void __attribute__((noreturn)) run_machine(void)
{
    // 1. the guest kernel's file systems, and a console for messages
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
    // 4. envd, while the initramfs still has a path
    int envd = open_envd(ENVD_FILE);
    // 5. the disk as root
    mounts_enter_disk();
    // 6. names, limits, settings, network
    set_names();
    set_limits();
    set_kernel();
    set_devices();
    set_tmp();
    netif_up();
    // 7. envd and the Python kernel, forever
    supervise(envd, true, has_word(cmdline, HOLD_WORD));
}

static void __attribute__((noreturn)) run_container(const char *envd_path)
{
    int envd = open_envd(envd_path);
    set_names();
    set_limits();
    set_tmp();
    supervise(envd, true, false);
}

static void __attribute__((noreturn)) run_shared(const char *envd_path)
{
    char host[HOST_NAME_MAX + 1] = "";
    int envd = open_envd(envd_path);
    gethostname(host, sizeof(host) - 1);
    write_names(host);
    renew_machine_id();
    set_limits();
    supervise(envd, false, false);
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
    if (argc == 3 && strcmp(argv[1], CONTAINER) == 0)
        run_container(argv[2]);
    if (argc == 3 && strcmp(argv[1], SHARED) == 0)
        run_shared(argv[2]);
    run_machine();
}
