// SPDX-License-Identifier: Apache-2.0
// The progress display of a long job: plain lines, and the one line on a terminal.
#include <stdlib.h>
#include <string.h>

#include "sandbox-backend/base/buf.h"
#include "sandbox-backend/base/mem.h"
#include "sandbox-backend/template/progress.h"
#include "tests/lib/harness/tap.h"

static const struct progress_stage STAGES[] = {{"first", 1000}, {"second", 3000}};

static void test_plain(void)
{
    char *text auto_free = NULL;
    size_t len = 0;
    FILE *out = open_memstream(&text, &len);
    struct progress p;
    progress_init(&p, out, false, STAGES, 2);
    progress_next(&p);
    progress_tick(&p);
    progress_say(&p, "a %s line", "special");
    progress_next(&p);
    progress_done(&p);
    fclose(out);
    is_str(text,
           "1/2 first\n"
           "a special line\n"
           "1/2 first: done in 0.0 s\n"
           "2/2 second\n"
           "2/2 second: done in 0.0 s\n"
           "done in 0.0 s\n",
           "lines without control codes");
}

static void test_failure(void)
{
    char *text auto_free = NULL;
    size_t len = 0;
    FILE *out = open_memstream(&text, &len);
    struct progress p;
    progress_init(&p, out, false, STAGES, 2);
    progress_next(&p);
    progress_fail(&p);
    progress_fail(&p);
    fclose(out);
    is_str(text, "1/2 first\n1/2 first: failed after 0.0 s\n", "a failure, said once");
}

static int bar_of(const struct progress *p, int64_t now_ms)
{
    struct buf line auto_buf = BUF_INIT;
    int filled = 0;
    progress_render(&line, p, now_ms, 80);
    for (const char *c = buf_str(&line); *c; c++)
        filled += *c == '#';
    return filled;
}

static void test_bar(void)
{
    struct progress p = {.stages = STAGES, .count = 2, .at = 0};
    struct buf line auto_buf = BUF_INIT;
    progress_render(&line, &p, 0, 80);
    is_str(buf_str(&line), "[........................] 1/2 first 0.0 s", "the start");
    buf_clear(&line);
    progress_render(&line, &p, 61500, 80);
    ok(strstr(buf_str(&line), "first 61.5 s"), "the time of the stage: %s", buf_str(&line));
    ok(bar_of(&p, 100) <= bar_of(&p, 1000), "it grows");
    ok(bar_of(&p, 3600000) <= 6, "a slow stage does not eat the next one's part");
    p.at = 1;
    is_int(bar_of(&p, 0), 6, "a quarter is done after the first");
    ok(bar_of(&p, 3600000) <= 24, "never more than the whole");
    buf_clear(&line);
    progress_render(&line, &p, 0, 10);
    is_int(line.len, 10, "never wider than the terminal");
    p = (struct progress){.stages = STAGES, .count = 2, .at = -1};
    is_int(bar_of(&p, 5), 0, "before the first stage");
}

int main(void)
{
    test_plain();
    test_failure();
    test_bar();
    return tap_done();
}
