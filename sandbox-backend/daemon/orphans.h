// SPDX-License-Identifier: Apache-2.0
// Processes of a sandbox that nobody has a record of.
#pragma once

// Kills (SIGKILL) every process of this user that runs a program of ours or a QEMU and has `dir`,
// or something below it, among its arguments or open files; waits up to two seconds for each until
// it is gone. Blocking; for the daemon's start. Returns how many there were.
int orphans_kill(const char *dir);
