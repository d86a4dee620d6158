// SPDX-License-Identifier: Apache-2.0
// A driver for tests of the daemon. Its machine is one process of this same program. The process
// listens on vm.net as cubby-netd does, has a small envd of its own behind port 49983, and connects
// every other port to 127.0.0.1. Nothing is isolated. No shipped program contains this driver.
//
// A template is a directory with a template.json. Its members are "driver": "process" (or "plain"),
// cpus, memory_mb and disk_mb. These members make a machine misbehave:
// - "create": "fail", "second fails", "late", "held", "never" (not ready until it is abandoned), or
//   "spare" (it is made of a spare, which ends before it answers /init; without one it is as usual)
// - "restore": the same, for a start from an image only
// - "save": "fail", "late" or "held"
// - "resume": "held"
// "late" is one second later. "held" lasts until the template no longer says so: what a test does
// meanwhile is done in time on a busy host, too.
// - "init": "refuse", "once" (refuses the second), "stop" (the machine stops before the first
//   answer), "silent" or "die"
// - "note": a text that the driver reports to the sandbox's log when the machine is ready
// "guest" names a program (tests/lib/process_driver/process_guest.sh) that makes the machine, with
// the real envd in it.
//
// In a machine's directory a test finds policy.json and size.json (what it was made with) and
// "background" (yes or no). Its image is a copy of its memory and disk (process_machine.c).
#pragma once
#include "sandbox-backend/drivers/driver.h"

extern const struct driver process_driver;
// The same machines, with a driver that can only run them, so that the daemon must not promise
// more.
extern const struct driver plain_driver;

// Run as the machine's own program: `<this program> --machine <dir> <init mode>`, listening on fd
// 3.
int process_machine_main(const char *dir, const char *init_mode);
