// SPDX-License-Identifier: Apache-2.0
// The names of a guest.
#include "sandbox-backend/envd/guest/names.h"

#include <ctype.h>
#include <errno.h>
#include <fcntl.h>
#include <stdbool.h>
#include <string.h>
#include <sys/mount.h>
#include <sys/stat.h>
#include <unistd.h>

#include "sandbox-backend/base/buf.h"
#include "sandbox-backend/base/fd.h"
#include "sandbox-backend/base/mem.h"
#include "sandbox-backend/base/str.h"
#include "sandbox-backend/log/log.h"

#define HOSTNAME_BYTES   64 // with its NUL (sethostname(2))
#define FILE_MAX_BYTES   (1 << 20)
#define OWN_ADDRESS      "127.0.1.1"
#define MACHINE_ID_BYTES 16

enum name_file { NAME_HOSTS, NAME_HOSTNAME, NAME_MACHINE_ID, NAME_BOOT_ID, NAME_FILES };

struct names {
    int fds[NAME_FILES]; // owned; -1: not open
};

static const struct {
    const char *path, *name;
    mode_t mode;
} FILES[NAME_FILES] = {
    [NAME_HOSTS] = {"/etc/hosts", "hosts", 0644},
    [NAME_HOSTNAME] = {"/etc/hostname", "hostname", 0644},
    [NAME_MACHINE_ID] = {"/etc/machine-id", "machine-id", 0644},
    [NAME_BOOT_ID] = {"/proc/sys/kernel/random/boot_id", "boot-id", 0444},
};

// ---- open the files

// True if an earlier envd has mounted the file already.
static bool is_same_file(const char *a, const char *b)
{
    struct stat x;
    struct stat y;
    return stat(a, &x) == 0 && stat(b, &y) == 0 && x.st_dev == y.st_dev && x.st_ino == y.st_ino;
}

static int mount_copy(const char *path, const char *quick, mode_t mode, struct err *e)
{
    struct buf text auto_buf = BUF_INIT;
    struct err missing = ERR_INIT;
    if (file_read(path, FILE_MAX_BYTES, &text, &missing) < 0) {
        int fd auto_close = open(path, O_WRONLY | O_CREAT | O_CLOEXEC, 0644);
        if (fd < 0)
            return err_sys(e, errno, "create %s", path);
    }
    if (file_replace(quick, buf_str(&text), text.len, mode, e) < 0)
        return -1;
    if (mount(quick, path, NULL, MS_BIND, NULL) < 0)
        return err_sys(e, errno, "mount %s on %s", quick, path);
    return 0;
}

static int open_one(const char *dir, enum name_file file, struct err *e)
{
    const char *path = FILES[file].path;
    char *quick auto_free = str_printf("%s/%s", dir, FILES[file].name);
    if (!is_same_file(path, quick) && mount_copy(path, quick, FILES[file].mode, e) < 0)
        return -1;
    int fd = open(path, O_RDWR | O_CLOEXEC);
    if (fd < 0)
        err_sys(e, errno, "open %s", path);
    return fd;
}

struct names *names_new(const char *dir)
{
    struct names *n = xmalloc(sizeof *n);
    for (int i = 0; i < NAME_FILES; i++) {
        struct err e = ERR_INIT;
        n->fds[i] = dir ? open_one(dir, (enum name_file)i, &e) : -1;
        if (err_is(&e))
            log_error("names.open", "%s", e.msg);
    }
    return n;
}

void names_free(struct names *n)
{
    for (int i = 0; n && i < NAME_FILES; i++)
        mem_close_fd(&n->fds[i]);
    free(n);
}

// ---- write them

static bool is_hostname(const char *s)
{
    size_t len = strlen(s);
    for (size_t i = 0; i < len; i++)
        if (!isalnum((unsigned char)s[i]) && s[i] != '-' && s[i] != '.')
            return false;
    return len > 0 && len < HOSTNAME_BYTES;
}

// Avoid ftruncate(2), which is slow in an emulated guest and seldom needed: most names have the
// same length.
static int overwrite(const struct names *n, enum name_file file, const char *text, size_t len,
                     struct err *e)
{
    int fd = n->fds[file];
    struct stat st;
    if (pwrite(fd, text, len, 0) != (ssize_t)len || fstat(fd, &st) < 0 ||
        (st.st_size > (off_t)len && ftruncate(fd, (off_t)len) < 0))
        return err_sys(e, errno, "write %s", FILES[file].path);
    return 0;
}

// Read all lines except the one of the guest's own address.
static void read_hosts(const struct names *n, struct buf *out)
{
    struct stat st;
    if (fstat(n->fds[NAME_HOSTS], &st) < 0 || st.st_size <= 0 || st.st_size > FILE_MAX_BYTES)
        return;
    char *text auto_free = xcalloc(1, (size_t)st.st_size + 1);
    if (pread(n->fds[NAME_HOSTS], text, (size_t)st.st_size, 0) < 0)
        return;
    for (const char *p = text; *p;) {
        size_t len = strcspn(p, "\n");
        len += p[len] == '\n';
        if (!str_starts(p, OWN_ADDRESS) || !strchr(" \t\n", p[strlen(OWN_ADDRESS)]))
            buf_add(out, p, len);
        p += len;
    }
    if (out->len && out->data[out->len - 1] != '\n')
        buf_addc(out, '\n');
}

int names_set(const struct names *n, const char *hostname, struct err *e)
{
    if (!is_hostname(hostname))
        return err_set(e, ERR_INVALID, "hostname must be 1 to %d letters, digits, '-' and '.'",
                       HOSTNAME_BYTES - 1);
    if (sethostname(hostname, strlen(hostname)) < 0)
        return err_sys(e, errno, "set the host name");
    char *hex auto_free = random_hex(MACHINE_ID_BYTES);
    struct buf hosts auto_buf = BUF_INIT;
    struct buf name auto_buf = BUF_INIT;
    struct buf id auto_buf = BUF_INIT;
    struct buf boot auto_buf = BUF_INIT;
    char *boot_id auto_free = random_uuid();
    buf_printf(&boot, "%s\n", boot_id); // as the kernel draws it
    read_hosts(n, &hosts);
    // sudo looks up the host's own name, and would ask the network if it were missing here.
    buf_printf(&hosts, OWN_ADDRESS " %s\n", hostname);
    buf_printf(&name, "%s\n", hostname);
    buf_printf(&id, "%s\n", hex);
    if (overwrite(n, NAME_HOSTS, hosts.data, hosts.len, e) < 0 ||
        overwrite(n, NAME_HOSTNAME, name.data, name.len, e) < 0 ||
        overwrite(n, NAME_MACHINE_ID, id.data, id.len, e) < 0 ||
        overwrite(n, NAME_BOOT_ID, boot.data, boot.len, e) < 0)
        return -1;
    return 0;
}
