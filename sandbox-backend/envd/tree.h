// SPDX-License-Identifier: Apache-2.0
// Killing a command's processes where there is no cgroup: its process group, its session, and all
// that descend from it, as /proc tells. What has left all three escapes.
#pragma once
#include <sys/types.h>

void tree_kill(pid_t leader); // with SIGKILL
