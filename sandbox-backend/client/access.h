// SPDX-License-Identifier: Apache-2.0
// A cache of what calls need to know of a sandbox: tokens, domain and envd version. It is filled
// from the answers to creates and look-ups, and holds the sandboxes used last. For client/ only.
#pragma once
#include <jansson.h>
#include <stdbool.h>
#include <stdint.h>

#define ACCESS_CACHE_MAX   64
#define ACCESS_ID_MAX      64  // bytes of a sandbox id
#define ACCESS_TOKEN_MAX   512 // bytes of a token
#define ACCESS_DOMAIN_MAX  253 // bytes of a DNS name
#define ACCESS_VERSION_MAX 32
#define ACCESS_ADDRESS_MAX 45 // bytes of an IPv6 address

struct access {
    char id[ACCESS_ID_MAX + 1];
    char token[ACCESS_TOKEN_MAX + 1];         // envd's; "": none
    char traffic_token[ACCESS_TOKEN_MAX + 1]; // of other ports; "": none
    char domain[ACCESS_DOMAIN_MAX + 1];       // "": none
    char envd_version[ACCESS_VERSION_MAX + 1];
    char address[ACCESS_ADDRESS_MAX + 1]; // its own IP address; "": unknown
    int answered_port;  // a port other than envd's whose server has answered; 0: none
    int64_t asked_ms;   // when the control plane said this (clock_mono_ms)
    unsigned long used; // the value of access_cache.uses at its last use
};

struct access_cache {
    struct access *entries[ACCESS_CACHE_MAX]; // owned
    unsigned long uses;
};

void access_cache_fini(struct access_cache *cache);
// Add what E2B's Sandbox or SandboxDetail says. A member that is too long or not a string stays "".
// Borrowed; NULL when `sandbox` has no valid id.
const struct access *access_cache_put(struct access_cache *cache, const json_t *sandbox);
// Add a sandbox's address. access_cache_put of the same sandbox keeps it. `envd_version` is used
// only when the sandbox is new to the cache. NULL when the id or the address is invalid.
const struct access *access_cache_put_address(struct access_cache *cache, const char *id,
                                              const char *address, const char *envd_version);
const struct access *access_cache_get(struct access_cache *cache, const char *id); // borrowed
void access_cache_heard(struct access_cache *cache, const char *id,
                        int port); // a server on `port` answered
void access_cache_drop(struct access_cache *cache, const char *id);

// Return whether `id` is 1 to ACCESS_ID_MAX letters, digits, '-' and '_', which are safe in URLs
// and host names.
bool access_id_ok(const char *id);

// Return whether the sandbox's envd is older than the given version. An unknown version is not.
bool access_envd_older(const struct access *a, int major, int minor, int patch);
