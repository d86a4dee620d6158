// SPDX-License-Identifier: Apache-2.0
// What a client can be asked while one of its requests is being answered. Up to 2025-11-25 that is
// a request of ours to it, on the same stream (MCP, client/elicitation, client/sampling,
// client/roots); from 2026-07-28 on it is a result of its own (inputs.h).
#pragma once
#include <jansson.h>
#include <stdbool.h>
#include <stdint.h>

struct exchange;
struct question;
struct session;

#define QUESTION_TIMEOUT_MS 600000 // a person answers; tools may take less

// The client's answer, borrowed for the call: one of the two is NULL. `error` has code and message;
// no answer in time is one, too.
typedef void (*question_cb)(struct exchange *x, const json_t *result, const json_t *error,
                            void *ctx);

// Whether the client of this request has declared that it can be asked this; in either era.
bool question_is_allowed(const struct exchange *x, const char *method, const json_t *params);

// Asks it, in a legacy era, one question at a time: `params` is taken (NULL: none). on_answer comes
// from the loop, or never when the exchange ends or is cancelled before.
void question_ask(struct exchange *x, const char *method, json_t *params, int64_t timeout_ms,
                  question_cb on_answer, void *ctx);

// ---- for session.c and exchange.c
// The reply with this id, if anybody waits for it.
void question_take_reply(struct session *s, const json_t *id, const json_t *message);
void question_drop(struct exchange *x); // nobody waits for it any more; may have none
