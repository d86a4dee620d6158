// SPDX-License-Identifier: Apache-2.0
// The methods of the two families of revisions. Each call ends or keeps the exchange it is given.
#pragma once
#include "mcp-server/session.h"

void protocol_legacy(struct exchange *x); // era: the session's, NULL before initialize
void protocol_modern(struct exchange *x); // era: claimed by the request

// Name and version of this server; new reference.
json_t *protocol_server_info(bool with_title);
const char *protocol_instructions(void);

// tools/list for both: NULL with the exchange answered when the cursor is bad.
json_t *protocol_list_tools(struct exchange *x);
