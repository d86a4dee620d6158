// SPDX-License-Identifier: Apache-2.0
// cubby doctor: whether the host can hold each sandbox's processes to its size.
#include "sandbox-backend/base/cgroup_place.h"
#include "sandbox-backend/cli/doctor.h"

#define REMEDY "run the daemon as root, or in a delegated group (systemd: Delegate=yes)"

void doctor_limits(struct doctor *d)
{
    unsigned held = cgroup_place_look();
    if (held == CGROUP_ALL)
        doctor_ok(d, "limits", "control groups hold each sandbox to its memory, cpu and pids");
    else if (held)
        doctor_add(d, FINDING_NOTE, "limits", REMEDY,
                   "control groups hold each sandbox to its %s only", cgroup_names(held));
    else
        doctor_add(d, FINDING_NOTE, "limits", REMEDY,
                   "control groups may not be made here: QEMU alone holds a sandbox to its size");
}
