// SPDX-License-Identifier: Apache-2.0
// Stages: which keys change with what, and what the instructions set.
#include <stdlib.h>
#include <string.h>

#include "sandbox-backend/base/mem.h"
#include "sandbox-backend/base/str.h"
#include "sandbox-backend/build/dockerfile.h"
#include "sandbox-backend/build/stage.h"
#include "tests/lib/harness/tap.h"

struct resolved {
    json_t *file;
    struct stage stage;
    struct err err;
};

// Resolve the first stage of a Dockerfile, with the build argument ARG=given.
static void resolve(struct resolved *r, const char *text)
{
    *r = (struct resolved){0};
    r->file = dockerfile_parse(text, strlen(text), &r->err);
    json_t *given = json_pack("{s:s}", "ARG", "given");
    json_t *env = json_pack("{s:s}", "PATH", "/bin");
    struct stage_world w = {.expand = true, .escape = '\\', .given = given};
    json_t *globals = stage_globals(&w, json_object_get(r->file, "args"), &r->err);
    w.globals = globals;
    r->stage.json = json_array_get(json_object_get(r->file, "stages"), 0);
    stage_begin(&r->stage, "base", "key of the base", env, NULL, NULL);
    if (!err_is(&r->err))
        stage_resolve(&r->stage, &w, &r->err);
    json_decref(globals);
    json_decref(given);
    json_decref(env);
}

static void release(struct resolved *r)
{
    stage_fini(&r->stage);
    json_decref(r->file);
}

static char *last_key(const char *text)
{
    struct resolved r;
    resolve(&r, text);
    char *key = xstrdup(err_is(&r.err) ? r.err.msg : stage_key(&r.stage));
    release(&r);
    return key;
}

static void test_a_last_directory_is_named(void)
{
    struct resolved r;
    resolve(&r, "FROM a\nRUN x\nWORKDIR /w\nUSER u\nCMD y");
    const struct action *last = &r.stage.actions[r.stage.count - 1];
    is_int((int)r.stage.count, 2, "the directory is made after the last step");
    is_str(json_string_value(json_object_get(last->step, "type")), "WORKDIR",
           "and the step that asked for it is told, not CMD");
    is_int((int)json_integer_value(json_object_get(last->step, "line")), 3, "with its line");
    release(&r);
}

static void test_keys(void)
{
    static const struct {
        const char *a, *b;
        bool same;
        const char *what;
    } CASES[] = {
        {"FROM a\nRUN x", "FROM a\n\n# comment\nRUN x", true, "comments do not count"},
        {"FROM a\nRUN x", "FROM a\nRUN y", false, "the command counts"},
        {"FROM a\nRUN x", "FROM a\nRUN [\"x\"]", false, "the form counts"},
        {"FROM a\nRUN x\nRUN y", "FROM a\nRUN z\nRUN y", false, "the step before counts"},
        {"FROM a\nENV A=1\nRUN x", "FROM a\nENV A=2\nRUN x", false, "variables count"},
        {"FROM a\nARG A=1\nRUN x", "FROM a\nARG A=2\nRUN x", false, "arguments count"},
        {"FROM a\nRUN x\nENV A=1", "FROM a\nRUN x\nENV A=2", true, "later variables do not"},
        {"FROM a\nUSER b\nRUN x", "FROM a\nUSER c\nRUN x", false, "the user counts"},
        {"FROM a\nWORKDIR /b\nRUN x", "FROM a\nWORKDIR /c\nRUN x", false, "the directory counts"},
        {"FROM a\nLABEL b=c\nRUN x", "FROM a\nRUN x", true, "labels do not count"},
        {"FROM a\nRUN x\nWORKDIR /b", "FROM a\nRUN x\nWORKDIR /c", false, "a last directory"},
        {"FROM a\nCMD x", "FROM a\nCMD y", true, "the command of the template does not"},
        {"FROM a\nARG ARG\nRUN x", "FROM a\nARG ARG=other\nRUN x", true, "the given value wins"},
    };
    for (size_t i = 0; i < ARRAY_LEN(CASES); i++) {
        char *a auto_free = last_key(CASES[i].a);
        char *b auto_free = last_key(CASES[i].b);
        ok(str_eq(a, b) == CASES[i].same, "%s", CASES[i].what);
    }
}

static void test_configuration(void)
{
    struct resolved r;
    resolve(&r, "ARG BASE=b\nFROM a\nARG BASE\nARG NONE\nENV A=$BASE-$ARG PATH=/x:$PATH\nARG ARG\n"
                "ENV B=$ARG\nWORKDIR /w\nWORKDIR $A\nUSER u$NONE\nVOLUME /v\nLABEL l=$A\n"
                "ENTRYPOINT [\"run\", \"a b\"]\nCMD [\"c'd\"]\nHEALTHCHECK CMD check it\nRUN x");
    const struct stage_config *c = &r.stage.config;
    is_str(r.err.msg, "", "it is resolved");
    is_str(json_string_value(json_object_get(c->env, "A")), "b-", "an ARG counts from its line on");
    is_str(json_string_value(json_object_get(c->env, "B")), "given", "a build argument");
    is_str(json_string_value(json_object_get(c->env, "PATH")), "/x:/bin", "a variable of the base");
    is_str(c->directory, "/w/b-", "a relative directory");
    is_str(c->user, "u", "a user");
    is_str(json_string_value(json_object_get(c->labels, "l")), "b-", "a label");
    char *start auto_free = stage_start_command(&r.stage);
    is_str(start, "'run' 'a b' 'c'\\''d'", "the start command");
    char *ready auto_free = stage_ready_command(&r.stage);
    is_str(ready, "check it", "the ready command");
    is_int(r.stage.count, 1, "one action");
    char *make auto_free =
        json_dumps(json_object_get(r.stage.actions[0].what, "make"), JSON_COMPACT);
    is_str(make, "[[\"/w\",\"root\"],[\"/w/b-\",\"root\"],[\"/v\",\"u\"]]", "its directories");
    release(&r);
}

static void test_errors(void)
{
    static const char *const CASES[][2] = {
        {"FROM a\nENV A=${B?}", "line 2: ENV: the variable B is not set"},
        {"FROM a\n\nWORKDIR ${A%x}",
         "line 3: WORKDIR: \"${A%x\" is not supported; :- - :+ + :? and ? are"},
        {"FROM a\nUSER $NONE", "line 2: USER: the user is empty"},
        {"ARG A=${B:?no}\nFROM a", "line 1: the variable B is not set: no"},
    };
    for (size_t i = 0; i < ARRAY_LEN(CASES); i++) {
        char *got auto_free = last_key(CASES[i][0]);
        is_str(got, CASES[i][1], "refused %zu", i);
    }
}

int main(void)
{
    test_keys();
    test_a_last_directory_is_named();
    test_configuration();
    test_errors();
    return tap_done();
}
