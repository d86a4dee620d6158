// SPDX-License-Identifier: Apache-2.0
#include "sandbox-backend/cli/copy/bar.h"

#include <stdio.h>
#include <unistd.h>

#include "sandbox-backend/base/clock.h"
#include "sandbox-backend/base/mem.h"
#include "sandbox-backend/base/str.h"
#include "sandbox-backend/cli/cli.h"

#define BAR_CELLS 24
#define PERCENT   100

void bar_start(struct bar *p, bool shows, int64_t total)
{
    *p = (struct bar){.shows = shows && isatty(STDERR_FILENO),
                      .total = total,
                      .fd = -1,
                      .start_ms = clock_mono_ms()};
}

char *bar_bytes(int64_t bytes)
{
    static const char *const UNITS[] = {"kB", "MB", "GB", "TB"};
    double n = (double)bytes / 1000;
    size_t unit = 0;
    if (bytes < 1000)
        return str_printf("%lld B", (long long)bytes);
    for (; n >= 999.95 && unit + 1 < ARRAY_LEN(UNITS); unit++)
        n /= 1000;
    return str_printf("%.1f %s", n, UNITS[unit]);
}

void bar_tick(void *ctx)
{
    struct bar *p = ctx;
    if (!p->shows)
        return;
    off_t offset = p->fd >= 0 ? lseek(p->fd, 0, SEEK_CUR) : 0;
    int64_t done = p->done + (offset > 0 ? offset : 0);
    done = done < p->total ? done : p->total;
    int64_t ms = clock_mono_ms() - p->start_ms;
    int64_t rate = ms > 0 ? done * 1000 / ms : 0;
    int percent = p->total ? (int)(done * PERCENT / p->total) : PERCENT;
    char bar[BAR_CELLS + 1];
    for (int i = 0; i < BAR_CELLS; i++)
        bar[i] = i * PERCENT < percent * BAR_CELLS ? '=' : ' ';
    bar[BAR_CELLS] = '\0';
    char *at auto_free = bar_bytes(done);
    char *all auto_free = bar_bytes(p->total);
    char *each auto_free = bar_bytes(rate);
    char *left auto_free = rate ? cli_span((p->total - done) / rate) : xstrdup("-");
    fprintf(stderr, "\r\033[K%3d%% [%s] %s of %s, %s/s, %s left", percent, bar, at, all, each,
            left);
    p->is_drawn = true;
}

void bar_end(struct bar *p)
{
    if (p->is_drawn)
        fputs("\r\033[K", stderr);
    p->is_drawn = p->shows = false;
}
