// SPDX-License-Identifier: Apache-2.0
// cubby doctor: the daemon, if it runs.
#include "sandbox-backend/base/mem.h"
#include "sandbox-backend/cli/daemon_phase.h"
#include "sandbox-backend/cli/doctor.h"
#include "sandbox-backend/cli/listening.h"
#include "sandbox-backend/cli/session.h"

static long long mb_of(const json_t *host, const char *key)
{
    return (long long)json_integer_value(json_object_get(host, key)) >> 20;
}

// What it would let in now.
static void look_at_room(struct doctor *d, struct session *s)
{
    struct err e = ERR_INIT;
    json_t *stats = session_stats(s, NULL, &e);
    const json_t *host = json_object_get(stats, "host");
    long long left = mb_of(host, "memoryFreeBytes");
    long long reserve = mb_of(host, "memoryReserveBytes");
    long long pooled = (long long)json_integer_value(json_object_get(host, "pooled"));
    if (host && left > 0)
        doctor_ok(d, "room", "%lld MB for new sandboxes above the reserve of %lld MB; %lld pooled",
                  left, reserve, pooled);
    else if (host)
        doctor_add(d, FINDING_NOTE, "room",
                   "kill or hibernate sandboxes (cubby top), or start cubbyd with a lower "
                   "--memory-reserve",
                   "no memory for new sandboxes above the reserve of %lld MB; %lld pooled", reserve,
                   pooled);
    json_decref(stats);
}

// It gave no list.
static void report_other(struct doctor *d, const struct err *e)
{
    enum daemon_phase phase = DAEMON_NONE;
    if (!daemon_phase_explains(d->home, e, &phase))
        doctor_add(d, FINDING_MISSING, "daemon",
                   "see cubbyd.log in the state directory; cubby daemon stop, and try again",
                   "it does not answer as it should: %s", e->msg);
    else if (phase == DAEMON_NONE)
        doctor_ok(d, "daemon", "does not run; it is started when it is needed");
    else if (phase == DAEMON_STOPS)
        doctor_ok(d, "daemon", "is stopping; another is started when it is needed");
    else
        doctor_add(d, FINDING_NOTE, "daemon",
                   "if it stays so, see cubbyd.log in the state directory", "is starting");
}

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
    else
        report_other(d, &e);
    if (list)
        look_at_room(d, &s);
    json_decref(list);
    session_close(&s);
}
