// SPDX-License-Identifier: Apache-2.0
// What a transport is to the rest.
#include "mcp-server/protocol/transport.h"

void outlet_end(struct outlet *o)
{
    if (o->end)
        o->end(o);
}
