// SPDX-License-Identifier: Apache-2.0
// Commands that outlive the call that starts them.
#include "mcp-server/tools/run/background.h"

#include <stdio.h>
#include <string.h>

#include "mcp-server/text/text.h"
#include "mcp-server/tools/run/network_hint.h"
#include "sandbox-backend/base/clock.h"
#include "sandbox-backend/base/json.h"
#include "sandbox-backend/base/mem.h"
#include "sandbox-backend/base/str.h"

#define ID_DIGITS      8
#define USER_BYTES_MAX 32
#define FACTS_BYTES    ((size_t)128)
#define MARGIN_MS      20000 // for the script itself, beyond what it waits
#define STOP_MARGIN_MS 30000 // the same, for one that stops a command
#define STOP_BYTES     ((size_t)4096)
#define NO_SUCH        40    // exit code of the scripts
#define NEW_TICKS      "100" // tenths of a second for a new command's files to appear
#define REST_MS        100   // for the rest of a character, even without wait_seconds

#define CHARACTER_BYTES_MAX ((size_t)4)

// ---- 1. ids

char *background_new_id(const char *user)
{
    char *digits auto_free = random_hex(ID_DIGITS / 2);
    return str_printf("%s%s%s", digits, user ? "-" : "", user ? user : "");
}

const char *background_user(const char *id)
{
    return id[ID_DIGITS] == '-' ? id + ID_DIGITS + 1 : NULL;
}

// The id becomes a part of a path in the sandbox, so only ids of our own form are valid.
static bool is_id(const char *id)
{
    static const char USER[] = "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789_-";
    if (strspn(id, "0123456789abcdef") < ID_DIGITS)
        return false;
    if (id[ID_DIGITS] == '\0')
        return true;
    const char *user = background_user(id);
    size_t len = user ? strlen(user) : 0;
    return len > 0 && len <= USER_BYTES_MAX && strspn(user, USER) == len;
}

bool background_check_id(struct tool_call *c)
{
    const char *id = tool_call_string(c, "command_id");
    if (is_id(id))
        return true;
    int shown = (int)utf8_valid_prefix(id, strnlen(id, 60));
    tool_call_fail(c, "invalid_command_id",
                   "'%.*s' is not a command id. An id is 8 hex digits, followed by -USER if the "
                   "command runs as another user%s",
                   shown, id, tool_call_hint(c, "start_command", ". start_command returns it"));
    return false;
}

// ---- 2. reading

struct reading {
    background_page_cb cb;
    void *ctx;
    char *id; // owned
    int64_t cursor;
    size_t max_bytes;
    int64_t until_ms; // clock_mono_ms
    bool is_new;      // wait for its files
    bool is_last;     // there is no reading again after this
};

static void run_read(struct tool_call *c, struct reading *k, int64_t wait_ms, size_t few);

static size_t character_bytes(char first)
{
    unsigned char c = (unsigned char)first;
    return c > 0xf4 ? 1 : c >= 0xf0 ? 4 : c >= 0xe0 ? 3 : c >= 0xc2 ? 2 : 1;
}

// Return the length without an incomplete character at the end, which is left for the next page.
static size_t whole_characters(const char *data, size_t len)
{
    size_t first = len;
    do
        first--;
    while (first > 0 && len - first < CHARACTER_BYTES_MAX &&
           ((unsigned char)data[first] & 0xc0) == 0x80);
    return len - first < character_bytes(data[first]) ? first : len;
}

void background_page_end(struct background_page *p, size_t len, int64_t total)
{
    bool is_all = !p->is_running && p->from + (int64_t)len >= total;
    p->len = is_all || len == 0 ? len : whole_characters(p->data, len);
    p->next = p->from + (int64_t)p->len;
    p->total = total > p->next ? total : p->next;
}

// Parse the output of BACKGROUND_READ. *there: the received bytes, which may be more than the page
// holds.
static bool parse(const struct buf *out, size_t max_bytes, struct background_page *p, size_t *there)
{
    char state[16];
    long long from;
    long long total;
    const char *end = memchr(buf_str(out), '\n', out->len);
    if (!end || sscanf(out->data, "%15s %d %lld %lld", state, &p->exit_code, &from, &total) != 4)
        return false;
    p->is_running = str_eq(state, "running");
    p->is_lost = str_eq(state, "lost");
    p->data = end + 1;
    p->from = from;
    *there = out->len - (size_t)(p->data - out->data);
    background_page_end(p, *there < max_bytes ? *there : max_bytes, total);
    // The page is smaller than one character: take the whole character, to make progress.
    if (p->len == 0 && *there > 0 && character_bytes(*p->data) <= *there)
        background_page_end(p, character_bytes(*p->data), total);
    return true;
}

static void done(struct tool_call *c, struct reading *k, const struct background_page *p)
{
    background_page_cb cb = k->cb;
    void *ctx = k->ctx;
    free(k->id);
    free(k);
    cb(c, p, ctx);
}

static void on_read(struct tool_call *c, struct guest_result *r, const struct err *e, void *ctx)
{
    struct reading *k = ctx;
    struct background_page page;
    size_t there;
    if (e || r->exit_code != 0 || !parse(&r->out, k->max_bytes, &page, &there)) {
        background_fail(c, "read the command's output", r, e);
        done(c, k, NULL);
        return;
    }
    int64_t left = k->until_ms - clock_mono_ms();
    if (page.len == 0 && there > 0 && !k->is_last && !c->cancelled) {
        // Only a part of a character has come. Wait once for the rest.
        k->is_last = true;
        k->cursor = page.from;
        run_read(c, k, left > REST_MS ? left : REST_MS, there);
        return;
    }
    if (page.len == 0 && there > 0) {
        page.len = there < k->max_bytes ? there : k->max_bytes;
        page.next = page.from + (int64_t)page.len;
    }
    done(c, k, &page);
}

// Wait for more than `few` bytes after the cursor.
static void run_read(struct tool_call *c, struct reading *k, int64_t wait_ms, size_t few)
{
    size_t most = k->max_bytes > CHARACTER_BYTES_MAX ? k->max_bytes : CHARACTER_BYTES_MAX;
    char *cursor auto_free = str_printf("%lld", (long long)k->cursor);
    char *bytes auto_free = str_printf("%zu", most);
    char *ticks auto_free = str_printf("%lld", (long long)wait_ms / 100);
    char *least auto_free = str_printf("%zu", few);
    const char *const args[] = {k->id, cursor, bytes, ticks, least, k->is_new ? NEW_TICKS : "0",
                                NULL};
    guest_script_run(c,
                     &(struct guest_script){
                         .text = BACKGROUND_READ,
                         .args = args,
                         .user = background_user(k->id),
                         .cwd = "/",
                         .timeout_ms = wait_ms + MARGIN_MS,
                         .out_max = most + FACTS_BYTES,
                         .open_stdin = true,
                     },
                     on_read, k);
}

void background_read(struct tool_call *c, const struct background_read *read, background_page_cb cb,
                     void *ctx)
{
    struct reading *k = xmalloc(sizeof *k);
    *k = (struct reading){.cb = cb,
                          .ctx = ctx,
                          .id = xstrdup(read->id),
                          .cursor = read->cursor,
                          .max_bytes = read->max_bytes,
                          .is_new = read->is_new,
                          .until_ms = clock_mono_ms() + read->wait_ms};
    run_read(c, k, read->wait_ms, 0);
}

// ---- 3. stopping

static void on_abandoned(struct tool_call *c, struct guest_result *r, const struct err *e,
                         void *ctx)
{
    (void)r, (void)e, (void)ctx;
    tool_call_fail(c, "cancelled", "the call was cancelled");
}

void background_stop(struct tool_call *c, const char *id, const char *signal, double grace_s,
                     guest_script_cb cb)
{
    char *ticks auto_free = str_printf("%d", (int)(grace_s * 10));
    const char *const args[] = {id, signal, ticks, NULL};
    guest_script_run(c,
                     &(struct guest_script){
                         .text = BACKGROUND_STOP,
                         .args = args,
                         .user = background_user(id),
                         .cwd = "/",
                         .timeout_ms = (int64_t)(grace_s * 1000) + STOP_MARGIN_MS,
                         .out_max = STOP_BYTES,
                         .open_stdin = true,
                     },
                     cb, NULL);
}

void background_abandon(struct tool_call *c, const char *id)
{
    background_stop(c, id, "KILL", 0, on_abandoned);
}

// ---- 4. results

json_t *background_structured(const char *id, const struct background_page *p)
{
    json_t *o = json_object();
    json_object_set_new(o, "command_id", json_string(id));
    json_object_set_new(o, "running", json_boolean(p->is_running));
    if (!p->is_running && !p->is_lost)
        json_object_set_new(o, "exit_code", json_integer(p->exit_code));
    json_object_set_new(o, "output", json_lossy_string(p->data, p->len));
    json_object_set_new(o, "cursor", json_integer(p->from));
    json_object_set_new(o, "next_cursor", json_integer(p->next));
    json_object_set_new(o, "total_bytes", json_integer(p->total));
    return o;
}

static void on_hint(struct tool_call *c, char *hint, void *ctx)
{
    json_t *o = ctx;
    char *text auto_free = hint;
    if (text)
        json_object_set_new(o, "network_hint", json_lossy_string(text, strlen(text)));
    tool_call_finish(c, o);
}

void background_finish(struct tool_call *c, const char *id, const struct background_page *p,
                       int64_t before_s)
{
    json_t *o = background_structured(id, p);
    bool has_failed = !p->is_running && (p->is_lost || p->exit_code != 0);
    if (!(has_failed || network_hint_is_likely(p->data, p->len)) ||
        !network_hint_ask(c, before_s, on_hint, o))
        tool_call_finish(c, o);
}

static void add_state(struct buf *out, const json_t *o)
{
    const json_t *code = json_object_get(o, "exit_code");
    if (json_is_true(json_object_get(o, "running")))
        buf_adds(out, "running");
    else if (code)
        buf_printf(out, "exit code %lld", (long long)json_integer_value(code));
    else
        buf_adds(out, "killed; exit code unknown");
}

char *background_text(const json_t *o)
{
    struct buf out = BUF_INIT;
    long long more = text_int(o, "total_bytes") - text_int(o, "next_cursor");
    text_add_part(&out, NULL, text_string(o, "output"));
    buf_printf(&out, "[command %s: ", text_string(o, "command_id"));
    add_state(&out, o);
    if (more > 0)
        buf_printf(&out, "; %lld more bytes to read", more);
    buf_printf(&out, "; next cursor %lld]", text_int(o, "next_cursor"));
    text_add_network_hint(&out, o);
    return buf_take(&out);
}

// `known` comes from the guest: one command a line.
static void fail_unknown(struct tool_call *c, const struct buf *known)
{
    const char *id = tool_call_string(c, "command_id");
    struct buf list auto_buf = BUF_INIT;
    for (const char *line = buf_str(known); *line;) {
        size_t len = strcspn(line, "\n");
        buf_adds(&list, list.len ? "; " : "");
        utf8_sanitize(&list, line, len);
        line += len + (line[len] == '\n');
    }
    if (list.len)
        tool_call_fail(c, "command_not_found",
                       "there is no command %s in this sandbox. Known commands: %s", id,
                       buf_str(&list));
    else
        tool_call_fail(c, "command_not_found",
                       "there is no command %s: this sandbox has no background commands%s", id,
                       tool_call_hint(c, "start_command", ". start_command starts one"));
}

void background_fail(struct tool_call *c, const char *what, const struct guest_result *r,
                     const struct err *e)
{
    const char *id = tool_call_string(c, "command_id");
    const char *user = id ? background_user(id) : NULL;
    if (!e && r->exit_code == NO_SUCH)
        fail_unknown(c, &r->out);
    else if (e && e->code == ERR_UNAUTHENTICATED && user && strstr(e->msg, "user"))
        tool_call_fail(c, "command_not_found",
                       "there is no command %s in this sandbox, and no user %s", id, user);
    else
        guest_script_fail(c, what, r, e);
}
