// SPDX-License-Identifier: Apache-2.0
// How much of what all share one caller may hold.
#include "mcp-server/web/web_share.h"

size_t web_share_of(const struct caller *caller, size_t max)
{
    return caller->owner ? max / 2 + max % 2 : max;
}

bool web_share_has_room(const struct caller *caller, size_t mine, size_t all, size_t more,
                        size_t max)
{
    return all + more <= max && mine + more <= web_share_of(caller, max);
}
