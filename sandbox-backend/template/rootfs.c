// SPDX-License-Identifier: Apache-2.0
// The guest's root file system and kernel, made from Debian packages by mmdebstrap.
//
// Packages come from the sources of the host's apt (mirrors, proxies), so that a build works on
// every host where `apt-get install` does. Parts of that configuration that may be secret or are
// useless elsewhere (proxies, passwords, file: and mirror: sources) do not stay in the guest.
//
// The guest kernel is not installed in the guest, because the disk would then carry 90 MB of
// modules and the tools that make an initramfs. The same apt run fetches its package, which is
// unpacked on the host.
#include "sandbox-backend/template/rootfs.h"

#include <dirent.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "sandbox-backend/base/fd.h"
#include "sandbox-backend/base/mem.h"
#include "sandbox-backend/base/str.h"
#include "sandbox-backend/drivers/host/tool.h"

#define SUITE_DEFAULT   "bookworm"
#define TEXT_BYTES_MAX  (256 * 1024)
#define ARGV_MAX        96
#define ENV_MAX         4
#define CACHE_BYTES_MAX (2LL * 1024 * 1024 * 1024)

// Packages beyond Debian's essential ones and apt.
#define PACKAGES                                                                                 \
    "bzip2,ca-certificates,curl,file,git,iproute2,iputils-ping,jq,less,mount,netbase,openssl,"   \
    "openssh-server,passwd,"                                                                     \
    "patch,procps,python-is-python3,python3,python3-pip,python3-pytest,python3-venv,rsync,sudo," \
    "tzdata,unzip,wget,xz-utils,zip"

// The packages that the Python kernel imports. The last three settle choices among alternatives:
// apt's own choices would bring SciPy, and with it a C++ compiler and Boost.
#define PYTHON_PACKAGES                                                                  \
    "fonts-dejavu-core,python3-ipython,python3-matplotlib,python3-numpy,python3-pandas," \
    "libblas3,liblapack3,python3-munkres"
#define PYTHON_PLACE "/usr/lib/cubby/kernel"

// The script that runs when all packages are installed, with the root file system as $1.
static const char CUSTOMIZE[] =
    "set -eu\n"
    "root=$1\n"
    // sshd, running as the user, gives terminals to the group tty; only some kernels do it first.
    "chroot \"$root\" useradd --create-home --uid 1000 --user-group --groups tty "
    "--shell /bin/bash user\n"
    "echo 'user ALL=(ALL:ALL) NOPASSWD: ALL' > \"$root/etc/sudoers.d/user\"\n"
    "chmod 0440 \"$root/etc/sudoers.d/user\"\n"
    // pip puts scripts into this directory. Debian's ~/.profile puts the directory on PATH if it
    // exists.
    "install -d -o 1000 -g 1000 \"$root/home/user/.local\" \"$root/home/user/.local/bin\"\n"
    // A sandbox is disposable, so pip may install beside Debian's packages (PEP 668).
    "printf '[global]\\nbreak-system-packages = true\\ndisable-pip-version-check = true\\n"
    "root-user-action = ignore\\n' > \"$root/etc/pip.conf\"\n"
    // In a mount, files have other owners and numbers than on the host. Without this, git in the
    // sandbox and git on the host would each read all files again after the other one.
    "printf '[core]\\n\\tcheckStat = minimal\\n' > \"$root/etc/gitconfig\"\n"
    // Every command runs in a login shell. Debian's profile starts a program (id) and reads the
    // file for interactive shells each time. This profile does neither. It sets UTF-8, because no
    // PAM session does.
    "cat > \"$root/etc/profile\" <<'EOF'\n"
    "if [ \"${EUID-1000}\" -eq 0 ]; then\n"
    "    PATH=/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin\n"
    "else\n"
    "    PATH=/usr/local/bin:/usr/bin:/bin:/usr/local/games:/usr/games\n"
    "fi\n"
    "export PATH\n"
    // Only this category needs UTF-8: LANG would load eleven more files at each command.
    "if [ -z \"${LANG-}${LC_ALL-}${LC_CTYPE-}\" ]; then export LC_CTYPE=C.UTF-8; fi\n"
    "if [ -n \"${PS1-}\" ] && [ -n \"${BASH_VERSION-}\" ]; then . /etc/bash.bashrc; fi\n"
    "for i in /etc/profile.d/*.sh; do if [ -r \"$i\" ]; then . \"$i\"; fi; done\n"
    "unset i\n"
    "EOF\n"
    "cat > \"$root/home/user/.profile\" <<'EOF'\n"
    "if [ -n \"${PS1-}\" ] && [ -n \"${BASH_VERSION-}\" ]; then . ~/.bashrc; fi\n"
    "PATH=\"$HOME/.local/bin:$PATH\"\n"
    "EOF\n"
    "echo LANG=C.UTF-8 > \"$root/etc/default/locale\"\n"
    // Sandboxes share no host keys: each connection of `cubby ssh-config` brings its own.
    "rm -f \"$root\"/etc/ssh/ssh_host_*\n"
    "mkdir \"$root/cubby-out\"\n"
    "chroot \"$root\" dpkg-query -W -f '${Package} ${Version}\\n' > "
    "\"$root/cubby-out/packages.txt\"\n"
    // envd makes the identities for each sandbox.
    ": > \"$root/etc/machine-id\"\n";

// Prepare the Python kernel: compile it, and make the list of fonts that matplotlib makes at its
// first start. Unicode's tables are removed, because only makers of fonts use them.
static const char PYTHON[] = "set -eu\n"
                             "chown -R 0:0 \"$1/usr/lib/cubby\"\n"
                             "rm -rf \"$1/usr/share/unicode\"\n"
                             "chroot \"$1\" python3 -m compileall -q " PYTHON_PLACE "\n"
                             "chroot --userspec=1000:1000 \"$1\" env HOME=/home/user python3 -c "
                             "'import matplotlib.pyplot'\n";

// Append the uploaded file to the sitecustomize.py of each Python, which Debian has for programs
// such as apport, and compile it: a user could not write its cache.
#define SITE_PLACE "/usr/lib/cubby/sitecustomize.py"
static const char SITE[] =
    "set -eu\n"
    "for dir in \"$1\"/etc/python3.*; do\n"
    "    version=${dir##*/}\n"
    "    { echo; cat \"$1" SITE_PLACE "\"; } >> \"$dir/sitecustomize.py\"\n"
    "    chroot \"$1\" python3 -m py_compile \"/usr/lib/$version/sitecustomize.py\"\n"
    "done\n"
    "rm \"$1" SITE_PLACE "\"\n";

// Fetch the kernel's package with the apt configuration of this run.
static const char FETCH_KERNEL[] =
    "set -eu\n"
    "export APT_CONFIG=\"$MMDEBSTRAP_APT_CONFIG\"\n"
    "cd \"$1/var/cache/apt/archives\"\n"
    "deb=$(apt-cache depends --important " KERNEL_PACKAGE
    " | sed -n 's/^ *Depends: \\(linux-image-[0-9][^ ]*\\)$/\\1/p' | head -n 1)\n"
    "apt-get download \"$deb\"\n"
    "cp -- \"$deb\"_*.deb \"$1/cubby-out/linux.deb\"\n";

// Keep only packages in the cache that can still be downloaded.
static const char CLEAN_CACHE[] = "APT_CONFIG=\"$MMDEBSTRAP_APT_CONFIG\" apt-get -y autoclean";

// The last hook, which runs when the host's mirrors are no longer needed. It removes the options
// that mmdebstrap was given and leaves behind, such as the host's proxies.
static const char FORGET_HOST[] =
    "set -eu\n"
    "rm -r \"$1/cubby-out\" \"$1/etc/apt/apt.conf.d/99mmdebstrap\"\n"
    "printf 'APT::Install-Recommends \"false\";\\nAcquire::Languages \"none\";\\n' "
    "> \"$1/etc/apt/apt.conf.d/90sandbox\"\n"
    "if [ -n \"$CUBBY_SOURCES\" ]; then printf '%s' \"$CUBBY_SOURCES\" > "
    "\"$1/etc/apt/sources.list\"; fi\n";

struct arguments {
    const char *argv[ARGV_MAX];
    char *owned[ARGV_MAX];
    int argc;
};

static void add(struct arguments *a, char *owned)
{
    if (a->argc == ARGV_MAX - 1)
        abort(); // a table of this file is longer than the array
    a->owned[a->argc] = owned;
    a->argv[a->argc++] = owned;
}

static void arguments_fini(struct arguments *a)
{
    for (int i = 0; i < a->argc; i++)
        free(a->owned[i]);
}

char *rootfs_os_release(const char *text, const char *key)
{
    char *copy auto_free = xstrdup(text);
    char *rest = copy;
    for (char *line; (line = strsep(&rest, "\n"));) {
        size_t len = strlen(key);
        if (strncmp(line, key, len) != 0 || line[len] != '=')
            continue;
        char *value = line + len + 1;
        size_t n = strlen(value);
        if (n >= 2 && (*value == '"' || *value == '\'') && value[n - 1] == *value)
            return xstrndup(value + 1, n - 2);
        return xstrdup(value);
    }
    return NULL;
}

// Return the host's release if the host runs Debian, because its mirrors then have that release.
static char *choose_suite(void)
{
    struct buf text auto_buf = BUF_INIT;
    if (file_read("/etc/os-release", TEXT_BYTES_MAX, &text, NULL) < 0)
        return xstrdup(SUITE_DEFAULT);
    char *id auto_free = rootfs_os_release(buf_str(&text), "ID");
    char *codename = rootfs_os_release(buf_str(&text), "VERSION_CODENAME");
    if (str_eq(id, "debian") && codename && *codename)
        return codename;
    free(codename);
    return xstrdup(SUITE_DEFAULT);
}

static bool is_of_debian(const char *suite, const char *keyring, const char *origin,
                         const char *codename)
{
    size_t n = strlen(codename);
    bool release = strncmp(suite, codename, n) == 0 &&
                   (str_eq(suite + n, "") || str_eq(suite + n, "-updates") ||
                    str_eq(suite + n, "-security") || str_eq(suite + n, "/updates"));
    // apt leaves a field that it does not know unchanged: "$(ORIGIN)".
    bool named = *origin && *origin != '$';
    bool signed_by = *keyring && *keyring != '$';
    return release && (!named || str_eq(origin, "Debian")) &&
           (!signed_by || strstr(keyring, "debian-archive"));
}

static bool guest_can_use(const char *uri)
{
    const char *host = strstr(uri, "://");
    if (!host || (!str_starts(uri, "http://") && !str_starts(uri, "https://")))
        return false;
    host += 3;
    return !memchr(host, '@', strcspn(host, "/"));
}

void rootfs_sources(struct buf *out, const char *targets, const char *codename, bool for_guest)
{
    char *copy auto_free = xstrdup(targets);
    char *rest = copy;
    for (char *line; (line = strsep(&rest, "\n"));) {
        char *uri = strsep(&line, "|");
        char *suite = strsep(&line, "|");
        char *component = strsep(&line, "|");
        char *keyring = strsep(&line, "|");
        char *origin = line;
        if (!origin || !is_of_debian(suite, keyring, origin, codename) ||
            (for_guest && !guest_can_use(uri)))
            continue;
        char *source auto_free = str_printf("deb %s %s %s\n", uri, suite, component);
        if (!strstr(buf_str(out), source))
            buf_adds(out, source);
    }
}

static void read_targets(struct buf *out)
{
    const char *argv[] = {"apt-get",
                          "indextargets",
                          "--format",
                          "$(REPO_URI)|$(RELEASE)|$(COMPONENT)|$(SIGNED_BY)|$(ORIGIN)",
                          "Created-By: Packages",
                          NULL};
    // Without an answer, mmdebstrap chooses a mirror itself.
    if (tool_output(argv, "apt", TEXT_BYTES_MAX, out, NULL) < 0)
        buf_clear(out);
}

// Add the host's proxies and similar options, from lines such as `Acquire::http::Proxy "..."` of
// apt-config's dump.
static void add_network_options(struct arguments *a)
{
    struct buf text auto_buf = BUF_INIT;
    const char *argv[] = {"apt-config", "dump", NULL};
    if (tool_output(argv, "apt", TEXT_BYTES_MAX, &text, NULL) < 0)
        return;
    char *rest = text.data;
    for (char *line; rest && (line = strsep(&rest, "\n"));) {
        bool wanted = str_starts(line, "Acquire::http::") || str_starts(line, "Acquire::https::");
        if (wanted && !str_ends(line, " \"\";") && a->argc < ARGV_MAX / 2) {
            line[strlen(line) - 1] = '\0'; // the ';', which mmdebstrap adds again
            add(a, str_printf("--aptopt=%s", line));
        }
    }
}

// These options stay in force in the guest: no documentation for people, and no waiting for the
// disk, because no file has to survive a crash.
static void add_dpkg_options(struct arguments *a)
{
    static const char *const OPTIONS[] = {
        "force-unsafe-io",
        "path-exclude=/usr/share/doc/*",
        "path-include=/usr/share/doc/*/copyright",
        "path-exclude=/usr/share/man/*",
        "path-exclude=/usr/share/info/*",
        "path-exclude=/usr/share/locale/*",
        "path-include=/usr/share/locale/locale.alias",
    };
    for (size_t i = 0; i < ARRAY_LEN(OPTIONS); i++)
        add(a, str_printf("--dpkgopt=%s", OPTIONS[i]));
}

// mmdebstrap splits hooks at blanks as a shell does.
static void add_cache(struct arguments *a, const char *cache_dir)
{
    char *dir auto_free = str_shell_word(cache_dir);
    add(a, xstrdup("--skip=download/empty"));
    add(a, xstrdup("--skip=essential/unlink"));
    add(a, xstrdup("--setup-hook=mkdir -p \"$1\"/var/cache/apt/archives"));
    add(a, str_printf("--setup-hook=sync-in %s /var/cache/apt/archives", dir));
    add(a, str_printf("--customize-hook=%s", CLEAN_CACHE));
    add(a, str_printf("--customize-hook=sync-out /var/cache/apt/archives %s", dir));
}

// Runs after CUSTOMIZE, which makes the user.
static void add_python(struct arguments *a, const char *sources)
{
    char *dir auto_free = str_shell_word(sources);
    add(a, xstrdup("--customize-hook=mkdir -p \"$1" PYTHON_PLACE "\""));
    add(a, str_printf("--customize-hook=sync-in %s " PYTHON_PLACE, dir));
    add(a, str_printf("--customize-hook=%s", PYTHON));
}

static void add_site(struct arguments *a, const char *file)
{
    char *word auto_free = str_shell_word(file);
    add(a, xstrdup("--customize-hook=mkdir -p \"$1/usr/lib/cubby\""));
    add(a, str_printf("--customize-hook=upload %s " SITE_PLACE, word));
    add(a, str_printf("--customize-hook=%s", SITE));
}

static void add_extra(void *ctx, char *hook)
{
    char *owned auto_free = hook;
    add(ctx, str_printf("--customize-hook=%s", owned));
}

static int64_t dir_bytes(const char *dir)
{
    DIR *d = opendir(dir);
    int64_t total = 0;
    struct stat st;
    for (struct dirent *f; d && (f = readdir(d));)
        if (fstatat(dirfd(d), f->d_name, &st, AT_SYMLINK_NOFOLLOW) == 0 && S_ISREG(st.st_mode))
            total += st.st_size;
    if (d)
        closedir(d);
    return total;
}

// Open the cache, and empty it if it is too large. autoclean does not find every file that apt no
// longer offers, so the cache would grow.
static int open_cache(const char *dir, struct err *e)
{
    if (dir_bytes(dir) > CACHE_BYTES_MAX && dir_remove(dir, e) < 0)
        return -1;
    return dir_make(dir, 0700, e);
}

static void compose(struct arguments *a, const struct rootfs_spec *spec, const char *suite,
                    const char *sources)
{
    char *out auto_free = str_printf("%s/%s", spec->build_dir, ROOTFS_OUT);
    char *out_quoted auto_free = str_shell_word(out);
    bool root = geteuid() == 0;
    add(a, xstrdup("mmdebstrap"));
    add_network_options(a);
    add(a, xstrdup(root ? "--mode=root" : "--mode=auto"));
    add(a, xstrdup("--variant=apt"));
    add(a, xstrdup("--aptopt=Acquire::Languages \"none\""));
    add_dpkg_options(a);
    add(a, str_printf("--include=%s%s%s%s", PACKAGES, spec->python ? "," PYTHON_PACKAGES : "",
                      spec->extra ? "," : "", spec->extra ? spec->extra : ""));
    add(a, str_printf("--customize-hook=%s", CUSTOMIZE));
    add_site(a, spec->site);
    extras_hooks(&spec->extras, add_extra, a);
    if (spec->python)
        add_python(a, spec->python);
    if (spec->kernel)
        add(a, str_printf("--customize-hook=%s", FETCH_KERNEL));
    add(a, str_printf("--customize-hook=sync-out /cubby-out %s", out_quoted));
    if (spec->cache_dir)
        add_cache(a, spec->cache_dir);
    add(a, str_printf("--customize-hook=%s", FORGET_HOST));
    add(a, xstrdup(suite));
    add(a, str_printf("%s/%s", spec->build_dir, root ? ROOTFS_DIR : ROOTFS_TAR));
    char *lines auto_free = xstrdup(sources);
    char *rest = lines;
    for (char *line; (line = strsep(&rest, "\n"));)
        if (*line && a->argc < ARGV_MAX - 2)
            add(a, xstrdup(line));
}

int rootfs_build(const struct rootfs_spec *spec, struct err *e)
{
    struct buf targets auto_buf = BUF_INIT;
    struct buf sources auto_buf = BUF_INIT;
    struct buf guest_sources auto_buf = BUF_INIT;
    char *suite auto_free = choose_suite();
    read_targets(&targets);
    rootfs_sources(&sources, buf_str(&targets), suite, false);
    rootfs_sources(&guest_sources, buf_str(&targets), suite, true);

    char *out auto_free = str_printf("%s/%s", spec->build_dir, ROOTFS_OUT);
    if ((spec->cache_dir && open_cache(spec->cache_dir, e) < 0) || dir_make(out, 0700, e) < 0)
        return -1;
    char *env[ENV_MAX + 1] = {str_printf("CUBBY_SOURCES=%s", buf_str(&guest_sources))};
    int env_count = extras_environment(&spec->extras, env, 1, ENV_MAX);
    struct arguments a = {0};
    compose(&a, spec, suite, buf_str(&sources));
    struct tool tool = spec->tool;
    tool.env = (const char *const *)env;
    tool.own_mounts = true;
    int result = tool_run_like(&tool, a.argv, "mmdebstrap", e);
    arguments_fini(&a);
    while (env_count > 0)
        free(env[--env_count]);
    return result;
}

int rootfs_unpack_tar(const struct tool *tool, struct err *e)
{
    const char *argv[] = {"sh", "-c",
                          "mkdir -m 755 " ROOTFS_DIR " && exec tar -C " ROOTFS_DIR
                          " -xpf " ROOTFS_TAR " " ROOTFS_TAR_OPTIONS,
                          NULL};
    return geteuid() == 0 ? tool_run_like(tool, argv, "tar", e) : 0;
}

// Return the name of the one directory in lib/modules, which is the release. New string.
static char *find_release(const char *kernel_dir, struct err *e)
{
    char *path auto_free = str_printf("%s/lib/modules", kernel_dir);
    char *name = NULL;
    DIR *dir = opendir(path);
    for (struct dirent *d; dir && !name && (d = readdir(dir));)
        if (d->d_name[0] != '.')
            name = xstrdup(d->d_name);
    if (dir)
        closedir(dir);
    if (!name)
        err_set(e, ERR_INTERNAL, "the guest kernel's package has no lib/modules");
    return name;
}

int rootfs_unpack_kernel(const struct rootfs_spec *spec, char **release, struct err *e)
{
    char *deb auto_free = str_printf("%s/%s/linux.deb", spec->build_dir, ROOTFS_OUT);
    char *dir auto_free = str_printf("%s/%s", spec->build_dir, ROOTFS_KERNEL);
    const char *argv[] = {"dpkg-deb", "-x", deb, dir, NULL};
    if (tool_run_like(&spec->tool, argv, "dpkg", e) < 0)
        return -1;
    *release = find_release(dir, e);
    return *release ? 0 : -1;
}
