// SPDX-License-Identifier: Apache-2.0
// cubby-nest: starts, serves and ends a guest that shares the host's kernel. nest.h has the theory
// of operation.
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <sched.h>
#include <stdio.h>
#include <string.h>
#include <sys/file.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sysexits.h>
#include <unistd.h>

#include "sandbox-backend/base/fd.h"
#include "sandbox-backend/base/mem.h"
#include "sandbox-backend/base/opts.h"
#include "sandbox-backend/base/str.h"
#include "sandbox-backend/base/version.h"
#include "sandbox-backend/nest/card.h"
#include "sandbox-backend/nest/filter.h"
#include "sandbox-backend/nest/host_dir.h"
#include "sandbox-backend/nest/keep.h"
#include "sandbox-backend/nest/mounting.h"
#include "sandbox-backend/nest/nest.h"
#include "sandbox-backend/nest/root.h"
#include "sandbox-backend/nest/users.h"

#define EXIT_FAILED 126
#define NAME_BYTES  (HOST_NAME_MAX + 2)

static struct {
    const char *kind, *dir, *template, *tools, *image, *target, *user, *port;
    int64_t layer_mb, frames_fd, vmnet_fd, go_fd, dir_fd, daemon_fd, guest_fd, holder_fd;
    bool help, version;
} options = {.kind = "",
             .layer_mb = 1024,
             .frames_fd = -1,
             .vmnet_fd = -1,
             .go_fd = -1,
             .dir_fd = -1,
             .daemon_fd = -1,
             .guest_fd = -1,
             .holder_fd = -1};

#define TEXT(word, field, what, text)                                               \
    {                                                                               \
        .name = (word), .type = OPT_STRING, .value = &options.field, .arg = (what), \
        .help = (text),                                                             \
    }
#define NUMBER(word, field, what, least, text)                                                   \
    {                                                                                            \
        .name = (word), .type = OPT_INT, .value = &options.field, .arg = (what), .help = (text), \
        .min = (least), .max = INT32_MAX,                                                        \
    }
static const struct opt table[] = {
    TEXT("kind", kind, "KIND",
         "bubblewrap: run a guest in namespaces; none: run a guest on the host; mount: mount a "
         "file system in a guest of bubblewrap; unpack, remove: make or remove a template's root "
         "directory"),
    TEXT("dir", dir, "DIR", "unpack, remove: the template's root directory"),
    TEXT("template", template, "DIR", "bubblewrap: the unpacked template"),
    TEXT("tools", tools, "DIR", "bubblewrap: the directory of init and envd"),
    TEXT("image", image, "FILE", "unpack: the template's disk"),
    TEXT("target", target, "DIR", "mount: the path in the guest"),
    TEXT("user", user, "NAME", "mount: the guest's user of commands"),
    TEXT("port", port, "PORT", "mount: the port in the guest"),
    NUMBER("layer-mb", layer_mb, "MB", 1, "bubblewrap: the size of the layer above the template"),
    NUMBER("frames-fd", frames_fd, "FD", 3, "cubby-netd's packet socket"),
    NUMBER("vmnet-fd", vmnet_fd, "FD", 3, "listening socket, for a guest without a network card"),
    NUMBER("dir-fd", dir_fd, "FD", 3, "bubblewrap, none: the sandbox's directory"),
    NUMBER("daemon-fd", daemon_fd, "FD", 3,
           "pidfd of the daemon; the guest ends when the daemon does"),
    NUMBER("go-fd", go_fd, "FD", 3,
           "descriptor that sends the guest's name and a newline to start it"),
    NUMBER("guest-fd", guest_fd, "FD", 3, "mount: pidfd of the guest's init"),
    NUMBER("holder-fd", holder_fd, "FD", 3, "mount: pidfd of the process that holds the guest"),
    {.name = "help", .type = OPT_FLAG, .value = &options.help, .help = "print this and exit"},
    {.name = "version", .type = OPT_FLAG, .value = &options.version, .help = "print the version"},
};

// ---- what all guests need

// Wait for the guest's name, which is not an argument: every user of the host can read arguments,
// and a user who knows a sandbox's whole id may open its public ports.
static int wait_for_go(const struct keep *k, char name[NAME_BYTES], struct err *e)
{
    memset(name, 0, NAME_BYTES);
    if (keep_wait(k, (int)options.go_fd, e) < 0)
        return -1;
    ssize_t n = read((int)options.go_fd, name, NAME_BYTES - 1); // does not wait
    char *end = strchr(name, '\n'); // one write of the daemon's is one read
    if (n <= 0 || !end)
        return err_set(e, ERR_CANCELED, "the daemon cancelled the start of the guest");
    *end = '\0';
    close((int)options.go_fd);
    return 0;
}

static int run(struct keep *k, struct err *e)
{
    int status = keep_run(k, e);
    relay_free(k->relay);
    if (k->carrier)
        carrier_fini(k->carrier);
    return status;
}

// ---- none

static int run_on_host(char **argv, struct err *e)
{
    char name[NAME_BYTES];
    struct keep k;
    if (fchdir((int)options.dir_fd) < 0)
        return err_sys(e, errno, "enter the sandbox's directory"), EXIT_FAILED;
    if (host_dir_make(e) < 0 || keep_init(&k, (int)options.daemon_fd, e) < 0 ||
        wait_for_go(&k, name, e) < 0)
        return EXIT_FAILED;
    if (host_dir_start(&k, argv[0], e) < 0) {
        keep_end(e);
        return EXIT_FAILED;
    }
    k.relay = relay_new((int)options.vmnet_fd, HOST_DIR_ENVD);
    return run(&k, e);
}

// ---- bubblewrap

// Hold a lock on the template until this process ends: who removes a template takes the other kind
// of lock. The guest inherits no descriptor, so it cannot keep the lock.
static int hold_template(struct err *e)
{
    int fd auto_close = open(options.template, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    int held = fd < 0 ? -1 : fcntl(fd, F_DUPFD_CLOEXEC, NEST_FD_FILTER + 1);
    struct stat st;
    if (held < 0)
        return err_sys(e, errno, "open %s", options.template);
    if (flock(held, LOCK_SH | LOCK_NB) < 0 || fstat(held, &st) < 0 || st.st_nlink == 0)
        return err_set(e, ERR_UNAVAILABLE, "the template is being removed");
    return 0;
}

static int make_card(int *tap, bool is_in_users, struct err *e)
{
    if (options.frames_fd < 0)
        return card_make_none(!is_in_users, e);
    *tap = card_make(!is_in_users, e);
    return *tap < 0 ? -1 : 0;
}

static int make_filter(struct err *e)
{
    int fd auto_close = memfd_create("filter", MFD_CLOEXEC);
    if (fd < 0 || filter_write(fd, e) < 0 || lseek(fd, 0, SEEK_SET) < 0)
        return err_sys(e, errno, "make a filter of system calls");
    return dup2(fd, NEST_FD_FILTER) < 0 ? err_sys(e, errno, "keep a filter") : 0;
}

// Steps 1 to 5 of nest.h.
static int prepare(int *tap, struct err *e)
{
    const struct root_spec root = {
        .template = options.template, .tools = options.tools, .layer_mb = options.layer_mb};
    bool is_root = geteuid() == 0;
    if (hold_template(e) < 0 || (is_root && make_card(tap, false, e) < 0) || users_enter(e) < 0 ||
        (!is_root && make_card(tap, true, e) < 0))
        return -1;
    if (unshare(CLONE_NEWUTS) < 0)
        return err_sys(e, errno, "make a UTS namespace");
    return root_make(&root, e) < 0 || users_seal(e) < 0 ? -1 : make_filter(e);
}

static int run_in_bubblewrap(char **argv, struct err *e)
{
    struct carrier carrier;
    struct keep k;
    char name[NAME_BYTES];
    int tap = -1, netd = (int)options.frames_fd;
    if (prepare(&tap, e) < 0 || keep_init(&k, (int)options.daemon_fd, e) < 0 ||
        wait_for_go(&k, name, e) < 0)
        return EXIT_FAILED;
    if (sethostname(name, strlen(name)) < 0) // bwrap's own UTS namespace begins with this name
        return err_sys(e, errno, "name the guest"), EXIT_FAILED;
    if (keep_start(&k, argv, NULL, NEST_FD_FILTER, e) < 0)
        return EXIT_FAILED;
    close(NEST_FD_FILTER);
    if (tap < 0) {
        k.relay = relay_new((int)options.vmnet_fd, NULL);
        return run(&k, e);
    }
    if (fd_set_nonblock(netd, e) < 0)
        return EXIT_FAILED;
    carrier_init(&carrier, tap, netd);
    k.carrier = &carrier;
    return run(&k, e);
}

// ---- a mount

static int run_mount(char **argv, struct err *e)
{
    const struct mounting m = {.go = (int)options.go_fd,
                               .guest = (int)options.guest_fd,
                               .holder = (int)options.holder_fd,
                               .program = argv[0],
                               .port = options.port,
                               .target = options.target,
                               .user = options.user,
                               .read_only = argv[1] != NULL};
    if (mounting_run(&m, e) == 0)
        return 0;
    return e->code == ERR_UNAVAILABLE ? EX_TEMPFAIL : EXIT_FAILED;
}

// ---- a template's root

// debugfs makes the files in its current directory, as root of the guest's users.
static int unpack(char **argv, struct err *e)
{
    int image auto_close = open(options.image, O_RDONLY | O_CLOEXEC);
    if (image < 0 || chdir(options.dir) < 0)
        return err_sys(e, errno, "open %s", image < 0 ? options.image : options.dir), EXIT_FAILED;
    if (geteuid() == 0 && chown(".", NEST_USERS_FIRST, NEST_USERS_FIRST) < 0)
        return err_sys(e, errno, "change the owner of %s", options.dir), EXIT_FAILED;
    if (users_enter(e) < 0 || users_become_root(e) < 0 || fd_set_cloexec(image, false, e) < 0)
        return EXIT_FAILED;
    char *file auto_free = str_printf("/proc/self/fd/%d", image);
    execlp(argv[0], argv[0], "-R", "rdump / .", file, NULL);
    return err_sys(e, errno, "start %s", argv[0]), EXIT_FAILED;
}

static int remove_root(char **argv, struct err *e)
{
    (void)argv;
    bool is_root = geteuid() == 0; // of the host; root may remove any file
    if (!is_root && (users_enter(e) < 0 || users_become_root(e) < 0))
        return EXIT_FAILED;
    return dir_remove(options.dir, e) < 0 ? EXIT_FAILED : 0;
}

// ---- the command line

static const struct {
    const char *kind;
    int (*run)(char **argv, struct err *e);
    int operands; // at least
} KINDS[] = {{"bubblewrap", run_in_bubblewrap, 1},
             {"none", run_on_host, 1},
             {"mount", run_mount, 1},
             {"unpack", unpack, 1},
             {"remove", remove_root, 0}};

static int check_mount(int operands, struct err *e)
{
    if (operands > 0 && options.guest_fd >= 0 && options.holder_fd >= 0 && options.go_fd >= 0 &&
        options.target && options.user && options.port)
        return 0;
    return err_set(e, ERR_INVALID,
                   "mount takes --guest-fd, --holder-fd, --go-fd, --target, --user, --port, the "
                   "program mountfs, and ro for reading only");
}

static int check_options(size_t kind, int operands, struct err *e)
{
    if (kind == ARRAY_LEN(KINDS))
        return err_set(e, ERR_INVALID, "--kind must be bubblewrap, none, mount, unpack or remove");
    bool is_guest = kind < 2;
    if (KINDS[kind].run == run_mount)
        return check_mount(operands, e);
    if ((is_guest ? options.dir_fd < 0 || options.go_fd < 0 : !options.dir) ||
        operands < KINDS[kind].operands)
        return err_set(e, ERR_INVALID, "%s%s",
                       is_guest ? "--dir-fd and --go-fd are required" : "--dir is required",
                       KINDS[kind].operands ? ", and so is the program" : "");
    if (KINDS[kind].run == run_in_bubblewrap && (!options.template || !options.tools))
        return err_set(e, ERR_INVALID, "--template or --tools is missing");
    if (KINDS[kind].run == unpack && !options.image)
        return err_set(e, ERR_INVALID, "--image is missing");
    return 0;
}

static void print_help(void)
{
    puts("Usage: cubby-nest --kind KIND [options] -- PROGRAM [ARGUMENT...]\n"
         "Starts, serves and ends a guest of the tiers bubblewrap and none. cubbyd starts it.\n");
    opts_help(stdout, table, ARRAY_LEN(table));
}

int main(int argc, char **argv)
{
    struct err e = ERR_INIT;
    size_t kind = 0;
    if (opts_parse(table, ARRAY_LEN(table), &argc, argv, true, &e) < 0) {
        fprintf(stderr, NEST_SAYS "%s\n", e.msg);
        return 2;
    }
    if (options.help)
        print_help();
    if (options.version)
        puts(NEST_PROGRAM " " CUBBY_VERSION);
    if (options.help || options.version)
        return 0;
    while (kind < ARRAY_LEN(KINDS) && !str_eq(KINDS[kind].kind, options.kind))
        kind++;
    if (check_options(kind, argc - 1, &e) < 0) {
        fprintf(stderr, NEST_SAYS "%s\n", e.msg);
        return 2;
    }
    umask(022);
    int status = KINDS[kind].run(argv + 1, &e);
    if (err_is(&e))
        fprintf(stderr, NEST_SAYS "%s\n", e.msg);
    return status;
}
