// SPDX-License-Identifier: Apache-2.0
// The daemon with the test driver: whole but for QEMU.
#include <stdlib.h>
#include <string.h>

#include "sandbox-backend/base/group_memory.h"
#include "sandbox-backend/base/meminfo.h"
#include "sandbox-backend/daemon/program.h"
#include "tests/lib/process_driver.h"

int main(int argc, char **argv)
{
    if (argc == 4 && strcmp(argv[1], "--machine") == 0)
        return process_machine_main(argv[2], argv[3]);
    const char *meminfo = getenv("CUBBY_TEST_MEMINFO"); // a file that stands for /proc/meminfo
    const char *groups = getenv("CUBBY_TEST_GROUPS");   // a directory that stands for /proc/self
    meminfo_use(meminfo);
    if (meminfo || groups) // those of the machine that tests run on say nothing of that one
        group_memory_use(groups ? groups : "/dev/null");
    return program_run(argc, argv, &process_driver);
}
