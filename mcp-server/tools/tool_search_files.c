// SPDX-License-Identifier: Apache-2.0
// search_files: file names by a glob and contents by a regular expression, below a directory of a
// sandbox. One Python program in the guest does all of it, because a template need not have git or
// ripgrep. It leaves out .git and what .gitignore files name, binary files and very large ones, and
// below "/" the kernel's file systems, whose files may block a reader or never end.
#include <string.h>

#include "mcp-server/text/text.h"
#include "mcp-server/tools/run/guest_script.h"
#include "sandbox-backend/base/json.h"
#include "sandbox-backend/base/mem.h"
#include "sandbox-backend/base/str.h"
#include "sandbox-backend/base/visible.h"

#define TIMEOUT_MS 50000
#define OUT_BYTES  ((size_t)8 << 20)

#define NO_PYTHON  44 // exit codes of the script
#define NO_PATTERN 45
#define NO_DIR     46
#define NOT_THERE  47

// $1 is the program; the others are its arguments.
static const char SCRIPT[] = "command -v python3 >/dev/null || exit 44\n"
                             "exec python3 -I -c \"$@\"\n";

// Arguments: the directory, the regular expression or "", the glob or "", the most matches. Prints
// {"path", "matches": [{"path", "line", "text"}], "truncated", "late"}; without an expression a
// match has only its path. An alarm ends a search that takes too long, also one in which a regular
// expression explodes; what was found until then is the result.
static const char PROGRAM[] =
    "import json, os, re, signal, stat, sys\n"
    "LINE, LARGE, SECONDS, SPREAD = 200, 10 << 20, 10, 1000\n"
    "class Late(Exception):\n"
    "    pass\n"
    "def ring(*_):\n" // Python looks for signals also within a search by a regular expression
    "    raise Late\n"
    "def choices(glob):\n" // of the first {a,b}; it is text if it does not end or has no comma
    "    start = glob.find('{')\n"
    "    while start >= 0:\n"
    "        depth, parts, at, i = 0, [], start + 1, start\n"
    "        while i < len(glob):\n"
    "            c = glob[i]\n"
    "            depth += (c == '{') - (c == '}')\n"
    "            if depth == 0 or (depth == 1 and c == ','):\n"
    "                parts.append(glob[at:i])\n"
    "                at = i + 1\n"
    "            if depth == 0:\n"
    "                break\n"
    "            i += 1 + (c == '\\\\')\n"
    "        if depth == 0 and len(parts) > 1 and glob[start - 1:start] != '\\\\':\n"
    "            return [glob[:start] + part + glob[i + 1:] for part in parts]\n"
    "        start = glob.find('{', start + 1)\n"
    "def spread(glob):\n" // all globs that one with {a,b} stands for
    "    done, todo = [], [glob]\n"
    "    while todo:\n"
    "        one = todo.pop()\n"
    "        more = choices(one)\n"
    "        todo += more or []\n"
    "        done += [] if more else [one]\n"
    "        if len(todo) + len(done) > SPREAD:\n"
    "            raise re.error('the braces stand for more than %d globs' % SPREAD)\n"
    "    return done\n"
    "def translate(glob):\n" // of gitignore(5)
    "    out, i = '', 0\n"
    "    while i < len(glob):\n"
    "        c = glob[i]\n"
    "        if glob.startswith('**/', i) and (i == 0 or glob[i - 1] == '/'):\n"
    "            out += '(?:.*/)?'\n"
    "            i += 3\n"
    "            continue\n"
    "        if glob.startswith('**', i):\n"
    "            out += '.*'\n"
    "            i += 2\n"
    "            continue\n"
    "        end = glob.find(']', i + 2) if c == '[' else -1\n"
    "        if c == '*':\n"
    "            out += '[^/]*'\n"
    "        elif c == '?':\n"
    "            out += '[^/]'\n"
    "        elif end > 0:\n"
    "            inside = glob[i + 1:end].replace('\\\\', '\\\\\\\\')\n"
    "            out += '[' + ('^' + inside[1:] if inside[0] == '!' else inside) + ']'\n"
    "            i = end\n"
    "        else:\n"
    "            if c == '\\\\' and i + 1 < len(glob):\n"
    "                i += 1\n"
    "                c = glob[i]\n"
    "            out += re.escape(c)\n"
    "        i += 1\n"
    "    return out\n"
    "def matcher(glob):\n" // a glob without a directory is of the last name
    "    free = '' if '/' in glob.rstrip('/') else '(?:.*/)?'\n"
    "    return re.compile(free + translate(glob.strip('/')) + r'\\Z', re.S)\n"
    "def content(path):\n" // LARGE + 1 bytes at most; nothing of a FIFO or device, which may block
    "    try:\n"
    "        with open(os.open(path, os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC), 'rb') as f:\n"
    "            if stat.S_ISREG(os.fstat(f.fileno()).st_mode):\n"
    "                return f.read(LARGE + 1)\n"
    "    except OSError:\n"
    "        pass\n"
    "    return b''\n"
    "def rules_of(base):\n"
    "    rules = []\n"
    "    text = content(os.path.join(base, '.gitignore')).decode('utf-8', 'replace')\n"
    "    for line in text.splitlines():\n"
    "        line = line.rstrip()\n"
    "        keep = line.startswith('!')\n"
    "        line = line[1:] if keep else line\n"
    "        if not line.strip('/') or line.startswith('#'):\n"
    "            continue\n"
    "        try:\n"
    "            rules.append((base, matcher(line), line.endswith('/'), keep))\n"
    "        except re.error:\n"
    "            pass\n"
    "    return rules\n"
    "def is_ignored(path, is_dir, rules):\n"
    "    for base, rule, only_dirs, keep in reversed(rules):\n"
    "        if (is_dir or not only_dirs) and rule.match(os.path.relpath(path, base)):\n"
    "            return not keep\n"
    "    return False\n"
    "def above(top):\n" // the rules of the directories above, up to the top of the repository
    "    rules, base = [], top\n"
    "    while not os.path.exists(os.path.join(base, '.git')) and base != '/':\n"
    "        base = os.path.dirname(base)\n"
    "        rules = rules_of(base) + rules\n"
    "    return rules if os.path.exists(os.path.join(base, '.git')) else []\n"
    "def files(top):\n"
    "    todo = [(top, above(top))]\n"
    "    while todo:\n"
    "        base, rules = todo.pop()\n"
    "        rules = rules + rules_of(base)\n"
    "        try:\n"
    "            entries = sorted(os.scandir(base), key=lambda e: e.name)\n"
    "        except OSError:\n"
    "            continue\n"
    "        dirs = []\n"
    "        for entry in entries:\n"
    "            try:\n" // a link may lead in a circle, or where this user may not look
    "                is_dir, is_file = entry.is_dir(follow_symlinks=False), entry.is_file()\n"
    "            except OSError:\n"
    "                continue\n"
    "            if entry.name == '.git' or entry.path in ('/dev', '/proc', '/sys'):\n"
    "                continue\n"
    "            if is_ignored(entry.path, is_dir, rules):\n"
    "                continue\n"
    "            if is_dir:\n"
    "                dirs.append((entry.path, rules))\n"
    "            elif is_file:\n"
    "                yield entry.path\n"
    "        todo += reversed(dirs)\n"
    "def lines(path, wanted):\n" // numbered as read_file does
    "    data = content(path)\n"
    "    if len(data) > LARGE or b'\\0' in data[:8192]:\n"
    "        return\n"
    "    rows = data.decode('utf-8', 'replace').split('\\n')\n"
    "    if not rows[-1]:\n"
    "        rows.pop()\n"
    "    for number, line in enumerate(rows, 1):\n"
    "        line = line.rstrip('\\r')\n"
    "        if wanted.search(line):\n"
    "            yield {'line': number, 'text': line.replace('\\0', '\\ufffd')[:LINE]}\n"
    "def search(top, wanted, named, most, found):\n" // False: there are more than `most`
    "    for path in files(top):\n"
    "        name = os.path.relpath(path, top)\n"
    "        if named and not any(one.match(name) for one in named):\n"
    "            continue\n"
    "        shown = name.encode('utf-8', 'replace').decode()\n"
    "        for one in lines(path, wanted) if wanted else [{}]:\n"
    "            if len(found) == most:\n"
    "                return False\n"
    "            found.append({'path': shown, **one})\n"
    "    return True\n"
    "def main(top, pattern, glob, most):\n"
    "    top = os.path.realpath(os.path.expanduser(top))\n"
    "    if not os.path.isdir(top):\n"
    "        sys.exit(46 if os.path.exists(top) else 47)\n"
    "    if not os.access(top, os.R_OK | os.X_OK):\n"
    "        sys.exit(top + ': Permission denied')\n"
    "    try:\n"
    "        wanted = re.compile(pattern) if pattern else None\n"
    "        named = [matcher(one) for one in spread(glob)] if glob else None\n"
    "    except (re.error, OverflowError, RecursionError) as e:\n"
    "        print(e, file=sys.stderr)\n"
    "        sys.exit(45)\n"
    "    found, whole, late = [], False, False\n"
    "    signal.signal(signal.SIGALRM, ring)\n"
    "    try:\n"
    "        signal.alarm(SECONDS)\n"
    "        whole = search(top, wanted, named, most, found)\n"
    "        signal.alarm(0)\n"
    "    except Late:\n"
    "        late = True\n"
    "    top = top.encode('utf-8', 'replace').decode()\n"
    "    print(json.dumps({'path': top, 'matches': found, 'truncated': not whole, 'late': late}))\n"
    "main(*sys.argv[1:4], int(sys.argv[4]))\n";

static void fail(struct tool_call *c, const struct guest_result *r)
{
    int len;
    const char *why = guest_script_complaint(&r->err, &len);
    if (r->exit_code == NO_PATTERN)
        tool_call_fail(c, "invalid_argument",
                       "argument 'pattern' or 'glob' is invalid: %.*s. Write pattern as a Python "
                       "regular expression",
                       len, why);
    else if (r->exit_code == NO_DIR)
        tool_call_fail(c, "not_a_directory",
                       "%s is not a directory. To search one file, pass its directory as path and "
                       "its name as glob",
                       tool_call_string(c, "path"));
    else if (r->exit_code == NOT_THERE)
        tool_call_fail(c, "file_not_found", "there is no file or directory %s in the sandbox",
                       tool_call_string(c, "path"));
    else if (r->exit_code == NO_PYTHON)
        tool_call_fail(c, "failed", "this sandbox has no python3, which search_files needs%s",
                       tool_call_hint(c, "run_command", ": use run_command with find and grep"));
    else
        guest_script_fail(c, "search the files", r, NULL);
}

// ---- the result. The guest may print anything, so only what fits the outputSchema is taken.

static json_t *match_of(const json_t *one, bool has_lines)
{
    const json_t *path = json_object_get(one, "path");
    const json_t *line = json_object_get(one, "line");
    const json_t *text = json_object_get(one, "text");
    if (!json_is_string(path) || (has_lines && (!json_is_integer(line) || !json_is_string(text))))
        return NULL;
    if (!has_lines)
        return json_pack("{s:O}", "path", path);
    return json_pack("{s:O, s:O, s:O}", "path", path, "line", line, "text", text);
}

// Return the result, a new reference, or NULL if `said` is not a result.
static json_t *result_of(const struct tool_call *c, const json_t *said)
{
    const json_t *path = json_object_get(said, "path");
    const json_t *all = json_object_get(said, "matches");
    bool late = json_is_true(json_object_get(said, "late"));
    json_int_t most = json_integer_value(json_object_get(c->args, "max_results"));
    json_t *matches = json_array();
    size_t i;
    json_t *one;
    json_array_foreach (all, i, one) {
        json_array_append_new(matches, match_of(one, tool_call_string(c, "pattern") != NULL));
    }
    size_t count = json_array_size(matches);
    if (!json_is_string(path) || !json_is_array(all) || count != json_array_size(all) ||
        (json_int_t)count > most) {
        json_decref(matches);
        return NULL;
    }
    json_t *o = json_pack("{s:O, s:o, s:b}", "path", path, "matches", matches, "truncated",
                          late || json_is_true(json_object_get(said, "truncated")));
    if (late)
        json_object_set_new(o, "hint",
                            json_string("The search took too long and was ended: narrow path or "
                                        "glob, or simplify pattern"));
    return o;
}

static void on_end(struct tool_call *c, struct guest_result *r, const struct err *e, void *ctx)
{
    (void)ctx;
    struct err wrong = ERR_INIT;
    if (e) {
        guest_script_fail(c, "search the files", r, e);
        return;
    }
    if (r->exit_code != 0 || r->timed_out) {
        fail(c, r);
        return;
    }
    json_t *said = json_parse(buf_str(&r->out), r->out.len, &wrong);
    json_t *found = result_of(c, said);
    json_decref(said);
    if (found)
        tool_call_finish(c, found);
    else
        tool_call_fail(c, "failed", "could not search the files: the sandbox sent no result");
}

static const char *text_or_empty(const struct tool_call *c, const char *name)
{
    const char *text = tool_call_string(c, name);
    return text ? text : "";
}

static void start(struct tool_call *c)
{
    if (!tool_call_string(c, "pattern") && !tool_call_string(c, "glob")) {
        tool_call_fail(c, "invalid_argument", "give pattern, or glob, or both");
        return;
    }
    if (!tool_call_client(c, TIMEOUT_MS / 1000))
        return;
    int64_t most = json_integer_value(json_object_get(c->args, "max_results"));
    char *count auto_free = str_printf("%lld", (long long)most);
    const char *const args[] = {PROGRAM,
                                tool_call_string(c, "path"),
                                text_or_empty(c, "pattern"),
                                text_or_empty(c, "glob"),
                                count,
                                NULL};
    guest_script_run(c,
                     &(struct guest_script){
                         .text = SCRIPT,
                         .args = args,
                         .user = tool_call_string(c, "user"),
                         .timeout_ms = TIMEOUT_MS,
                         .out_max = OUT_BYTES,
                     },
                     on_end, NULL);
}

static const char *hint_of(const json_t *o)
{
    bool has_one = json_object_get(o, "hint") || !json_is_true(json_object_get(o, "truncated"));
    return has_one ? NULL
                   : "There are more: narrow pattern, glob or path, or give a larger max_results";
}

static char *text_of(const json_t *o)
{
    struct buf out = BUF_INIT;
    const json_t *list = json_object_get(o, "matches");
    size_t count = json_array_size(list);
    char *path auto_free = visible_text(text_string(o, "path"));
    size_t i;
    json_t *one;
    buf_printf(&out, "[%s: %zu %s]\n", path, count, count == 1 ? "match" : "matches");
    json_array_foreach (list, i, one) {
        char *name auto_free = visible_text(text_string(one, "path"));
        if (json_object_get(one, "line"))
            buf_printf(&out, "%s:%lld: %s\n", name, text_int(one, "line"),
                       text_string(one, "text"));
        else
            buf_printf(&out, "%s\n", name);
    }
    if (*text_string(o, "hint"))
        buf_printf(&out, "[%s]\n", text_string(o, "hint"));
    return buf_take(&out);
}

const struct tool tool_search_files = {
    .name = "search_files", .start = start, .text = text_of, .hint = hint_of};
