// SPDX-License-Identifier: Apache-2.0
#include "sandbox-backend/cli/ssh/ssh_keys.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

#include "sandbox-backend/base/fd.h"
#include "sandbox-backend/base/home.h"
#include "sandbox-backend/base/mem.h"
#include "sandbox-backend/base/str.h"
#include "sandbox-backend/drivers/host/tool.h"

#define KEY_BYTES_MAX 16384
#define KNOWN_HOSTS   "known_hosts"
#define USER_KEY      "id"
#define PRINCIPAL     "cubby" // whom the certificate of `id` names
#define AUTHORITY     "ca"
#define PACKAGE       "openssh-client"

char *ssh_keys_path(const char *home, const char *name)
{
    return str_printf("%s/" SSH_DIR "/%s", home, name);
}

static int keygen(const char *const *argv, struct err *e)
{
    struct buf said auto_buf = BUF_INIT;
    return tool_output(argv, PACKAGE, KEY_BYTES_MAX, &said, e);
}

static int make_key(const char *dir, const char *name, struct err *e)
{
    char *path auto_free = str_printf("%s/%s", dir, name);
    const char *argv[] = {"ssh-keygen", "-q",    "-t", "ed25519", "-N", "",
                          "-C",         "cubby", "-f", path,      NULL};
    return keygen(argv, e);
}

// ---- the keys of a home

static int write_known_hosts(const char *dir, struct err *e)
{
    struct buf line auto_buf = BUF_INIT;
    char *key auto_free = str_printf("%s/" AUTHORITY ".pub", dir);
    char *path auto_free = str_printf("%s/" KNOWN_HOSTS, dir);
    buf_adds(&line, "@cert-authority * ");
    if (file_read(key, KEY_BYTES_MAX, &line, e) < 0)
        return -1;
    return file_write_atomic(path, line.data, line.len, 0600, e);
}

static int sign_user_key(const char *dir, struct err *e)
{
    char *authority auto_free = str_printf("%s/" AUTHORITY, dir);
    char *key auto_free = str_printf("%s/" USER_KEY ".pub", dir);
    const char *argv[] = {"ssh-keygen", "-q", "-s",      authority, "-I",
                          "cubby",      "-n", PRINCIPAL, key,       NULL};
    return keygen(argv, e);
}

static int fill(const char *dir, struct err *e)
{
    if (make_key(dir, USER_KEY, e) < 0 || make_key(dir, AUTHORITY, e) < 0 ||
        sign_user_key(dir, e) < 0)
        return -1;
    return write_known_hosts(dir, e);
}

// The directory appears whole, by a rename. If another process was faster, its keys are the ones.
int ssh_keys_make(const char *home, struct err *e)
{
    char *dir auto_free = home_path(home, SSH_DIR);
    char *known auto_free = ssh_keys_path(home, KNOWN_HOSTS);
    char *staged auto_free = str_printf("%s/." SSH_DIR "-XXXXXX", home);
    if (file_exists(known))
        return 0;
    if (!mkdtemp(staged))
        return err_sys(e, errno, "make %s", staged);
    int result = fill(staged, e);
    if (result == 0 && rename(staged, dir) == 0)
        return 0;
    int why = errno;
    dir_remove(staged, NULL);
    if (result < 0 || file_exists(known))
        return result;
    return err_sys(e, why, "make %s (remove it if its files are of no use)", dir);
}

// ---- the keys of a connection

// For minutes only: a sandbox keeps the certificate of its connection.
static int sign(const char *home, const char *dir, const char *name, struct err *e)
{
    char *authority auto_free = ssh_keys_path(home, AUTHORITY);
    char *key auto_free = str_printf("%s/host.pub", dir);
    const char *argv[] = {"ssh-keygen", "-q", "-h", "-s",       authority, "-I", "cubby",
                          "-n",         name, "-V", "-5m:+10m", key,       NULL};
    return keygen(argv, e);
}

static int make_host_key(const char *home, const char *dir, const char *name,
                         struct ssh_server_keys *out, struct err *e)
{
    char *key auto_free = str_printf("%s/host", dir);
    char *certificate auto_free = str_printf("%s/host-cert.pub", dir);
    if (make_key(dir, "host", e) < 0 || sign(home, dir, name, e) < 0 ||
        file_read(key, KEY_BYTES_MAX, &out->host, e) < 0)
        return -1;
    return file_read(certificate, KEY_BYTES_MAX, &out->certificate, e);
}

int ssh_server_keys_make(const char *home, const char *name, struct ssh_server_keys *out,
                         struct err *e)
{
    char *authority auto_free = ssh_keys_path(home, AUTHORITY ".pub");
    char *dir auto_free = str_printf("%s/" SSH_DIR "/.XXXXXX", home);
    *out = (struct ssh_server_keys){0};
    if (!file_exists(authority))
        return err_set(e, ERR_PRECONDITION, "there is no %s: run cubby ssh-config first",
                       authority);
    buf_adds(&out->user, "cert-authority,principals=\"" PRINCIPAL "\" ");
    if (file_read(authority, KEY_BYTES_MAX, &out->user, e) < 0)
        return -1;
    if (!mkdtemp(dir))
        return err_sys(e, errno, "make %s", dir);
    int result = make_host_key(home, dir, name, out, e);
    dir_remove(dir, NULL);
    return result;
}

void ssh_server_keys_fini(struct ssh_server_keys *k)
{
    buf_fini(&k->host);
    buf_fini(&k->certificate);
    buf_fini(&k->user);
}
