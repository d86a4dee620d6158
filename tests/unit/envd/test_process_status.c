// SPDX-License-Identifier: Apache-2.0
// A wait status in words, and the guest's count of processes that ended because memory ran out.
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "sandbox-backend/base/mem.h"
#include "sandbox-backend/envd/process/process_internal.h"
#include "tests/lib/harness/tap.h"

#define EXITED(code) ((code) << 8)
#define DUMPED       0x80

static void test_words(void)
{
    static const struct {
        int status, code;
        bool out_of_memory;
        const char *words;
    } CASES[] = {
        {EXITED(0), 0, false, "exit status 0"},
        {EXITED(3), 3, false, "exit status 3"},
        {EXITED(137), 137, true, "exit status 137 (out of memory)"},
        {SIGKILL, -1, false, "signal: killed"},
        {SIGKILL, -1, true, "signal: killed (out of memory)"},
        {SIGSEGV | DUMPED, -1, false, "signal: segmentation fault (core dumped)"},
        {34, -1, false, "signal: signal 34"},
    };
    for (size_t i = 0; i < ARRAY_LEN(CASES); i++) {
        struct process_end end;
        process__describe(&end, CASES[i].status, CASES[i].out_of_memory);
        is_str(end.status, CASES[i].words, "number %zu", i);
        is_int(end.exit_code, CASES[i].code, "its code");
        is_int(end.failed, CASES[i].code != 0, "whether it failed");
    }
}

static void test_count(void)
{
    long long told = -1;
    char line[128];
    FILE *f = fopen("/proc/vmstat", "r");
    while (f && fgets(line, sizeof line, f))
        sscanf(line, "oom_kill %lld", &told);
    if (f)
        fclose(f);
    int fd = process__oom_open();
    ok(process__oom_kills(fd) >= (told < 0 ? 0 : told), "the count is the machine's");
    ok(fd < 0 || lseek(fd, 0, SEEK_CUR) == 0, "and can be read again");
    is_int((int)process__oom_kills(-1), 0, "none where none is told");
    if (fd >= 0)
        close(fd);
}

int main(void)
{
    test_words();
    test_count();
    return tap_done();
}
