// SPDX-License-Identifier: Apache-2.0
// The end of a log file.
#include "sandbox-backend/daemon/tail.h"

#include <stdio.h>

size_t tail_read(const char *path, char *out, size_t max)
{
    out[0] = '\0';
    FILE *f = fopen(path, "re");
    if (!f)
        return 0;
    if (fseek(f, -(long)max, SEEK_END) < 0)
        rewind(f);
    size_t n = fread(out, 1, max, f);
    fclose(f);
    for (size_t i = 0; i < n; i++) // the guest writes its console, and must not end the text
        if (!out[i])
            out[i] = ' ';
    while (n && (out[n - 1] == '\n' || out[n - 1] == '\r'))
        n--;
    out[n] = '\0';
    return n;
}
