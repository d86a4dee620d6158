// SPDX-License-Identifier: Apache-2.0
// cubby selftest: the facts about this host, the start of a bare QEMU, and the report as text.
#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <spawn.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/utsname.h>
#include <sys/wait.h>
#include <unistd.h>

#include "sandbox-backend/base/fd.h"
#include "sandbox-backend/base/home.h"
#include "sandbox-backend/base/mem.h"
#include "sandbox-backend/base/str.h"
#include "sandbox-backend/base/version.h"
#include "sandbox-backend/cli/cli.h"
#include "sandbox-backend/cli/selftest/selftest.h"
#include "sandbox-backend/drivers/host/arch.h"
#include "sandbox-backend/drivers/host/tool.h"
#include "sandbox-backend/host/meminfo.h"

#define FILE_BYTES_MAX (1 << 20)
#define ANSWER_MS      10000
#define BARE_STARTS    5

// ---- this host

// Return the text after "<key><blanks><between>" in a file of lines, up to the line's end. New
// string, or NULL.
static char *value_in(const char *path, const char *key, char between)
{
    struct buf text auto_buf = BUF_INIT;
    if (file_read(path, FILE_BYTES_MAX, &text, NULL) < 0)
        return NULL;
    const char *at = strstr(buf_str(&text), key);
    const char *end = at ? strchr(at, '\n') : NULL;
    const char *value = end ? memchr(at, between, (size_t)(end - at)) : NULL;
    if (!value)
        return NULL;
    value += 1 + strspn(value + 1, " \"");
    size_t len = (size_t)(end - value);
    while (len && strchr(" \"", value[len - 1]))
        len--;
    return xstrndup(value, len);
}

static char *qemu_program(void)
{
    const char *set = getenv("CUBBY_QEMU");
    return set && *set ? xstrdup(set) : tool_find(ARCH_QEMU, ARCH_QEMU_PACKAGE, NULL);
}

// "7.2.22 (Debian 1:7.2+dfsg-7+deb12u18)", or NULL. New string.
static char *qemu_version(void)
{
    static const char MARK[] = "version ";
    struct buf text auto_buf = BUF_INIT;
    char *program auto_free = qemu_program();
    const char *const argv[] = {program, "--version", NULL};
    if (!program || tool_output(argv, "qemu-system-x86", FILE_BYTES_MAX, &text, NULL) < 0)
        return NULL;
    const char *at = strstr(buf_str(&text), MARK);
    at = at ? at + sizeof MARK - 1 : buf_str(&text);
    return xstrndup(at, strcspn(at, "\n"));
}

json_t *report_host(void)
{
    struct utsname name;
    struct meminfo memory = {0};
    char *model auto_free = value_in("/proc/cpuinfo", "model name", ':');
    char *system auto_free = value_in("/etc/os-release", "PRETTY_NAME", '=');
    char *qemu auto_free = qemu_version();
    uname(&name);
    meminfo_read(&memory, NULL);
    return json_pack("{s:s, s:s?, s:i, s:I, s:s, s:s, s:s?, s:s?}", "cubby", CUBBY_VERSION,
                     "processor", model, "processors", (int)sysconf(_SC_NPROCESSORS_ONLN),
                     "memoryMB", (json_int_t)(memory.total >> 20), "architecture", name.machine,
                     "kernel", name.release, "system", system, "qemu", qemu);
}

// ---- a bare QEMU

// Run QEMU without a guest until its monitor greets on the other end of `monitor`.
static int start_bare(const char *program, const char *monitor, int listener)
{
    char *channel auto_free = str_printf("unix:%s", monitor);
    const char *const words[] = {
        program, "-M", ARCH_QEMU_MACHINE, "-S", "-nodefaults", "-display", "none", "-qmp", channel};
    char *argv[ARRAY_LEN(words) + 1] = {0}; // posix_spawn takes no constant strings
    for (size_t i = 0; i < ARRAY_LEN(words); i++)
        argv[i] = xstrdup(words[i]);
    char greeting[256] = "";
    pid_t pid = 0;
    posix_spawn_file_actions_t files;
    posix_spawn_file_actions_init(&files);
    posix_spawn_file_actions_addopen(&files, STDERR_FILENO, "/dev/null", O_WRONLY, 0);
    int failed = posix_spawn(&pid, program, &files, NULL, argv, environ);
    for (size_t i = 0; i < ARRAY_LEN(words); i++)
        free(argv[i]);
    posix_spawn_file_actions_destroy(&files);
    if (failed)
        return -1;
    struct pollfd wait = {.fd = listener, .events = POLLIN};
    int peer auto_close =
        poll(&wait, 1, ANSWER_MS) > 0 ? accept4(listener, NULL, NULL, SOCK_CLOEXEC) : -1;
    wait.fd = peer;
    bool greets = peer >= 0 && poll(&wait, 1, ANSWER_MS) > 0 &&
                  read(peer, greeting, sizeof greeting - 1) > 0 && strstr(greeting, "QMP");
    kill(pid, SIGKILL);
    waitpid(pid, NULL, 0);
    return greets ? 0 : -1;
}

double report_bare_qemu(struct selftest *t)
{
    char *program auto_free = qemu_program();
    char *path auto_free = home_path(t->home, "bare.qmp");
    int listener auto_close = program ? fd_listen_unix(path, NULL) : -1;
    for (int i = 0; listener >= 0 && i < BARE_STARTS; i++) {
        double began = selftest_ms();
        if (start_bare(program, path, listener) < 0)
            break;
        selftest_time(t, "bareQemuMs", selftest_ms() - began);
    }
    unlink(path);
    double median = selftest_median(t, "bareQemuMs");
    return median > 0 ? median : -1;
}

// ---- the text

static void print_host(const json_t *report)
{
    static const char *const ROWS[][2] = {{"cubby", "Cubby"},      {"processor", "processor"},
                                          {"kernel", "kernel"},    {"system", "system"},
                                          {"qemu", "QEMU"},        {"tier", "tier"},
                                          {"template", "template"}};
    for (size_t i = 0; i < ARRAY_LEN(ROWS); i++) {
        printf("%-10s ", ROWS[i][1]);
        cli_print_safe(stdout, cli_text(report, ROWS[i][0]));
        if (i == 1)
            printf(", %lld used by this system, %lld MB of memory",
                   (long long)json_integer_value(json_object_get(report, "processors")),
                   (long long)json_integer_value(json_object_get(report, "memoryMB")));
        putchar('\n');
    }
    putchar('\n');
}

void report_print(const json_t *report)
{
    struct table t;
    table_init(&t, 4);
    print_host(report);
    size_t i = 0;
    const json_t *step = NULL;
    const json_t *steps = json_object_get(report, "steps");
    json_array_foreach (steps, i, step) {
        char *ms auto_free = str_printf("%.0f ms", json_number_value(json_object_get(step, "ms")));
        table_cell(&t, cli_text(step, "result"));
        table_cell(&t, cli_text(step, "step"));
        table_cell(&t, ms);
        table_cell(&t, cli_text(step, "text"));
    }
    table_print(&t, stdout);
    table_fini(&t);
    double bare = json_number_value(json_object_get(report, "bareQemuMs"));
    double create = json_number_value(json_object_get(report, "createMs"));
    if (bare > 0 && create > 0)
        printf("\nbeside a bare QEMU, whose monitor answers after %.0f ms: %.1f times as long to "
               "a new sandbox's first output\n",
               bare, create / bare);
    printf("%s\n", json_is_true(json_object_get(report, "passed"))
                       ? "passed"
                       : "FAILED: see the lines above, and cubby doctor");
}
