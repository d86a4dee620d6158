// SPDX-License-Identifier: Apache-2.0
// cubby record --verify.
#include <stdlib.h>
#include <string.h>
#include <sys/param.h>

#include "sandbox-backend/base/json.h"
#include "sandbox-backend/base/mem.h"
#include "sandbox-backend/base/str.h"
#include "sandbox-backend/cli/cli.h"
#include "sandbox-backend/cli/record/record_lines.h"

static int64_t number(const json_t *line, const char *key)
{
    return json_integer_value(json_object_get(line, key));
}

static const char *text(const json_t *line, const char *key)
{
    const char *value = json_string_value(json_object_get(line, key));
    return value ? value : "";
}

// Return whether the line says that these lines could not be written.
static bool tells(const json_t *line, int64_t first, int64_t last)
{
    return str_eq(text(line, "kind"), "gap") && number(line, "first") == first &&
           number(line, "last") == last;
}

// Return whether the numbers may jump here. A head comes before the line that says why.
static bool may_jump(const struct record_check *c, const json_t *line)
{
    return str_eq(text(line, "kind"), "head") || tells(line, c->n + 1, number(line, "n") - 1);
}

static int check_number(const struct record_check *c, const json_t *line, struct err *e)
{
    int64_t n = number(line, "n");
    if (n <= 0)
        return err_set(e, ERR_INVALID, "the line after line %lld is not a line of a record",
                       (long long)c->n);
    bool is_untold = c->jump_first && !tells(line, c->jump_first, c->jump_last);
    if (is_untold || (c->n && n != c->n + 1 && !may_jump(c, line)))
        return err_set(e, ERR_INVALID, "line %lld does not fit: it follows line %lld", (long long)n,
                       (long long)c->n);
    return 0;
}

static int check_hash(const struct record_check *c, const json_t *line, struct err *e)
{
    struct sha256 prev;
    long long n = (long long)number(line, "n");
    if (!sha256_from_hex(text(line, "prev"), &prev))
        return err_set(e, ERR_INVALID, "line %lld does not fit: it has no hash", n);
    bool is_begin = !c->n && n > 1; // the line before it was dropped
    if (is_begin || sha256_equal(&prev, &c->last))
        return 0;
    if (!c->n)
        return err_set(e, ERR_INVALID, "line 1 does not fit: it is not the first of a record");
    return err_set(e, ERR_INVALID,
                   "line %lld does not fit: line %lld was changed, or lines between them were "
                   "removed",
                   n, (long long)c->n);
}

static int check_sandbox(struct record_check *c, const json_t *line, struct err *e)
{
    if (!c->sandbox)
        c->sandbox = xstrdup(text(line, "sandbox"));
    if (str_eq(c->sandbox, text(line, "sandbox")))
        return 0;
    return err_set(e, ERR_INVALID, "line %lld does not fit: it is of another sandbox",
                   (long long)number(line, "n"));
}

static void note(struct record_check *c, const json_t *line, const char *bytes, size_t len)
{
    char hex[SHA256_HEX_CHARS + 1];
    const char *kind = text(line, "kind");
    bool jumps = c->n && str_eq(kind, "head") && number(line, "n") != c->n + 1;
    c->jump_first = jumps ? c->n + 1 : 0;
    c->jump_last = number(line, "n") - 1;
    c->n = number(line, "n");
    c->first = c->first ? c->first : c->n;
    c->last = sha256_of(bytes, len);
    c->gaps += str_eq(kind, "gap");
    c->has_ended = str_eq(kind, "life") && str_eq(text(line, "what"), "killed");
    if (str_eq(kind, "head"))
        c->explained = MAX(c->explained, number(line, "dropped"));
    if (str_eq(kind, "gap") && number(line, "first") == 1)
        c->explained = MAX(c->explained, number(line, "last"));
    sha256_to_hex(&c->last, hex);
    c->is_found = c->is_found || str_eq(c->wanted, hex);
}

int record_check_line(struct record_check *c, const char *bytes, size_t len, struct err *e)
{
    json_t *line = json_parse(bytes, len, NULL);
    int result =
        check_number(c, line, e) < 0 || check_sandbox(c, line, e) < 0 || check_hash(c, line, e) < 0
            ? -1
            : 0;
    if (result == 0)
        note(c, line, bytes, len);
    json_decref(line);
    return result;
}

int record_check_end(const struct record_check *c, struct err *e)
{
    if (!c->n)
        return err_set(e, ERR_INVALID, "the record has no lines");
    if (c->first > 1 && c->explained != c->first - 1)
        return err_set(e, ERR_INVALID,
                       "line %lld does not fit: lines 1 to %lld are missing, and no line says why",
                       (long long)c->first, (long long)c->first - 1);
    if (c->jump_first)
        return err_set(e, ERR_INVALID, "lines %lld to %lld are missing, and no line says why",
                       (long long)c->jump_first, (long long)c->jump_last);
    if (c->wanted && !c->is_found)
        return err_set(e, ERR_INVALID, "no line has the hash %.64s", c->wanted);
    return 0;
}

void record_check_print(const struct record_check *c)
{
    char hex[SHA256_HEX_CHARS + 1];
    sha256_to_hex(&c->last, hex);
    printf("lines %lld to %lld fit\n", (long long)c->first, (long long)c->n);
    if (c->first > 1)
        printf("lines 1 to %lld were dropped for space\n", (long long)c->first - 1);
    if (c->gaps)
        printf("%d line%s of the kind \"gap\" say what is missing\n", c->gaps,
               c->gaps == 1 ? "" : "s");
    printf("the sandbox has %s\nhash of line %lld: %s\n",
           c->has_ended ? "ended" : "not ended, or its last lines are missing", (long long)c->n,
           hex);
}

void record_check_fini(struct record_check *c)
{
    free(c->sandbox);
}
