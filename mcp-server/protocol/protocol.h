// SPDX-License-Identifier: Apache-2.0
// The methods of the two families of revisions. Each ends the exchange it is given, now or later.
#pragma once
#include "mcp-server/protocol/exchange.h"

void protocol_legacy(struct exchange *x); // era: the session's, NULL before initialize
void protocol_modern(struct exchange *x); // era: claimed by the request

// What this server is and can do, in the terms of `era`; new references.
json_t *protocol_server_info(const struct era *era);
json_t *protocol_server_details(const struct era *era); // the same, to be shown to people
json_t *protocol_capabilities(const struct era *era);
json_t *protocol_instructions(struct toolbox *t); // a string that names only tools that are offered

// A list's `cursor`: everything is on one page, so none was ever issued. False: there is one, and
// the exchange has been ended.
bool protocol_cursor_is_good(struct exchange *x);

// One entry of a list (a prompt, a resource, a template) without what `era` does not know; taken
// and returned.
json_t *protocol_item(json_t *item, const struct era *era);

// ---- methods of both families (method_*.c)
void method_prompts_list(struct exchange *x);
void method_prompts_get(struct exchange *x);
void method_resources_list(struct exchange *x);
void method_resources_templates_list(struct exchange *x);
void method_resources_read(struct exchange *x);
void method_completion_complete(struct exchange *x);
void method_tools_list(struct exchange *x);
void method_tools_call(struct exchange *x);

// ---- of one family
void method_resources_subscribe(struct exchange *x);
void method_resources_unsubscribe(struct exchange *x);
void method_subscriptions_listen(struct exchange *x);
