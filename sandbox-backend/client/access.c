// SPDX-License-Identifier: Apache-2.0
// A cache of what calls need to know of a sandbox.
#include "sandbox-backend/client/access.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "sandbox-backend/base/clock.h"
#include "sandbox-backend/base/mem.h"
#include "sandbox-backend/base/str.h"

void access_cache_fini(struct access_cache *cache)
{
    for (int i = 0; i < ACCESS_CACHE_MAX; i++) {
        free(cache->entries[i]);
        cache->entries[i] = NULL;
    }
}

static struct access **find(struct access_cache *cache, const char *id)
{
    for (int i = 0; i < ACCESS_CACHE_MAX; i++)
        if (cache->entries[i] && strcmp(cache->entries[i]->id, id) == 0)
            return &cache->entries[i];
    return NULL;
}

// Return the entry of that id, else an empty one, else the least recently used one.
static struct access **entry_for(struct access_cache *cache, const char *id)
{
    struct access **known = find(cache, id);
    if (known)
        return known;
    struct access **oldest = &cache->entries[0];
    for (int i = 0; i < ACCESS_CACHE_MAX; i++) {
        struct access **at = &cache->entries[i];
        if (!*at)
            return at;
        if ((*at)->used < (*oldest)->used)
            oldest = at;
    }
    return oldest;
}

static void take_string(char *out, size_t size, const json_t *object, const char *key)
{
    const char *s = json_string_value(json_object_get(object, key));
    if (s && strlen(s) < size)
        memcpy(out, s, strlen(s) + 1);
}

// The domain becomes part of a host name, so it may hold only what a host name may.
static bool domain_ok(const char *s)
{
    for (; *s; s++)
        if (!((*s >= 'a' && *s <= 'z') || (*s >= 'A' && *s <= 'Z') || (*s >= '0' && *s <= '9') ||
              *s == '-' || *s == '.' || *s == ':'))
            return false;
    return true;
}

const struct access *access_cache_put(struct access_cache *cache, const json_t *sandbox)
{
    const char *id = json_string_value(json_object_get(sandbox, "sandboxID"));
    if (!id || !access_id_ok(id))
        return NULL;
    struct access *a = xcalloc(1, sizeof *a);
    take_string(a->id, sizeof a->id, sandbox, "sandboxID");
    take_string(a->token, sizeof a->token, sandbox, "envdAccessToken");
    take_string(a->traffic_token, sizeof a->traffic_token, sandbox, "trafficAccessToken");
    take_string(a->domain, sizeof a->domain, sandbox, "domain");
    take_string(a->envd_version, sizeof a->envd_version, sandbox, "envdVersion");
    if (!domain_ok(a->domain))
        a->domain[0] = '\0';
    a->used = ++cache->uses;
    a->asked_ms = clock_mono_ms();
    struct access **entry = entry_for(cache, a->id);
    if (*entry && strcmp((*entry)->id, a->id) == 0) {
        memcpy(a->address, (*entry)->address, sizeof a->address);
        a->answered_port = (*entry)->answered_port;
    }
    free(*entry);
    *entry = a;
    return a;
}

const struct access *access_cache_put_address(struct access_cache *cache, const char *id,
                                              const char *address, const char *envd_version)
{
    if (!access_id_ok(id) || strlen(address) > ACCESS_ADDRESS_MAX)
        return NULL;
    struct access **entry = entry_for(cache, id);
    if (!*entry || strcmp((*entry)->id, id) != 0) {
        free(*entry);
        *entry = xcalloc(1, sizeof **entry);
        snprintf((*entry)->id, sizeof(*entry)->id, "%s", id);
        snprintf((*entry)->envd_version, sizeof(*entry)->envd_version, "%s", envd_version);
    }
    snprintf((*entry)->address, sizeof(*entry)->address, "%s", address);
    (*entry)->used = ++cache->uses;
    (*entry)->asked_ms = clock_mono_ms();
    return *entry;
}

const struct access *access_cache_get(struct access_cache *cache, const char *id)
{
    struct access **at = find(cache, id);
    if (!at)
        return NULL;
    (*at)->used = ++cache->uses;
    return *at;
}

void access_cache_heard(struct access_cache *cache, const char *id, int port)
{
    struct access **at = find(cache, id);
    if (at)
        (*at)->answered_port = port;
}

void access_cache_drop(struct access_cache *cache, const char *id)
{
    struct access **at = find(cache, id);
    if (at) {
        free(*at);
        *at = NULL;
    }
}

bool access_id_ok(const char *id)
{
    static const char ALLOWED[] =
        "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789-_";
    size_t len = strlen(id);
    return len > 0 && len <= ACCESS_ID_MAX && strspn(id, ALLOWED) == len;
}

bool access_envd_older(const struct access *a, int major, int minor, int patch)
{
    int have[3] = {0, 0, 0};
    const int want[3] = {major, minor, patch};
    if (sscanf(a->envd_version, "%9d.%9d.%9d", &have[0], &have[1], &have[2]) < 2)
        return false;
    for (int i = 0; i < 3; i++)
        if (have[i] != want[i])
            return have[i] < want[i];
    return false;
}
