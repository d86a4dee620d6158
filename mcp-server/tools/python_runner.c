// SPDX-License-Identifier: Apache-2.0
// How a piece of Python is run by a fresh interpreter, and what it tells of the end.
#include "mcp-server/tools/python_runner.h"

#include <string.h>

#include "sandbox-backend/base/json.h"
#include "sandbox-backend/base/mem.h"
#include "sandbox-backend/base/str.h"

#define RECORD_MAX ((size_t)512 * 1024)
#define RECORD_SEP '\x1e'

// Lines are flushed one by one, so that what was printed before a time-out is not lost. The report
// is the first atexit handler, so it runs last, after threads and the code's own handlers.
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

// Takes bytes of the record up to its end; returns how many.
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
