// SPDX-License-Identifier: Apache-2.0
// Where the issuer's keys come from: a URL, found from the issuer's metadata when none is given
// (RFC 8414, OpenID Connect Discovery), or a file.
//
// Keys are fetched when they are first wanted, again in the background when they are older than
// OLD_MS, and again when somebody meets a token of an unknown key, though not within AGAIN_MS of
// the last time: what a peer sends must not become a stream of requests to the issuer. When a fetch
// fails, the keys that are known stay, and it is tried again after FAILED_MS. A file is looked at
// once a second.
#pragma once
#include <jansson.h>
#include <stdbool.h>
#include <stdint.h>
#include <uv.h>

#include "sandbox-backend/base/err.h"

struct key_source;

// `where`: URL, path, or NULL for discovery. on_news: a fetch that was waited for has ended, well
// or not; from the loop. Strings are copied.
struct key_source *key_source_new(uv_loop_t *loop, const char *issuer, const char *where,
                                  void (*on_news)(void *ctx), void *ctx, struct err *e);
void key_source_close(struct key_source *s, void (*on_closed)(void *ctx), void *ctx);

// What there is, borrowed until the next call or turn of the loop; NULL: nothing yet.
const json_t *key_source_keys(struct key_source *s, int64_t now_ms);

// Another number when the keys are others than before.
uint64_t key_source_generation(const struct key_source *s);

enum key_source_state {
    KEYS_COMING, // a fetch is under way, on_news will come
    KEYS_NEWEST, // there are no newer ones to be had now
    KEYS_DOWN,   // the last fetch failed, and it is too early for another
};
// Asks for other keys than key_source_keys gives; without may_start only says how things are. With
// KEYS_DOWN, *retry_s is when to ask again.
enum key_source_state key_source_want(struct key_source *s, int64_t now_ms, bool may_start,
                                      int *retry_s);
