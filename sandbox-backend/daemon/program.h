// SPDX-License-Identifier: Apache-2.0
// The program cubbyd, but for the choice of its driver (main.c).
#pragma once
#include "sandbox-backend/drivers/driver.h"

#define PROGRAM_EXIT_FAILED  1
#define PROGRAM_EXIT_USAGE   2
#define PROGRAM_EXIT_RUNNING 3 // a daemon serves this home already

int program_run(int argc, char **argv, const struct driver *driver);
