// SPDX-License-Identifier: Apache-2.0
// What PID 1 says on the console, and how it gives up.
#pragma once

// One line on the console, with "cubby-init: " in front.
void step_say(const char *fmt, ...) __attribute__((format(printf, 1, 2)));

// Says why, and ends the machine: a guest without its PID 1 is of no use, and the VMM's exit is
// what the host notices.
void step_fatal(const char *fmt, ...) __attribute__((noreturn, format(printf, 1, 2)));

// Writes what is on the disk and ends the machine (QEMU runs with -no-reboot).
void step_end_machine(void) __attribute__((noreturn));

// Writes a short text into a file of /proc, /sys or /etc. A file that is not there or does not
// take it is said on the console and no more: no setting is worth a machine.
void step_write(const char *path, const char *text);
