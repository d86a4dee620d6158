// SPDX-License-Identifier: Apache-2.0
// Questions to the client during one of its requests. Up to 2025-11-25 a question is a request of
// the server on the same stream (MCP, client/elicitation, client/sampling, client/roots). From
// 2026-07-28 on it is a result (inputs.h).
#pragma once
#include <jansson.h>
#include <stdbool.h>
#include <stdint.h>

struct exchange;
struct question;
struct session;

#define QUESTION_TIMEOUT_MS 600000 // a person answers; tools may use less

// The client's answer, borrowed for the call; one of the two is NULL. `error` has code and message.
// A missing answer is an error, too.
typedef void (*question_cb)(struct exchange *x, const json_t *result, const json_t *error,
                            void *ctx);

// Return whether the client has declared that it supports this question; in either era.
bool question_is_allowed(const struct exchange *x, const char *method, const json_t *params);

// Ask the client, in a legacy era, one question at a time. `params` is taken (NULL: none).
// on_answer comes from the loop, or never when the exchange ends or is cancelled first.
void question_ask(struct exchange *x, const char *method, json_t *params, int64_t timeout_ms,
                  question_cb on_answer, void *ctx);

// ---- for session.c and exchange.c
// Take the reply with this id; ignored when no exchange waits for it.
void question_take_reply(struct session *s, const json_t *id, const json_t *message);
void question_drop(struct exchange *x); // drops an open question, if any
