// SPDX-License-Identifier: Apache-2.0
// Free memory, from /proc/meminfo.
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "sandbox-backend/base/fd.h"
#include "sandbox-backend/host/meminfo.h"
#include "tests/lib/harness/tap.h"

static void test_parse(void)
{
    struct meminfo m;
    struct err e = ERR_INIT;
    is_int(meminfo_parse("MemTotal:       24689764 kB\nMemFree:         8650588 kB\n"
                         "MemAvailable:   17870052 kB\nSwapFree: 99 kB\n",
                         &m, &e),
           0, "a file as the kernel makes it");
    is_int(m.total, 24689764LL << 10, "all of it, in bytes");
    is_int(m.available, 17870052LL << 10, "the available, which is not MemFree");
}

static void refuse(const char *text, const char *message, const char *what)
{
    struct meminfo m = {.total = 1, .available = 1};
    struct err e = ERR_INIT;
    is_int(meminfo_parse(text, &m, &e), -1, "%s", what);
    is_str(e.msg, message, "%s: the reason", what);
    ok(m.total == 0 && m.available == 0, "%s: and nothing is told", what);
}

static void test_refused(void)
{
    refuse("MemTotal: 5 kB\nMemFree: 5 kB\n", "/proc/meminfo has no line MemAvailable in kB",
           "a kernel that does not say what is available");
    refuse("", "/proc/meminfo has no line MemTotal in kB", "an empty file");
    refuse("MemTotal: 5\nMemAvailable: 6 kB\n", "/proc/meminfo has no line MemTotal in kB",
           "another unit");
    refuse("MemTotal: 5 kB\nMemAvailable: -6 kB\n", "/proc/meminfo has no line MemAvailable in kB",
           "a negative one");
    refuse("MemTotal: 5 kB\nMemAvailable: 99999999999999999 kB\n",
           "/proc/meminfo has no line MemAvailable in kB", "one that bytes do not hold");
    refuse("XMemTotal: 5 kB\nMemTotals: 5 kB\n", "/proc/meminfo has no line MemTotal in kB",
           "names like it");
}

static void test_file(void)
{
    struct meminfo m;
    struct err e = ERR_INIT;
    char path[] = "/tmp/test-meminfo-XXXXXX";
    is_int(meminfo_read(&m, &e), 0, "this machine's");
    ok(m.total > 0 && m.available > 0 && m.available <= m.total, "which has some");
    int fd = mkstemp(path);
    ok(fd >= 0 && fd_write_all(fd, "MemTotal: 8 kB\nMemAvailable: 4 kB\n", 34, &e) == 0,
       "another file");
    close(fd);
    meminfo_use(path);
    is_int(meminfo_read(&m, &e), 0, "is read in its place");
    is_int(m.available, 4096, "and says what it says");
    unlink(path);
    is_int(meminfo_read(&m, &e), -1, "one that is not there is an error");
    ok(strstr(e.msg, path) != NULL, "that names it");
    meminfo_use(NULL);
    is_int(meminfo_read(&m, NULL), 0, "and back");
}

int main(void)
{
    test_parse();
    test_refused();
    test_file();
    return tap_done();
}
