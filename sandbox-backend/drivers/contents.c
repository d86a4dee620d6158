// SPDX-License-Identifier: Apache-2.0
// The contents of a template, read from its packages.txt: "<package> <version>" in each line.
#include <string.h>

#include "sandbox-backend/base/buf.h"
#include "sandbox-backend/base/fd.h"
#include "sandbox-backend/base/mem.h"
#include "sandbox-backend/base/str.h"
#include "sandbox-backend/drivers/driver.h"

#define LIST_BYTES_MAX ((size_t)4 << 20)

struct known {
    const char *package, *shown;
};

static const struct known TOOLS[] = {
    {"bash", "bash"},       {"curl", "curl"},
    {"git", "git"},         {"gcc", "gcc"},
    {"g++", "g++"},         {"make", "make"},
    {"cmake", "cmake"},     {"nodejs", "Node.js"},
    {"npm", "npm"},         {"golang-go", "Go"},
    {"rustc", "Rust"},      {"default-jdk-headless", "Java"},
    {"ripgrep", "ripgrep"}, {"jq", "jq"},
    {"sqlite3", "SQLite"},  {"ffmpeg", "ffmpeg"},
    {"vim", "vim"},         {"nano", "nano"},
    {"tmux", "tmux"},       {"openssh-client", "ssh"},
};

static const struct known MODULES[] = {
    {"python3-pip", "pip"},
    {"python3-ipython", "IPython"},
    {"python3-numpy", "numpy"},
    {"python3-pandas", "pandas"},
    {"python3-matplotlib", "matplotlib"},
    {"python3-scipy", "scipy"},
    {"python3-sklearn", "scikit-learn"},
    {"python3-sympy", "sympy"},
    {"python3-pytest", "pytest"},
    {"python3-requests", "requests"},
    {"python3-bs4", "bs4"},
    {"python3-lxml", "lxml"},
    {"python3-openpyxl", "openpyxl"},
    {"python3-yaml", "yaml"},
    {"python3-pil", "pillow"},
    {"python3-flask", "flask"},
};

// Return whether a line of the list begins with the package and a space.
static bool has(const char *list, const char *package)
{
    size_t len = strlen(package);
    for (const char *line = list; line; line = strchr(line, '\n')) {
        line += *line == '\n';
        if (strncmp(line, package, len) == 0 && line[len] == ' ')
            return true;
    }
    return false;
}

static void add_known(struct buf *out, const char *list, const struct known *all, size_t count)
{
    const char *comma = "";
    for (size_t i = 0; i < count; i++) {
        if (!has(list, all[i].package))
            continue;
        buf_printf(out, "%s%s", comma, all[i].shown);
        comma = ", ";
    }
}

char *driver_contents(const char *template_dir)
{
    struct buf list auto_buf = BUF_INIT;
    struct buf modules auto_buf = BUF_INIT;
    struct buf out = BUF_INIT;
    struct err e = ERR_INIT;
    char *path auto_free = str_printf("%s/packages.txt", template_dir);
    if (file_read(path, LIST_BYTES_MAX, &list, &e) < 0)
        return NULL;
    add_known(&out, buf_str(&list), TOOLS, ARRAY_LEN(TOOLS));
    add_known(&modules, buf_str(&list), MODULES, ARRAY_LEN(MODULES));
    if (has(buf_str(&list), "python3"))
        buf_printf(&out, "%sPython 3", out.len ? ", " : "");
    if (modules.len)
        buf_printf(&out, " (%s)", buf_str(&modules));
    return buf_take(&out);
}
