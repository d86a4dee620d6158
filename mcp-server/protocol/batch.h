// SPDX-License-Identifier: Apache-2.0
// The way back of an array of messages (MCP 2025-03-26): gathers the answers of its members and
// sends them as one array when the last member has ended. Notifications and requests go past it.
#pragma once
#include "mcp-server/protocol/transport.h"

// The outlet of `members` messages, each of which must end it. Frees itself, and ends `parent`
// (borrowed), with the last.
struct outlet *batch_new(struct outlet *parent, size_t members);
