// SPDX-License-Identifier: Apache-2.0
// The daemon as it is shipped: its sandboxes are microVMs.
#include "sandbox-backend/daemon/program.h"

int main(int argc, char **argv)
{
    return program_run(argc, argv, &microvm_driver);
}
