// SPDX-License-Identifier: Apache-2.0
// QEMU's command line for Cubby's one type of machine.
//
// Choices, each measured with QEMU 7.2 and Debian's 6.1 cloud kernel:
// - CPU under TCG: qemu64 with the features that x86-64-v2 adds. `max` has AVX2: glibc then uses
//   it, and TCG emulates it ten times slower than SSE2 (strlen 0.34 against 3.4 GB/s). `erms` is as
//   bad for memset. With an Intel model the guest kernel isolates page tables, and each system call
//   then flushes TCG's TLB (12 us against 0.7 us); qemu64 says AMD. rdrand gives each restored
//   guest randomness of its own even before /init. Nested virtualisation (svm) is off: guests do
//   not need it. Without arat the guest kernel assumes that the local timer stops in an idle CPU,
//   and keeps its 250 ticks a second and timers of 4 ms. With arat an idle guest sleeps and timers
//   are exact.
// - CPU under KVM: that of the host, without nested virtualisation (vmx, svm). The shadow page
//   tables that KVM needs for it were a way out of a guest (CVE-2026-53359).
// - virtio-mmio in its modern form, and virtio-net without guest_announce, without offloads that it
//   cannot use, and without announcements after a restore. All of these would make a restored guest
//   run cold code.
// - A balloon that is never inflated. Through it the guest tells which of its memory is free (free
//   page reporting), and QEMU drops those pages from its mapping. A page that the guest uses again
//   then has the template's contents, not zeros. So page-poison is off: a guest that expects a
//   value in free pages (page_poison, init_on_free) must then report none, and Linux does not
//   (virtballoon_validate). All other guests treat free pages as uninitialised.
// - The serial console ends in a ring in QEMU's memory. However much the guest prints, the host's
//   disk does not fill, and the last 64 KiB are there to explain a panic.
// - A guest that panics reboots (panic=-1). A reboot or power-off pauses QEMU, which sends a QMP
//   event; the driver then reads the console and ends the machine.
#include "sandbox-backend/drivers/microvm/qemu/qemu.h"

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
#if defined(__x86_64__)
#include <x86intrin.h>
#endif

#include "sandbox-backend/base/buf.h"
#include "sandbox-backend/base/home.h"
#include "sandbox-backend/base/mem.h"
#include "sandbox-backend/base/str.h"

#define ARGV_MAX     96
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

// Return a value for use inside a comma-separated option, where QEMU reads two commas as one. New
// string.
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

// Add a descriptor set with one descriptor. QEMU can open it any number of times, but only with the
// access that the descriptor has.
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

// No file is locked (locking=off). Any QEMU that can read the template's disk could lock one byte
// of it and so keep all other machines from starting.
#define FILE_OPTIONS "locking=off,cache.no-flush=on"

// Add a raw image below `node`. Nothing is flushed to the disk: neither a template in the making
// nor a sandbox outlives a crash of the host.
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
    // A write that finds the host's disk full stops the guest until there is room (machine_full.c).
    // The guest gets all other errors.
    add(a, "virtio-blk-device,id=" QEMU_DISK_ID ",drive=" QEMU_DISK_NODE
           ",werror=enospc,rerror=report");
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
    if (c->no_header) {
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
    // Not thread=single: in QEMU 7.2 its one thread, which runs all processors, can enable the
    // virtual clock again after "stop" has disabled it. After one stop in four, a paused QEMU then
    // wakes up to 10,000 times a second for a timer that never comes. A guest with one processor
    // runs the same code either way: QEMU translates for parallel execution only if it has more.
    if (str_eq(c->accel, "tcg"))
        add(a, "tcg,thread=multi,tb-size=%d", QEMU_TB_SIZE_MB);
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
        // The system calls that seccomp takes away from a QEMU that its guest has broken into.
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
        return "host,-vmx,-svm";
    return "qemu64,-svm,+arat,+ssse3,+sse4.1,+sse4.2,+popcnt,+rdrand,+fsgsbase";
}

struct clock_look {
    double ms;                // CLOCK_MONOTONIC_RAW
    unsigned long long ticks; // 0: not read yet
};

static struct clock_look first_look;

static double raw_ms(void)
{
    struct timespec now;
    clock_gettime(CLOCK_MONOTONIC_RAW, &now);
    return (double)now.tv_sec * 1e3 + (double)now.tv_nsec / 1e6;
}

// The counter that TCG shows to its guest. On other processors than x86-64 it is not known, and
// nothing is emulated there so far.
static unsigned long long host_ticks(void)
{
#if defined(__x86_64__)
    return __rdtsc();
#else
    return (unsigned long long)(raw_ms() * 1e6);
#endif
}

// Read both clocks at the same time. On a busy host another thread may run between the two
// readings, so of several attempts the shortest counts.
static struct clock_look look_at_clocks(void)
{
    struct clock_look best = {0};
    double best_ms = 0;
    for (int i = 0; i < TSC_LOOKS; i++) {
        double before = raw_ms();
        unsigned long long ticks = host_ticks();
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

// Return the rate of this processor's time stamp counter in kHz. TCG shows the same counter to its
// guest.
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
    // Why each argument is there:
    // - mitigations=off: mitigations guard processes of one guest from each other, at a great price
    //   under emulation. The sandbox's boundary is the machine.
    // - reboot=t: QEMU sees a reboot by triple fault. Otherwise a kernel on hardware-reduced ACPI
    //   jumps into the BIOS, and a restored machine then hangs there.
    // - nowatchdog: lock-up detectors only find that the host was busy.
    // - The rest: security modules, auditing, pressure accounting and zeroing guard or watch users
    //   of this machine, who may all become root. They only add code that each restored guest runs
    //   cold.
    const char *common = "console=ttyS0 panic=-1 reboot=t mitigations=off nowatchdog lsm= audit=0 "
                         "psi=0 init_on_alloc=0";
    if (!str_eq(accel, "tcg"))
        return xstrdup(common);
    // Why each argument is there:
    // - tsc_early_khz: the guest kernel's own calibration against an emulated timer sometimes fails
    //   on a busy host, and then the boot hangs.
    // - tsc=reliable: the guest kernel's watchdog compares the counter with ticks that a busy host
    //   delays, and would replace the counter by a clock with steps of 4 ms.
    // - norandmaps: TCG finds translated code by its virtual address. With programs at random
    //   addresses each exec translates the C library again (a shell command took 57 ms of processor
    //   time instead of 16).
    return str_printf("%s norandmaps tsc_early_khz=%ld tsc=reliable no_timer_check", common,
                      tsc_khz());
}
