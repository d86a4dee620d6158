// SPDX-License-Identifier: Apache-2.0
#include "sandbox-backend/web/page.h"

#include <string.h>

#include "sandbox-backend/base/mem.h"
#include "sandbox-backend/base/str.h"
#include "web_files.h"

#define INDEX "/index.html"

static const struct page_file {
    const char *path;
    const unsigned char *data; // gzip
    size_t len;
} FILES[] = {
#define ROW(path, data) {path, data, sizeof data},
    WEB_FILES(ROW)
#undef ROW
};

static const char *type_of(const char *path)
{
    static const struct {
        const char *ending, *type;
    } TYPES[] = {
        {".html", "text/html; charset=utf-8"},
        {".css", "text/css; charset=utf-8"},
        {".js", "text/javascript; charset=utf-8"},
        {".mjs", "text/javascript; charset=utf-8"},
        {".svg", "image/svg+xml"},
    };
    for (size_t i = 0; i < ARRAY_LEN(TYPES); i++)
        if (str_ends(path, TYPES[i].ending))
            return TYPES[i].type;
    return "text/plain; charset=utf-8";
}

static const struct page_file *find(const char *path)
{
    for (size_t i = 0; i < ARRAY_LEN(FILES); i++)
        if (str_eq(FILES[i].path, path))
            return &FILES[i];
    return NULL;
}

bool page_serve(struct http_request *req, const char *path)
{
    const struct page_file *file = find(str_eq(path, "/") ? INDEX : path);
    if (!file)
        return false;
    http_response_header(req, "Content-Encoding", "gzip");
    http_respond(req, 200, type_of(file->path), file->data, file->len);
    return true;
}

bool page_has_terminal(void)
{
    return find("/xterm/xterm.mjs") != NULL;
}
