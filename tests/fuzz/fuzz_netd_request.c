// SPDX-License-Identifier: Apache-2.0
// The first bytes of a client of vm.net.
#include <stdlib.h>
#include <string.h>

#include "sandbox-backend/netd/request.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    char *line = malloc(size + 1);
    if (!line)
        return 0;
    memcpy(line, data, size);
    uint16_t port = 0;
    size_t used = 0;
    enum request_state state = request_parse(line, size, &port, &used);
    if (state == REQUEST_DONE && (port == 0 || used > size || line[used - 1] != '\n'))
        abort();
    if (state == REQUEST_MORE && size >= REQUEST_LINE_MAX_BYTES)
        abort();
    free(line);
    return 0;
}
