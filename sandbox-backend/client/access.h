// SPDX-License-Identifier: Apache-2.0
// What is known of a sandbox that envd's calls need: its token, domain and envd version. Learnt
// from the answer to a create or a look-up, kept for the sandboxes used last. For client/ only.
#pragma once
#include <jansson.h>
#include <stdbool.h>

#define ACCESS_CACHE_MAX   64
#define ACCESS_ID_MAX      64  // bytes of a sandbox id
#define ACCESS_TOKEN_MAX   512 // bytes of a token
#define ACCESS_DOMAIN_MAX  253 // bytes of a DNS name
#define ACCESS_VERSION_MAX 32
#define ACCESS_ADDRESS_MAX 45 // bytes of an IPv6 address

struct access {
    char id[ACCESS_ID_MAX + 1];
    char token[ACCESS_TOKEN_MAX + 1];         // envd's; "" is none
    char traffic_token[ACCESS_TOKEN_MAX + 1]; // of other ports; "" is none
    char domain[ACCESS_DOMAIN_MAX + 1];       // "" is none
    char envd_version[ACCESS_VERSION_MAX + 1];
    char address[ACCESS_ADDRESS_MAX + 1]; // an IP address of its own; "" when it is not known
    int answered_port;                    // not envd's, whose server has answered; 0: none has
    unsigned long used;                   // when, in uses of the cache
};

struct access_cache {
    struct access *entries[ACCESS_CACHE_MAX]; // owned
    unsigned long uses;
};

void access_cache_fini(struct access_cache *cache);
// Takes them out of E2B's Sandbox or SandboxDetail; what does not fit or is no string is left "".
// Borrowed; NULL when `sandbox` names no sandbox.
const struct access *access_cache_put(struct access_cache *cache, const json_t *sandbox);
// An address is kept when the same sandbox is put again. `envd_version` counts when nothing else is
// known of it. NULL when there cannot be such a sandbox.
const struct access *access_cache_put_address(struct access_cache *cache, const char *id,
                                              const char *address, const char *envd_version);
const struct access *access_cache_get(struct access_cache *cache, const char *id); // borrowed
void access_cache_heard(struct access_cache *cache, const char *id, int port); // it has answered
void access_cache_drop(struct access_cache *cache, const char *id);

// 1 to ACCESS_ID_MAX letters, digits, '-' and '_': what may stand in a URL and a host name.
bool access_id_ok(const char *id);

// Whether "major.minor.patch" `version` is older than the one given; a strange one is not.
bool access_envd_older(const struct access *a, int major, int minor, int patch);
