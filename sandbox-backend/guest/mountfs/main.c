// SPDX-License-Identifier: Apache-2.0
// mountfs: shows a directory of the host in a guest, as a FUSE file system.
//
// cubbyd puts this program into a guest when a directory is mounted there, and starts it as root:
//
//   mountfs PORT TARGET USER [ro]      with the token in the environment, as hex digits
//
// It makes the target directory, mounts, and goes to the background; it then exits with 0, or with
// 1 and one sentence. cubby-mountd connects to the port (host.h). The program ends when the host
// says so, or when somebody unmounts the directory.
//
// With CUBBY_MOUNT_FUSE in the environment, its parent has mounted the directory, and unmounts it
// (nest/mounting.h). The program then writes a line when it serves, and stays in the foreground.
#include <arpa/inet.h>
#include <errno.h>
#include <fcntl.h>
#include <linux/magic.h>
#include <netinet/in.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mount.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/statfs.h>
#include <sys/sysmacros.h>
#include <unistd.h>

#include "sandbox-backend/base/err.h"
#include "sandbox-backend/base/fd.h"
#include "sandbox-backend/base/mem.h"
#include "sandbox-backend/base/str.h"
#include "sandbox-backend/guest/mountfs/fs.h"

#define DEVICE       "/dev/fuse"
#define DEVICE_MAJOR 10
#define DEVICE_MINOR 229
#define PASSWD_BYTES (1 << 20)
#define FDINFO_BYTES 4096
#define QUEUE        4

struct mounting {
    int64_t port;
    const char *target;
    const char *user;
    bool read_only;
    int listener;
    const char *fuse; // the descriptor of a mount that its parent has made; NULL: none
    long mount_id;    // of the mount that this program has made; -1: the kernel does not tell
    bool unmounted;   // by somebody else
    struct fuse_session *session;
};

// ---- the parts

// The C library's own look-up would load libraries, which a static program cannot do in any guest.
static int find_user(const char *name, uid_t *uid, gid_t *gid, struct err *e)
{
    struct buf text auto_buf = BUF_INIT;
    size_t len = strlen(name);
    if (file_read("/etc/passwd", PASSWD_BYTES, &text, e) < 0)
        return -1;
    char *rest = (char *)(uintptr_t)buf_str(&text);
    for (char *line; (line = strsep(&rest, "\n"));)
        if (strncmp(line, name, len) == 0 && line[len] == ':' &&
            sscanf(line + len, ":%*[^:]:%u:%u", uid, gid) == 2)
            return 0;
    return err_set(e, ERR_NOT_FOUND, "the guest has no user %s", name);
}

static int take_token(unsigned char token[MOUNT_TOKEN_BYTES], struct err *e)
{
    const char *text = getenv(MOUNT_TOKEN_NAME);
    bool fits = text && strlen(text) == 2 * MOUNT_TOKEN_BYTES;
    for (int i = 0; i < MOUNT_TOKEN_BYTES && fits; i++)
        fits = sscanf(text + 2 * i, "%2hhx", &token[i]) == 1;
    unsetenv(MOUNT_TOKEN_NAME);
    return fits ? 0 : err_set(e, ERR_INVALID, MOUNT_TOKEN_NAME " does not have the token");
}

static int listen_at(int port, struct err *e)
{
    int on = 1;
    const struct sockaddr_in at = {.sin_family = AF_INET, .sin_port = htons((uint16_t)port)};
    int fd auto_close = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
    if (fd < 0 || setsockopt(fd, SOL_SOCKET, SO_REUSEADDR, &on, sizeof on) < 0 ||
        bind(fd, (const struct sockaddr *)&at, sizeof at) < 0 || listen(fd, QUEUE) < 0)
        return err_sys(e, errno, "listen on port %d", port);
    return steal_fd(&fd);
}

static int open_target(const char *target)
{
    return open(target, O_PATH | O_CLOEXEC); // with O_DIRECTORY, gVisor would ask the mount
}

// Return the kernel's number of the mount that an open file is in, or -1 (gVisor).
static long mount_id(int fd)
{
    static const char KEY[] = "mnt_id:";
    struct buf text auto_buf = BUF_INIT;
    struct err ignored = ERR_INIT;
    char *path auto_free = str_printf("/proc/self/fdinfo/%d", fd);
    const char *at = fd < 0 || file_read(path, FDINFO_BYTES, &text, &ignored) < 0
                         ? NULL
                         : strstr(buf_str(&text), KEY);
    return at ? strtol(at + sizeof KEY - 1, NULL, 10) : -1;
}

// Unmount what an open directory is the root of. Its path may lead to another mount by now.
static void unmount(int fd)
{
    char *path auto_free = str_printf("/proc/self/fd/%d", fd);
    umount2(path, MNT_DETACH);
}

// Open the target, or the last directory on the way to it that is there.
static int open_deepest(const char *target)
{
    char *path auto_free = xstrdup(target);
    int fd = open_target(path);
    for (char *slash; fd < 0 && (slash = strrchr(path, '/')) && slash > path;) {
        *slash = '\0';
        fd = open_target(path);
    }
    return fd;
}

// Two mounts at one place would end together, or each the other one. Nothing is made in a mount.
static int make_target(const char *target, struct err *e)
{
    struct stat st;
    struct statfs fs;
    int fd auto_close = open_deepest(target);
    bool answers = fd >= 0 && fstatfs(fd, &fs) == 0;
    if (answers && fs.f_type == FUSE_SUPER_MAGIC)
        return err_set(e, ERR_CONFLICT, "%s leads into another mount", target);
    if (fd >= 0 && !answers && errno == ENOTCONN) // of a program that was killed
        unmount(fd);
    if (dir_make(target, 0755, e) < 0)
        return -1;
    if (stat(target, &st) < 0 || !S_ISDIR(st.st_mode))
        return err_set(e, ERR_INVALID, "%s is not a directory", target);
    return 0;
}

static int mount_target(struct mounting *m, struct err *e)
{
    char name[] = "mountfs", option[] = "-o";
    char options[] = "allow_other,default_permissions,fsname=cubby,subtype=cubby,ro";
    if (!m->read_only)
        *strrchr(options, ',') = '\0';
    char *argv[] = {name, option, options, NULL};
    struct fuse_args args = FUSE_ARGS_INIT(3, argv);
    if (!m->fuse && access(DEVICE, F_OK) < 0)
        mknod(DEVICE, S_IFCHR | 0666, makedev(DEVICE_MAJOR, DEVICE_MINOR));
    // libfuse takes the place of a descriptor for a directory that is mounted already.
    char *made auto_free = m->fuse ? str_printf("/dev/fd/%s", m->fuse) : NULL;
    m->session = fuse_session_new(&args, &FS_OPS, sizeof FS_OPS, NULL);
    fuse_opt_free_args(&args);
    if (!m->session || fuse_session_mount(m->session, made ? made : m->target) < 0)
        return err_set(e, ERR_INTERNAL, "this guest's kernel cannot mount %s by FUSE: %s",
                       m->target, strerror(errno));
    int fd auto_close = m->fuse ? -1 : open_target(m->target);
    m->mount_id = mount_id(fd);
    return fd_set_nonblock(fuse_session_fd(m->session), e);
}

static void write_text(const char *path, const char *text)
{
    int fd auto_close = open(path, O_WRONLY | O_CLOEXEC);
    if (fd >= 0 && write(fd, text, strlen(text)) < 0)
        return; // a guest without control groups has nothing to leave
}

// Leave the control group of commands: it is frozen before the guest is, and a command that waits
// for this program then would never stop. And do not end first when memory runs out.
static void settle(void)
{
    write_text("/sys/fs/cgroup/cgroup.procs", "0");
    write_text("/proc/self/oom_score_adj", "-900");
}

// ---- the loop

static void serve_kernel(struct mounting *m, struct fuse_buf *buf)
{
    while (!host_is_full() && !fuse_session_exited(m->session)) {
        int n = fuse_session_receive_buf(m->session, buf);
        if (n == 0) {
            m->unmounted = true;
            fuse_session_exit(m->session);
        }
        if (n <= 0)
            return;
        fuse_session_process_buf(m->session, buf);
    }
}

static void run(struct mounting *m)
{
    struct fuse_buf buf = {.mem = NULL};
    struct pollfd fds[HOST_POLLED + 1];
    while (!fuse_session_exited(m->session) && !host_is_ended()) {
        int count = host_poll(fds);
        fds[count] = (struct pollfd){.fd = fuse_session_fd(m->session),
                                     .events = host_is_full() ? 0 : POLLIN};
        if (poll(fds, (nfds_t)count + 1, host_wait_ms()) < 0 && errno != EINTR)
            break;
        host_serve();
        serve_kernel(m, &buf);
    }
    int target auto_close = m->fuse || m->unmounted ? -1 : open_target(m->target);
    if (target >= 0 && mount_id(target) == m->mount_id)
        unmount(target);
    free(buf.mem);
}

static int prepare(struct mounting *m, struct err *e)
{
    unsigned char token[MOUNT_TOKEN_BYTES];
    uid_t uid;
    gid_t gid;
    if (take_token(token, e) < 0 || find_user(m->user, &uid, &gid, e) < 0 ||
        (m->listener = listen_at((int)m->port, e)) < 0 ||
        (!m->fuse && make_target(m->target, e) < 0) || mount_target(m, e) < 0)
        return -1;
    fs_init(uid, gid);
    host_init(m->listener, token);
    return 0;
}

// Go to the background when the file system is mounted. The parent's end tells the result.
static void go_to_background(void)
{
    pid_t pid = fork();
    if (pid > 0)
        _exit(0);
    setsid();
    settle();
}

static void leave_terminal(void)
{
    int null = open("/dev/null", O_RDWR | O_CLOEXEC);
    for (int i = 0; i <= STDERR_FILENO; i++)
        dup2(null, i);
    if (null > STDERR_FILENO)
        close(null);
    if (chdir("/") < 0)
        return; // it started in a directory that is gone
}

int main(int argc, char **argv)
{
    struct err e = ERR_INIT;
    struct mounting m = {.listener = -1};
    if (argc < 4 || argc > 5 || (argc == 5 && !str_eq(argv[4], "ro")) ||
        !str_to_int(argv[1], 1, UINT16_MAX, &m.port)) {
        fputs("Usage: mountfs PORT TARGET USER [ro]\ncubbyd starts it in a guest.\n", stderr);
        return 2;
    }
    m.target = argv[2];
    m.user = argv[3];
    m.read_only = argc == 5;
    m.fuse = getenv(MOUNT_FUSE_NAME);
    signal(SIGPIPE, SIG_IGN);
    if (prepare(&m, &e) < 0) {
        fprintf(stderr, "mountfs: %s\n", e.msg);
        return 1;
    }
    if (m.fuse)
        puts("ready"), fflush(stdout);
    else
        go_to_background();
    leave_terminal();
    run(&m);
    return 0;
}
