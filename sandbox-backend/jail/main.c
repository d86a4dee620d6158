// SPDX-License-Identifier: Apache-2.0
// cubby-jail: builds the walls of a jail around itself, then becomes the program. jail.h has the
// theory of operation.
#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "sandbox-backend/base/mem.h"
#include "sandbox-backend/base/opts.h"
#include "sandbox-backend/base/str.h"
#include "sandbox-backend/base/version.h"
#include "sandbox-backend/jail/jail.h"
#include "sandbox-backend/jail/landlock.h"
#include "sandbox-backend/jail/probe.h"
#include "sandbox-backend/jail/process.h"
#include "sandbox-backend/jail/root_dir.h"
#include "sandbox-backend/jail/seccomp.h"

static struct {
    const char *kind, *walls, *resolv_conf, *share;
    int64_t file_count, dies_with_fd, guard_fd, share_fd;
    bool kvm, instrumented, probe, share_read_only, help, version;
} options = {.kind = "vmm", .walls = "", .dies_with_fd = -1, .guard_fd = -1, .share_fd = -1};

static const struct opt table[] = {
    {.name = "kind",
     .type = OPT_STRING,
     .value = &options.kind,
     .arg = "KIND",
     .help = "vmm (default): no network, a list of forbidden system calls; network: the "
             "host's network, a list of allowed system calls; files: no network, one directory of "
             "the host, a list of allowed system calls",
     .choices = "vmm|network|files"},
    {.name = "walls",
     .type = OPT_STRING,
     .value = &options.walls,
     .arg = "LIST",
     .help = "the walls to build: user,mount,... as --probe names them"},
    {.name = "file-count",
     .type = OPT_INT,
     .value = &options.file_count,
     .arg = "N",
     .help = "the first N operands are files that the jail shows (with the wall mount)",
     .max = JAIL_BINDS_MAX},
    {.name = "resolv-conf",
     .type = OPT_STRING,
     .value = &options.resolv_conf,
     .arg = "FILE",
     .help = "the file that the jail shows as /etc/resolv.conf"},
    {.name = "kvm",
     .type = OPT_FLAG,
     .value = &options.kvm,
     .help = "the program may open /dev/kvm"},
    {.name = "share",
     .type = OPT_STRING,
     .value = &options.share,
     .arg = "DIR",
     .help = "files: the directory"},
    {.name = "share-fd",
     .type = OPT_INT,
     .value = &options.share_fd,
     .arg = "FD",
     .help = "files: the descriptor of the directory; the program finds it there",
     .min = 3,
     .max = INT16_MAX},
    {.name = "share-read-only",
     .type = OPT_FLAG,
     .value = &options.share_read_only,
     .help = "files: the directory is mounted read-only"},
    {.name = "dies-with-fd",
     .type = OPT_INT,
     .value = &options.dies_with_fd,
     .arg = "FD",
     .help = "a pidfd of the parent, whose end kills the program",
     .min = 3,
     .max = INT16_MAX},
    {.name = "guard-fd",
     .type = OPT_INT,
     .value = &options.guard_fd,
     .arg = "FD",
     .help = "start no program: kill the process of this pidfd when that of --dies-with-fd ends",
     .min = 3,
     .max = INT16_MAX},
    {.name = "instrumented",
     .type = OPT_FLAG,
     .value = &options.instrumented,
     .help = "the program has sanitizers, which need /proc and more system calls"},
    {.name = "probe",
     .type = OPT_FLAG,
     .value = &options.probe,
     .help = "print which walls this host can build for this user, as JSON, and exit"},
    {.name = "help", .type = OPT_FLAG, .value = &options.help, .help = "print this and exit"},
    {.name = "version", .type = OPT_FLAG, .value = &options.version, .help = "print the version"},
};

// The jail to build, from the options.
struct jail {
    enum jail_kind kind;
    unsigned walls;
    int proc;           // /proc/self, opened before it disappears
    unsigned id, group; // the uid of its own, and the gid
    char **files;
    const char *program;
    char **argv;
};

static bool has(const struct jail *j, enum wall wall)
{
    return j->walls & WALL_BIT(wall);
}

static void print_help(void)
{
    puts(
        "Usage: cubby-jail [options] [--] [FILE...] PROGRAM ARGUMENT0 [ARGUMENT...]\n"
        "Builds a jail and becomes the program in it. cubbyd starts it in a new process namespace\n"
        "and, if cubbyd is not root, a new user namespace. The exit status is 126 if a wall\n"
        "cannot be built.\n");
    opts_help(stdout, table, ARRAY_LEN(table));
}

// ---- the steps

// Read the pid under which the parent knows this process, because /proc is still the parent's.
static int own_id(struct jail *j, struct err *e)
{
    char text[16] = "";
    int64_t pid = 0;
    if (readlink("/proc/self", text, sizeof text - 1) < 0)
        return err_sys(e, errno, "read /proc/self");
    if (!str_to_int(text, 1, JAIL_UID_LAST - JAIL_UID_FIRST, &pid))
        return err_set(e, ERR_INTERNAL,
                       "/proc/self leads to \"%s\" instead of a process id: mount /proc", text);
    j->id = j->group = JAIL_UID_FIRST + (unsigned)pid;
    return 0;
}

// A process that serves a directory is its owner: what it makes there belongs to that user, and it
// reads and writes what that user may.
static int take_owner(struct jail *j, struct err *e)
{
    struct stat st;
    if (!options.share)
        return 0;
    if (fstat((int)options.share_fd, &st) != 0)
        return err_sys(e, errno, "look at %s", options.share);
    j->id = st.st_uid;
    j->group = st.st_gid;
    return 0;
}

// Put the directory of the new root, which is its bind mount, in place of the parent's descriptor.
static int take_share(const struct jail *j, struct err *e)
{
    struct stat had, now;
    if (!options.share || !(j->walls & WALL_BIT(WALL_MOUNT)))
        return 0;
    int fd auto_close = open(JAIL_SHARE, O_PATH | O_DIRECTORY | O_CLOEXEC);
    if (fd < 0 || fstat(fd, &now) != 0 || fstat((int)options.share_fd, &had) != 0)
        return err_sys(e, errno, "open %s", options.share);
    if (had.st_dev != now.st_dev || had.st_ino != now.st_ino)
        return err_set(e, ERR_CONFLICT, "%s became another directory", options.share);
    return dup2(fd, (int)options.share_fd) < 0 ? err_sys(e, errno, "pass the directory") : 0;
}

static int check_pid(const struct jail *j, struct err *e)
{
    if (has(j, WALL_PID) && getpid() != 1)
        return err_set(e, ERR_PRECONDITION,
                       "the jail has the wall \"pid\", but cubby-jail is not process 1 of a "
                       "process namespace: "
                       "the caller must start it with CLONE_NEWPID");
    return 0;
}

static int enter_root(const struct jail *j, struct err *e)
{
    struct root_dir root = {.files = j->files,
                            .count = (int)options.file_count,
                            .resolv_conf = options.resolv_conf,
                            .kvm = options.kvm,
                            .share = options.share,
                            .share_read_only = options.share_read_only,
                            .proc = options.instrumented,
                            .owner = has(j, WALL_UID) ? j->id : 0};
    return has(j, WALL_MOUNT) ? root_dir_enter(&root, e) : 0;
}

static int become_nobody(const struct jail *j, struct err *e)
{
    if (has(j, WALL_UID) && identity_become(j->id, j->group, e) != 0)
        return -1;
    if (has(j, WALL_USER) && namespaces_enter_user(j->proc, JAIL_UID_INSIDE, e) != 0)
        return -1;
    return has(j, WALL_PRIVILEGES) ? identity_drop(e) : 0;
}

// Otherwise the host kernel would count all processes of the daemon's user.
static bool is_counted_alone(const struct jail *j)
{
    return (has(j, WALL_UID) && !options.share) ||
           (has(j, WALL_USER) && limits_count_by_namespace());
}

static int enforce_landlock(const struct jail *j, struct err *e)
{
    bool own_root = has(j, WALL_MOUNT);
    const struct landlock_rules rules = {.files = own_root ? NULL : j->files,
                                         .count = (int)options.file_count,
                                         .resolves = !own_root && options.resolv_conf,
                                         .kvm = options.kvm,
                                         .share = options.share ? (int)options.share_fd : -1,
                                         .share_read_only = options.share_read_only,
                                         .tcp = j->kind == JAIL_NETWORK};
    return has(j, WALL_LANDLOCK) ? landlock_enforce(&rules, e) : 0;
}

// Ask for the parent-death signal. This comes after the last change of rights, which would cancel
// the signal. If the parent ended before, the pidfd shows it.
static int die_with_parent(struct err *e)
{
    struct pollfd parent = {.fd = (int)options.dies_with_fd, .events = POLLIN};
    if (parent.fd < 0)
        return 0;
    if (prctl(PR_SET_PDEATHSIG, SIGKILL) != 0 || poll(&parent, 1, 0) < 0)
        return err_sys(e, errno, "ask the kernel to end this process with its parent");
    if (parent.revents)
        return err_set(e, ERR_GONE, "the process that started cubby-jail has ended");
    close(parent.fd);
    return 0;
}

static int build(struct jail *j, struct err *e)
{
    j->proc = open("/proc/self", O_PATH | O_DIRECTORY | O_CLOEXEC);
    if (j->proc < 0)
        return err_sys(e, errno, "open /proc/self");
    if (own_id(j, e) != 0 || take_owner(j, e) != 0 || check_pid(j, e) != 0 ||
        namespaces_enter(j->walls, e) != 0 || enter_root(j, e) != 0 || take_share(j, e) != 0 ||
        become_nobody(j, e) != 0)
        return -1;
    if (has(j, WALL_RLIMITS) && limits_set(j->kind, is_counted_alone(j), e) != 0)
        return -1;
    if (enforce_landlock(j, e) != 0 || die_with_parent(e) != 0)
        return -1;
    return has(j, WALL_SECCOMP) ? seccomp_install(j->kind, options.instrumented, e) : 0;
}

// Guard a process that cannot ask for a parent-death signal. It is not a child of this process.
static int guard(struct err *e)
{
    struct pollfd both[] = {{.fd = (int)options.dies_with_fd, .events = POLLIN},
                            {.fd = (int)options.guard_fd, .events = POLLIN}};
    while (poll(both, ARRAY_LEN(both), -1) < 0)
        if (errno != EINTR)
            return err_sys(e, errno, "wait for two processes");
    if (!both[1].revents)
        syscall(SYS_pidfd_send_signal, both[1].fd, SIGKILL, NULL, 0);
    return 0;
}

static int run(int argc, char **argv, struct err *e)
{
    struct jail j = {.kind = str_eq(options.kind, "vmm")     ? JAIL_VMM
                             : str_eq(options.kind, "files") ? JAIL_FILES
                                                             : JAIL_NETWORK,
                     .files = argv + 1};
    if ((options.share != NULL) != (options.share_fd >= 0) ||
        (options.share && j.kind != JAIL_FILES))
        return err_set(e, ERR_INVALID, "--share and --share-fd belong together, and to files");
    if (argc < options.file_count + 3)
        return err_set(
            e, ERR_INVALID,
            "the command line ends before the program and its argument 0: see cubby-jail --help");
    j.program = argv[options.file_count + 1];
    j.argv = argv + options.file_count + 2;
    if (!walls_parse(options.walls, &j.walls))
        return err_set(e, ERR_INVALID,
                       "--walls \"%s\" holds an unknown name: cubby-jail --probe lists the walls",
                       options.walls);
    if (build(&j, e) != 0)
        return -1;
    execv(j.program, j.argv);
    return err_sys(e, errno, "execute %s", j.program);
}

int main(int argc, char **argv)
{
    struct err e = ERR_INIT;
    int parsed = opts_parse(table, ARRAY_LEN(table), &argc, argv, true, &e);
    if (parsed == 0 && options.help) {
        print_help();
        return 0;
    }
    if (parsed == 0 && options.version) {
        puts("cubby-jail " CUBBY_VERSION);
        return 0;
    }
    if (parsed == 0 && options.probe)
        return probe_print();
    if (parsed == 0 && options.guard_fd >= 0 && guard(&e) == 0)
        return 0;
    if (parsed == 0 && options.guard_fd < 0)
        run(argc, argv, &e);
    fprintf(stderr, "cubby-jail: %s\n", e.msg);
    return JAIL_EXIT_FAILED;
}
