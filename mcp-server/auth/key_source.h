// SPDX-License-Identifier: Apache-2.0
// The issuer's keys, from a file or a URL. Without either, the issuer's metadata names the URL (RFC
// 8414, OpenID Connect Discovery).
//
// Keys are fetched when they are first needed. They are fetched again in the background when they
// are older than OLD_MS, and when a token has an unknown key, but not within AGAIN_MS of the last
// time: a peer must not cause a stream of requests to the issuer. When a fetch fails, the known
// keys stay. Old keys are then fetched again after AGAIN_MS, unknown or missing keys after
// FAILED_MS. A file is checked once a second.
#pragma once
#include <jansson.h>
#include <stdbool.h>
#include <stdint.h>
#include <uv.h>

#include "sandbox-backend/base/err.h"

struct key_source;

// `where`: URL, path, or NULL for discovery. `on_news` is called from the loop whenever a fetch has
// ended, successfully or not. Strings are copied. Return NULL when a key file cannot be read.
struct key_source *key_source_new(uv_loop_t *loop, const char *issuer, const char *where,
                                  void (*on_news)(void *ctx), void *ctx, struct err *e);
// Cancel a fetch without on_news, close and free. `on_closed` is called from the loop.
void key_source_close(struct key_source *s, void (*on_closed)(void *ctx), void *ctx);

// Return the known keys, borrowed until the next call or turn of the loop; NULL: none yet. Old keys
// are returned while newer ones are fetched.
const json_t *key_source_keys(struct key_source *s, int64_t now_ms);

// Return a number that changes with the keys.
uint64_t key_source_generation(const struct key_source *s);

enum key_source_state {
    KEYS_COMING, // a fetch is in progress; on_news will be called
    KEYS_NEWEST, // the known keys are recent; newer ones may not be fetched now
    KEYS_DOWN,   // the last fetch failed, and it is too early for another
};
// Ask for newer keys than those of key_source_keys. Without may_start, no fetch is started. With
// KEYS_DOWN, *retry_s is the number of seconds after which to ask again.
enum key_source_state key_source_want(struct key_source *s, int64_t now_ms, bool may_start,
                                      int *retry_s);
