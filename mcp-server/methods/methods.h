// SPDX-License-Identifier: Apache-2.0
// The methods of the legacy and the modern era. Each ends its exchange, inside the call or later.
#pragma once
#include "mcp-server/protocol/exchange.h"

struct context;

void methods_legacy(struct exchange *x); // era: the session's, NULL before initialize
void methods_modern(struct exchange *x); // era: claimed by the request

// Return the server's capabilities for the client of a request in the form of `era`, and its
// instructions; new references.
json_t *methods_capabilities(const struct exchange *x, const struct era *era);
json_t *methods_instructions(struct context *cx); // a string; it names offered tools only

// Check the `cursor` of a list. Every list has one page, so no cursor is ever issued. On false the
// request has one, and the exchange has been ended.
bool methods_cursor_is_good(struct exchange *x);

// ---- methods of both eras (method_*.c)
void method_prompts_list(struct exchange *x);
void method_prompts_get(struct exchange *x);
void method_resources_list(struct exchange *x);
void method_resources_templates_list(struct exchange *x);
void method_resources_read(struct exchange *x);
void method_completion_complete(struct exchange *x);
void method_skills_list(struct exchange *x);
void method_skills_get(struct exchange *x);
void method_tools_list(struct exchange *x);
void method_tools_call(struct exchange *x);

// ---- of one era
void method_resources_subscribe(struct exchange *x);
void method_resources_unsubscribe(struct exchange *x);
void method_subscriptions_listen(struct exchange *x);
