// SPDX-License-Identifier: Apache-2.0
// The daemon as it is shipped.
#include "sandbox-backend/daemon/daemon.h"

int main(int argc, char **argv)
{
    return daemon_main(argc, argv);
}
