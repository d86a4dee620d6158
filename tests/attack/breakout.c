// SPDX-License-Identifier: Apache-2.0
// An attacker who has broken into a process of a sandbox. The tests start this program in place of
// that process, with all that the process holds. It tries to break out, reports each attempt on
// standard error, and waits.
//
// A report is a line "NAME WORD". WORD is the name of errno, or DONE if the attempt succeeded. No
// attempt changes this machine when it succeeds, so the program can also run without a jail.
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <linux/capability.h>
#include <linux/fs.h>
#include <netinet/in.h>
#include <pthread.h>
#include <sched.h>
#include <signal.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/mman.h>
#include <sys/mount.h>
#include <sys/prctl.h>
#include <sys/ptrace.h>
#include <sys/resource.h>
#include <sys/shm.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/sysmacros.h>
#include <sys/uio.h>
#include <sys/un.h>
#include <sys/wait.h>
#include <unistd.h>

#define REAL_QEMU    "/usr/bin/qemu-system-x86_64"
#define CHILDREN_MAX 1500
#define FDS_MAX      4096
#define OPEN_MAX     5000
#define STACK_BYTES  65536

// The test writes what is to be attacked into its copy of this program: "NAME=VALUE;...", as no
// file of the host can be read in a jail.
static volatile char targets[4096] = "CUBBY-TARGETS:";

static const char *target(const char *name, char *out, size_t size)
{
    char key[64], all[sizeof targets];
    for (size_t i = 0; i < sizeof all; i++)
        all[i] = targets[i];
    snprintf(key, sizeof key, ";%s=", name);
    const char *at = strstr(all, key);
    size_t len = at ? strcspn(at + strlen(key), ";") : 0;
    snprintf(out, size, "%.*s", (int)len, at ? at + strlen(key) : "");
    return out;
}

static void told(const char *name, const char *detail, long result)
{
    const char *word = result < 0 ? strerrorname_np(errno) : "DONE";
    dprintf(STDERR_FILENO, "%s%s %s\n", name, detail, word ? word : "?");
}

#define TRY(name, call)              \
    do {                             \
        errno = 0;                   \
        long result_ = (long)(call); \
        told(name, "", result_);     \
    } while (0)

// ---- files

static long opens(const char *path, int flags)
{
    int fd = open(path, flags | O_CLOEXEC | O_NONBLOCK);
    if (fd >= 0)
        close(fd);
    return fd;
}

static long makes(const char *path)
{
    int fd = open(path, O_CREAT | O_EXCL | O_WRONLY | O_CLOEXEC, 0600);
    if (fd < 0)
        return -1;
    close(fd);
    return unlink(path);
}

static long makes_device(void)
{
    const char *path = "/tmp/cubby-attack-device";
    return mknod(path, S_IFCHR | 0600, makedev(1, 1)) < 0 ? -1 : unlink(path);
}

static void files(void)
{
    char path[2048], other[1024];
    TRY("read-shadow", opens("/etc/shadow", O_RDONLY));
    TRY("read-shadow-by-dots", opens("../../../../../etc/shadow", O_RDONLY));
    TRY("read-passwd", opens("/etc/passwd", O_RDONLY));
    TRY("make-in-etc", makes("/etc/cubby-attack"));
    TRY("make-in-tmp", makes("/tmp/cubby-attack"));
    TRY("make-in-root", makes("/cubby-attack"));
    TRY("make-device", makes_device());
    TRY("read-proc", opens("/proc/1/status", O_RDONLY));
    TRY("list-proc", opens("/proc", O_RDONLY | O_DIRECTORY));
    TRY("list-sys", opens("/sys", O_RDONLY | O_DIRECTORY));
    TRY("list-home", opens(target("home", path, sizeof path), O_RDONLY | O_DIRECTORY));
    TRY("read-template-facts", opens(target("template", path, sizeof path), O_RDONLY));
    TRY("write-template-memory", opens(target("memory", path, sizeof path), O_RDWR));
    TRY("write-template-disk", opens(target("disk", path, sizeof path), O_RDWR));
    snprintf(path, sizeof path, "%s/overlay.qcow2", target("other", other, sizeof other));
    TRY("read-other-disk", opens(path, O_RDONLY));
    TRY("write-other-disk", opens(path, O_RDWR));
    snprintf(path, sizeof path, "%s/sandbox.json", other);
    TRY("read-other-record", opens(path, O_RDONLY));
    TRY("open-mem", opens("/dev/mem", O_RDONLY));
    TRY("open-kmsg", opens("/dev/kmsg", O_RDONLY));
    TRY("open-tun", opens("/dev/net/tun", O_RDWR));
    TRY("open-shm", opens("/dev/shm", O_RDONLY | O_DIRECTORY));
    TRY("by-handle", syscall(SYS_open_by_handle_at, AT_FDCWD, NULL, O_RDONLY));
}

// What it is already: who may set that may set any.
static long sets_flags(int fd)
{
    int flags = 0;
    return ioctl(fd, FS_IOC_GETFLAGS, &flags) < 0 ? -1 : ioctl(fd, FS_IOC_SETFLAGS, &flags);
}

// Whoever writes it then waits; with one for writing, whoever reads it. Given up at once.
static long leases(int fd)
{
    return fcntl(fd, F_SETLEASE, F_RDLCK) < 0 ? -1 : fcntl(fd, F_SETLEASE, F_UNLCK);
}

// What it was given to read only is not to be had for writing, by whatever way; directories that
// it was given lead nowhere.
static void descriptor(int fd)
{
    char path[64], detail[64];
    struct stat st;
    int flags = fcntl(fd, F_GETFL);
    if (flags < 0 || fstat(fd, &st) != 0)
        return;
    snprintf(path, sizeof path, "/proc/self/fd/%d", fd);
    if (S_ISDIR(st.st_mode)) {
        snprintf(detail, sizeof detail, ":%d", fd);
        errno = 0;
        told("directory-up", detail, openat(fd, "..", O_RDONLY | O_DIRECTORY));
    }
    if (!S_ISREG(st.st_mode) || (flags & O_ACCMODE) != O_RDONLY)
        return;
    snprintf(detail, sizeof detail, ":%d", fd);
    errno = 0;
    told("reopen-own", detail, opens(path, O_RDWR));
    errno = 0;
    told("write-own", detail, pwrite(fd, "", 0, 0));
    errno = 0;
    void *p = mmap(NULL, 4096, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
    told("map-own", detail, p == MAP_FAILED ? -1 : 0);
    if (p != MAP_FAILED)
        munmap(p, 4096);
    p = mmap(NULL, 4096, PROT_READ, MAP_SHARED, fd, 0);
    errno = 0;
    told("protect-own", detail, p == MAP_FAILED ? -1 : mprotect(p, 4096, PROT_READ | PROT_WRITE));
    // What it is already: who may set that may set anything else.
    const struct timespec times[] = {st.st_atim, st.st_mtim};
    errno = 0;
    told("chmod-own", detail, fchmod(fd, st.st_mode & 07777));
    errno = 0;
    told("chown-own", detail, fchown(fd, st.st_uid, (gid_t)-1));
    errno = 0;
    told("times-own", detail, futimens(fd, times));
    errno = 0;
    told("flags-own", detail, sets_flags(fd));
    errno = 0;
    told("lease-own", detail, leases(fd));
    if (geteuid() == 0) // without a jail it would be there
        return;
    errno = 0;
    told("link-own", detail, linkat(fd, "", AT_FDCWD, "/cubby-attack", AT_EMPTY_PATH));
}

// ---- processes

static long forks(void)
{
    static pid_t children[CHILDREN_MAX];
    int count = 0, failed = 0;
    while (count < CHILDREN_MAX && !failed) {
        pid_t pid = fork();
        if (pid == 0) {
            pause();
            _exit(0);
        }
        if (pid < 0)
            failed = errno;
        else
            children[count++] = pid;
    }
    for (int i = 0; i < count; i++) {
        kill(children[i], SIGKILL);
        waitpid(children[i], NULL, 0);
    }
    errno = failed;
    return failed ? -1 : 0;
}

static void *waits(void *arg)
{
    char byte;
    return read(*(int *)arg, &byte, 1) < 0 ? arg : NULL;
}

// As many threads as it likes, each of which waits for the end of a pipe.
static long threads(void)
{
    static pthread_t all[CHILDREN_MAX];
    pthread_attr_t small;
    int ends[2], count = 0, failed = pipe(ends) == 0 ? 0 : errno;
    pthread_attr_init(&small);
    pthread_attr_setstacksize(&small, STACK_BYTES);
    while (count < CHILDREN_MAX && !failed)
        if ((failed = pthread_create(&all[count], &small, waits, &ends[0])) == 0)
            count++;
    close(ends[1]);
    while (count > 0)
        pthread_join(all[--count], NULL);
    close(ends[0]);
    errno = failed;
    return failed ? -1 : 0;
}

// As many open files as it likes.
static long opens_many(void)
{
    static int copies[OPEN_MAX];
    int count = 0, failed = 0;
    while (count < OPEN_MAX && (copies[count] = dup(STDERR_FILENO)) >= 0)
        count++;
    failed = count < OPEN_MAX ? errno : 0;
    while (count > 0)
        close(copies[--count]);
    errno = failed;
    return failed ? -1 : 0;
}

static void processes(void)
{
    char text[32];
    pid_t daemon = atoi(target("daemon", text, sizeof text));
    char byte;
    struct iovec here = {&byte, 1}, there = {&here, 1};
    struct rlimit r;
    cpu_set_t cpus;
    TRY("signal-daemon", kill(daemon, 0));
    TRY("signal-all", kill(-1, 0));
    TRY("ptrace-daemon", ptrace(PTRACE_SEIZE, daemon, NULL, NULL));
    TRY("read-daemon",
        process_vm_readv(daemon, &here, 1, &there, 1, 0) < 0 && errno != EFAULT ? -1 : 0);
    TRY("pidfd-daemon", syscall(SYS_pidfd_open, daemon, 0));
    TRY("limit-daemon", prlimit(daemon, RLIMIT_CPU, NULL, &r));
    TRY("place-daemon", sched_getaffinity(daemon, sizeof cpus, &cpus));
    TRY("session-of-daemon", getsid(daemon));
    TRY("own-signals", fcntl(STDERR_FILENO, F_SETOWN, daemon));
    if (strcmp(target("bombs", text, sizeof text), "no") != 0) {
        TRY("fork-bomb", forks());
        TRY("thread-bomb", threads());
    }
    TRY("open-many", opens_many());
    TRY("execute", access("/bin/sh", X_OK));
}

// ---- sockets

static long connects(int family, const struct sockaddr *to, socklen_t len)
{
    int s = socket(family, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
    if (s < 0)
        return -1;
    long result = connect(s, to, len);
    int failed = errno == EINPROGRESS ? 0 : errno;
    close(s);
    errno = failed;
    return result < 0 && failed ? -1 : 0;
}

static long connects_unix(const char *path, bool is_abstract)
{
    struct sockaddr_un to = {.sun_family = AF_UNIX};
    size_t at = is_abstract ? 1 : 0;
    snprintf(to.sun_path + at, sizeof to.sun_path - at, "%s", path);
    return connects(AF_UNIX, (struct sockaddr *)&to,
                    (socklen_t)(offsetof(struct sockaddr_un, sun_path) + at + strlen(path)));
}

static void sockets(void)
{
    char path[2048], name[1024];
    struct sockaddr_in host = {.sin_family = AF_INET, .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
    host.sin_port = htons((uint16_t)atoi(target("port", name, sizeof name)));
    TRY("tcp", connects(AF_INET, (struct sockaddr *)&host, sizeof host));
    TRY("udp", socket(AF_INET, SOCK_DGRAM, 0));
    TRY("ipv6", socket(AF_INET6, SOCK_STREAM, 0));
    TRY("raw", socket(AF_INET, SOCK_RAW, IPPROTO_ICMP));
    TRY("packet", socket(AF_PACKET, SOCK_RAW, 0));
    TRY("netlink", socket(AF_NETLINK, SOCK_RAW, 0));
    TRY("vsock", socket(AF_VSOCK, SOCK_STREAM, 0));
    TRY("alg", socket(AF_ALG, SOCK_SEQPACKET, 0));
    TRY("pair", socketpair(AF_INET, SOCK_STREAM, 0, (int[2]){-1, -1}));
    TRY("abstract", connects_unix(target("abstract", name, sizeof name), true));
    snprintf(path, sizeof path, "%s/cubbyd.sock", target("home", name, sizeof name));
    TRY("daemon-socket", connects_unix(path, false));
    snprintf(path, sizeof path, "%s/vm.net", target("other", name, sizeof name));
    TRY("other-socket", connects_unix(path, false));
    TRY("shared-memory", shmget(atoi(target("shm", name, sizeof name)), 0, 0));
}

// ---- privileges and the kernel

static int child(void *unused)
{
    (void)unused;
    _exit(0);
}

static long clones(int flags)
{
    static char stack[STACK_BYTES];
    pid_t pid = clone(child, stack + sizeof stack, flags | SIGCHLD, NULL);
    if (pid < 0)
        return -1;
    waitpid(pid, NULL, 0);
    return 0;
}

// In a child, as it must not change what follows; where there is no child, here.
static long unshares(int flags)
{
    pid_t pid = fork();
    int status = 0;
    if (pid == 0)
        _exit(unshare(flags) == 0 ? 0 : errno);
    if (pid < 0)
        return unshare(flags);
    if (waitpid(pid, &status, 0) < 0)
        return -1;
    errno = WEXITSTATUS(status);
    return errno ? -1 : 0;
}

static long has_capabilities(void)
{
    struct __user_cap_header_struct head = {.version = _LINUX_CAPABILITY_VERSION_3};
    struct __user_cap_data_struct data[2] = {0};
    if (syscall(SYS_capget, &head, data) < 0)
        return -1;
    uint32_t any = data[0].effective | data[0].permitted | data[0].inheritable | data[1].effective |
                   data[1].permitted | data[1].inheritable;
    errno = EPERM;
    return any ? 0 : -1;
}

static long may_gain(void)
{
    int is_off = prctl(PR_GET_NO_NEW_PRIVS, 0, 0, 0, 0);
    errno = EPERM;
    return is_off == 0 ? 0 : -1;
}

static long may_dump_core(void)
{
    struct rlimit r = {.rlim_cur = 1, .rlim_max = 1};
    struct rlimit was;
    getrlimit(RLIMIT_CORE, &was);
    return was.rlim_max > 0 ? 0 : setrlimit(RLIMIT_CORE, &r);
}

static void kernel(void)
{
    char host[128] = "";
    gethostname(host, sizeof host - 1);
    TRY("capabilities", has_capabilities());
    TRY("new-privileges", may_gain());
    TRY("setuid", setuid(0));
    TRY("core-dump", may_dump_core());
    TRY("mount", mount("none", "/", "nosuchfs", 0, NULL));
    TRY("umount", umount2("/etc", 0));
    TRY("pivot-root", syscall(SYS_pivot_root, "/etc", "/etc"));
    TRY("chroot", chroot("/nowhere"));
    TRY("fsopen", syscall(SYS_fsopen, "tmpfs", 0));
    TRY("open-tree", syscall(SYS_open_tree, AT_FDCWD, "/", 1));
    TRY("unshare-user", unshares(CLONE_NEWUSER));
    TRY("unshare-net", unshares(CLONE_NEWNET));
    TRY("clone-user", clones(CLONE_NEWUSER));
    TRY("clone-mount", clones(CLONE_NEWNS));
    TRY("setns", setns(-1, 0));
    TRY("keyctl", syscall(SYS_keyctl, 0, -3, 1)); // the session's key ring
    TRY("add-key", syscall(SYS_add_key, "user", "cubby-attack", "x", 1, -1));
    TRY("bpf", syscall(SYS_bpf, 0, NULL, 0));
    TRY("io-uring", syscall(SYS_io_uring_setup, 0, NULL));
    TRY("userfaultfd", syscall(SYS_userfaultfd, O_CLOEXEC));
    TRY("perf", syscall(SYS_perf_event_open, NULL, 0, -1, -1, 0));
    TRY("init-module", syscall(SYS_init_module, NULL, 0, ""));
    TRY("finit-module", syscall(SYS_finit_module, -1, "", 0));
    TRY("kexec", syscall(SYS_kexec_load, 0, 100, NULL, ~0ul));
    TRY("reboot", syscall(SYS_reboot, 0, 0, 0, NULL)); // of no such magic number
    TRY("syslog", syscall(SYS_syslog, 10, NULL, 0));
    TRY("sethostname", sethostname(host, strlen(host)));
    TRY("set-clock", syscall(SYS_clock_settime, -1, NULL));
#if defined(SYS_ioperm) // not on arm64
    TRY("io-ports", syscall(SYS_ioperm, 0x80, 1, 0));
#endif
    TRY("personality", syscall(SYS_personality, 0xffffffff));
    TRY("fanotify", syscall(SYS_fanotify_init, 0, 0));
}

int main(int argc, char **argv)
{
    if (argc > 1 && strcmp(argv[1], "--version") == 0) {
        execl(REAL_QEMU, REAL_QEMU, "--version", (char *)NULL);
        return 1;
    }
    files();
    for (int fd = 0; fd < FDS_MAX; fd++)
        descriptor(fd);
    processes();
    sockets();
    kernel();
    dprintf(STDERR_FILENO, "END\n");
    for (;;)
        pause();
}
