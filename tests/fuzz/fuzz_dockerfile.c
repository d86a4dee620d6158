// SPDX-License-Identifier: Apache-2.0
// Fuzz the Dockerfile parser and the expansion of variables. Each word of a step that was read is
// expanded.
#include <assert.h>
#include <jansson.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include "sandbox-backend/base/mem.h"
#include "sandbox-backend/base/str.h"
#include "sandbox-backend/build/dockerfile.h"
#include "sandbox-backend/build/words.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static void expand_all(const json_t *list, const struct variables *v)
{
    size_t i;
    json_t *one;
    json_array_foreach (list, i, one) {
        struct err e = ERR_INIT;
        const char *word = json_string_value(one);
        char *text auto_free = word ? words_expand(word, v, '\\', &e) : NULL;
        assert(!word || (text != NULL) == !err_is(&e));
        assert(!text || strlen(text) <= EXPANDED_BYTES_MAX);
    }
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    struct err e = ERR_INIT;
    json_t *file = dockerfile_parse((const char *)data, size, &e);
    json_t *env = json_pack("{s:s, s:s}", "A", "a value", "B", "");
    const struct variables v = {.env = env};
    size_t i, k;
    json_t *stage, *step;
    assert((file != NULL) == !err_is(&e));
    assert(utf8_is_valid(e.msg, strlen(e.msg)));
    json_array_foreach (json_object_get(file, "stages"), i, stage) {
        assert(json_is_string(json_object_get(stage, "from")));
        json_array_foreach (json_object_get(stage, "steps"), k, step) {
            assert(json_is_string(json_object_get(step, "type")));
            expand_all(json_object_get(step, "args"), &v);
            expand_all(json_object_get(step, "sources"), &v);
        }
    }
    json_decref(file);
    json_decref(env);
    return 0;
}
