// SPDX-License-Identifier: Apache-2.0
// Types and functions that the checks of `cubby doctor` share.
#pragma once
#include <stdbool.h>

#include "sandbox-backend/drivers/driver.h"

#define FINDINGS_MAX 48

struct finding {
    const char *name; // literal
    enum finding_level level;
    char *text;   // owned; what was found
    char *remedy; // owned; what to do, or NULL
};

struct doctor {
    char *home;        // owned; state directory, or NULL
    bool has_template; // a driver found one that it can use
    struct finding findings[FINDINGS_MAX];
    int count;
};

void doctor_ok(struct doctor *d, const char *name, const char *fmt, ...)
    __attribute__((format(printf, 3, 4)));
void doctor_add(struct doctor *d, enum finding_level level, const char *name, const char *remedy,
                const char *fmt, ...) __attribute__((format(printf, 5, 6)));

void doctor_host(struct doctor *d); // doctor_host.c: disk, memory, user namespaces
