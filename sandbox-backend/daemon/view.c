// SPDX-License-Identifier: Apache-2.0
// A sandbox as the API shows it.
#include "sandbox-backend/daemon/view.h"

#include <string.h>

#include "sandbox-backend/base/clock.h"
#include "sandbox-backend/base/mem.h"
#include "sandbox-backend/base/str.h"
#include "sandbox-backend/base/version.h"
#include "sandbox-backend/daemon/sandbox.h"
#include "sandbox-backend/daemon/store.h"

#define CLIENT_ID "cubby"

static void set(json_t *object, const char *key, json_t *value /* taken */)
{
    json_object_set_new(object, key, value);
}

// Which tier it is, so that nobody takes a weaker one for a stronger.
static json_t *isolation(const struct sandbox *sb)
{
    const char *tier = sb->store->driver->isolation;
    if (!sb->facts.accel[0])
        return json_string(tier);
    char *label auto_free = str_printf("%s (%s)", tier, sb->facts.accel);
    return json_string(label);
}

static json_t *common(const struct sandbox *sb)
{
    return json_pack("{s:s, s:s, s:s, s:s, s:s, s:o}", "templateID", sb->template, "alias",
                     sb->template, "sandboxID", sb->id, "clientID", CLIENT_ID, "envdVersion",
                     ENVD_VERSION, "isolation", isolation(sb));
}

json_t *view_created(const struct sandbox *sb)
{
    json_t *view = common(sb);
    if (sb->token)
        set(view, "envdAccessToken", json_string(sb->token));
    set(view, "trafficAccessToken", json_null());
    set(view, "domain", json_null());
    return view;
}

json_t *view_listed(const struct sandbox *sb)
{
    char started[CLOCK_RFC3339_BYTES];
    char end[CLOCK_RFC3339_BYTES];
    clock_rfc3339(started, sb->started_ns);
    clock_rfc3339(end, sb->end_ns);
    json_t *view = common(sb);
    set(view, "startedAt", json_string(started));
    set(view, "endAt", json_string(end));
    set(view, "cpuCount", json_integer(sb->facts.cpus));
    set(view, "memoryMB", json_integer(sb->facts.memory_mb));
    set(view, "diskSizeMB", json_integer(sb->facts.disk_mb));
    set(view, "metadata", json_incref(sb->metadata));
    set(view, "state", json_string("running"));
    set(view, "volumeMounts", json_array());
    set(view, "sliding", json_boolean(sb->sliding));
    return view;
}

json_t *view_detail(const struct sandbox *sb)
{
    bool closed = sb->network == NET_NONE;
    json_t *deny = json_array();
    if (closed)
        json_array_append_new(deny, json_string("0.0.0.0/0"));
    json_t *view = view_listed(sb);
    if (sb->token)
        set(view, "envdAccessToken", json_string(sb->token));
    set(view, "allowInternetAccess", json_boolean(!closed));
    set(view, "domain", json_null());
    set(view, "network",
        json_pack("{s:b, s:[], s:o}", "allowPublicTraffic", 1, "allowOut", "denyOut", deny));
    set(view, "lifecycle", json_pack("{s:b, s:s}", "autoResume", 0, "onTimeout", "kill"));
    return view;
}
