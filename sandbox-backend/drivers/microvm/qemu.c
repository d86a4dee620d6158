// SPDX-License-Identifier: Apache-2.0
// QEMU's command line for this project's one machine.
//
// Choices, each measured with QEMU 7.2 and Debian's 6.1 cloud kernel:
// - CPU under TCG: qemu64 with what x86-64-v2 adds. `max` has AVX2, which glibc then uses and TCG
//   emulates ten times slower than SSE2 (strlen 0.34 against 3.4 GB/s); `erms` is as bad for
//   memset. An Intel model makes the kernel isolate page tables, and each system call then flushes
//   TCG's TLB (12 us against 0.7 us); qemu64 says AMD. rdrand gives each restored guest randomness
//   of its own even before anyone tells it. Nested virtualisation (svm) is nobody's business.
//   Without arat the kernel takes the local timer for one that stops in an idle CPU, and keeps its
//   250 ticks a second and timers of 4 ms; with it an idle guest sleeps and timers are exact.
// - virtio-mmio in its modern form, and virtio-net without guest_announce, offloads it cannot use,
//   or announcements after a restore: all of these would make a restored guest run cold code.
// - A balloon that nobody inflates: it is there for the guest to tell which of its memory is free
//   (free page reporting), and those pages are dropped from QEMU's mapping. What the guest finds in
//   one that it uses again is what the template has there, not zeros. So page-poison is off: a
//   guest that counts on a value in free pages (page_poison, init_on_free) must then not tell of
//   any, and Linux does not (virtballoon_validate); all others take them for uninitialised.
// - The serial console ends in a ring in QEMU's memory: whatever the guest prints, the host's disk
//   does not fill, and the last 64 KiB are there to explain a panic.
// - A guest that panics reboots (panic=-1), and a reboot or power-off pauses QEMU, which says so by
//   a QMP event; the machine's owner reads the console and ends it.
#include "sandbox-backend/drivers/microvm/qemu.h"

#include <errno.h>
#include <fcntl.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <time.h>
#include <unistd.h>
#include <x86intrin.h>

#include "sandbox-backend/base/buf.h"
#include "sandbox-backend/base/home.h"
#include "sandbox-backend/base/mem.h"
#include "sandbox-backend/base/self.h"
#include "sandbox-backend/base/str.h"

#define ARGV_MAX     96
#define BACKLOG      128 // connections to a sandbox that may come at once
#define TSC_PROBE_MS 20
#define TSC_LOOKS    32 // each takes well under 1 us

struct argv {
    char **items; // owned
    int count;
};

static void add(struct argv *a, const char *fmt, ...) __attribute__((format(printf, 2, 3)));
static void add(struct argv *a, const char *fmt, ...)
{
    va_list args;
    if (a->count >= ARGV_MAX - 1)
        abort();
    va_start(args, fmt);
    a->items[a->count++] = str_vprintf(fmt, args);
    va_end(args);
}

// A value inside a comma-separated option: QEMU takes a comma that is written twice. New string.
static char *comma_safe(const char *value)
{
    struct buf out = BUF_INIT;
    for (const char *c = value; *c; c++) {
        buf_addc(&out, *c);
        if (*c == ',')
            buf_addc(&out, ',');
    }
    return out.data ? buf_take(&out) : xstrdup("");
}

// A set of one descriptor. QEMU opens it again as often as it likes, but only for what it is open.
static void add_set(struct argv *a, int set, int fd)
{
    add(a, "-add-fd");
    add(a, "set=%d,fd=%d", set, fd);
}

static void add_memory(struct argv *a, const struct qemu_config *c)
{
    add(a, "-m");
    add(a, "%dM", c->memory_mb);
    add(a, "-object");
    add(a, "memory-backend-file,id=mem0,size=%dM,mem-path=" QEMU_MEMORY_PATH ",share=%s",
        c->memory_mb, c->memory_shared ? "on" : "off");
}

// No file is locked (locking=off): a lock on one byte of the template's disk, which every QEMU may
// have that can read it, would keep all other machines from starting.
#define FILE_OPTIONS "locking=off,cache.no-flush=on"

// A raw image below `node`. Nothing is flushed to the platter: neither a template that is being
// built nor a sandbox outlives a crash of the host.
static void add_raw_disk(struct argv *a, const char *node, bool read_only)
{
    const char *mode = read_only ? "read-only=on" : "discard=unmap";
    add_set(a, QEMU_SET_DISK, QEMU_FD_DISK);
    add(a, "-blockdev");
    add(a, "driver=file,node-name=%s-file,filename=" QEMU_FDSET "%d," FILE_OPTIONS ",%s", node,
        QEMU_SET_DISK, mode);
    add(a, "-blockdev");
    add(a, "driver=raw,node-name=%s,file=%s-file,cache.no-flush=on,%s", node, node, mode);
}

static void add_overlay(struct argv *a, const char *node, const char *base)
{
    add_set(a, QEMU_SET_OVERLAY, QEMU_FD_OVERLAY);
    add(a, "-blockdev");
    add(a, "driver=file,node-name=%s-file,filename=" QEMU_FDSET "%d," FILE_OPTIONS ",discard=unmap",
        node, QEMU_SET_OVERLAY);
    add(a, "-blockdev");
    add(a,
        "driver=qcow2,node-name=%s,file=%s-file,backing=%s,cache.no-flush=on,discard=unmap,"
        "lazy-refcounts=on",
        node, node, base);
}

static void add_disk(struct argv *a, const struct qemu_config *c)
{
    if (c->disk_overlay) {
        add_raw_disk(a, QEMU_DISK_BASE_NODE, true);
        add_overlay(a, QEMU_DISK_NODE, QEMU_DISK_BASE_NODE);
    } else {
        add_raw_disk(a, QEMU_DISK_NODE, false);
    }
    add(a, "-device");
    // A full host disk is an I/O error in the guest; the default stops the guest for good.
    add(a, "virtio-blk-device,id=" QEMU_DISK_ID ",drive=" QEMU_DISK_NODE
           ",werror=report,rerror=report");
}

static void add_devices(struct argv *a, const struct qemu_config *c)
{
    add(a, "-netdev");
    add(a, "stream,id=n0,server=off,addr.type=fd,addr.str=%d", QEMU_FD_NET);
    add(a, "-device");
    add(a, "virtio-net-device,id=net0,netdev=n0,mac=" QEMU_GUEST_MAC ",guest_announce=off");
    add(a, "-object");
    add(a, "rng-builtin,id=entropy");
    add(a, "-device");
    add(a, "virtio-rng-device,id=rng0,rng=entropy");
    if (!c->gives_back)
        return;
    add(a, "-device");
    add(a, "virtio-balloon-device,id=balloon0,free-page-reporting=on,page-poison=off");
}

static void add_console(struct argv *a, const struct qemu_config *c)
{
    if (c->console_file)
        add_set(a, QEMU_SET_CONSOLE, QEMU_FD_CONSOLE);
    add(a, "-chardev");
    if (c->console_file)
        add(a, "file,id=" QEMU_CONSOLE_ID ",path=" QEMU_FDSET "%d", QEMU_SET_CONSOLE);
    else
        add(a, "ringbuf,id=" QEMU_CONSOLE_ID ",size=%d", QEMU_CONSOLE_BYTES);
    add(a, "-serial");
    add(a, "chardev:" QEMU_CONSOLE_ID);
    add(a, "-chardev");
    add(a, "socket,id=qmp,fd=%d,server=on,wait=off", QEMU_FD_QMP);
    add(a, "-mon");
    add(a, "chardev=qmp,mode=control");
}

static void add_boot(struct argv *a, const struct qemu_config *c)
{
    if (c->kernel) {
        add(a, "-kernel");
        add(a, "%s", c->kernel);
    }
    if (c->initrd) {
        add(a, "-initrd");
        add(a, "%s", c->initrd);
    }
    if (c->append) {
        add(a, "-append");
        add(a, "%s", c->append);
    }
    if (c->incoming) {
        add(a, "-incoming");
        add(a, "defer");
    }
    if (c->image) { // it has no such section
        add(a, "-global");
        add(a, "migration.send-configuration=off");
    }
}

static void add_machine(struct argv *a, const struct qemu_config *c)
{
    char *name auto_free = comma_safe(c->name);
    add(a, "-name");
    add(a, "guest=%s", name);
    add(a, "-machine");
    add(a, "%s,memory-backend=mem0", c->machine);
    add(a, "-accel");
    if (str_eq(c->accel, "tcg"))
        add(a, "tcg,thread=%s,tb-size=%d", c->cpus > 1 ? "multi" : "single", QEMU_TB_SIZE_MB);
    else
        add(a, "%s", c->accel);
    add(a, "-cpu");
    add(a, "%s", c->cpu_model);
    add(a, "-smp");
    add(a, "%d", c->cpus);
}

static void add_switches(struct argv *a)
{
    static const char *const switches[] = {
        "-nodefaults", "-no-user-config", "-display", "none", "-global",
        "virtio-mmio.force-legacy=false", "-global", "migration.announce-rounds=0", "-action",
        "reboot=shutdown,shutdown=pause,panic=pause", "-sandbox",
        // What seccomp can take away from a QEMU that was broken into by its guest.
        "on,obsolete=deny,elevateprivileges=deny,spawn=deny,resourcecontrol=deny"};
    for (size_t i = 0; i < ARRAY_LEN(switches); i++)
        add(a, "%s", switches[i]);
}

char **qemu_argv(const struct qemu_config *c)
{
    struct argv a = {.items = xcalloc(ARGV_MAX, sizeof(char *))};
    add(&a, "%s", c->binary);
    add_machine(&a, c);
    add_switches(&a);
    add_memory(&a, c);
    add_disk(&a, c);
    add_devices(&a, c);
    add_console(&a, c);
    add_boot(&a, c);
    return a.items;
}

void qemu_argv_free(char **argv)
{
    for (char **item = argv; item && *item; item++)
        free(*item);
    free(argv);
}

char *qemu_preload(struct err *e)
{
    return self_program("cubby-qemu.so", e);
}

const char *qemu_cpu_model(const char *accel)
{
    if (str_eq(accel, "kvm"))
        return "host";
    return "qemu64,-svm,+arat,+ssse3,+sse4.1,+sse4.2,+popcnt,+rdrand,+fsgsbase";
}

struct clock_look {
    double ms;                // of CLOCK_MONOTONIC_RAW
    unsigned long long ticks; // 0: not looked at yet
};

static struct clock_look first_look;

static double raw_ms(void)
{
    struct timespec now;
    clock_gettime(CLOCK_MONOTONIC_RAW, &now);
    return (double)now.tv_sec * 1e3 + (double)now.tv_nsec / 1e6;
}

// Both clocks at one time. On a busy host another thread may run between the two readings, so of
// several the one counts that took least.
static struct clock_look look_at_clocks(void)
{
    struct clock_look best = {0};
    double best_ms = 0;
    for (int i = 0; i < TSC_LOOKS; i++) {
        double before = raw_ms();
        unsigned long long ticks = __rdtsc();
        double took = raw_ms() - before;
        if (best.ticks && took >= best_ms)
            continue;
        best = (struct clock_look){.ms = before + took / 2, .ticks = ticks};
        best_ms = took;
    }
    return best;
}

void qemu_watch_clock(void)
{
    if (!first_look.ticks)
        first_look = look_at_clocks();
}

// How fast this processor's time stamp counter runs, which is what TCG shows its guest.
static long tsc_khz(void)
{
    const struct timespec wait = {.tv_nsec = TSC_PROBE_MS * 1000000L};
    qemu_watch_clock();
    if (raw_ms() - first_look.ms < TSC_PROBE_MS)
        nanosleep(&wait, NULL);
    struct clock_look now = look_at_clocks();
    return (long)((double)(now.ticks - first_look.ticks) / (now.ms - first_look.ms));
}

char *qemu_kernel_args(const char *accel)
{
    // Mitigations guard processes of one guest from each other, at a great price under emulation;
    // the sandbox's boundary is the machine. A reboot by triple fault is the one that QEMU sees:
    // left alone, a kernel on hardware-reduced ACPI jumps into the BIOS, and a restored machine
    // then hangs there. Lock-up detectors only find that the host was busy. Security modules,
    // auditing, pressure accounting and zeroing would guard and watch users of this machine, who
    // may all become root: they only add to the code that each restored guest runs cold.
    const char *common = "console=ttyS0 panic=-1 reboot=t mitigations=off nowatchdog lsm= audit=0 "
                         "psi=0 init_on_alloc=0";
    if (!str_eq(accel, "tcg"))
        return xstrdup(common);
    // The kernel's own calibration against an emulated timer fails now and then on a busy host, and
    // then the boot hangs; its watchdog compares the counter with ticks that a busy host delays,
    // and then drops the counter for a clock of 4 ms steps. Translated code is found by its virtual
    // address: with programs at random ones each exec translates the C library again (a shell
    // command took 57 ms of processor time instead of 16).
    return str_printf("%s norandmaps tsc_early_khz=%ld tsc=reliable no_timer_check", common,
                      tsc_khz());
}

// Every user of the host reads in /proc/net/unix what bind(2) was given, and the path has all of a
// sandbox's id. So the directory stands there by a number.
static int bind_unnamed(int fd, const char *path, struct err *e)
{
    struct sockaddr_un address = {.sun_family = AF_UNIX};
    const char *name = str_base(path);
    char *dir auto_free = xstrndup(path, (size_t)(name - path));
    int place auto_close = open(*dir ? dir : ".", O_PATH | O_DIRECTORY | O_CLOEXEC);
    if (place < 0)
        return err_sys(e, errno, "open %s", dir);
    int len =
        snprintf(address.sun_path, sizeof address.sun_path, "/proc/self/fd/%d/%s", place, name);
    if (len >= (int)sizeof address.sun_path)
        return err_set(e, ERR_INVALID, "the socket's name is too long: %s", name);
    return bind(fd, (struct sockaddr *)&address, sizeof address) == 0
               ? 0
               : err_sys(e, errno, "listen at %s", path);
}

int qemu_qmp_listen(const char *path, struct err *e)
{
    if (strlen(path) > UNIX_PATH_MAX_BYTES) // who connects gives all of it
        return err_set(e, ERR_INVALID, "the socket's path is too long: %s", path);
    if (unlink(path) != 0 && errno != ENOENT)
        return err_sys(e, errno, "remove %s", path);
    int fd auto_close = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);
    if (fd < 0)
        return err_sys(e, errno, "make a socket");
    // The mode of the inode is decided by bind: made private before anyone could connect.
    if (fchmod(fd, 0600) != 0)
        return err_sys(e, errno, "make a socket private");
    if (bind_unnamed(fd, path, e) != 0)
        return -1;
    if (listen(fd, BACKLOG) != 0)
        return err_sys(e, errno, "listen at %s", path);
    return steal_fd(&fd);
}
