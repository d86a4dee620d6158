// SPDX-License-Identifier: Apache-2.0
// Messages of init on the console, and the end of the machine.
#pragma once

// Write one line on the console, after "cubby-init: ".
void step_say(const char *fmt, ...) __attribute__((format(printf, 1, 2)));

// Report a fatal error and end the machine: a guest without init is useless, and the host notices
// the VMM's exit.
void step_fatal(const char *fmt, ...) __attribute__((noreturn, format(printf, 1, 2)));

// Sync the disk and end the machine (QEMU runs with -no-reboot).
void step_end_machine(void) __attribute__((noreturn));

// Write a short text into a file of /proc, /sys or /etc. A failure is only reported on the console,
// because a machine without the setting is better than none.
void step_write(const char *path, const char *text);
