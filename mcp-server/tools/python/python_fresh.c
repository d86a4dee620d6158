// SPDX-License-Identifier: Apache-2.0
// Python code in a fresh interpreter. Its end is reported as a notebook reports it.
//
// Steps: 1. code that is too long for an argument goes into a file; 2. the interpreter runs under a
// login shell, so that it finds the same programs as run_command; 3. the result.
#include <string.h>

#include "mcp-server/tools/python/python.h"
#include "mcp-server/tools/run/guest_script.h"
#include "sandbox-backend/base/json.h"
#include "sandbox-backend/base/mem.h"
#include "sandbox-backend/base/str.h"

#define ARGUMENT_MAX ((size_t)96 * 1024) // Linux takes 128 KiB (MAX_ARG_STRLEN)
#define RECORD_MAX   ((size_t)512 * 1024)
#define RECORD_SEP   '\x1e'

// ---- the interpreter and its record

// Lines are flushed one by one, so that output before a timeout is not lost. The report is the
// first atexit handler, so it runs last, after threads and the code's own handlers.
const char PYTHON_RUNNER[] =
    "import sys\n"
    "def _run(mark, kind, code):\n"
    "    import ast, atexit, builtins, json, linecache, os, traceback, types\n"
    "    told = {}\n"
    "    def tidy(s, most=20000):\n"
    "        s = s.encode('utf-8', 'replace').decode().replace('\\0', '\\ufffd')\n"
    "        if len(s) > most:\n"
    "            cut = len(s) - most\n"
    "            s = f'{s[:most // 2]}\\n[... {cut} characters left out ...]\\n{s[-most // 2:]}'\n"
    "        return s\n"
    "    def report():\n"
    "        for stream in sys.stdout, sys.stderr:\n"
    "            try:\n"
    "                stream.flush()\n"
    "            except Exception:\n"
    "                pass\n"
    "        data = ('\\x1e' + mark + json.dumps(told) + '\\n').encode()\n"
    "        while data:\n"
    "            data = data[os.write(2, data):]\n"
    "    atexit.register(report)\n"
    "    sys.stdout.reconfigure(line_buffering=True)\n"
    "    sys.argv[:] = ['']\n"
    "    name = '<code>'\n"
    "    if kind == 'file':\n"
    "        path = code\n"
    "        with open(path, encoding='utf-8', newline='') as f:\n"
    "            code = f.read()\n"
    "        os.unlink(path)\n"
    "    linecache.cache[name] = len(code), None, code.splitlines(True), name\n"
    "    main = types.ModuleType('__main__')\n"
    "    main.__builtins__ = builtins\n"
    "    sys.modules['__main__'] = main\n"
    "    try:\n"
    "        tree = ast.parse(code, name)\n"
    "        last = tree.body[-1] if tree.body else None\n"
    "        if isinstance(last, ast.Expr):\n"
    "            target = ast.copy_location(ast.Name('_', ast.Store()), last)\n"
    "            tree.body[-1] = ast.copy_location(ast.Assign([target], last.value), last)\n"
    "        else:\n"
    "            last = None\n"
    "        whole = compile(tree, name, 'exec', ast.PyCF_ALLOW_TOP_LEVEL_AWAIT)\n"
    "        value = eval(whole, main.__dict__)\n"
    "        if whole.co_flags & 0x80:\n"
    "            import asyncio\n"
    "            asyncio.run(value)\n"
    "        if last and main.__dict__.get('_') is not None:\n"
    "            told['result'] = tidy(repr(main.__dict__['_']))\n"
    "    except SystemExit:\n"
    "        raise\n"
    "    except BaseException as e:\n"
    "        at = e.__traceback__\n"
    "        while at and at.tb_frame.f_code.co_filename != name:\n"
    "            at = at.tb_next\n"
    "        text = ''.join(traceback.format_exception(type(e), e, at))\n"
    "        told['error'] = {'name': type(e).__name__, 'value': tidy(str(e)),\n"
    "                         'traceback': tidy(text)}\n"
    "        sys.exit(1)\n"
    "_run(*sys.argv[1:])\n";

void python_record_init(struct python_record *r,
                        void (*pass)(const char *data, size_t len, void *ctx), void *ctx)
{
    *r = (struct python_record){.mark = {RECORD_SEP}, .pass = pass, .ctx = ctx};
    char *random auto_free = random_hex(PYTHON_MARK_BYTES / 2);
    memcpy(r->mark + 1, random, PYTHON_MARK_BYTES + 1);
}

void python_record_fini(struct python_record *r)
{
    buf_fini(&r->text);
}

// Take bytes of the record up to its end; return how many.
static size_t take_record(struct python_record *r, const char *data, size_t len)
{
    const char *newline = memchr(data, '\n', len);
    size_t n = newline ? (size_t)(newline - data) : len;
    if (!buf_try_add(&r->text, data, n, RECORD_MAX))
        buf_clear(&r->text); // not ours: the interpreter keeps its record far shorter
    r->inside = !newline;
    return newline ? n + 1 : n;
}

static void give_back(struct python_record *r)
{
    if (r->matched > 0)
        r->pass(r->mark, r->matched, r->ctx);
    r->matched = 0;
}

void python_record_feed(struct python_record *r, const char *data, size_t len)
{
    while (len > 0) {
        size_t n = 1;
        if (r->inside) {
            n = take_record(r, data, len);
        } else if (*data == r->mark[r->matched]) {
            if (++r->matched == sizeof r->mark - 1) {
                r->matched = 0;
                r->inside = true;
                buf_clear(&r->text);
            }
        } else if (r->matched > 0) {
            give_back(r); // and look at this byte again: the separator may start here
            n = 0;
        } else {
            const char *next = memchr(data, RECORD_SEP, len);
            n = next ? (size_t)(next - data) : len;
            r->pass(data, n, r->ctx);
        }
        data += n;
        len -= n;
    }
}

json_t *python_record_end(struct python_record *r)
{
    struct err e = ERR_INIT;
    give_back(r);
    json_t *record = r->text.len && !r->inside ? json_parse(r->text.data, r->text.len, &e) : NULL;
    if (record && !json_is_object(record)) {
        json_decref(record);
        record = NULL;
    }
    return record;
}

// ---- a call

struct python {
    struct python_record record;
    char *path; // owned: the file of long code, or NULL
};

static void on_free(struct run *r)
{
    struct python *p = r->ctx;
    python_record_fini(&p->record);
    free(p->path);
    free(p);
}

// ---- 3. the result

static json_t *died(const struct run *r)
{
    json_t *error = json_object();
    if (r->exit_code == GUEST_SCRIPT_NO_PROGRAM) {
        static const char TEXT[] =
            "this sandbox has no python3: install it, or use another template";
        json_object_set_new(error, "name", json_string("NoPython"));
        json_object_set_new(error, "value", json_string(TEXT));
        json_object_set_new(error, "traceback", json_string(TEXT));
        return error;
    }
    json_object_set_new(error, "name", json_string("InterpreterDied"));
    json_object_set_new(error, "value", json_lossy_string(r->status, strlen(r->status)));
    char *text auto_free =
        str_printf("InterpreterDied: Python ended without finishing (%s)", r->status);
    json_object_set_new(error, "traceback", json_lossy_string(text, strlen(text)));
    return error;
}

static bool is_error(const json_t *error)
{
    return json_is_string(json_object_get(error, "name")) &&
           json_is_string(json_object_get(error, "value")) &&
           json_is_string(json_object_get(error, "traceback"));
}

static void on_done(struct run *r)
{
    struct python *p = r->ctx;
    struct tool_call *c = r->call;
    json_t *record = python_record_end(&p->record);
    json_t *structured = run_structured(r);
    json_t *result = json_object_get(record, "result");
    json_t *error = json_object_get(record, "error");
    if (json_is_string(result))
        json_object_set(structured, "result", result);
    if (is_error(error))
        json_object_set(structured, "error", error);
    else if (!record && !r->timed_out)
        json_object_set_new(structured, "error", died(r));
    json_decref(record);
    run_free(r);
    tool_call_finish(c, structured);
}

// ---- 2. the interpreter

static void on_stderr(struct run *r, const char *data, size_t len)
{
    struct python *p = r->ctx;
    python_record_feed(&p->record, data, len);
}

static void on_users_stderr(const char *data, size_t len, void *ctx)
{
    run_add_stderr(ctx, data, len);
}

static void interpret(struct run *r)
{
    struct python *p = r->ctx;
    const char *code = p->path ? p->path : tool_call_string(r->call, "code_block");
    const char *const args[] = {
        "-l", "-c",          "exec python3 \"$@\"", "python3",
        "-c", PYTHON_RUNNER, p->record.mark + 1,    p->path ? "file" : "code",
        code, NULL};
    r->filter = on_stderr;
    r->on_done = on_done;
    run_start(r, &(struct run_spec){.cmd = "/bin/bash", .args = args});
}

// ---- 1. long code

static void on_uploaded(const char *path, int64_t bytes, const struct err *e, void *ctx)
{
    (void)path, (void)bytes;
    struct run *r = ctx;
    struct tool_call *c = r->call;
    c->op = NULL;
    if (!e && !c->cancelled) {
        interpret(r);
        return;
    }
    struct err copy = e ? *e : (struct err){.code = ERR_CANCELED};
    run_free(r);
    tool_call_fail_err(c, "upload the code", &copy);
}

void python_fresh_start(struct tool_call *c)
{
    const char *code = tool_call_string(c, "code_block");
    struct python *p = xcalloc(1, sizeof *p);
    struct run *r = run_new(c);
    python_record_init(&p->record, on_users_stderr, r);
    r->ctx = p;
    r->on_free = on_free;
    if (strlen(code) <= ARGUMENT_MAX) {
        interpret(r);
        return;
    }
    struct client *client = tool_call_client(c, 0);
    if (!client) {
        run_free(r);
        return;
    }
    char *name auto_free = random_hex(4);
    p->path = str_printf("/tmp/cubby-%s.py", name);
    c->op = client_upload_bytes(client, c->id, code, strlen(code), p->path, NULL, on_uploaded, r);
}
