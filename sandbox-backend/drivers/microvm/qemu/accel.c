// SPDX-License-Identifier: Apache-2.0
// The choice of a template's accelerator.
#include "sandbox-backend/drivers/microvm/qemu/accel.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "sandbox-backend/base/buf.h"
#include "sandbox-backend/base/fd.h"
#include "sandbox-backend/base/mem.h"
#include "sandbox-backend/base/str.h"
#include "sandbox-backend/drivers/host/tool.h"
#include "sandbox-backend/drivers/microvm/qemu/qemu.h"

#define PROBE_LIMIT_MS   5000                     // with working KVM a probe takes about one second
#define PROBE_MARK       "probe: the kernel runs" // guest/main.c prints it
#define OUTPUT_BYTES_MAX (1 << 20)
#define KVM_DEVICE       "/dev/kvm"

// Append the contents of a memfd to `out`, and to the log.
// The log leaves out the output of QEMU and the guest kernel. A failed probe has no effect on later
// steps, and its assertions would look like the reason of a later failure.
static void collect(int fd, struct buf *out)
{
    char *path auto_free = str_printf("/proc/self/fd/%d", fd);
    (void)file_read(path, OUTPUT_BYTES_MAX, out, NULL);
}

// Boot the guest kernel under KVM until Cubby's init prints the mark and reboots, which ends QEMU.
// said: the console's output. complaints: QEMU's.
static int boot(const struct accel_probe *probe, struct buf *said, struct buf *complaints,
                struct err *e)
{
    int console auto_close = memfd_create("console", MFD_CLOEXEC);
    int errors auto_close = memfd_create("errors", MFD_CLOEXEC);
    if (console < 0 || errors < 0)
        return err_sys(e, errno, "probe");
    char *args auto_free = qemu_kernel_args("kvm");
    char *append auto_free = str_printf("%s cubby.probe", args);
    const char *argv[] = {
        probe->qemu,   "-no-user-config",
        "-nodefaults", "-no-reboot",
        "-display",    "none",
        "-M",          QEMU_MACHINE,
        "-accel",      "kvm",
        "-cpu",        qemu_cpu_model("kvm"),
        "-m",          "256",
        "-kernel",     probe->kernel,
        "-initrd",     probe->initrd,
        "-append",     append,
        "-serial",     "stdio",
        NULL,
    };
    struct tool tool = {.argv = argv,
                        .package = "qemu-system-x86",
                        .out = console,
                        .log = errors,
                        .keep = -1,
                        .timeout_ms = PROBE_LIMIT_MS,
                        .tick = probe->tick,
                        .ctx = probe->ctx};
    int result = tool_run(&tool, e);
    collect(errors, complaints);
    collect(console, said);
    return result;
}

int accel_try_kvm(const struct accel_probe *probe, bool *works, char *why, size_t why_size,
                  struct err *e)
{
    *works = false;
    int fd = open(KVM_DEVICE, O_RDWR | O_CLOEXEC);
    if (fd < 0 && errno == EACCES) {
        snprintf(why, why_size,
                 "permission denied on " KVM_DEVICE
                 ": run \"sudo adduser $USER kvm\", then log in again");
        return 0;
    }
    if (fd < 0) {
        snprintf(why, why_size, "this host has no usable " KVM_DEVICE " (%s)", strerror(errno));
        return 0;
    }
    close(fd);

    struct buf said auto_buf = BUF_INIT;
    struct buf complaints auto_buf = BUF_INIT;
    struct err failed = ERR_INIT;
    if (boot(probe, &said, &complaints, &failed) < 0 && failed.code == ERR_CANCELED) {
        err_set(e, failed.code, "%s", failed.msg);
        return -1;
    }
    const char *reason = complaints.len ? buf_str(&complaints) : "QEMU ended early";
    *works = said.data && memmem(said.data, said.len, PROBE_MARK, strlen(PROBE_MARK));
    if (*works)
        snprintf(why, why_size, "the guest kernel boots under KVM");
    else if (failed.code == ERR_TIMEOUT)
        snprintf(why, why_size,
                 KVM_DEVICE " exists, but the guest kernel did not boot under KVM within %d s",
                 PROBE_LIMIT_MS / 1000);
    else
        snprintf(why, why_size,
                 KVM_DEVICE " exists, but the guest kernel does not boot under KVM: %.*s",
                 (int)strcspn(reason, "\n"), reason);
    return 0;
}

int accel_choose(const char *wanted, const struct accel_probe *probe, const char **chosen,
                 char *why, size_t why_size, struct err *e)
{
    bool works = false;
    *chosen = "tcg";
    if (str_eq(wanted, "tcg")) {
        snprintf(why, why_size, "as --accel tcg asks");
        return 0;
    }
    if (accel_try_kvm(probe, &works, why, why_size, e) < 0)
        return -1;
    if (works)
        *chosen = "kvm";
    else if (str_eq(wanted, "kvm"))
        return err_set(e, ERR_PRECONDITION,
                       "KVM cannot be used: %s; --accel auto falls back to TCG", why);
    return 0;
}
