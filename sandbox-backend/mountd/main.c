// SPDX-License-Identifier: Apache-2.0
// cubby-mountd: serves one directory of the host to one guest, over one connection.
//
// cubbyd starts it in a jail in which this directory is the only one of the host (jail.h). It gives
// the program the directory, a connection to the guest's vm.net socket and the token of the mount
// as descriptors. The program ends with the connection. cubbyd starts another when the guest can be
// reached again, and the guest then continues (wire.h). Exit status: 0 the guest ended the
// connection; 2 usage; 3 nothing listens at the guest's port; 1 anything else, with one sentence.
#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "sandbox-backend/base/fd.h"
#include "sandbox-backend/base/mem.h"
#include "sandbox-backend/base/opts.h"
#include "sandbox-backend/base/str.h"
#include "sandbox-backend/base/version.h"
#include "sandbox-backend/mountd/session.h"

#define EXIT_USAGE  2
#define EXIT_ABSENT 3

static struct {
    int64_t conn_fd, dir_fd, token_fd, space_fd, port;
    bool read_only, end, help, version;
} options = {.conn_fd = 3, .dir_fd = 4, .token_fd = 5, .space_fd = -1, .port = MOUNT_PORT_FIRST};

#define NUMBER(word, field, what, least, text)                                                   \
    {                                                                                            \
        .name = (word), .type = OPT_INT, .value = &options.field, .arg = (what), .help = (text), \
        .min = (least), .max = UINT16_MAX,                                                       \
    }
static const struct opt table[] = {
    NUMBER("conn-fd", conn_fd, "FD", 0, "connection to the vm.net socket (default 3)"),
    NUMBER("dir-fd", dir_fd, "FD", 0, "the directory (default 4)"),
    NUMBER("token-fd", token_fd, "FD", 0, "file with the 32 bytes of the token (default 5)"),
    NUMBER("space-fd", space_fd, "FD", 0, "counts of the volume; none: a directory of the host"),
    NUMBER("port", port, "PORT", 0,
           "port of the guest's mountfs; 0: the connection leads there already"),
    {.name = "read-only",
     .type = OPT_FLAG,
     .value = &options.read_only,
     .help = "refuse every change of the directory"},
    {.name = "end",
     .type = OPT_FLAG,
     .value = &options.end,
     .help = "tell the guest to unmount, and exit"},
    {.name = "help", .type = OPT_FLAG, .value = &options.help, .help = "print this and exit"},
    {.name = "version", .type = OPT_FLAG, .value = &options.version, .help = "print the version"},
};

static int read_whole(int fd, void *to, size_t len, struct err *e)
{
    for (size_t have = 0; have < len;) {
        ssize_t n = read(fd, (char *)to + have, len - have);
        if (n < 0 && errno == EINTR)
            continue;
        if (n < 0)
            return err_sys(e, errno, "read from the guest");
        if (n == 0)
            return err_set(e, ERR_GONE, "the guest ended the connection");
        have += (size_t)n;
    }
    return 0;
}

// Ask vm.net for the port. Its answer is one line.
static int reach_port(int conn, struct err *e)
{
    char line[64];
    size_t len = 0;
    int n = snprintf(line, sizeof line, "CONNECT %d\n", (int)options.port);
    if (fd_write_all(conn, line, (size_t)n, e) < 0)
        return -1;
    do
        if (read_whole(conn, line + len, 1, e) < 0)
            return -1;
    while (line[len++] != '\n' && len < sizeof line);
    line[len - 1] = '\0';
    if (str_eq(line, "OK"))
        return 0;
    return err_set(e, str_eq(line, "ERR refused") ? ERR_REFUSED : ERR_UNAVAILABLE,
                   "port %d of the guest cannot be reached: %s", (int)options.port, line);
}

static int greet(int conn, struct err *e)
{
    struct mount_hello hello = {
        .magic = MOUNT_MAGIC, .version = MOUNT_VERSION, .flags = options.end ? MOUNT_HELLO_END : 0};
    struct mount_welcome welcome;
    if (read_whole((int)options.token_fd, hello.token, sizeof hello.token, e) < 0)
        return err_wrap(e, "read the token of the mount");
    if (fd_write_all(conn, &hello, sizeof hello, e) < 0 ||
        read_whole(conn, &welcome, sizeof welcome, e) < 0)
        return err_wrap(e, "greet the guest's mountfs");
    if (welcome.magic != MOUNT_MAGIC || welcome.version != MOUNT_VERSION)
        return err_set(e, ERR_INVALID,
                       "the guest's mountfs speaks another version of the protocol: unmount the "
                       "directory and mount it again");
    return 0;
}

// The guest ends the connection when it has unmounted.
static int wait_for_end(int conn, struct err *e)
{
    char more;
    struct err end = ERR_INIT;
    while (read_whole(conn, &more, 1, &end) == 0)
        continue;
    return end.code == ERR_GONE || end.sys == ECONNRESET ? 0 : err_set(e, end.code, "%s", end.msg);
}

static int serve(struct share *share, int conn, struct err *e)
{
    struct session session = {.share = share};
    struct space space = {.fd = -1};
    bool is_volume = options.space_fd >= 0;
    if (is_volume && space_open(&space, (int)options.space_fd, e) < 0)
        return -1;
    int result =
        share_init(share, (int)options.dir_fd, options.read_only, is_volume ? &space : NULL, e);
    if (result == 0)
        result = fd_write_all(STDOUT_FILENO, "ready\n", 6, e);
    result = result < 0 ? -1 : session_run(&session, conn, e);
    session_fini(&session);
    share_fini(share);
    space_fini(&space);
    return result;
}

static int run(struct err *e)
{
    struct share *share auto_free = xcalloc(1, sizeof *share);
    int conn = (int)options.conn_fd;
    int flags = fcntl(conn, F_GETFL);
    if (flags < 0 || fcntl(conn, F_SETFL, flags & ~O_NONBLOCK) < 0)
        return err_sys(e, errno, "use the connection");
    if ((options.port && reach_port(conn, e) < 0) || greet(conn, e) < 0)
        return -1;
    if (options.end)
        return wait_for_end(conn, e);
    return serve(share, conn, e);
}

int main(int argc, char **argv)
{
    struct err e = ERR_INIT;
    if (opts_parse(table, ARRAY_LEN(table), &argc, argv, false, &e) < 0) {
        fprintf(stderr, "cubby-mountd: %s\n", e.msg);
        return EXIT_USAGE;
    }
    if (options.help) {
        puts("Usage: cubby-mountd [options]\n"
             "Serves a directory to a guest. cubbyd starts it.\n");
        opts_help(stdout, table, ARRAY_LEN(table));
        return 0;
    }
    if (options.version) {
        puts("cubby-mountd " CUBBY_VERSION);
        return 0;
    }
    signal(SIGPIPE, SIG_IGN);
    signal(SIGXFSZ, SIG_IGN); // a file that would be too large is an error of its writer
    if (run(&e) == 0)
        return 0;
    fprintf(stderr, "cubby-mountd: %s\n", e.msg);
    return e.code == ERR_REFUSED ? EXIT_ABSENT : 1;
}
