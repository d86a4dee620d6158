// SPDX-License-Identifier: Apache-2.0
// What the checks of `cubby doctor` share.
#pragma once
#include <stdbool.h>

#define FINDINGS_MAX 48

enum finding_level {
    FINDING_OK,
    FINDING_NOTE,    // it works, but could work better
    FINDING_MISSING, // sandboxes do not work without it
};

struct finding {
    const char *name; // literal
    enum finding_level level;
    char *text;   // owned; what was found
    char *remedy; // owned; what to do. NULL when nothing is to be done
};

struct doctor {
    char *home;        // owned; state directory, NULL when there is none
    char *qemu;        // owned; found by doctor_tools, NULL when it is missing
    bool has_template; // found by doctor_template
    struct finding findings[FINDINGS_MAX];
    int count;
};

void doctor_ok(struct doctor *d, const char *name, const char *fmt, ...)
    __attribute__((format(printf, 3, 4)));
void doctor_add(struct doctor *d, enum finding_level level, const char *name, const char *remedy,
                const char *fmt, ...) __attribute__((format(printf, 5, 6)));

// The checks, in the order in which they run: each may use what those before it found.
void doctor_tools(struct doctor *d);    // doctor_tools.c: QEMU, our programs, what builds templates
void doctor_template(struct doctor *d); // doctor_template.c
void doctor_kvm(struct doctor *d);      // doctor_kvm.c
void doctor_host(struct doctor *d);     // doctor_host.c: disk, memory, user namespaces
void doctor_limits(struct doctor *d);   // doctor_limits.c: control groups
void doctor_jail(struct doctor *d);     // doctor_jail.c
void doctor_daemon(struct doctor *d);   // doctor_daemon.c
