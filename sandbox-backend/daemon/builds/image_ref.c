// SPDX-License-Identifier: Apache-2.0
// References to images in a registry, and the credentials for it.
#include "sandbox-backend/daemon/builds/image_ref.h"

#include <ctype.h>
#include <string.h>
#include <strings.h>

#include "sandbox-backend/base/json.h"
#include "sandbox-backend/base/mem.h"
#include "sandbox-backend/base/str.h"

#define LOWER        "abcdefghijklmnopqrstuvwxyz0123456789"
#define WORD         LOWER "ABCDEFGHIJKLMNOPQRSTUVWXYZ_"
#define SECRET_BYTES 65536 // longest password or service account

static int refuse(const char *reference, struct err *e)
{
    return err_set(e, ERR_INVALID,
                   "fromImage: \"%.120s\" is not a reference to an image in a registry, such as "
                   "python:3.12 or ghcr.io/owner/name:tag",
                   reference);
}

// Return the part before the first slash if it is a host: it has a dot or a port, or is
// "localhost". New string, or NULL.
static char *host_of(const char *reference)
{
    size_t len = strcspn(reference, "/");
    if (!reference[len])
        return NULL;
    char *host auto_free = xstrndup(reference, len);
    if (!strpbrk(host, ".:") && !str_eq(host, "localhost"))
        return NULL;
    return steal(&host);
}

static bool is_host(const char *host)
{
    const char *colon = strchr(host, ':');
    size_t name = colon ? (size_t)(colon - host) : strlen(host);
    int64_t port;
    return name && strspn(host, WORD ".-") == name && host[0] != '-' &&
           (!colon || str_to_int(colon + 1, 1, 65535, &port));
}

// A repository: components of lower-case letters and digits, which begin and end with one.
static bool is_repository(const char *text, size_t len)
{
    if (!len || strspn(text, LOWER "._-/") < len)
        return false;
    for (size_t i = 0; i < len; i++) {
        bool edge = i == 0 || i == len - 1 || text[i - 1] == '/' || text[i + 1] == '/';
        if (edge && text[i] != '/' && !strchr(LOWER, text[i]))
            return false;
        if (edge && text[i] == '/' && (i == 0 || i == len - 1 || text[i - 1] == '/'))
            return false;
    }
    return true;
}

// What follows the repository: "", ":tag", "@sha256:<hex>", or both.
static bool is_suffix(const char *text)
{
    if (*text == ':') {
        size_t len = strspn(text + 1, WORD ".-");
        if (!len || len > 128 || text[1] == '.' || text[1] == '-')
            return false;
        text += 1 + len;
    }
    if (str_starts(text, "@sha256:"))
        return strlen(text) == 8 + 64 && strspn(text + 8, "0123456789abcdef") == 64;
    return !*text;
}

char *image_ref_registry(const char *reference, struct err *e)
{
    char *host auto_free = host_of(reference);
    const char *path = host ? reference + strlen(host) + 1 : reference;
    size_t len = strcspn(path, ":@");
    if (strlen(reference) > IMAGE_REF_BYTES || (host && !is_host(host)) ||
        !is_repository(path, len) || !is_suffix(path + len)) {
        refuse(reference, e);
        return NULL;
    }
    for (char *c = host; c && *c; c++)
        *c = (char)tolower((unsigned char)*c);
    return host ? steal(&host) : xstrdup("docker.io");
}

bool image_ref_is_allowed(const char *list, const char *registry, bool *plain_http)
{
    static const char PLAIN[] = "http://";
    for (const char *at = list; at && *at;) {
        size_t len = strcspn(at, ",");
        bool plain = strncmp(at, PLAIN, strlen(PLAIN)) == 0;
        size_t skip = plain ? strlen(PLAIN) : 0;
        if (len - skip == strlen(registry) && strncasecmp(at + skip, registry, len - skip) == 0) {
            *plain_http = plain;
            return true;
        }
        at += len + (at[len] ? 1 : 0);
    }
    return false;
}

const char *image_ref_stands_for(const char *reference)
{
    static const char *const IMAGES[][2] = {{"e2bdev/base", "base"},
                                            {"e2bdev/code-interpreter", "code-interpreter-v1"}};
    for (size_t i = 0; i < ARRAY_LEN(IMAGES); i++) {
        size_t len = strlen(IMAGES[i][0]);
        if (strncmp(reference, IMAGES[i][0], len) == 0 && is_suffix(reference + len))
            return IMAGES[i][1];
    }
    return NULL;
}

static int get_secret(const json_t *from, const char *key, const char **out, struct err *e)
{
    if (json_get_string(from, key, out, NULL, e) < 0)
        return err_wrap(e, "fromImageRegistry");
    if (!*out || !**out || strlen(*out) > SECRET_BYTES)
        return err_set(e, ERR_INVALID, "fromImageRegistry.%s is missing, or too long", key);
    return 0;
}

static int read_credentials(const json_t *from, const char **user, const char **password,
                            struct err *e)
{
    const char *type = NULL;
    if (json_get_string(from, "type", &type, "", e) < 0)
        return err_wrap(e, "fromImageRegistry");
    if (str_eq(type, "gcp")) {
        *user = "_json_key";
        return get_secret(from, "serviceAccountJson", password, e);
    }
    if (str_eq(type, "aws"))
        return err_set(e, ERR_UNIMPLEMENTED,
                       "fromImageRegistry.type aws is not available here; log in with from_image, "
                       "the user name AWS and the password of `aws ecr get-login-password`");
    if (!str_eq(type, "registry"))
        return err_set(e, ERR_INVALID, "fromImageRegistry.type must be registry or gcp");
    if (get_secret(from, "username", user, e) < 0)
        return -1;
    if (strchr(*user, ':'))
        return err_set(e, ERR_INVALID, "fromImageRegistry.username has a colon");
    return get_secret(from, "password", password, e);
}

json_t *image_ref_authfile(const char *registry, const json_t *credentials, struct err *e)
{
    const char *user = NULL, *password = NULL;
    struct buf encoded auto_buf = BUF_INIT;
    if (!json_is_object(credentials)) {
        err_set(e, ERR_INVALID, "fromImageRegistry must be an object");
        return NULL;
    }
    if (read_credentials(credentials, &user, &password, e) < 0)
        return NULL;
    char *pair auto_free = str_printf("%s:%s", user, password);
    base64_encode(&encoded, pair, strlen(pair));
    return json_pack("{s:{s:{s:s}}}", "auths", registry, "auth", buf_str(&encoded));
}
