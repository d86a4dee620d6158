// SPDX-License-Identifier: Apache-2.0
// A length of time, for people.
#include "sandbox-backend/cli/span.h"

#include "sandbox-backend/base/str.h"

char *span_text(int64_t seconds)
{
    long long s = seconds > 0 ? seconds : 0;
    if (s < 60)
        return str_printf("%llds", s);
    if (s < 3600)
        return str_printf("%lldm%02llds", s / 60, s % 60);
    if (s < 86400)
        return str_printf("%lldh%02lldm", s / 3600, s / 60 % 60);
    return str_printf("%lldd%lldh", s / 86400, s / 3600 % 24);
}
