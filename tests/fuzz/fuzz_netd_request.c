// SPDX-License-Identifier: Apache-2.0
// Fuzz the first bytes of a client of vm.net.
#include <stdlib.h>
#include <string.h>

#include "sandbox-backend/netd/inward/inward.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    char *line = malloc(size + 1);
    if (!line)
        return 0;
    memcpy(line, data, size);
    uint16_t port = 0;
    size_t used = 0;
    enum inward_line state = inward_parse_line(line, size, &port, &used);
    if (state == INWARD_LINE_DONE && (port == 0 || used > size || line[used - 1] != '\n'))
        abort();
    if (state == INWARD_LINE_MORE && size >= INWARD_LINE_MAX_BYTES)
        abort();
    free(line);
    return 0;
}
