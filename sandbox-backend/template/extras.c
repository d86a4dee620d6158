// SPDX-License-Identifier: Apache-2.0
// The parts that a template gets beside its Debian packages.
//
// The programs run in the new system, with chroot, in the same namespaces as the maintainer scripts
// of Debian's packages: they are trusted like these. pip, npm and the script see copies of the
// host's pip.conf and .npmrc and of its certificates in /cubby-build, which the last hook removes.
// First the whole list is installed. If that fails, each package is tried alone, so that the report
// names the packages that cannot be installed.
#include "sandbox-backend/template/extras.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "sandbox-backend/base/fd.h"
#include "sandbox-backend/base/mem.h"
#include "sandbox-backend/base/str.h"

#define PLACE             "/cubby-build"
#define FILES_PLACE       "/usr/lib/cubby"
#define MISSING           "missing.txt"
#define MISSING_BYTES_MAX (64 * 1024)

// `new` runs a command in the new system, with the host's settings for pip and npm.
#define NEW                                                                                     \
    "new() { chroot \"$root\" env HOME=" PLACE " PATH=/usr/local/sbin:/usr/local/bin:/usr/sbin" \
    ":/usr/bin:/sbin:/bin LC_ALL=C.UTF-8 DEBIAN_FRONTEND=noninteractive $settings \"$@\"; }\n"  \
    "settings=\n"                                                                               \
    "[ ! -f \"$root" PLACE "/ca.crt\" ] || settings=\"PIP_CERT=" PLACE "/ca.crt "               \
    "SSL_CERT_FILE=" PLACE "/ca.crt NODE_EXTRA_CA_CERTS=" PLACE "/ca.crt "                      \
    "npm_config_cafile=" PLACE "/ca.crt\"\n"                                                    \
    "[ ! -f \"$root" PLACE "/pip.conf\" ] || settings=\"$settings PIP_CONFIG_FILE=" PLACE       \
    "/pip.conf\"\n"                                                                             \
    "[ ! -f \"$root" PLACE "/npmrc\" ] || settings=\"$settings npm_config_userconfig=" PLACE    \
    "/npmrc\"\n"

// `install` installs the words of a list by `one`: together, else one by one.
#define INSTALL                                                                                  \
    "set -f\ninstall() {\n"                                                                      \
    "    kind=$1\n"                                                                              \
    "    one $2 && return\n"                                                                     \
    "    echo \"cubby: $kind could not install all packages together; each is tried\" >&2\n"     \
    "    for word in $2; do one \"$word\" || echo \"$kind $word\" >> \"$root/cubby-out/" MISSING \
    "\"; done\n"                                                                                 \
    "}\n"

// Debian's pip is too old for long lists: it downloads each version that it considers.
//
// The versions that the list asks for hold for each package of it, also where a package is tried
// alone. pip cannot remove some of Debian's packages, such as sympy. Then it installs them once
// more, in a directory that goes before Debian's, and has nothing to remove in the next attempt.
static const char PIP[] =
    "set -eu\nroot=$1\nsaid=$root" PLACE "/said\n" NEW INSTALL "new python3 -m venv " PLACE
    "/venv\n"
    "new " PLACE "/venv/bin/python -m pip install -q --no-cache-dir --upgrade pip\n"
    "printf '%s\\n' \"$CUBBY_PIP\" | sed -n '/[<>=~!]/{/[/@]/!{s/\\[[^]]*\\]//;p}}' > \"$root" PLACE
    "/versions\"\n"
    "pip() { new " PLACE "/venv/bin/python -m pip --python /usr/bin/python3 install "
    "--no-cache-dir --break-system-packages --root-user-action=ignore --progress-bar=off "
    "--constraint " PLACE "/versions \"$@\" > \"$said\" 2>&1 && ended=0 || ended=1\n"
    "    cat \"$said\"\n    return $ended\n}\n"
    "one() {\n"
    "    tried=\n"
    "    until pip -- \"$@\"; do\n"
    "        stays=$(sed -n 's/.*Cannot uninstall \\([^ ]*\\) .*/\\1/p' \"$said\")\n"
    "        [ -n \"$stays\" ] && [ \"$stays\" != \"$tried\" ] || return 1\n"
    "        tried=$stays\n"
    "        pip --ignore-installed --no-deps -- $stays || return 1\n"
    "    done\n"
    "}\n"
    "install pip \"$CUBBY_PIP\"\n";

static const char NPM[] =
    "set -eu\nroot=$1\n" NEW INSTALL "one() { new npm install --global --cache " PLACE
    "/npm --no-audit --no-fund "
    "--no-update-notifier -- \"$@\"; }\n"
    "install npm \"$CUBBY_NPM\"\n";

static const char SCRIPT[] =
    "set -eu\nroot=$1\n" NEW "printf '%s' \"$CUBBY_SCRIPT\" > \"$root" PLACE "/script\"\n"
    "new /bin/bash -eu " PLACE "/script\n";

static const char BEGIN[] = "mkdir -m 0755 \"$1" PLACE "\"";
static const char END[] = "rm -rf \"$1" PLACE "\"";

// Upload the first of these files that exists.
static void upload(const char *const *paths, const char *name, void (*add)(void *ctx, char *hook),
                   void *ctx)
{
    for (; *paths; paths++) {
        if (**paths == '\0' || access(*paths, R_OK) < 0)
            continue;
        char *word auto_free = str_shell_word(*paths);
        add(ctx, str_printf("upload %s " PLACE "/%s", word, name));
        return;
    }
}

static const char *variable(const char *name)
{
    const char *value = getenv(name);
    return value ? value : "";
}

static void upload_settings(void (*add)(void *ctx, char *hook), void *ctx)
{
    const char *home = variable("HOME");
    char *config auto_free = str_printf("%s/.config/pip/pip.conf", home);
    char *old auto_free = str_printf("%s/.pip/pip.conf", home);
    char *npmrc auto_free = str_printf("%s/.npmrc", home);
    const char *const certificates[] = {variable("PIP_CERT"), variable("SSL_CERT_FILE"),
                                        "/etc/ssl/certs/ca-certificates.crt", "", NULL};
    const char *const pip[] = {variable("PIP_CONFIG_FILE"), config, old, "/etc/pip.conf", NULL};
    const char *const npm[] = {variable("NPM_CONFIG_USERCONFIG"), npmrc, NULL};
    upload(certificates, "ca.crt", add, ctx);
    upload(pip, "pip.conf", add, ctx);
    upload(npm, "npmrc", add, ctx);
}

static bool has(const char *list)
{
    return list && list[strspn(list, ", \t\n")] != '\0';
}

static void add_files(const char *dir, void (*add)(void *ctx, char *hook), void *ctx)
{
    const char *slash = strrchr(dir, '/');
    char *to auto_free = str_printf(FILES_PLACE "/%s", slash ? slash + 1 : dir);
    char *word auto_free = str_shell_word(dir);
    add(ctx, str_printf("mkdir -p \"$1%s\"", to));
    add(ctx, str_printf("sync-in %s %s", word, to));
    add(ctx, str_printf("chown -R 0:0 \"$1%s\"", to));
}

void extras_hooks(const struct template_extras *x, void (*add)(void *ctx, char *hook), void *ctx)
{
    if (!has(x->pip) && !has(x->npm) && !has(x->files) && !has(x->script))
        return;
    add(ctx, xstrdup(BEGIN));
    upload_settings(add, ctx);
    if (has(x->pip))
        add(ctx, xstrdup(PIP));
    if (has(x->npm))
        add(ctx, xstrdup(NPM));
    if (has(x->files))
        add_files(x->files, add, ctx);
    if (has(x->script))
        add(ctx, xstrdup(SCRIPT));
    add(ctx, xstrdup(END));
}

// Return the length of the first word. The extras of a requirement have commas too: "a[b,c]".
static size_t word_length(const char *list)
{
    size_t len = 0;
    for (bool inside = false; list[len] && !strchr(inside ? " \t\n" : ", \t\n", list[len]); len++)
        inside = list[len] == '[' || (inside && list[len] != ']');
    return len;
}

char *extras_lines(const char *list)
{
    struct buf out = BUF_INIT;
    while (list && *list) {
        size_t len = word_length(list);
        if (len) {
            buf_add(&out, list, len);
            buf_adds(&out, "\n");
        }
        list += len + strspn(list + len, ", \t\n");
    }
    return buf_take(&out);
}

int extras_environment(const struct template_extras *x, char **env, int count, int max)
{
    char *pip auto_free = extras_lines(x->pip);
    char *npm auto_free = extras_lines(x->npm);
    const char *const values[][2] = {
        {"CUBBY_PIP", pip}, {"CUBBY_NPM", npm}, {"CUBBY_SCRIPT", x->script}};
    for (size_t i = 0; i < ARRAY_LEN(values) && count < max; i++)
        if (values[i][1])
            env[count++] = str_printf("%s=%s", values[i][0], values[i][1]);
    return count;
}

int extras_check(const struct template_extras *x, const char *packages_dir, struct buf *missing,
                 struct err *e)
{
    char *path auto_free = str_printf("%s/" MISSING, packages_dir);
    struct buf text auto_buf = BUF_INIT;
    if (access(path, F_OK) < 0)
        return 0;
    if (file_read(path, MISSING_BYTES_MAX, &text, e) < 0)
        return -1;
    char *rest = text.data;
    for (char *line; rest && (line = strsep(&rest, "\n"));)
        if (*line)
            buf_printf(missing, "%s%s", missing->len ? ", " : "", line);
    if (x->tolerant)
        return 0;
    return err_set(e, ERR_INVALID, "these packages could not be installed: %s", buf_str(missing));
}
