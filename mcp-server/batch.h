// SPDX-License-Identifier: Apache-2.0
// The way back of an array of messages: gathers the answers of its members and sends them as one
// array when the last member has ended. Notifications go past it.
#pragma once
#include "mcp-server/transport.h"

struct batch;

struct batch *batch_new(struct outlet *parent); // held once
struct outlet *batch_outlet(struct batch *b);
struct batch *batch_of(struct outlet *o); // NULL for an outlet that is no batch
void batch_hold(struct batch *b);
void batch_release(struct batch *b); // the last one sends what there is, and frees
