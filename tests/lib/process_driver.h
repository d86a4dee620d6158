// SPDX-License-Identifier: Apache-2.0
// A driver for tests of the daemon: a "machine" is one process of this same program that listens on
// vm.net as cubby-netd does, has a small envd of its own behind port 49983, and connects every
// other port to 127.0.0.1. Nothing is isolated. No shipped program contains it.
//
// A template is a directory with a template.json: cpus, memory_mb, disk_mb; and, to make a machine
// misbehave, "create": "fail", "second fails", "late" or "never" (it is not ready until it is given
// up), "restore": the same for a start from an image alone, "save": "fail" or "late", and "init":
// "refuse", "once" (refuses the second), "stop" (stands still before the first), "silent" or "die".
// With "guest": a program
// (tests/lib/process_guest.sh), the machine is what that makes, with the real envd in it.
//
// In a machine's directory a test finds policy.json and size.json (what it was made with) and
// "background" (yes or no). Its image is a copy of its memory and disk (process_machine.c).
#pragma once
#include "sandbox-backend/drivers/driver.h"

extern const struct driver process_driver;

// The machine's own program: `cubbyd-process --machine <dir> <init mode>`, listening on fd 3.
int process_machine_main(const char *dir, const char *init_mode);
