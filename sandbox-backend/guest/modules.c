// SPDX-License-Identifier: Apache-2.0
// Load the guest kernel's modules that the initramfs carries.
#include "sandbox-backend/guest/modules.h"

#include <errno.h>
#include <fcntl.h>
#include <stdbool.h>
#include <stdio.h>
#include <string.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "sandbox-backend/guest/step.h"

#define LIST_BYTES_MAX   4096
#define NAME_BYTES_MAX   128
#define PARAMS_BYTES_MAX 2048

static bool same_name(const char *a, const char *b, size_t len)
{
    for (size_t i = 0; i < len; i++) {
        char x = a[i] == '-' ? '_' : a[i];
        char y = b[i] == '-' ? '_' : b[i];
        if (x != y || x == '\0')
            return false;
    }
    return b[len] == '\0';
}

void modules_params(const char *cmdline, const char *module, char *out, size_t size)
{
    size_t used = 0;
    out[0] = '\0';
    for (const char *at = cmdline; *at;) {
        at += strspn(at, " \t\n");
        size_t len = strcspn(at, " \t\n");
        const char *dot = memchr(at, '.', len);
        if (dot && same_name(at, module, (size_t)(dot - at))) {
            int n = snprintf(out + used, size - used, "%s%.*s", used ? " " : "",
                             (int)(at + len - dot - 1), dot + 1);
            if (n < 0 || used + (size_t)n >= size)
                return;
            used += (size_t)n;
        }
        at += len;
    }
}

static void load(const char *file, const char *cmdline)
{
    char path[sizeof(MODULES_DIR) + NAME_BYTES_MAX + 1];
    char params[PARAMS_BYTES_MAX];
    char name[NAME_BYTES_MAX];
    snprintf(path, sizeof(path), MODULES_DIR "/%s", file);
    snprintf(name, sizeof(name), "%s", file);
    name[strcspn(name, ".")] = '\0';
    modules_params(cmdline, name, params, sizeof(params));

    int fd = open(path, O_RDONLY | O_CLOEXEC);
    if (fd < 0 || (syscall(SYS_finit_module, fd, params, 0) < 0 && errno != EEXIST))
        step_say("module %s: %s", file, strerror(errno));
    if (fd >= 0)
        close(fd);
    unlink(path);
}

void modules_load(const char *cmdline)
{
    char list[LIST_BYTES_MAX];
    int fd = open(MODULES_LIST, O_RDONLY | O_CLOEXEC);
    if (fd < 0)
        return; // everything is built into the guest kernel
    ssize_t n = read(fd, list, sizeof(list) - 1);
    close(fd);
    list[n < 0 ? 0 : n] = '\0';
    char *rest = list;
    for (char *file; (file = strsep(&rest, "\n"));)
        if (*file && strlen(file) < NAME_BYTES_MAX)
            load(file, cmdline);
    unlink(MODULES_LIST);
    rmdir(MODULES_DIR);
}
