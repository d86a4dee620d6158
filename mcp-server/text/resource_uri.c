// SPDX-License-Identifier: Apache-2.0
// URIs of files in sandboxes.
#include "mcp-server/text/resource_uri.h"

#include <stdbool.h>
#include <string.h>
#include <strings.h>

#include "sandbox-backend/base/buf.h"
#include "sandbox-backend/base/mem.h"
#include "sandbox-backend/base/str.h"

#define PREFIX       RESOURCE_URI_SCHEME "://"
#define ID_BYTES_MAX 64 // the client's limit

void resource_uri_fini(struct resource_uri *u)
{
    free(steal(&u->id));
    free(steal(&u->path));
}

static bool is_id_char(char c)
{
    return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') || c == '-';
}

// Check the part after the id. Bytes outside ASCII are accepted as they are, because people write
// them.
static int decode(const char *s, struct buf *out, struct err *e)
{
    for (; *s; s++) {
        unsigned char c = (unsigned char)*s;
        if (c == '?' || c == '#')
            return err_set(e, ERR_INVALID,
                           "the URI must have no query and no fragment: write %s in a name as %s",
                           c == '?' ? "?" : "#", c == '?' ? "%3F" : "%23");
        if (c < 0x20 || c == 0x7f)
            return err_set(e, ERR_INVALID, "the URI contains a control character");
        if (c == '%') {
            int byte = percent_byte(s, strnlen(s, 3));
            if (byte < 0)
                return err_set(e, ERR_INVALID, "%% in the URI must be followed by two hex digits");
            c = (unsigned char)byte;
            s += 2;
        }
        if (c == 0)
            return err_set(e, ERR_INVALID, "the path contains a NUL character");
        buf_addc(out, (char)c);
    }
    return 0;
}

// Append a segment to a path; ".." removes the last one (RFC 3986, 5.2.4).
static void add_segment(struct buf *out, const char *s, size_t len)
{
    if (len == 0 || (len == 1 && s[0] == '.'))
        return;
    if (len == 2 && s[0] == '.' && s[1] == '.') {
        while (out->len && out->data[--out->len] != '/')
            ;
        return;
    }
    buf_addc(out, '/');
    buf_add(out, s, len);
}

static char *normalised(const struct buf *path)
{
    struct buf out auto_buf = BUF_INIT;
    const char *s = buf_str(path);
    while (*s) {
        size_t len = strcspn(s, "/");
        add_segment(&out, s, len);
        s += len + (s[len] == '/');
    }
    return out.len ? xstrndup(out.data, out.len) : xstrdup("/");
}

static int parse_path(const char *s, char **out, struct err *e)
{
    struct buf path auto_buf = BUF_INIT;
    if (decode(s, &path, e) < 0)
        return -1;
    if (path.len > RESOURCE_PATH_MAX)
        return err_set(e, ERR_INVALID, "the path is longer than %d bytes", RESOURCE_PATH_MAX);
    if (!utf8_is_valid(buf_str(&path), path.len))
        return err_set(e, ERR_INVALID, "the path is not UTF-8");
    *out = normalised(&path);
    return 0;
}

int resource_uri_parse(const char *uri, struct resource_uri *out, struct err *e)
{
    *out = (struct resource_uri){0};
    if (strnlen(uri, RESOURCE_URI_BYTES_MAX + 1) > RESOURCE_URI_BYTES_MAX)
        return err_set(e, ERR_INVALID, "the URI is longer than %d bytes", RESOURCE_URI_BYTES_MAX);
    if (strncasecmp(uri, PREFIX, strlen(PREFIX)) != 0)
        return err_set(e, ERR_INVALID, "the URI must begin with " PREFIX);
    const char *id = uri + strlen(PREFIX);
    size_t len = 0;
    while (is_id_char(id[len]))
        len++;
    if (len == 0 || len > ID_BYTES_MAX || (id[len] && !strchr("/?#", id[len])))
        return err_set(e, ERR_INVALID, "after " PREFIX " a sandbox's id must follow, then a path");
    if (parse_path(id + len, &out->path, e) < 0)
        return -1;
    out->id = xstrndup(id, len);
    return 0;
}

char *resource_uri_of(const char *id, const char *path)
{
    struct buf out auto_buf = BUF_INIT;
    buf_printf(&out, PREFIX "%s", id);
    if (path[0] != '/')
        buf_addc(&out, '/');
    percent_encode(&out, path, true);
    return buf_take(&out);
}
