// SPDX-License-Identifier: Apache-2.0
// The progress display of a long job: its stages and how long each took.
#include "sandbox-backend/template/progress.h"

#include <stdarg.h>
#include <string.h>
#include <sys/ioctl.h>

#include "sandbox-backend/base/clock.h"
#include "sandbox-backend/base/str.h"

#define BAR_COLUMNS   24
#define WIDTH_DEFAULT 80
#define PER_MILLE     1000

void progress_init(struct progress *p, FILE *out, bool terminal,
                   const struct progress_stage *stages, int count)
{
    *p = (struct progress){.out = out,
                           .terminal = terminal,
                           .stages = stages,
                           .count = count,
                           .at = -1,
                           .started_ms = clock_mono_ms()};
}

// Return the part of its share of the bar that a stage has reached. A stage that takes longer than
// expected moves ever slower towards the end of its share and never reaches it.
static int64_t stage_part(int64_t elapsed_ms, int64_t expected_ms)
{
    return expected_ms * elapsed_ms / (elapsed_ms + expected_ms / 2 + 1);
}

static int done_per_mille(const struct progress *p, int64_t now_ms)
{
    int64_t all = 0;
    int64_t done = 0;
    for (int i = 0; i < p->count; i++) {
        all += p->stages[i].expected_ms;
        if (i < p->at)
            done += p->stages[i].expected_ms;
        else if (i == p->at)
            done += stage_part(now_ms - p->stage_started_ms, p->stages[i].expected_ms);
    }
    return all ? (int)(done * PER_MILLE / all) : 0;
}

void progress_render(struct buf *out, const struct progress *p, int64_t now_ms, int width)
{
    int filled = done_per_mille(p, now_ms) * BAR_COLUMNS / PER_MILLE;
    const char *name = p->at >= 0 && p->at < p->count ? p->stages[p->at].name : "";
    struct buf line auto_buf = BUF_INIT;
    buf_addc(&line, '[');
    for (int i = 0; i < BAR_COLUMNS; i++)
        buf_addc(&line, i < filled ? '#' : '.');
    buf_printf(&line, "] %d/%d %s %.1f s", p->at + 1, p->count, name,
               (double)(now_ms - p->stage_started_ms) / 1000);
    size_t len = width > 0 && line.len > (size_t)width ? (size_t)width : line.len;
    buf_add(out, line.data, len);
}

static int terminal_width(FILE *out)
{
    struct winsize size;
    if (ioctl(fileno(out), TIOCGWINSZ, &size) < 0 || size.ws_col == 0)
        return WIDTH_DEFAULT;
    return size.ws_col - 1; // some terminals wrap after the last column
}

void progress_tick(struct progress *p)
{
    if (!p->terminal || p->at < 0)
        return;
    struct buf line auto_buf = BUF_INIT;
    progress_render(&line, p, clock_mono_ms(), terminal_width(p->out));
    fprintf(p->out, "\r\033[K%s", buf_str(&line));
    fflush(p->out);
}

static void clear_line(const struct progress *p)
{
    if (p->terminal)
        fputs("\r\033[K", p->out);
}

static void end_stage(struct progress *p, const char *how)
{
    if (p->at < 0 || p->at >= p->count)
        return;
    clear_line(p);
    fprintf(p->out, "%d/%d %s: %s %.1f s\n", p->at + 1, p->count, p->stages[p->at].name, how,
            (double)(clock_mono_ms() - p->stage_started_ms) / 1000);
    fflush(p->out);
}

void progress_next(struct progress *p)
{
    end_stage(p, "done in");
    p->at++;
    p->stage_started_ms = clock_mono_ms();
    if (!p->terminal)
        fprintf(p->out, "%d/%d %s\n", p->at + 1, p->count,
                p->at < p->count ? p->stages[p->at].name : "");
    fflush(p->out);
    progress_tick(p);
}

void progress_say(struct progress *p, const char *fmt, ...)
{
    va_list ap;
    clear_line(p);
    va_start(ap, fmt);
    vfprintf(p->out, fmt, ap);
    va_end(ap);
    fputc('\n', p->out);
    fflush(p->out);
    progress_tick(p);
}

void progress_done(struct progress *p)
{
    end_stage(p, "done in");
    p->at = p->count;
    fprintf(p->out, "done in %.1f s\n", (double)(clock_mono_ms() - p->started_ms) / 1000);
    fflush(p->out);
}

void progress_fail(struct progress *p)
{
    end_stage(p, "failed after");
    p->at = p->count;
}
