// SPDX-License-Identifier: Apache-2.0
// The revisions of the protocol: what each can carry, and which one a request uses.
//
// Theory of operation. Two families of revisions are served on one connection, also interleaved.
//
// Legacy (2024-11-05 to 2025-11-25): `initialize` opens the session and fixes its revision. Before
// that the session's era is NULL. An unknown revision is answered with the newest legacy one, never
// with an error; a client that cannot use it leaves.
//
// Modern (2026-07-28): nothing opens the session. Each request carries its revision and the
// client's capabilities in `params._meta`, and the server remembers nothing between requests. So
// that key alone classifies a request, in every state of the session. A client that supports both
// families probes with `server/discover` and continues with `initialize` on the same pipe. Before
// either, a request without the key is refused at once with a text that names the revisions,
// because silence would cost the client the timeout of its probe.
//
// The differences between revisions are a row of flags in the table below. result.c and tools.c
// leave out what a revision does not know.
#include "mcp-server/protocol/era.h"

#include <string.h>

#include "sandbox-backend/base/mem.h"
#include "sandbox-backend/base/str.h"

static const struct era ERAS[] = {
    {.version = "2024-11-05"},
    {.version = "2025-03-26",
     .batches = true,
     .annotations = true,
     .completions = true,
     .progress_message = true,
     .audio = true},
    {.version = "2025-06-18",
     .annotations = true,
     .completions = true,
     .structured = true,
     .progress_message = true,
     .audio = true,
     .resource_link = true},
    {.version = "2025-11-25",
     .annotations = true,
     .completions = true,
     .structured = true,
     .progress_message = true,
     .audio = true,
     .resource_link = true,
     .icons = true,
     .extensions = true,
     .priming = true},
    {.version = "2026-07-28",
     .modern = true,
     .annotations = true,
     .completions = true,
     .structured = true,
     .progress_message = true,
     .audio = true,
     .resource_link = true,
     .icons = true,
     .extensions = true},
};

const struct era *era_find(const char *version)
{
    for (size_t i = 0; i < ARRAY_LEN(ERAS); i++)
        if (str_eq(ERAS[i].version, version))
            return &ERAS[i];
    return NULL;
}

const struct era *era_latest_legacy(void)
{
    const struct era *latest = NULL;
    for (size_t i = 0; i < ARRAY_LEN(ERAS); i++)
        if (!ERAS[i].modern)
            latest = &ERAS[i];
    return latest;
}

json_t *era_modern_versions(void)
{
    json_t *versions = json_array();
    for (size_t i = 0; i < ARRAY_LEN(ERAS); i++)
        if (ERAS[i].modern)
            json_array_append_new(versions, json_string(ERAS[i].version));
    return versions;
}

const char *era_all_versions(void)
{
    return "2024-11-05, 2025-03-26, 2025-06-18, 2025-11-25 (after initialize) and 2026-07-28 "
           "(named in params._meta of each request)";
}

static const json_t *meta_of(const struct rpc_message *m)
{
    return json_object_get(m->params, "_meta");
}

bool era_is_claimed(const struct rpc_message *m)
{
    return json_object_get(meta_of(m), META_VERSION) != NULL;
}

// clientInfo is optional, but must be valid.
static bool client_is_good(const json_t *client)
{
    return !client || (json_is_string(json_object_get(client, "name")) &&
                       json_is_string(json_object_get(client, "version")));
}

int era_log_level(const char *name)
{
    static const char *const LEVELS[] = {"debug", "info",     "notice", "warning",
                                         "error", "critical", "alert",  "emergency"};
    for (size_t i = 0; i < ARRAY_LEN(LEVELS); i++)
        if (str_eq(name, LEVELS[i]))
            return (int)i;
    return -1;
}

static bool level_is_good(const json_t *level)
{
    return !level || era_log_level(json_string_value(level)) >= 0;
}

static const char *meta_problem(const json_t *meta)
{
    if (!json_is_string(json_object_get(meta, META_VERSION)))
        return "params._meta[\"" META_VERSION "\"] must be a string";
    if (!json_is_object(json_object_get(meta, META_CAPABILITIES)))
        return "params._meta[\"" META_CAPABILITIES "\"] must be an object";
    if (!client_is_good(json_object_get(meta, META_CLIENT)))
        return "params._meta[\"" META_CLIENT "\"] must have a name and a version";
    if (!level_is_good(json_object_get(meta, META_LOG_LEVEL)))
        return "params._meta[\"" META_LOG_LEVEL "\"] must be a log level such as \"info\"";
    return NULL;
}

const struct era *era_claim(const struct rpc_message *m, int *code, const char **text,
                            json_t **data)
{
    const json_t *meta = meta_of(m);
    *data = NULL;
    *text = meta_problem(meta);
    if (*text) {
        *code = RPC_INVALID_PARAMS;
        return NULL;
    }
    const json_t *version = json_object_get(meta, META_VERSION);
    const struct era *era = era_find(json_string_value(version));
    if (era && era->modern)
        return era;
    *code = RPC_UNSUPPORTED_VERSION;
    *text = "Unsupported protocol version";
    *data = json_object();
    json_object_set_new(*data, "supported", era_modern_versions());
    json_object_set_new(*data, "requested", json_deep_copy(version));
    return NULL;
}
