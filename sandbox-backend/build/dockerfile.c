// SPDX-License-Identifier: Apache-2.0
// Dockerfiles as JSON.
#include "sandbox-backend/build/dockerfile.h"

#include <ctype.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>

#include "sandbox-backend/base/json.h"
#include "sandbox-backend/base/mem.h"
#include "sandbox-backend/base/str.h"
#include "sandbox-backend/build/dockerfile_internal.h"
#include "sandbox-backend/build/lines.h"
#include "sandbox-backend/build/words.h"

static const struct instruction INSTRUCTIONS[] = {
    {"ADD", dockerfile__copy},
    {"ARG", dockerfile__arg},
    {"CMD", dockerfile__command},
    {"COPY", dockerfile__copy},
    {"ENTRYPOINT", dockerfile__command},
    {"ENV", dockerfile__pairs},
    {"EXPOSE", dockerfile__expose},
    {"HEALTHCHECK", dockerfile__healthcheck},
    {"LABEL", dockerfile__pairs},
    {"MAINTAINER", dockerfile__maintainer},
    {"RUN", dockerfile__run},
    {"SHELL", dockerfile__shell},
    {"STOPSIGNAL", dockerfile__one},
    {"USER", dockerfile__one},
    {"VOLUME", dockerfile__words},
    {"WORKDIR", dockerfile__one},
};

int dockerfile__refuse(const struct parsing *p, struct err *e, const char *what)
{
    return err_set(e, ERR_INVALID, "line %d: %s: %s", p->line->number, p->name, what);
}

// ---- flags: "--name=value" words before the operands
static int take_flag(struct parsing *p, struct err *e)
{
    size_t len = strcspn(p->rest, " \t");
    char *word auto_free = xstrndup(p->rest, len);
    const char *equals = strchr(word, '=');
    if (!p->flags)
        p->flags = json_array();
    char *name auto_free = xstrndup(word + 2, equals ? (size_t)(equals - word - 2) : len - 2);
    for (const char *c = name; *c; c++)
        if (!isalpha((unsigned char)*c) && *c != '-')
            return dockerfile__refuse(p, e, "a flag is malformed");
    json_array_append_new(p->flags, json_pack("[s, s]", name, equals ? equals + 1 : ""));
    p->rest += len;
    p->rest += strspn(p->rest, " \t");
    return 0;
}

static int take_flags(struct parsing *p, struct err *e)
{
    while (str_starts(p->rest, "--") && p->rest[2] && !isspace((unsigned char)p->rest[2]))
        if (take_flag(p, e) < 0)
            return -1;
    return 0;
}

const char *dockerfile__flag(const struct parsing *p, const char *name)
{
    size_t i;
    json_t *flag;
    const char *value = NULL;
    json_array_foreach (p->flags, i, flag) {
        if (str_eq(json_string_value(json_array_get(flag, 0)), name))
            value = json_string_value(json_array_get(flag, 1));
    }
    return value;
}

int dockerfile__only_flags(const struct parsing *p, const char *const *names, struct err *e)
{
    size_t i;
    json_t *flag;
    json_array_foreach (p->flags, i, flag) {
        const char *given = json_string_value(json_array_get(flag, 0));
        bool known = false;
        for (const char *const *name = names; name && *name; name++)
            known = known || str_eq(*name, given);
        if (!known)
            return err_set(e, ERR_INVALID, "line %d: %s: --%.60s is not supported", p->line->number,
                           p->name, given);
    }
    return 0;
}

json_t *dockerfile__json_form(const char *text)
{
    json_t *list = *text == '[' ? json_loads(text, JSON_REJECT_DUPLICATES, NULL) : NULL;
    if (json_all_strings(list))
        return list;
    json_decref(list);
    return NULL;
}

// ---- stages
static bool is_stage_name(const char *name)
{
    if (!isalpha((unsigned char)*name))
        return false;
    for (const char *c = name; *c; c++)
        if (!isalnum((unsigned char)*c) && !strchr("-_.", *c))
            return false;
    return true;
}

static json_t *find_stage(const struct parsing *p, const char *name)
{
    size_t i;
    json_t *stage;
    json_array_foreach (p->stages, i, stage) {
        if (str_eq(json_string_value(json_object_get(stage, "name")), name))
            return stage;
    }
    return NULL;
}

static int check_platform(const struct parsing *p, struct err *e)
{
    const char *platform = dockerfile__flag(p, "platform");
    if (!platform || strchr(platform, '$') || str_eq(platform, "linux/amd64"))
        return 0;
    return dockerfile__refuse(p, e, "--platform can only be linux/amd64");
}

static int read_from(struct parsing *p, struct err *e)
{
    static const char *const FLAGS[] = {"platform", NULL};
    json_t *words = words_split(p->rest);
    size_t count = json_array_size(words);
    const char *as = json_string_value(json_array_get(words, 1));
    const char *name = json_string_value(json_array_get(words, 2));
    json_t *stage = NULL;
    if (dockerfile__only_flags(p, FLAGS, e) < 0 || check_platform(p, e) < 0) {
        // refused already
    } else if (count != 1 && (count != 3 || strcasecmp(as, "AS") != 0)) {
        dockerfile__refuse(p, e, "it takes IMAGE, or IMAGE AS NAME");
    } else if (name && !is_stage_name(name)) {
        dockerfile__refuse(p, e, "the name of the stage is not valid");
    } else if (json_array_size(p->stages) >= DOCKERFILE_STAGES_MAX) {
        dockerfile__refuse(p, e, "there are too many stages");
    } else {
        stage = json_pack("{s:i, s:s, s:O, s:[]}", "line", p->line->number, "text",
                          buf_str(&p->line->text), "from", json_array_get(words, 0), "steps");
        char *lower auto_free = name ? xstrdup(name) : NULL;
        for (char *c = lower; c && *c; c++)
            *c = (char)tolower((unsigned char)*c);
        if (lower && find_stage(p, lower))
            dockerfile__refuse(p, e, "an earlier stage has this name");
        if (lower)
            json_object_set_new(stage, "name", json_string(lower));
        json_array_append_new(p->stages, stage);
    }
    json_decref(words);
    return err_is(e) ? -1 : 0;
}

// ---- instructions
static const struct instruction *find_instruction(struct parsing *p, struct err *e)
{
    for (size_t i = 0; i < ARRAY_LEN(INSTRUCTIONS); i++)
        if (strcasecmp(INSTRUCTIONS[i].name, p->name) == 0)
            return &INSTRUCTIONS[i];
    if (strcasecmp(p->name, "ONBUILD") == 0)
        dockerfile__refuse(p, e, "it is not supported, because a template runs no triggers");
    else
        err_set(e, ERR_INVALID, "line %d: \"%.40s\" is not an instruction of a Dockerfile",
                p->line->number, p->name);
    return NULL;
}

static int read_step(struct parsing *p, json_t *into, struct err *e)
{
    const struct instruction *found = find_instruction(p, e);
    if (!found)
        return -1;
    snprintf(p->name, sizeof p->name, "%s", found->name);
    if (!*p->rest)
        return dockerfile__refuse(p, e, "it needs an argument");
    if (++p->steps > DOCKERFILE_STEPS_MAX)
        return dockerfile__refuse(p, e, "there are too many instructions");
    json_t *step = json_pack("{s:s, s:i, s:s}", "type", p->name, "line", p->line->number, "text",
                             buf_str(&p->line->text));
    json_array_append_new(into, step);
    return found->read(p, step, e);
}

static int read_line(struct parsing *p, struct err *e)
{
    const char *text = buf_str(&p->line->text);
    size_t len = strcspn(text, " \t");
    snprintf(p->name, sizeof p->name, "%.*s", (int)len, text);
    p->rest = text + len + strspn(text + len, " \t");
    json_t *stage = json_array_get(p->stages, json_array_size(p->stages) - 1);
    if (take_flags(p, e) < 0)
        return -1;
    if (strcasecmp(p->name, "FROM") == 0)
        return read_from(p, e);
    if (!stage && strcasecmp(p->name, "ARG") != 0)
        return err_set(e, ERR_INVALID, "line %d: the first instruction must be FROM or ARG",
                       p->line->number);
    return read_step(p, stage ? json_object_get(stage, "steps") : p->args, e);
}

static int read_all(struct parsing *p, struct err *e)
{
    for (;;) {
        struct line line;
        int more = lines_next(&p->lines, &line, e);
        p->line = &line;
        if (more > 0 && read_line(p, e) < 0)
            more = -1;
        json_decref(p->flags);
        p->flags = NULL;
        p->line = NULL;
        line_fini(&line);
        if (more <= 0)
            return more;
    }
}

// A message may end a word of the file within a character.
static void mend_message(struct err *e)
{
    struct buf text auto_buf = BUF_INIT;
    utf8_sanitize(&text, e->msg, strlen(e->msg));
    size_t room = text.len < sizeof e->msg ? text.len : sizeof e->msg - 1;
    size_t len = utf8_valid_prefix(buf_str(&text), room);
    memcpy(e->msg, buf_str(&text), len);
    e->msg[len] = '\0';
}

json_t *dockerfile_parse(const char *text, size_t len, struct err *e)
{
    struct err mine = ERR_INIT;
    struct err *why = e ? e : &mine;
    struct parsing p = {.stages = json_array(), .args = json_array()};
    json_t *whole = NULL;
    if (lines_init(&p.lines, text, len, why) == 0 && read_all(&p, why) == 0) {
        const char escape[] = {p.lines.escape, '\0'};
        if (json_array_size(p.stages) == 0)
            err_set(why, ERR_INVALID, "the Dockerfile has no FROM");
        else
            whole =
                json_pack("{s:s, s:O, s:O}", "escape", escape, "args", p.args, "stages", p.stages);
    }
    mend_message(why);
    json_decref(p.stages);
    json_decref(p.args);
    return whole;
}
