// SPDX-License-Identifier: Apache-2.0
// The instructions of a Dockerfile, one function each.
#include <ctype.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>

#include "sandbox-backend/base/mem.h"
#include "sandbox-backend/base/str.h"
#include "sandbox-backend/build/copy_words.h"
#include "sandbox-backend/build/dockerfile_internal.h"
#include "sandbox-backend/build/words.h"

// ---- commands: RUN, CMD, ENTRYPOINT, HEALTHCHECK, SHELL
static void set_command(json_t *step, const char *text)
{
    json_t *words = dockerfile__json_form(text);
    if (words)
        json_object_set_new(step, "exec", json_true());
    json_object_set_new(step, "args", words ? words : json_pack("[s]", text));
}

// Return the value of `key` in "type=cache,target=/x". New string, or NULL.
static char *mount_member(const char *mount, const char *key)
{
    size_t len = strlen(key);
    for (const char *s = mount; *s; s += strcspn(s, ","), s += *s == ',')
        if (strncmp(s, key, len) == 0 && s[len] == '=')
            return xstrndup(s + len + 1, strcspn(s + len + 1, ","));
    return NULL;
}

// A cache mount is an ordinary directory of the template.
static int add_mount(const struct parsing *p, json_t *step, const char *mount, struct err *e)
{
    char *type auto_free = mount_member(mount, "type");
    char *target auto_free = mount_member(mount, "target");
    if (!target)
        target = mount_member(mount, "dst");
    if (!str_eq(type, "cache"))
        return dockerfile__refuse(p, e, "of the kinds of --mount only type=cache is supported");
    if (!target || target[0] != '/' || strchr(target, '$'))
        return dockerfile__refuse(p, e, "--mount=type=cache needs target=/PATH");
    json_t *make = json_object_get(step, "make");
    if (!make)
        json_object_set_new(step, "make", make = json_array());
    json_array_append_new(make, json_string(target));
    return 0;
}

static int run_flags(const struct parsing *p, json_t *step, struct err *e)
{
    static const char *const FLAGS[] = {"mount", "network", NULL};
    const char *network = dockerfile__flag(p, "network");
    size_t i;
    json_t *flag;
    if (dockerfile__only_flags(p, FLAGS, e) < 0)
        return -1;
    if (network && !str_eq(network, "default"))
        return dockerfile__refuse(p, e, "--network can only be default; see --allow of the build");
    json_array_foreach (p->flags, i, flag) {
        if (str_eq(json_string_value(json_array_get(flag, 0)), "mount") &&
            add_mount(p, step, json_string_value(json_array_get(flag, 1)), e) < 0)
            return -1;
    }
    return 0;
}

// A here-document whose text begins with "#!" is a program, which the command writes and runs.
static char *script_of(const struct heredoc *doc)
{
    if (!str_starts(doc->text, "#!"))
        return xstrdup(doc->text);
    return str_printf("f=/tmp/.cubby-run-script\ncat >$f <<'%s'\n%s%s\nchmod 700 $f\n$f\ns=$?\n"
                      "rm -f $f\nexit $s\n",
                      doc->name, doc->text, doc->name);
}

static bool is_only_heredoc(const struct parsing *p)
{
    return p->line->heredoc_count == 1 && str_starts(p->rest, "<<") && !strpbrk(p->rest, " \t\n");
}

// The shell reads the here-documents of a longer command itself.
static char *with_heredocs(const struct parsing *p)
{
    struct buf text = BUF_INIT;
    buf_adds(&text, p->rest);
    for (int i = 0; i < p->line->heredoc_count; i++) {
        const struct heredoc *doc = &p->line->heredocs[i];
        buf_printf(&text, "\n%s%s", doc->text, doc->name);
    }
    if (p->line->heredoc_count)
        buf_addc(&text, '\n');
    return buf_take(&text);
}

int dockerfile__run(struct parsing *p, json_t *step, struct err *e)
{
    if (run_flags(p, step, e) < 0)
        return -1;
    if (!*p->rest)
        return dockerfile__refuse(p, e, "it needs a command");
    char *command auto_free =
        is_only_heredoc(p) ? script_of(&p->line->heredocs[0]) : with_heredocs(p);
    set_command(step, command);
    if (json_array_size(json_object_get(step, "args")) == 0)
        return dockerfile__refuse(p, e, "the command is empty");
    return 0;
}

int dockerfile__command(struct parsing *p, json_t *step, struct err *e)
{
    set_command(step, p->rest);
    return dockerfile__only_flags(p, NULL, e);
}

int dockerfile__healthcheck(struct parsing *p, json_t *step, struct err *e)
{
    static const char *const FLAGS[] = {"interval",       "timeout", "start-period",
                                        "start-interval", "retries", NULL};
    if (dockerfile__only_flags(p, FLAGS, e) < 0)
        return -1;
    if (strcasecmp(p->rest, "NONE") == 0)
        return json_object_set_new(step, "args", json_array());
    const char *command = p->rest + strcspn(p->rest, " \t");
    command += strspn(command, " \t");
    if (strncasecmp(p->rest, "CMD", 3) != 0 || !isspace((unsigned char)p->rest[3]) || !*command)
        return dockerfile__refuse(p, e, "it takes NONE, or CMD and a command");
    set_command(step, command);
    return 0;
}

int dockerfile__shell(struct parsing *p, json_t *step, struct err *e)
{
    json_t *words = dockerfile__json_form(p->rest);
    if (dockerfile__only_flags(p, NULL, e) < 0 || json_array_size(words) == 0) {
        json_decref(words);
        return dockerfile__refuse(p, e, "it takes a JSON array, such as [\"/bin/bash\", \"-c\"]");
    }
    return json_object_set_new(step, "args", words);
}

// ---- COPY and ADD
static bool is_url(const char *source)
{
    return str_starts(source, "http://") || str_starts(source, "https://") ||
           str_starts(source, "ftp://") || str_starts(source, "git@") ||
           str_starts(source, "git://") || str_starts(source, "ssh://");
}

// Replace "<<EOF" among the sources by a file of that name.
static void take_files(const struct parsing *p, json_t *step, json_t *words)
{
    json_t *files = json_array();
    int next = 0;
    for (size_t i = 0; i < json_array_size(words);) {
        const char *word = json_string_value(json_array_get(words, i));
        if (!str_starts(word, "<<") || next >= p->line->heredoc_count) {
            i++;
            continue;
        }
        const struct heredoc *doc = &p->line->heredocs[next++];
        json_array_append_new(files, json_pack("{s:s, s:s, s:b}", "name", doc->name, "text",
                                               doc->text, "literal", (int)doc->literal));
        json_array_remove(words, i);
    }
    if (json_array_size(files))
        json_object_set(step, "files", files);
    json_decref(files);
}

static int check_from(const struct parsing *p, const char *from, struct err *e)
{
    int64_t number;
    size_t present = json_array_size(p->stages) - 1;
    const char *own =
        json_string_value(json_object_get(json_array_get(p->stages, present), "name"));
    if (!*from || strchr(from, '$'))
        return dockerfile__refuse(p, e, "--from takes a stage, its number, or an image");
    if ((own && strcasecmp(from, own) == 0) ||
        (str_to_int(from, 0, INT64_MAX, &number) && number >= (int64_t)present))
        return dockerfile__refuse(p, e, "--from names a stage that is not before this one");
    return 0;
}

static int check_sources(const struct parsing *p, const json_t *sources, struct err *e)
{
    size_t i;
    json_t *one;
    json_array_foreach (sources, i, one) {
        if (is_url(json_string_value(one)))
            return dockerfile__refuse(p, e,
                                      "a URL as a source is not supported; download it with RUN");
    }
    return 0;
}

// A value with a variable is checked when the variable is known.
static int check_words(const struct parsing *p, const char *user, const char *mode, struct err *e)
{
    struct err why = ERR_INIT;
    if ((user && !strchr(user, '$') && copy_words_check_owner(user, &why) < 0) ||
        (mode && !strchr(mode, '$') && copy_words_check_mode(mode, &why) < 0))
        return dockerfile__refuse(p, e, why.msg);
    return 0;
}

int dockerfile__copy(struct parsing *p, json_t *step, struct err *e)
{
    static const char *const COPY_FLAGS[] = {"from", "chown", "chmod", "link", NULL};
    static const char *const ADD_FLAGS[] = {"chown", "chmod", "link", NULL};
    const char *from = dockerfile__flag(p, "from");
    const char *user = dockerfile__flag(p, "chown"), *mode = dockerfile__flag(p, "chmod");
    if (dockerfile__only_flags(p, str_eq(p->name, "COPY") ? COPY_FLAGS : ADD_FLAGS, e) < 0 ||
        (from && check_from(p, from, e) < 0))
        return -1;
    json_t *words = dockerfile__json_form(p->rest);
    if (!words)
        words = words_split(p->rest);
    take_files(p, step, words);
    size_t last = json_array_size(words) - 1;
    size_t count = last + json_array_size(json_object_get(step, "files"));
    json_object_set(step, "dest", json_array_get(words, last));
    json_array_remove(words, last);
    json_object_set_new(step, "sources", words);
    json_object_set_new(step, "user", json_string(user ? user : ""));
    json_object_set_new(step, "mode", json_string(mode ? mode : ""));
    if (from)
        json_object_set_new(step, "from", json_string(from));
    if (count < 1 || !json_object_get(step, "dest"))
        return dockerfile__refuse(p, e, "it needs a source and a destination");
    return check_sources(p, words, e) < 0 ? -1 : check_words(p, user, mode, e);
}

// ---- names and values: ENV, LABEL, ARG
static char *name_of(const char *pair)
{
    return xstrndup(pair, strcspn(pair, "="));
}

static bool is_variable(const char *name)
{
    if (!isalpha((unsigned char)*name) && *name != '_')
        return false;
    for (const char *c = name; *c; c++)
        if (!isalnum((unsigned char)*c) && *c != '_')
            return false;
    return true;
}

static int add_pair(const struct parsing *p, json_t *args, const char *name, const char *value,
                    struct err *e)
{
    bool label = str_eq(p->name, "LABEL");
    if (!*name || (!label && !is_variable(name)))
        return err_set(e, ERR_INVALID, "line %d: %s: \"%.60s\" is not a valid name",
                       p->line->number, p->name, name);
    json_array_append_new(args, json_string(name));
    json_array_append_new(args, value ? json_string(value) : json_null());
    return 0;
}

// The old form has one name, white space, and the rest of the line as the value.
static int old_pair(const struct parsing *p, json_t *args, struct err *e)
{
    size_t len = strcspn(p->rest, " \t");
    const char *value = p->rest + len + strspn(p->rest + len, " \t");
    char *name auto_free = xstrndup(p->rest, len);
    if (!*value)
        return dockerfile__refuse(p, e, "it takes NAME=VALUE");
    return add_pair(p, args, name, value, e);
}

int dockerfile__pairs(struct parsing *p, json_t *step, struct err *e)
{
    json_t *args = json_array();
    json_object_set_new(step, "args", args);
    if (dockerfile__only_flags(p, NULL, e) < 0)
        return -1;
    size_t first = strcspn(p->rest, " \t=");
    if (p->rest[first] != '=')
        return old_pair(p, args, e);
    json_t *words = words_split_quoted(p->rest, p->lines.escape);
    size_t i;
    json_t *word;
    int result = 0;
    json_array_foreach (words, i, word) {
        const char *pair = json_string_value(word);
        const char *equals = strchr(pair, '=');
        char *name auto_free = name_of(pair);
        if (result == 0 && !equals)
            result = dockerfile__refuse(p, e, "each word must be NAME=VALUE");
        else if (result == 0)
            result = add_pair(p, args, name, equals + 1, e);
    }
    json_decref(words);
    return result;
}

int dockerfile__arg(struct parsing *p, json_t *step, struct err *e)
{
    json_t *args = json_array();
    json_object_set_new(step, "args", args);
    json_t *words = words_split_quoted(p->rest, p->lines.escape);
    size_t i;
    json_t *word;
    int result = dockerfile__only_flags(p, NULL, e);
    json_array_foreach (words, i, word) {
        const char *pair = json_string_value(word);
        const char *equals = strchr(pair, '=');
        char *name auto_free = name_of(pair);
        if (result == 0)
            result = add_pair(p, args, name, equals ? equals + 1 : NULL, e);
    }
    json_decref(words);
    return result;
}

// ---- texts: WORKDIR, USER, STOPSIGNAL, EXPOSE, VOLUME, MAINTAINER
int dockerfile__one(struct parsing *p, json_t *step, struct err *e)
{
    json_object_set_new(step, "args", json_pack("[s]", p->rest));
    return dockerfile__only_flags(p, NULL, e);
}

int dockerfile__words(struct parsing *p, json_t *step, struct err *e)
{
    json_t *words = str_eq(p->name, "VOLUME") ? dockerfile__json_form(p->rest) : NULL;
    json_object_set_new(step, "args", words ? words : words_split(p->rest));
    return dockerfile__only_flags(p, NULL, e);
}

// Move on over a port. Return false if none is there.
static bool take_port(const char **text)
{
    int64_t port;
    size_t len = strspn(*text, "0123456789");
    char *digits auto_free = xstrndup(*text, len);
    *text += len;
    return str_to_int(digits, 1, UINT16_MAX, &port);
}

// PORT, or FIRST-LAST, and a protocol. A word with a variable is not known yet.
static bool is_port(const char *word)
{
    static const char *const PROTOCOLS[] = {"", "/tcp", "/udp", "/sctp"};
    if (strchr(word, '$'))
        return true;
    if (!take_port(&word) || (*word == '-' && (word++, !take_port(&word))))
        return false;
    for (size_t i = 0; i < ARRAY_LEN(PROTOCOLS); i++)
        if (strcasecmp(word, PROTOCOLS[i]) == 0)
            return true;
    return false;
}

int dockerfile__expose(struct parsing *p, json_t *step, struct err *e)
{
    size_t i;
    json_t *word;
    int result = dockerfile__words(p, step, e);
    json_array_foreach (json_object_get(step, "args"), i, word) {
        if (result == 0 && !is_port(json_string_value(word)))
            result = err_set(e, ERR_INVALID, "line %d: %s: \"%.60s\" is not a port, such as 80/tcp",
                             p->line->number, p->name, json_string_value(word));
    }
    return result;
}

int dockerfile__maintainer(struct parsing *p, json_t *step, struct err *e)
{
    json_object_set_new(step, "type", json_string("LABEL"));
    json_object_set_new(step, "args", json_pack("[s, s]", "maintainer", p->rest));
    return dockerfile__only_flags(p, NULL, e);
}
