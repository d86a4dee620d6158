// SPDX-License-Identifier: Apache-2.0
// The skills that the program ships.
#include "mcp-server/resources/skills.h"

#include <string.h>

#include "mcp-server/protocol/exchange.h"
#include "sandbox-backend/base/mem.h"
#include "sandbox-backend/base/str.h"
#include "sandbox-backend/keys/sha256.h"
#include "skill_texts.h"

struct skill {
    const char *name, *text;
};

#define ROW(name, text) {name, text},
static const struct skill SKILLS[] = {SKILL_ROWS(ROW)};

static char *uri_of(const struct skill *skill)
{
    return str_printf("skill://%s/SKILL.md", skill->name);
}

static const struct skill *find(const char *uri)
{
    for (size_t i = 0; i < ARRAY_LEN(SKILLS); i++) {
        char *has auto_free = uri_of(&SKILLS[i]);
        if (str_eq(has, uri))
            return &SKILLS[i];
    }
    return NULL;
}

// Return the frontmatter as an object. In our files each of its lines is "key: plain text".
static json_t *frontmatter_of(const char *text)
{
    json_t *all = json_object();
    const char *line = strchr(text, '\n') + 1; // behind the first "---"
    while (!str_starts(line, "---")) {
        const char *colon = strstr(line, ": ");
        const char *end = strchr(line, '\n');
        char *key auto_free = xstrndup(line, (size_t)(colon - line));
        json_object_set_new(all, key, json_stringn(colon + 2, (size_t)(end - colon - 2)));
        line = end + 1;
    }
    return all;
}

static json_t *entry_of(const struct skill *skill)
{
    char *uri auto_free = uri_of(skill);
    size_t size = strlen(skill->text);
    struct sha256 digest = sha256_of(skill->text, size);
    char hex[2 * sizeof digest.bytes + 1];
    hex_encode(hex, digest.bytes, sizeof digest.bytes);
    char *shown auto_free = str_printf("sha256:%s", hex);
    return json_pack("{s:s, s:o, s:[{s:s, s:s, s:I}]}", "uri", uri, "frontmatter",
                     frontmatter_of(skill->text), "resources", "uri", uri, "digest", shown, "size",
                     (json_int_t)size);
}

json_t *skills_list(void)
{
    json_t *all = json_array();
    for (size_t i = 0; i < ARRAY_LEN(SKILLS); i++)
        json_array_append_new(all, entry_of(&SKILLS[i]));
    return all;
}

json_t *skills_get(const char *uri)
{
    const struct skill *skill = find(uri);
    return skill ? entry_of(skill) : NULL;
}

static void read_skill(struct exchange *x, const char *uri)
{
    const struct skill *skill = find(uri);
    if (!skill) {
        resource_not_found(x, uri, "there is no such skill");
        return;
    }
    json_t *content = resource_content(uri, "text/markdown", skill->text, strlen(skill->text));
    exchange_result_cacheable(x, json_pack("{s:[o]}", "contents", content), true, SKILLS_TTL_MS);
}

const struct resource_source SKILL_FILES = {.scheme = "skill", .read = read_skill};
