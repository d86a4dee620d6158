// SPDX-License-Identifier: Apache-2.0
// The progress of a build.
#include "sandbox-backend/build/report.h"

#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>

#include "sandbox-backend/base/clock.h"
#include "sandbox-backend/base/json.h"
#include "sandbox-backend/base/mem.h"
#include "sandbox-backend/base/str.h"
#include "sandbox-backend/base/visible.h"

#define LINE_BYTES_MAX 4096 // a longer line of a step's output is cut into several
#define SHOWN_BYTES    100  // of a line on a terminal
#define NAME_BYTES     200
#define BAR_WIDTH      20
#define CLEAR_LINE     "\r\033[K"
#define LINE_UP        "\033[A"

void report_init(struct report *r, FILE *out, bool json, bool terminal)
{
    *r = (struct report){.out = out, .json = json, .terminal = terminal && !json};
}

static void forget_tail(struct report *r)
{
    for (int i = 0; i < REPORT_TAIL_LINES; i++)
        free(steal(&r->tail[i]));
}

void report_fini(struct report *r)
{
    forget_tail(r);
    buf_fini(&r->partial[0]);
    buf_fini(&r->partial[1]);
    free(steal(&r->name));
}

static void emit(struct report *r, json_t *event)
{
    char *text auto_free = json_to_string(event);
    fprintf(r->out, "%s\n", text);
    fflush(r->out);
    json_decref(event);
}

// ---- a terminal
static void erase(struct report *r)
{
    for (; r->shown > 0; r->shown--)
        fputs(LINE_UP CLEAR_LINE, r->out);
}

// Return how many bytes of a line fit on the terminal beside its prefix. A line that wraps could
// not be erased.
static size_t fitting(const struct report *r, const char *prefix)
{
    struct winsize size = {0};
    size_t taken = strlen(prefix) + 1;
    if (ioctl(fileno(r->out), TIOCGWINSZ, &size) < 0 || size.ws_col == 0)
        return SHOWN_BYTES;
    size_t left = size.ws_col > taken ? size.ws_col - taken : 1;
    return left < SHOWN_BYTES ? left : SHOWN_BYTES;
}

static void draw_line(struct report *r, const char *text, const char *prefix)
{
    char *safe auto_free = visible_text(text);
    size_t len = utf8_valid_prefix(safe, strnlen(safe, fitting(r, prefix)));
    fprintf(r->out, CLEAR_LINE "%s%.*s\n", prefix, (int)len, safe);
    r->shown++;
}

static void draw(struct report *r)
{
    char bar[BAR_WIDTH + 1];
    int full = r->count > 0 ? (r->index - 1) * BAR_WIDTH / r->count : 0;
    for (int i = 0; i < BAR_WIDTH; i++)
        bar[i] = i < full ? '#' : '.';
    bar[BAR_WIDTH] = '\0';
    erase(r);
    char *head auto_free =
        str_printf("[%s] %d/%d %llds %s", bar, r->index, r->count,
                   (long long)((clock_mono_ms() - r->started_ms) / 1000), r->name ? r->name : "");
    draw_line(r, head, "");
    for (int i = 0; i < REPORT_TAIL_LINES; i++)
        if (r->tail[i])
            draw_line(r, r->tail[i], "    ");
    fflush(r->out);
}

void report_tick(struct report *r)
{
    if (r->terminal && r->name)
        draw(r);
}

// ---- steps
void report_start(struct report *r, int steps)
{
    r->count = steps;
    if (r->json)
        emit(r, json_pack("{s:s, s:i}", "event", "start", "steps", steps));
}

void report_warning(struct report *r, const char *text)
{
    if (r->json) {
        emit(r, json_pack("{s:s, s:o}", "event", "warning", "message",
                          json_lossy_string(text, strlen(text))));
        return;
    }
    char *safe auto_free = visible_text(text);
    erase(r);
    fprintf(r->out, "warning: %s\n", safe);
    fflush(r->out);
}

static char *short_name(const char *name)
{
    size_t len = strcspn(name, "\n");
    len = utf8_valid_prefix(name, len < NAME_BYTES ? len : NAME_BYTES);
    return xstrndup(name, len);
}

void report_step(struct report *r, int index, const char *name, int line, bool cached)
{
    free(r->name);
    r->name = short_name(name);
    r->index = index;
    r->line = line;
    r->started_ms = clock_mono_ms();
    forget_tail(r);
    if (r->json) {
        emit(r, json_pack("{s:s, s:i, s:i, s:s, s:b, s:i}", "event", "step", "index", index,
                          "count", r->count, "name", r->name, "cached", (int)cached, "line", line));
        return;
    }
    char *safe auto_free = visible_text(r->name);
    if (cached || !r->terminal) {
        erase(r);
        fprintf(r->out, "%d/%d %s%s\n", index, r->count, safe, cached ? " (cached)" : "");
        fflush(r->out);
    } else {
        draw(r);
    }
}

static void end_line(struct report *r, bool is_stderr)
{
    struct buf *b = &r->partial[is_stderr];
    struct buf clean auto_buf = BUF_INIT;
    while (b->len && b->data[b->len - 1] == '\r')
        b->data[--b->len] = '\0';
    utf8_sanitize(&clean, buf_str(b), b->len);
    buf_clear(b);
    if (r->json) {
        emit(r, json_pack("{s:s, s:i, s:s, s:s}", "event", "log", "index", r->index, "stream",
                          is_stderr ? "stderr" : "stdout", "text", buf_str(&clean)));
    } else if (r->terminal) {
        free(r->tail[0]);
        memmove(r->tail, r->tail + 1, sizeof r->tail - sizeof r->tail[0]);
        r->tail[REPORT_TAIL_LINES - 1] = xstrdup(buf_str(&clean));
    } else {
        char *safe auto_free = visible_text(buf_str(&clean));
        fprintf(r->out, "    %s\n", safe);
        fflush(r->out);
    }
}

void report_output(struct report *r, bool is_stderr, const char *data, size_t len)
{
    struct buf *b = &r->partial[is_stderr];
    for (size_t i = 0; i < len; i++) {
        if (data[i] != '\n')
            buf_addc(b, data[i]);
        if (data[i] == '\n' || b->len >= LINE_BYTES_MAX)
            end_line(r, is_stderr);
    }
}

static void flush_partial(struct report *r)
{
    for (int i = 0; i < 2; i++)
        if (r->partial[i].len)
            end_line(r, i == 1);
}

void report_step_done(struct report *r)
{
    flush_partial(r);
    if (r->terminal && r->name) {
        char *safe auto_free = visible_text(r->name);
        erase(r);
        fprintf(r->out, "%d/%d %s (%.1f s)\n", r->index, r->count, safe,
                (double)(clock_mono_ms() - r->started_ms) / 1000);
        fflush(r->out);
    }
    free(steal(&r->name));
}

// ---- the end
void report_done(struct report *r, const json_t *template)
{
    if (r->json)
        emit(r, json_pack("{s:s, s:O}", "event", "done", "template", template));
}

void report_error(struct report *r, const struct err *e)
{
    flush_partial(r);
    if (r->json) {
        json_t *event = json_pack("{s:s, s:s}", "event", "error", "message", e->msg);
        if (!event) // the message is not UTF-8
            event = json_pack("{s:s, s:o}", "event", "error", "message",
                              json_lossy_string(e->msg, strlen(e->msg)));
        if (r->name) {
            json_object_set_new(event, "step", json_string(r->name));
            json_object_set_new(event, "index", json_integer(r->index));
            json_object_set_new(event, "line", json_integer(r->line));
        }
        emit(r, event);
        return;
    }
    if (r->terminal && r->name) {
        erase(r);
        char *safe auto_free = visible_text(r->name);
        fprintf(r->out, "%d/%d %s: failed. The last lines:\n", r->index, r->count, safe);
        for (int i = 0; i < REPORT_TAIL_LINES; i++)
            if (r->tail[i]) {
                char *line auto_free = visible_text(r->tail[i]);
                fprintf(r->out, "    %s\n", line);
            }
        fflush(r->out);
    }
}
