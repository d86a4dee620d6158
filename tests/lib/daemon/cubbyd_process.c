// SPDX-License-Identifier: Apache-2.0
// The tests' daemon: cubbyd with the tests' drivers beside the shipped ones
// (process_driver/process_drivers.c).
#include <stdlib.h>
#include <string.h>

#include "sandbox-backend/daemon/daemon.h"
#include "sandbox-backend/host/meminfo.h"
#include "tests/lib/process_driver/process_driver.h"

int main(int argc, char **argv)
{
    if (argc == 4 && strcmp(argv[1], "--machine") == 0)
        return process_machine_main(argv[2], argv[3]);
    const char *meminfo = getenv("CUBBY_TEST_MEMINFO"); // a file that stands for /proc/meminfo
    const char *groups = getenv("CUBBY_TEST_GROUPS");   // a directory that stands for /proc/self
    meminfo_use(meminfo);
    if (meminfo || groups) // those of the machine that tests run on say nothing of that one
        group_memory_use(groups ? groups : "/dev/null");
    return daemon_main(argc, argv);
}
