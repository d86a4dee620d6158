// SPDX-License-Identifier: Apache-2.0
// The Python kernel in the guest of an image.
//
// Steps: 1. the guest's python3 says its version, its platform, and which packages it lacks; 2. pip
// of the host fetches these as wheels (pip never runs code of a wheel); 3. the guest unpacks them
// into a directory of the kernel's own; 4. the kernel's sources get their place, where init finds
// them when it starts the kernel (setup_python).
//
// The guest of a build has no network. So the host's pip fetches, with the host's settings of
// indexes and proxies, which the guest must not learn.
#include "sandbox-backend/template/source/guest_python.h"

#include <ctype.h>
#include <dirent.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "sandbox-backend/base/buf.h"
#include "sandbox-backend/base/fd.h"
#include "sandbox-backend/base/mem.h"
#include "sandbox-backend/base/str.h"
#include "sandbox-backend/template/call.h"
#include "sandbox-backend/template/source/image_pull.h"

#define WHEELS          "wheels" // in the build directory
#define GUEST_KERNEL    "/usr/lib/cubby/kernel"
#define GUEST_PACKAGES  "/usr/lib/cubby/packages"
#define GUEST_VARIABLES "/usr/lib/cubby/environment"
#define STEP_MS         300000
#define FETCH_MS        (10 * 60 * 1000)
#define WHEEL_BYTES_MAX (128 << 20)
#define WHEELS_MAX      100
#define WORD_BYTES      32
#define PYTHON_MINOR    9 // the oldest that the kernel's sources run on

// What python3 of the guest said.
struct guest_says {
    int minor;
    char abi[WORD_BYTES];  // "cp312"
    char libc[WORD_BYTES]; // "glibc" or "musl"
    int libc_minor;
    char missing[WORD_BYTES]; // "ipython", "matplotlib", both with a comma, or "-"
};

static const char ASK[] =
    "import importlib.util as u, os, sys, platform\n"
    "lacks = [p for m, p in ((\"IPython\", \"ipython\"), (\"matplotlib\", \"matplotlib\"))"
    " if not u.find_spec(m)]\n"
    "if \"matplotlib\" not in lacks and not u.find_spec(\"matplotlib_inline\"):\n"
    "    lacks = lacks or [\"ipython\"]\n"
    "name, version = platform.libc_ver()\n"
    "musl = any(f.startswith(\"ld-musl\") for f in os.listdir(\"/lib\"))\n"
    "libc = \"musl\" if musl else \"glibc\"\n"
    "minor = 2 if musl else int((version or \"0.17\").split(\".\")[1])\n"
    "print(\"cubby\", sys.version_info[0], sys.version_info[1], libc, minor,"
    " \",\".join(lacks) or \"-\")\n";

static const char UNPACK[] = "import glob, os, shutil, zipfile\n"
                             "for path in sorted(glob.glob(\"" GUEST_WHEELS "/*.whl\")):\n"
                             "    zipfile.ZipFile(path).extractall(\"" GUEST_PACKAGES "\")\n"
                             "shutil.rmtree(\"" GUEST_WHEELS "\", ignore_errors=True)\n"
                             "for top, dirs, files in os.walk(\"" GUEST_PACKAGES "\"):\n"
                             "    os.chmod(top, 0o755)\n"
                             "    for f in files:\n"
                             "        os.chmod(os.path.join(top, f), 0o644)\n";

// The imports prove that the kernel will start. As root, they also leave compiled code, which the
// kernel's user could not.
static const char ENABLE[] = "import compileall, os, sys\n"
                             "sys.path.insert(0, \"/" IMAGE_PYTHON "\")\n"
                             "from cubby_kernel import server, warm, zygote\n"
                             "import importlib.util as u\n"
                             "if u.find_spec(\"matplotlib\"):\n"
                             "    import matplotlib.pyplot, matplotlib_inline.backend_inline\n"
                             "os.rename(\"/" IMAGE_PYTHON "\", \"" GUEST_KERNEL "\")\n"
                             "compileall.compile_dir(\"" GUEST_KERNEL "\", quiet=2)\n";

int guest_python_run(struct pump *p, const char *vmnet, const char *text, struct buf *out,
                     struct err *e)
{
    const char *args[] = {"-l", "-c", "exec python3 -c \"$0\"", text, NULL};
    const struct call_command command = {
        .user = "root", .cmd = "/bin/bash", .args = args, .timeout_ms = STEP_MS};
    return call_run(p, vmnet, &command, out, e);
}

// ---- 1. the guest's Python
static bool is_word(const char *text)
{
    for (; *text; text++)
        if (!isalnum((unsigned char)*text) && !strchr(",-", *text))
            return false;
    return true;
}

static int ask_guest(struct pump *p, const char *vmnet, struct guest_says *g, struct err *e)
{
    struct buf out auto_buf = BUF_INIT;
    int major = 0;
    struct err why = ERR_INIT;
    if (guest_python_run(p, vmnet, ASK, &out, &why) < 0)
        return err_set(e, why.code == ERR_CANCELED ? why.code : ERR_NOT_FOUND,
                       "the image has no python3");
    const char *line = strstr(buf_str(&out), "cubby ");
    if (!line ||
        sscanf(line, "cubby %d %d %31s %d %31s", &major, &g->minor, g->libc, &g->libc_minor,
               g->missing) != 5 ||
        !is_word(g->libc) || !is_word(g->missing))
        return err_set(e, ERR_INVALID, "the image's python3 gave no usable answer");
    if (major != 3 || g->minor < PYTHON_MINOR)
        return err_set(e, ERR_PRECONDITION,
                       "the image has Python %d.%d, but the Python kernel needs 3.%d", major,
                       g->minor, PYTHON_MINOR);
    snprintf(g->abi, sizeof g->abi, "cp3%d", g->minor);
    return 0;
}

// ---- 2. the wheels
// pip takes each platform tag by itself: wheels for an older libc run on a newer one.
#define PLATFORMS_MAX 12
struct platforms {
    char text[PLATFORMS_MAX][2 * WORD_BYTES];
    int count;
};

static void find_platforms(const struct guest_says *g, struct platforms *out)
{
    static const int GLIBC[] = {40, 39, 38, 36, 35, 34, 31, 28, 27, 24, 17};
    out->count = 0;
    if (str_eq(g->libc, "musl"))
        for (int minor = g->libc_minor; minor >= 1; minor--)
            snprintf(out->text[out->count++], sizeof out->text[0], "musllinux_1_%d_x86_64", minor);
    for (size_t i = 0; str_eq(g->libc, "glibc") && i < ARRAY_LEN(GLIBC); i++)
        if (GLIBC[i] <= g->libc_minor)
            snprintf(out->text[out->count++], sizeof out->text[0], "manylinux_2_%d_x86_64",
                     GLIBC[i]);
    if (str_eq(g->libc, "glibc"))
        snprintf(out->text[out->count++], sizeof out->text[0], "manylinux2014_x86_64");
}

static int fetch_wheels(const struct tool *tool, const struct guest_says *g, struct err *e)
{
    struct platforms platforms;
    const char *argv[20 + 2 * PLATFORMS_MAX] = {"python3",          "-m",   "pip",
                                                "download",         "-q",   "--only-binary=:all:",
                                                "--dest",           WHEELS, "--implementation=cp",
                                                "--python-version", NULL};
    char version[WORD_BYTES], abi[WORD_BYTES * 2];
    int n = 10;
    snprintf(version, sizeof version, "3.%d", g->minor);
    snprintf(abi, sizeof abi, "--abi=%s", g->abi);
    find_platforms(g, &platforms);
    argv[n++] = version;
    argv[n++] = abi;
    argv[n++] = "--abi=abi3";
    argv[n++] = "--abi=none";
    for (int i = 0; i < platforms.count; i++) {
        argv[n++] = "--platform";
        argv[n++] = platforms.text[i];
    }
    if (strstr(g->missing, "ipython"))
        argv[n++] = "ipython";
    if (strstr(g->missing, "matplotlib"))
        argv[n++] = "matplotlib";
    struct tool pip = *tool;
    pip.timeout_ms = FETCH_MS;
    pip.keeps_pip = true;
    return tool_run_like(&pip, argv, "python3-pip", e);
}

static int put_wheel(struct pump *p, const char *vmnet, const char *dir, const char *name,
                     struct err *e)
{
    struct buf bytes auto_buf = BUF_INIT;
    struct buf target auto_buf = BUF_INIT;
    char *path auto_free = str_printf("%s/%s", dir, name);
    buf_adds(&target, GUEST_WHEELS "/");
    percent_encode(&target, name, false);
    if (file_read(path, WHEEL_BYTES_MAX, &bytes, e) < 0)
        return -1;
    return call_put(p, vmnet, buf_str(&target), &bytes, e);
}

static int put_wheels(struct pump *p, const char *vmnet, const struct tool *tool, struct err *e)
{
    char *dir auto_free = str_printf("%s/" WHEELS, tool->cwd);
    DIR *d = opendir(dir);
    int result = 0, count = 0;
    for (const struct dirent *f; result == 0 && d && (f = readdir(d));)
        if (str_ends(f->d_name, ".whl") && ++count <= WHEELS_MAX)
            result = put_wheel(p, vmnet, dir, f->d_name, e);
    if (d)
        closedir(d);
    return result;
}

static int add_packages(struct pump *p, const char *vmnet, const struct tool *tool,
                        const struct guest_says *g, struct err *e)
{
    struct buf out auto_buf = BUF_INIT;
    char *dir auto_free = str_printf("%s/" WHEELS, tool->cwd);
    if (str_eq(g->missing, "-"))
        return 0;
    int result = fetch_wheels(tool, g, e);
    if (result < 0)
        err_wrap(e, "the image lacks %s, and pip of this host gave none", g->missing);
    if (result == 0 &&
        (put_wheels(p, vmnet, tool, e) < 0 || guest_python_run(p, vmnet, UNPACK, &out, e) < 0))
        result = -1;
    return dir_remove(dir, result == 0 ? e : NULL) < 0 ? -1 : result;
}

// ---- 3. the kernel
static int put_variables(struct pump *p, const char *vmnet, const json_t *variables, struct err *e)
{
    struct buf text auto_buf = BUF_INIT;
    const char *name;
    json_t *value;
    json_object_foreach ((json_t *)(uintptr_t)variables, name, value) {
        buf_printf(&text, "%s=%s", name, json_string_value(value));
        buf_addc(&text, '\0');
    }
    return text.len ? call_put(p, vmnet, GUEST_VARIABLES, &text, e) : 0;
}

int guest_python_install(struct pump *p, const char *vmnet, const json_t *variables,
                         const struct tool *tool, struct err *e)
{
    struct guest_says g = {0};
    struct buf out auto_buf = BUF_INIT;
    if (ask_guest(p, vmnet, &g, e) < 0 || add_packages(p, vmnet, tool, &g, e) < 0 ||
        put_variables(p, vmnet, variables, e) < 0)
        return -1;
    return guest_python_run(p, vmnet, ENABLE, &out, e) < 0 ? err_wrap(e, "the Python kernel") : 0;
}
