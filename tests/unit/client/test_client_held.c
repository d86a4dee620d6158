// SPDX-License-Identifier: Apache-2.0
// Streams that a proxy holds back: a command, a watch and a kernel's lines of which nothing comes
// until they end.
#include "sandbox-backend/client/client_internal.h"
#include "tests/lib/client/client_cmd.h"

#define ID      "0123456789abcdef0123456789abcdef"
#define LIST    "POST /process.Process/List\n"
#define SANDBOX "{\"sandboxID\":\"" ID "\",\"envdVersion\":\"0.6.13\",\"state\":\"running\"}"
#define PAUSED  "{\"sandboxID\":\"" ID "\",\"envdVersion\":\"0.6.13\",\"state\":\"paused\"}"

// Milliseconds. A busy host can delay a look by many times ALIVE before the stream is lost.
#define SILENCE 1500
#define ALIVE   50
#define TWICE   (2 * SILENCE / ALIVE) // looks: twice as long as a silent stream may be

static char tag[64];     // of the command that was started
static int looks;        // for which the command still runs
static const char *with; // what the held stream brings after that; NULL: it never ends
static bool is_paused;
static int polls;
static char seen_changes[64];

// ---- the server's side
static void note_tag(const struct fake *fake)
{
    const char *at = strstr(buf_str(&fake->body) + CONNECT_ENVELOPE_HEAD, "\"tag\":\"");
    snprintf(tag, sizeof tag, "%.*s", at ? (int)strcspn(at + 7, "\"") : 0, at ? at + 7 : "");
}

static void end_held(struct fake *fake)
{
    struct http_request *req = fake->held;
    fake->held = NULL;
    cmd_begin_stream(req);
    cmd_message(req, "{\"event\":{\"data\":{\"stdout\":\"aGk=\"}}}");
    cmd_message(req, with);
    cmd_end_stream(req, "{}");
}

static void answer_list(struct fake *fake, struct http_request *req)
{
    char *list auto_free =
        str_printf("{\"processes\":[{\"config\":{},\"pid\":3,\"tag\":\"other\"},{\"config\":{}},"
                   "{\"config\":{},\"pid\":7,\"tag\":\"%s\"}]}",
                   tag);
    bool runs = looks-- > 0;
    fake_json(req, 200, runs ? list : "{\"processes\":[]}");
    if (!runs && fake->held && with)
        end_held(fake);
}

static void answer(struct fake *fake, struct http_request *req, const char *target)
{
    if (strcmp(target, "/sandboxes/" ID) == 0) {
        fake_json(req, 200, is_paused ? PAUSED : SANDBOX);
    } else if (strstr(target, "/List")) {
        answer_list(fake, req);
    } else if (strstr(target, "/Start") || strstr(target, "/Connect")) {
        note_tag(fake);
        fake->held = req;
    } else {
        fake_json(req, 200, "{}");
    }
}

static void open_held(void)
{
    fake_open(&cmd.fake, "http://127.0.0.1:%d/");
    cmd.fake.answer = answer;
    cmd.fake.client->dialect = &dialect_cube;
    identify_free(cmd.fake.client->identify);
    cmd.fake.client->identify = NULL;
    cmd.fake.client->times = (struct stream_times){
        .silence = SILENCE, .held_first = 20, .held_alive = ALIVE, .held_ending = 50};
    is_paused = false;
    looks = TWICE;
    with = "{\"event\":{\"end\":{\"exited\":true,\"status\":\"exit status 0\"}}}";
}

static void run(const struct command_opts *opts)
{
    cmd_begin(ID, opts);
    fake_run(&cmd.fake);
}

// ---- commands
static void test_quiet_command(void)
{
    const struct command_opts opts = {.cmd = "sleep"};
    open_held();
    run(&opts);
    ok(!err_is(&cmd.fake.err), "it ran to its end: %s", cmd.fake.err.msg);
    is_int(cmd.result.end, COMMAND_EXITED, "with its exit code");
    is_str(buf_str(&cmd.out), "hi", "and its output");
    is_str(buf_str(&cmd.events_seen), "start 7;held;", "its start was found");
    ok(str_starts(tag, "cubby-"), "by a tag: %s", tag);
    ok(cmd.fake.client->holds_streams, "the proxy is known");
    fake_close(&cmd.fake);
}

static void test_own_tag_and_end(void)
{
    const struct command_opts opts = {.cmd = "sleep", .tag = "mine"};
    open_held();
    looks = 1;
    with = NULL;
    run(&opts);
    is_str(tag, "mine", "the caller's tag stays");
    is_int(cmd.fake.err.code, ERR_UNAVAILABLE, "a stream that does not end: %s", cmd.fake.err.msg);
    ok(strstr(cmd.fake.err.msg, "has ended, but its stream has not"), "is told");
    ok(cmd.result.may_have_run, "it ran");
    fake_close(&cmd.fake);
}

static void test_paused(void)
{
    const struct command_opts opts = {.cmd = "sleep"};
    open_held();
    looks = 1000;
    cmd_begin(ID, &opts);
    while (looks > 998)
        uv_run(&cmd.fake.loop, UV_RUN_ONCE);
    is_paused = true;
    cmd.fake.client->accesses.entries[0]->asked_ms -= 10000; // what is known is old
    fake_run(&cmd.fake);
    ok(strstr(cmd.fake.err.msg, "is paused"), "told at the next look: %s", cmd.fake.err.msg);
    fake_close(&cmd.fake);
}

static void on_held_leave(void *ctx)
{
    (void)ctx;
    client_leave(cmd.op);
}

static void on_held_cancel(void *ctx)
{
    (void)ctx;
    client_cancel(cmd.op);
}

static void run_and(void (*on_held)(void *ctx))
{
    const struct command_events events = {.on_stdout = cmd_on_stdout,
                                          .on_stderr = cmd_on_stderr,
                                          .on_held = on_held,
                                          .on_end = cmd_on_end};
    const struct command_opts opts = {.cmd = "server"};
    open_held();
    cmd.op = client_command(cmd.fake.client, ID, &opts, &events, &cmd.fake);
    fake_run(&cmd.fake);
}

static void test_leave_and_cancel(void)
{
    run_and(on_held_leave);
    ok(!err_is(&cmd.fake.err) && cmd.result.end == COMMAND_LEFT, "left: %s", cmd.fake.err.msg);
    ok(!strstr(buf_str(&cmd.fake.seen), CMD_KILL), "and not killed");
    fake_close(&cmd.fake);
    run_and(on_held_cancel);
    is_int(cmd.fake.err.code, ERR_CANCELED, "canceled");
    ok(strstr(buf_str(&cmd.fake.seen), CMD_KILL), "and killed by the pid that was found");
    fake_close(&cmd.fake);
}

static void test_terminal(void)
{
    const struct command_opts opts = {.cmd = "bash", .columns = 80, .rows = 24};
    open_held();
    looks = 1000;
    run(&opts);
    is_int(cmd.fake.err.code, ERR_UNIMPLEMENTED, "a terminal: %s", cmd.fake.err.msg);
    ok(strstr(cmd.fake.err.msg, "--cube-master"), "with what to do");
    ok(strstr(buf_str(&cmd.fake.seen), CMD_KILL), "its command is killed");
    const struct command_opts join = {.tag = "t", .joins = true, .columns = 80, .rows = 24};
    buf_clear(&cmd.fake.seen);
    run(&join);
    is_int(cmd.fake.err.code, ERR_UNIMPLEMENTED, "one that is joined: %s", cmd.fake.err.msg);
    ok(!strstr(buf_str(&cmd.fake.seen), CMD_KILL), "is not killed");
    fake_close(&cmd.fake);
}

// ---- a kernel's lines
static int beats;
static bool was_held;

static void answer_kernel(struct fake *fake, struct http_request *req, const char *target)
{
    if (strcmp(target, "/health") != 0) {
        fake->held = req;
        return;
    }
    fake_json(req, 200, "\"OK\"");
    if (--beats > 0)
        return;
    fake_json(fake->held, 200, "{\"type\":\"end_of_execution\"}\n");
    fake->held = NULL;
}

static void on_line(const char *line, size_t len, void *ctx)
{
    (void)line, (void)len, (void)ctx;
}

static void on_held(void *ctx)
{
    (void)ctx;
    ok(!was_held, "told once");
    was_held = true;
}

static void on_stream_end(int status, const struct err *e, void *ctx)
{
    is_int(status, 200, "its status");
    fake_finish(ctx, e);
}

static void test_kernel(void)
{
    static const struct stream_events EVENTS = {
        .on_line = on_line, .on_held = on_held, .on_end = on_stream_end};
    open_held();
    const json_t *sandbox = json_pack("{s:s,s:s}", "sandboxID", ID, "envdVersion", "0.6.13");
    access_cache_put(&cmd.fake.client->accesses, sandbox);
    json_decref((json_t *)(uintptr_t)sandbox);
    cmd.fake.answer = answer_kernel;
    beats = 8;
    client_stream(cmd.fake.client, ID, 49999, "POST", "/execute", NULL, &EVENTS, &cmd.fake);
    fake_run(&cmd.fake);
    ok(!err_is(&cmd.fake.err) && was_held, "a quiet kernel is not a lost one: %s",
       cmd.fake.err.msg);
    fake_close(&cmd.fake);
}

// ---- a watch
static void answer_watch(struct fake *fake, struct http_request *req, const char *target)
{
    if (strcmp(target, "/sandboxes/" ID) == 0)
        fake_json(req, 200, SANDBOX);
    else if (strstr(target, "/WatchDir"))
        fake->held = req;
    else if (strstr(target, "/CreateWatcher"))
        fake_json(req, 200, "{\"watcherId\":\"w1\"}");
    else if (strstr(target, "/GetWatcherEvents") && ++polls == 2)
        fake_json(req, 200, "{\"events\":[{\"name\":\"a\",\"type\":\"EVENT_TYPE_WRITE\"}]}");
    else
        fake_json(req, 200, polls > 2 ? "[" : "{}");
}

static void on_start(void *ctx)
{
    (void)ctx;
    strcat(seen_changes, "start;");
}

static void on_change(enum watch_kind kind, const char *name, void *ctx)
{
    (void)ctx;
    strcat(seen_changes, kind == WATCH_WRITE ? "write " : "? ");
    strcat(seen_changes, name);
    client_cancel(cmd.op);
}

static void on_watch_end(const struct err *e, void *ctx)
{
    fake_finish(ctx, e);
}

static void test_watch(void)
{
    static const struct watch_events EVENTS = {
        .on_start = on_start, .on_event = on_change, .on_end = on_watch_end};
    open_held();
    json_t *sandbox = json_pack("{s:s,s:s}", "sandboxID", ID, "envdVersion", "0.6.13");
    access_cache_put(&cmd.fake.client->accesses, sandbox);
    json_decref(sandbox);
    cmd.fake.answer = answer_watch;
    cmd.op = client_watch(cmd.fake.client, ID, "/tmp", false, NULL, &EVENTS, &cmd.fake);
    fake_run(&cmd.fake);
    is_int(cmd.fake.err.code, ERR_CANCELED, "ended by the caller: %s", cmd.fake.err.msg);
    is_str(seen_changes, "start;write a", "the changes were asked for");
    is_str(buf_str(&cmd.fake.body), "{\"watcherId\":\"w1\"}", "by envd's id");
    fake_close(&cmd.fake);
}

int main(void)
{
    test_quiet_command();
    test_own_tag_and_end();
    test_paused();
    test_leave_and_cancel();
    test_terminal();
    test_kernel();
    test_watch();
    cmd_fini();
    return tap_done();
}
