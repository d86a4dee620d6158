// SPDX-License-Identifier: Apache-2.0
// IPv4 addresses that are not the public internet: one list for what a guest may open and for what
// a download may connect to.
#pragma once
#include <stdint.h>

// Why the address (host byte order) is not public, as two or three words: "private"; NULL when it
// is.
const char *special_address(uint32_t address);

// The same for a whole network: why all of address/bits lies in one that is not public. NULL when
// some of it is public, or in another such network.
const char *special_network(uint32_t address, int bits);
