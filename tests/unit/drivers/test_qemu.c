// SPDX-License-Identifier: Apache-2.0
// QEMU's command line: boot and restore describe the same machine.
#include <stdio.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <unistd.h>

#include "sandbox-backend/base/buf.h"
#include "sandbox-backend/base/fd.h"
#include "sandbox-backend/base/mem.h"
#include "sandbox-backend/base/str.h"
#include "sandbox-backend/drivers/microvm/qemu/qemu.h"
#include "sandbox-backend/drivers/microvm/qemu/qemu_binary.h"
#include "sandbox-backend/drivers/microvm/qemu/qmp.h"
#include "tests/lib/harness/tap.h"

static const struct qemu_config BOOT = {.binary = "/usr/bin/qemu",
                                        .name = "a",
                                        .machine = QEMU_MACHINE,
                                        .accel = "tcg",
                                        .cpu_model = "qemu64",
                                        .memory_mb = 512,
                                        .cpus = 1,
                                        .memory_shared = true,
                                        .console_file = true,
                                        .kernel = "/t/k,1",
                                        .initrd = "/t/i",
                                        .append = "console=ttyS0"};

static struct qemu_config restore_of(const struct qemu_config *boot)
{
    struct qemu_config c = *boot;
    c.memory_shared = c.console_file = false;
    c.disk_overlay = true;
    c.kernel = c.initrd = c.append = NULL;
    c.incoming = true;
    return c;
}

// The arguments that follow `option`, one a line. New string.
static char *values_of(char **argv, const char *option)
{
    struct buf out = BUF_INIT;
    for (int i = 0; argv[i] && argv[i + 1]; i++) {
        if (str_eq(argv[i], option))
            buf_printf(&out, "%s\n", argv[i + 1]);
    }
    return out.data ? buf_take(&out) : xstrdup("");
}

static bool has(char **argv, const char *option, const char *part)
{
    char *values auto_free = values_of(argv, option);
    return values[0] && strstr(values, part);
}

static void test_same_machine(void)
{
    static const char *const same[] = {"-machine", "-device", "-cpu",    "-smp",
                                       "-m",       "-global", "-netdev", "-accel"};
    struct qemu_config restore = restore_of(&BOOT);
    char **a = qemu_argv(&BOOT);
    char **b = qemu_argv(&restore);
    for (size_t i = 0; i < ARRAY_LEN(same); i++) {
        char *x auto_free = values_of(a, same[i]);
        char *y auto_free = values_of(b, same[i]);
        ok(x[0] != '\0', "%s is given", same[i]);
        is_str(x, y, "%s is the same for boot and restore", same[i]);
    }
    ok(has(a, "-object", "share=on") && has(b, "-object", "share=off"), "memory is shared or not");
    ok(has(a, "-kernel", "/t/k,1") && !has(b, "-kernel", ""), "only a boot has a kernel");
    ok(!has(a, "-incoming", "") && has(b, "-incoming", "defer"), "only a restore waits for state");
    ok(has(a, "-chardev", "file,id=console,path=/dev/fdset/3"), "a boot's console is a file");
    ok(has(b, "-chardev", "ringbuf,id=console"), "a sandbox's console is a ring");
    qemu_argv_free(a);
    qemu_argv_free(b);
}

static void test_disk(void)
{
    struct qemu_config restore = restore_of(&BOOT);
    char **a = qemu_argv(&BOOT);
    char **b = qemu_argv(&restore);
    ok(has(a, "-blockdev", "driver=raw,node-name=disk0") && !has(a, "-blockdev", "read-only=on"),
       "a boot writes the image");
    ok(has(b, "-blockdev", "driver=qcow2,node-name=disk0,file=disk0-file,backing=base"),
       "a sandbox writes its overlay");
    char *values auto_free = values_of(b, "-blockdev");
    for (char *line = strtok(values, "\n"); line; line = strtok(NULL, "\n")) {
        if (strstr(line, "node-name=base"))
            ok(strstr(line, "read-only=on") != NULL, "the base is read-only: %s", line);
    }
    qemu_argv_free(a);
    qemu_argv_free(b);
}

// What a sandbox's QEMU is told to open is a descriptor, or nothing that can be opened.
static void test_files(void)
{
    struct qemu_config restore = restore_of(&BOOT);
    char **argv = qemu_argv(&restore);
    ok(has(argv, "-add-fd", "set=1,fd=7") && has(argv, "-add-fd", "set=2,fd=8"), "both disks");
    ok(has(argv, "-blockdev", "node-name=base-file,filename=/dev/fdset/1,") &&
           has(argv, "-blockdev", "node-name=disk0-file,filename=/dev/fdset/2,"),
       "are descriptors");
    ok(has(argv, "-object", "mem-path=" QEMU_MEMORY_PATH ","), "the memory has that name");
    for (int i = 1; argv[i]; i++) {
        const char *path = strchr(argv[i], '/');
        ok(!path || str_starts(path, QEMU_FDSET) || str_starts(path, QEMU_MEMORY_PATH),
           "no file: %s", argv[i]);
    }
    qemu_argv_free(argv);
}

static void test_details(void)
{
    struct qemu_config c = restore_of(&BOOT);
    c.name = "x,y";
    char **argv = qemu_argv(&c);
    ok(has(argv, "-name", "x,,y"), "commas in names are doubled");
    ok(!has(argv, "-device", "balloon"), "a template of before has no balloon");
    ok(has(argv, "-accel", "thread=multi"), "a single processor has a thread of its own, too");
    ok(has(argv, "-sandbox", "spawn=deny"), "QEMU may start nothing");
    for (int i = 0; argv[i]; i++)
        ok(!strstr(argv[i], "tcp:") && !strstr(argv[i], "user,"), "no network of its own: %s",
           argv[i]);
    qemu_argv_free(argv);
    c.accel = "kvm";
    c.gives_back = true;
    argv = qemu_argv(&c);
    char *accel auto_free = values_of(argv, "-accel");
    is_str(accel, "kvm\n", "kvm takes none of TCG's options");
    ok(has(argv, "-device", "free-page-reporting=on,page-poison=off"),
       "free memory is told of, unless its contents count");
    qemu_argv_free(argv);
    ok(str_starts(qemu_cpu_model("kvm"), "host"), "the processor under KVM");
    ok(!strstr(qemu_cpu_model("tcg"), "avx"), "none that TCG is slow at");
    char *args auto_free = qemu_kernel_args("tcg");
    ok(strstr(args, "panic=-1") != NULL, "a panic becomes an event: %s", args);
#if defined(__x86_64__)
    is_str(qemu_cpu_model("kvm"), "host,-vmx,-svm", "not nested");
    ok(strstr(args, "reboot=t") != NULL, "a reboot becomes an event");
    ok(strstr(args, "tsc_early_khz=") && strstr(args, "tsc=reliable"), "the clock is kept");
#else
    ok(str_starts(QEMU_MACHINE, "virt,") && strstr(args, "console=ttyAMA0"), "arm64's machine");
    ok(!strstr(args, "tsc"), "whose counter says its rate");
#endif
    ok(strstr(args, "norandmaps") != NULL, "programs stay where they were translated");
}

static void test_listen(void)
{
    char dir[] = "/tmp/cubby-test-XXXXXX";
    struct err e = ERR_INIT;
    struct stat st;
    if (!mkdtemp(dir))
        abort();
    char *path auto_free = str_printf("%s/qmp.sock", dir);
    int a = fd_listen_unix(path, &e);
    ok(a >= 0, "listens: %s", e.msg);
    ok(stat(path, &st) == 0 && (st.st_mode & 0777) == 0600, "for the owner only");
    struct buf seen auto_buf = BUF_INIT;
    ok(file_read("/proc/net/unix", 16 << 20, &seen, &e) == 0 && !strstr(buf_str(&seen), dir),
       "nobody reads where: %s", e.msg);
    close(a);
    a = fd_listen_unix(path, &e);
    ok(a >= 0, "replaces a stale socket: %s", e.msg);
    int b = qmp_connect(path, &e);
    ok(b >= 0, "can be connected to before anyone accepts: %s", e.msg);
    close(a);
    close(b);
    unlink(path);
    ok(qmp_connect(path, &e) == -1 && e.code == ERR_NOT_FOUND, "nobody there: %s", e.msg);
    e = ERR_INIT;
    char *deep auto_free = str_printf("%s/%0120d", dir, 1);
    ok(fd_listen_unix(deep, &e) == -1 && e.code == ERR_INVALID, "too long a path: %s", e.msg);
    rmdir(dir);
}

static void write_script(const char *path, const char *text)
{
    FILE *f = fopen(path, "we");
    if (!f || fputs(text, f) < 0 || fclose(f) != 0 || chmod(path, 0700) != 0)
        abort();
}

static void test_binary(void)
{
    char dir[] = "/tmp/cubby-test-XXXXXX";
    struct err e = ERR_INIT;
    if (!mkdtemp(dir))
        abort();
    char *path auto_free = str_printf("%s/qemu", dir);
    char *count auto_free = str_printf("%s/count", dir);
    char *script auto_free =
        str_printf("#!/bin/sh\necho x >>%s\necho 'QEMU emulator version 7.2.9 (X 1:7.2)'\n", count);
    write_script(path, script);
    is_str(qemu_binary_version(path, &e), "7.2.9", "the version");
    is_str(qemu_binary_version(path, &e), "7.2.9", "again");
    struct stat st;
    ok(stat(count, &st) == 0 && st.st_size == 2, "it was run once");
    unlink(path);
    write_script(path, "#!/bin/sh\necho 'QEMU emulator version 8.0.50-rc1'\n");
    is_str(qemu_binary_version(path, &e), "8.0.50", "another file is asked anew");
    unlink(path);
    write_script(path, "#!/bin/sh\necho nonsense\n");
    ok(!qemu_binary_version(path, &e) && e.code == ERR_NOT_FOUND, "not QEMU: %s", e.msg);
    e = ERR_INIT;
    setenv("CUBBY_QEMU", path, 1);
    char *found auto_free = qemu_binary_find(&e);
    is_str(found, path, "CUBBY_QEMU chooses");
    unlink(path);
    ok(!qemu_binary_find(&e) && strstr(e.msg, "CUBBY_QEMU"), "a wrong one is an error: %s", e.msg);
    e = ERR_INIT;
    unsetenv("CUBBY_QEMU");
    setenv("PATH", dir, 1);
    ok(!qemu_binary_find(&e) && strstr(e.msg, "install"), "none: %s", e.msg);
    unlink(count);
    rmdir(dir);
}

int main(void)
{
    test_same_machine();
    test_disk();
    test_files();
    test_details();
    test_listen();
    test_binary();
    return tap_done();
}
