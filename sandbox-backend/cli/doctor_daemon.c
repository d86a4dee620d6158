// SPDX-License-Identifier: Apache-2.0
// cubby doctor: the daemon, if it runs.
#include "sandbox-backend/base/mem.h"
#include "sandbox-backend/cli/doctor.h"
#include "sandbox-backend/cli/listening.h"
#include "sandbox-backend/cli/session.h"

// It is asked, and not started: that it does not run is no fault.
void doctor_daemon(struct doctor *d)
{
    struct err e = ERR_INIT;
    struct session s;
    const struct session_opts here = {0};
    if (!d->home || session_open(&s, &here, SESSION_NEVER_START, &e) < 0)
        return;
    json_t *list = session_list(&s, &e);
    char *url auto_free = list ? listening_url(d->home) : NULL;
    if (list)
        doctor_ok(d, "daemon", "runs, with %zu sandboxes; TCP: %s", json_array_size(list),
                  url ? url : "none");
    else if (e.code == ERR_UNAVAILABLE)
        doctor_ok(d, "daemon", "does not run; it is started when it is needed");
    else
        doctor_add(d, FINDING_MISSING, "daemon",
                   "see cubbyd.log in the state directory; end cubbyd and try again",
                   "it does not answer as it should: %s", e.msg);
    json_decref(list);
    session_close(&s);
}
