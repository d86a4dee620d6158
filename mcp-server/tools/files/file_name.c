// SPDX-License-Identifier: Apache-2.0
// The name of a downloaded file.
#include "mcp-server/tools/files/file_name.h"

#include <stdbool.h>
#include <string.h>
#include <strings.h>

#include "sandbox-backend/base/buf.h"
#include "sandbox-backend/base/mem.h"
#include "sandbox-backend/base/str.h"
#include "sandbox-backend/base/visible.h"

#define NAME_BYTES_MAX 200

// Keep the last component, without characters that could confuse a shell or a terminal.
static char *tidy(const char *s, size_t len)
{
    struct buf clean auto_buf = BUF_INIT;
    utf8_sanitize(&clean, s, len);
    const char *name = buf_str(&clean);
    for (const char *p = name; *p; p++)
        if (*p == '/' || *p == '\\')
            name = p + 1;
    struct buf out = BUF_INIT;
    for (size_t n; *name && out.len < NAME_BYTES_MAX; name += n ? n : 1) {
        n = visible_length(name, strlen(name));
        buf_add(&out, name, n);
    }
    out.len = utf8_valid_prefix(buf_str(&out), out.len);
    if (out.len == 0 || str_eq(out.data, ".") || str_eq(out.data, "..")) {
        buf_fini(&out);
        return NULL;
    }
    char *name_out = buf_take(&out);
    name_out[utf8_valid_prefix(name_out, strlen(name_out))] = '\0';
    return name_out;
}

// Return the value of a parameter of the header, a token or a quoted string, unescaped: a new
// string, or NULL.
static char *parameter(const char *header, const char *name)
{
    size_t len = strlen(name);
    bool quoted = false;
    for (const char *p = header; *p; p++) {
        if (*p == '\\' && quoted && p[1])
            p++;
        else if (*p == '"')
            quoted = !quoted;
        if (*p != ';' || quoted)
            continue;
        const char *at = p + 1 + strspn(p + 1, " \t");
        if (strncasecmp(at, name, len) != 0)
            continue;
        at += len + strspn(at + len, " \t");
        if (*at++ != '=')
            continue;
        at += strspn(at, " \t");
        struct buf out = BUF_INIT;
        if (*at == '"') {
            for (at++; *at && *at != '"'; at++)
                buf_addc(&out, *at == '\\' && at[1] ? *++at : *at);
        } else {
            buf_add(&out, at, strcspn(at, "; \t"));
        }
        return buf_take(&out);
    }
    return NULL;
}

static char *from_disposition(const char *header)
{
    char *extended auto_free = parameter(header, "filename*"); // UTF-8'en'name%20x (RFC 8187)
    const char *quote = extended ? strchr(extended, '\'') : NULL;
    quote = quote ? strchr(quote + 1, '\'') : NULL;
    if (quote && strncasecmp(extended, "utf-8'", 6) == 0) {
        size_t len;
        char *decoded auto_free = percent_decode(quote + 1, strlen(quote + 1), false, &len);
        char *name = tidy(decoded, len);
        if (name)
            return name;
    }
    char *plain auto_free = parameter(header, "filename");
    return plain ? tidy(plain, strlen(plain)) : NULL;
}

static char *from_url(const char *url)
{
    const char *path = strstr(url, "://");
    path = path ? strpbrk(path + 3, "/?#") : NULL;
    if (!path || *path != '/')
        return NULL;
    size_t len = strcspn(path, "?#");
    const char *last = path;
    for (const char *p = path; p < path + len; p++)
        if (*p == '/')
            last = p + 1;
    size_t decoded_len;
    char *decoded auto_free =
        percent_decode(last, (size_t)(path + len - last), false, &decoded_len);
    return tidy(decoded, decoded_len);
}

char *file_name_of(const char *disposition, const char *url)
{
    char *name = disposition ? from_disposition(disposition) : NULL;
    if (!name)
        name = from_url(url);
    return name ? name : xstrdup("downloaded_file");
}
