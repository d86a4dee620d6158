// SPDX-License-Identifier: Apache-2.0
// The guest's network, in the form that the sentry needs.
#pragma once
#include <jansson.h>
#include <stdbool.h>

// Return the argument of containerManager.SetNetworkArgs: the loopback, and one network card. The
// caller passes the card's descriptor with the call. The addresses are the same in every Cubby
// guest. is_restore: a saved machine is restored next, not booted. New reference.
json_t *links_json(bool is_restore);
