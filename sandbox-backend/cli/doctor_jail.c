// SPDX-License-Identifier: Apache-2.0
// cubby doctor: which walls of a jail stand around the processes of a sandbox that this user's
// daemon starts.
#include "sandbox-backend/base/mem.h"
#include "sandbox-backend/base/str.h"
#include "sandbox-backend/cli/doctor.h"
#include "sandbox-backend/drivers/microvm/host_jail.h"

static void report(struct doctor *d, const struct host_walls *w)
{
    char *built auto_free = walls_list(w->built, ", ");
    if (!w->built)
        doctor_add(d, FINDING_NOTE, "jail", NULL, "no wall can be built");
    else if (w->built & WALL_BIT(WALL_LANDLOCK))
        doctor_ok(d, "jail", "%s (Landlock %d)", built, w->landlock_abi);
    else
        doctor_ok(d, "jail", "%s", built);
    for (int i = 0; i < WALL_COUNT; i++)
        if (w->why[i])
            doctor_add(d, FINDING_NOTE, "jail", host_wall_remedy((enum wall)i), "without %s: %s",
                       wall_what((enum wall)i), w->why[i]);
}

void doctor_jail(struct doctor *d)
{
    struct host_walls walls;
    struct err e = ERR_INIT;
    if (host_walls_look(&walls, &e) != 0) {
        doctor_add(d, FINDING_NOTE, "jail", "run make, or install Cubby again", "%s", e.msg);
        return;
    }
    report(d, &walls);
    host_walls_fini(&walls);
}
