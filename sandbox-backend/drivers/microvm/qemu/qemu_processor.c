// SPDX-License-Identifier: Apache-2.0
// Settings that depend on the processor that QEMU shows to its guest: its model, its clock, and the
// guest kernel's arguments.
//
// Choices for x86-64, each measured with QEMU 7.2 and Debian's 6.1 cloud kernel:
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
//
// On arm64 only a boot, a save and a restore under TCG were tried, by hand (docs/arm64.md).
#include <stdio.h>
#include <time.h>
#if defined(__x86_64__)
#include <x86intrin.h>
#endif

#include "sandbox-backend/base/mem.h"
#include "sandbox-backend/base/str.h"
#include "sandbox-backend/drivers/microvm/qemu/qemu.h"

#if defined(__x86_64__)
#define MODEL_KVM "host,-vmx,-svm"
#define MODEL_TCG "qemu64,-svm,+arat,+ssse3,+sse4.1,+sse4.2,+popcnt,+rdrand,+fsgsbase"
// reboot=t: QEMU sees a reboot by triple fault. Otherwise a kernel on hardware-reduced ACPI jumps
// into the BIOS, and a restored machine then hangs there.
#define CONSOLE      "console=ttyS0 reboot=t"
#define TSC_PROBE_MS 20
#define TSC_LOOKS    32 // each takes well under 1 us

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

// Read both clocks at the same time. On a busy host another thread may run between the two
// readings, so of several attempts the shortest counts.
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

// Return what a guest under TCG is told about its clock. New string. Why each argument is there:
// - tsc_early_khz: the guest kernel's own calibration against an emulated timer sometimes fails on
//   a busy host, and then the boot hangs.
// - tsc=reliable: the guest kernel's watchdog compares the counter with ticks that a busy host
//   delays, and would replace the counter by a clock with steps of 4 ms.
static char *clock_args(void)
{
    return str_printf(" tsc_early_khz=%ld tsc=reliable no_timer_check", tsc_khz());
}
#else
#define MODEL_KVM "host"
#define MODEL_TCG "cortex-a72"
#define CONSOLE   "console=ttyAMA0"

void qemu_watch_clock(void)
{
}

// The counter of an arm64 machine says its own rate.
static char *clock_args(void)
{
    return xstrdup("");
}
#endif

const char *qemu_cpu_model(const char *accel)
{
    return str_eq(accel, "kvm") ? MODEL_KVM : MODEL_TCG;
}

char *qemu_kernel_args(const char *accel)
{
    // Why each argument is there:
    // - mitigations=off: mitigations guard processes of one guest from each other, at a great price
    //   under emulation. The sandbox's boundary is the machine.
    // - nowatchdog: lock-up detectors only find that the host was busy.
    // - The rest: security modules, auditing, pressure accounting and zeroing guard or watch users
    //   of this machine, who may all become root. They only add code that each restored guest runs
    //   cold.
    const char *common = CONSOLE " panic=-1 mitigations=off nowatchdog lsm= audit=0 psi=0 "
                                 "init_on_alloc=0";
    if (!str_eq(accel, "tcg"))
        return xstrdup(common);
    // norandmaps: TCG finds translated code by its virtual address. With programs at random
    // addresses each exec translates the C library again (a shell command took 57 ms of processor
    // time instead of 16).
    char *clock auto_free = clock_args();
    return str_printf("%s norandmaps%s", common, clock);
}
