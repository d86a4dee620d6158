// SPDX-License-Identifier: Apache-2.0
// IPv4 addresses that are not the public internet.
#include "sandbox-backend/base/special_address.h"

#include <stddef.h>

#include "sandbox-backend/base/mem.h"

#define IP(a, b, c, d) \
    ((uint32_t)(a) << 24 | (uint32_t)(b) << 16 | (uint32_t)(c) << 8 | (uint32_t)(d))

// The IANA special-purpose registry (RFC 6890 and its successors), and one address that only looks
// public: Azure's 168.63.129.16 is the platform's metadata and key service for the machine.
static const struct {
    uint32_t network;
    int bits; // 1 to 32
    const char *why;
} SPECIAL[] = {
    {IP(0, 0, 0, 0), 8, "this network"},
    {IP(10, 0, 0, 0), 8, "private"},
    {IP(100, 64, 0, 0), 10, "shared (carrier) space"},
    {IP(127, 0, 0, 0), 8, "loopback"},
    {IP(168, 63, 129, 16), 32, "cloud metadata"},
    {IP(169, 254, 0, 0), 16, "link-local or metadata"},
    {IP(172, 16, 0, 0), 12, "private"},
    {IP(192, 0, 0, 0), 24, "protocol assignments"},
    {IP(192, 0, 2, 0), 24, "an address for documentation"},
    {IP(192, 88, 99, 0), 24, "6to4 relay"},
    {IP(192, 168, 0, 0), 16, "private"},
    {IP(198, 18, 0, 0), 15, "benchmarking"},
    {IP(198, 51, 100, 0), 24, "an address for documentation"},
    {IP(203, 0, 113, 0), 24, "an address for documentation"},
    {IP(224, 0, 0, 0), 4, "multicast"},
    {IP(240, 0, 0, 0), 4, "reserved or broadcast"},
};

const char *special_address(uint32_t address)
{
    return special_network(address, 32);
}

const char *special_network(uint32_t address, int bits)
{
    for (size_t i = 0; i < ARRAY_LEN(SPECIAL); i++)
        if (bits >= SPECIAL[i].bits &&
            (address ^ SPECIAL[i].network) >> (32 - SPECIAL[i].bits) == 0)
            return SPECIAL[i].why;
    return NULL;
}
