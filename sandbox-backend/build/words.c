// SPDX-License-Identifier: Apache-2.0
// The words of an instruction, and the variables in them.
#include "sandbox-backend/build/words.h"

#include <ctype.h>
#include <stdlib.h>
#include <string.h>

#include "sandbox-backend/base/buf.h"
#include "sandbox-backend/base/mem.h"
#include "sandbox-backend/base/str.h"

#define NESTING_MAX 16 // of ${a:-${b:-...}}

json_t *words_split(const char *text)
{
    json_t *list = json_array();
    while (*text) {
        size_t len = strcspn(text, " \t\r\n\v\f");
        if (len)
            json_array_append_new(list, json_stringn(text, len));
        text += len;
        text += strspn(text, " \t\r\n\v\f");
    }
    return list;
}

json_t *words_split_quoted(const char *text, char escape)
{
    json_t *list = json_array();
    for (;;) {
        while (isspace((unsigned char)*text))
            text++;
        if (!*text)
            return list;
        const char *start = text;
        char quote = 0;
        for (; *text && (quote || !isspace((unsigned char)*text)); text++) {
            if (*text == escape && text[1])
                text++;
            else if (quote && *text == quote)
                quote = 0;
            else if (!quote && (*text == '"' || *text == '\''))
                quote = *text;
        }
        json_array_append_new(list, json_stringn(start, (size_t)(text - start)));
    }
}

// ---- expansion
struct expansion {
    const char *at; // what is not read yet
    const struct variables *variables;
    struct buf out;
    char escape;
    bool text; // a here-document
    int depth;
    struct err *e;
};

static void expand_until(struct expansion *x, char stop);

static const char *look_up(const struct expansion *x, const char *name)
{
    const char *value = json_string_value(json_object_get(x->variables->env, name));
    return value ? value : json_string_value(json_object_get(x->variables->args, name));
}

static void add(struct expansion *x, const char *s, size_t len)
{
    if (!buf_try_add(&x->out, s, len, EXPANDED_BYTES_MAX))
        err_set(x->e, ERR_INVALID, "a word is too long after its variables are expanded");
}

static char *take_name(struct expansion *x)
{
    const char *start = x->at;
    if (isdigit((unsigned char)*x->at))
        x->at++;
    else
        while (isalnum((unsigned char)*x->at) || *x->at == '_')
            x->at++;
    return xstrndup(start, (size_t)(x->at - start));
}

// Expand the word in ${name:-word} up to its '}'.
static char *take_inner(struct expansion *x)
{
    struct buf outer = x->out;
    x->out = BUF_INIT;
    if (++x->depth > NESTING_MAX)
        err_set(x->e, ERR_INVALID, "the variables are nested too deep");
    else
        expand_until(x, '}');
    x->depth--;
    char *inner = x->out.len ? buf_take(&x->out) : xstrdup("");
    buf_fini(&x->out);
    x->out = outer;
    return inner;
}

static void apply(struct expansion *x, const char *name, char operation, bool or_empty)
{
    char *inner auto_free = take_inner(x);
    const char *value = look_up(x, name);
    bool set = value && (*value || !or_empty);
    if (err_is(x->e))
        return;
    if (operation == '?' && !set)
        err_set(x->e, ERR_INVALID, "the variable %.60s is %s%s%.100s", name,
                value ? "empty" : "not set", *inner ? ": " : "", inner);
    else if (operation == '+')
        add(x, set ? inner : "", set ? strlen(inner) : 0);
    else
        add(x, set ? value : inner, strlen(set ? value : inner));
}

static void expand_braced(struct expansion *x)
{
    x->at++; // '{'
    char *name auto_free = take_name(x);
    if (!*name) {
        err_set(x->e, ERR_INVALID, "\"${\" has no name of a variable after it");
        return;
    }
    if (*x->at == '}' || !*x->at) {
        const char *value = look_up(x, name);
        add(x, value ? value : "", value ? strlen(value) : 0);
    } else {
        bool or_empty = *x->at == ':';
        char operation = x->at[or_empty];
        if (!operation || !strchr("-+?", operation)) {
            err_set(x->e, ERR_INVALID, "\"${%.60s%.2s\" is not supported; :- - :+ + :? and ? are",
                    name, x->at);
            return;
        }
        x->at += 1 + or_empty;
        apply(x, name, operation, or_empty);
    }
    if (*x->at == '}')
        x->at++;
    else
        err_set(x->e, ERR_INVALID, "\"${%.60s\" has no \"}\"", name);
}

static void expand_dollar(struct expansion *x)
{
    x->at++; // '$'
    if (*x->at == '{') {
        expand_braced(x);
        return;
    }
    char *name auto_free = take_name(x);
    const char *value = *name ? look_up(x, name) : "$";
    add(x, value ? value : "", value ? strlen(value) : 0);
}

static void expand_single(struct expansion *x)
{
    const char *end = strchr(++x->at, '\'');
    if (!end) {
        err_set(x->e, ERR_INVALID, "a single quote has no end");
        return;
    }
    add(x, x->at, (size_t)(end - x->at));
    x->at = end + 1;
}

static void expand_double(struct expansion *x)
{
    x->at++;
    while (*x->at && *x->at != '"' && !err_is(x->e)) {
        if (*x->at == '$') {
            expand_dollar(x);
        } else if (*x->at == x->escape && x->at[1]) {
            bool special = x->at[1] == '"' || x->at[1] == '$' || x->at[1] == x->escape;
            add(x, x->at + special, 2 - special);
            x->at += 2;
        } else {
            add(x, x->at++, 1);
        }
    }
    if (*x->at == '"')
        x->at++;
    else
        err_set(x->e, ERR_INVALID, "a double quote has no end");
}

static void expand_escape(struct expansion *x)
{
    bool kept = x->text && x->at[1] != '$' && x->at[1] != x->escape;
    if (kept)
        add(x, x->at, 1);
    x->at++;
    if (*x->at)
        add(x, x->at++, 1);
}

static void expand_until(struct expansion *x, char stop)
{
    while (*x->at && *x->at != stop && !err_is(x->e)) {
        if (*x->at == '$')
            expand_dollar(x);
        else if (*x->at == x->escape)
            expand_escape(x);
        else if (*x->at == '\'' && !x->text)
            expand_single(x);
        else if (*x->at == '"' && !x->text)
            expand_double(x);
        else
            add(x, x->at++, 1);
    }
}

static char *expand(const char *word, const struct variables *v, char escape, bool text,
                    struct err *e)
{
    struct err mine = ERR_INIT;
    struct expansion x = {
        .at = word, .variables = v, .escape = escape, .text = text, .e = e ? e : &mine};
    expand_until(&x, '\0');
    if (!err_is(x.e))
        return x.out.len ? buf_take(&x.out) : (buf_fini(&x.out), xstrdup(""));
    buf_fini(&x.out);
    return NULL;
}

char *words_expand(const char *word, const struct variables *v, char escape, struct err *e)
{
    return expand(word, v, escape, false, e);
}

char *words_expand_text(const char *text, const struct variables *v, char escape, struct err *e)
{
    return expand(text, v, escape, true, e);
}
