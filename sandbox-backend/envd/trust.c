// SPDX-License-Identifier: Apache-2.0
// A certificate authority that this guest trusts beside those of its system.
//
// The bundle is changed, and not a copy of it named by variables only: what runs under sudo, as a
// service or with an environment of its own has no variables of ours. Where the bundle ends is
// marked by a comment, which readers of PEM skip.
#include "sandbox-backend/envd/trust.h"

#include <errno.h>
#include <string.h>
#include <unistd.h>

#include "sandbox-backend/base/buf.h"
#include "sandbox-backend/base/fd.h"
#include "sandbox-backend/base/mem.h"
#include "sandbox-backend/base/str.h"

#define BUNDLE_MAX_BYTES (4 << 20)
#define MARK             "# The authority of this sandbox (cubby); what follows is replaced.\n"
#define PEM_BEGIN        "-----BEGIN CERTIFICATE-----\n"
#define PEM_END          "-----END CERTIFICATE-----"

int trust_check(const char *pem, struct err *e)
{
    const char *begin = strstr(pem, PEM_BEGIN);
    if (strlen(pem) > TRUST_MAX_BYTES)
        return err_set(e, ERR_INVALID, "caBundle has more than %d bytes", TRUST_MAX_BYTES);
    if (!begin || !strstr(begin, PEM_END))
        return err_set(e, ERR_INVALID, "caBundle holds no certificate in PEM form");
    return 0;
}

static int write_file(const char *path, const char *text, size_t len, struct err *e)
{
    char *dir auto_free = xstrndup(path, (size_t)(strrchr(path, '/') - path));
    if (dir_make(dir, 0755, e) < 0)
        return -1;
    return file_replace(path, text, len, 0644, e);
}

static int change_bundle(const char *path, const char *pem, struct err *e)
{
    struct buf text auto_buf = BUF_INIT;
    if (file_exists(path) && file_read(path, BUNDLE_MAX_BYTES, &text, e) < 0)
        return -1;
    const char *mark = strstr(buf_str(&text), MARK);
    size_t own = mark ? (size_t)(mark - text.data) : text.len;
    if (!mark && !*pem)
        return 0;
    struct buf next auto_buf = BUF_INIT;
    buf_add(&next, text.data, own);
    if (*pem)
        buf_printf(&next, MARK "%s\n", pem);
    return write_file(path, next.data, next.len, e);
}

// OpenSSL reads one file and a directory of many by default; Debian has only the directory, whose
// files have names that would have to be computed.
static int point_default(const char *root, struct err *e)
{
    char *path auto_free = str_printf("%s" TRUST_DEFAULT, root);
    if (symlink(TRUST_BUNDLE, path) == 0 || errno == EEXIST || errno == ENOENT)
        return 0;
    return err_sys(e, errno, "link %s", path);
}

int trust_install(const char *root, const char *pem, struct err *e)
{
    char *bundle auto_free = str_printf("%s" TRUST_BUNDLE, root);
    char *own auto_free = str_printf("%s" TRUST_CERTIFICATE, root);
    if (change_bundle(bundle, pem, e) < 0)
        return -1;
    if (*pem)
        return write_file(own, pem, strlen(pem), e) < 0 ? -1 : point_default(root, e);
    if (unlink(own) < 0 && errno != ENOENT)
        return err_sys(e, errno, "remove %s", own);
    return 0;
}
