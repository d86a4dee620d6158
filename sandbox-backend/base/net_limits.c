// SPDX-License-Identifier: Apache-2.0
// How much of the network a guest may use: its JSON form.
#include "sandbox-backend/base/net_limits.h"

#include <stdbool.h>
#include <stddef.h>
#include <string.h>

#include "sandbox-backend/base/json.h"
#include "sandbox-backend/base/mem.h"

static const struct {
    const char *key;
    int64_t least, most;
    size_t at; // of an int64_t in struct net_limits
} LIMITS[] = {
    {"connections", 1, NET_CONNECTIONS_MAX, offsetof(struct net_limits, connections)},
    {"connectionsPerSecond", 1, NET_NEW_PER_S_MAX, offsetof(struct net_limits, connections_per_s)},
    {"udpPorts", 1, NET_CONNECTIONS_MAX, offsetof(struct net_limits, udp_ports)},
    {"udpPortsPerSecond", 1, NET_NEW_PER_S_MAX, offsetof(struct net_limits, udp_ports_per_s)},
    {"receiveBytesPerSecond", NET_BYTES_PER_S_LEAST, NET_BYTES_PER_S_MAX,
     offsetof(struct net_limits, receive_bytes_per_s)},
    {"sendBytesPerSecond", NET_BYTES_PER_S_LEAST, NET_BYTES_PER_S_MAX,
     offsetof(struct net_limits, send_bytes_per_s)},
};

static int64_t *limit_at(struct net_limits *limits, size_t i)
{
    return (int64_t *)((char *)limits + LIMITS[i].at);
}

static bool is_limit(const char *key)
{
    for (size_t i = 0; i < ARRAY_LEN(LIMITS); i++)
        if (strcmp(key, LIMITS[i].key) == 0)
            return true;
    return false;
}

int net_limits_from_json(struct net_limits *limits, const json_t *json, struct err *e)
{
    *limits = (struct net_limits){0};
    if (!json || json_is_null(json))
        return 0;
    if (!json_is_object(json))
        return err_set(e, ERR_INVALID, "limits must be an object");
    const char *key;
    json_t *value;
    json_object_foreach((json_t *)(uintptr_t)json, key, value) if (!is_limit(key)) return err_set(
        e, ERR_INVALID,
        "limits has no \"%.40s\": it takes connections, connectionsPerSecond, "
        "udpPorts, udpPortsPerSecond, receiveBytesPerSecond and sendBytesPerSecond",
        key);
    for (size_t i = 0; i < ARRAY_LEN(LIMITS); i++)
        if (json_get_int(json, LIMITS[i].key, LIMITS[i].least, LIMITS[i].most, limit_at(limits, i),
                         0, e) < 0)
            return err_wrap(e, "limits");
    return 0;
}

json_t *net_limits_to_json(const struct net_limits *limits)
{
    struct net_limits copy = *limits;
    json_t *json = json_object();
    for (size_t i = 0; i < ARRAY_LEN(LIMITS); i++)
        if (*limit_at(&copy, i) > 0)
            json_object_set_new(json, LIMITS[i].key, json_integer(*limit_at(&copy, i)));
    return json;
}
