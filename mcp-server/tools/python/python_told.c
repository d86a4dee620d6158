// SPDX-License-Identifier: Apache-2.0
// The Python kernel's reports about a run, apart from its output streams.
//
// A value comes in several forms. A model reads text: the plain form, or else the nearest to it. An
// image is shown if clients can take it, and is saved in a file of the sandbox in any case. A
// caller that wants no images is not told of it.
#include "mcp-server/tools/python/python.h"

#include <string.h>

#include "mcp-server/text/text.h"
#include "mcp-server/tools/call/tools.h"
#include "sandbox-backend/base/json.h"
#include "sandbox-backend/base/mem.h"
#include "sandbox-backend/base/str.h"

#define IMAGES_MAX      8
#define IMAGE_CHARS_MAX ((size_t)1400 << 10) // base64 of 1 MiB: providers refuse larger ones
#define TOTAL_CHARS_MAX ((size_t)4 << 20)
#define FIGURES_MAX     64 // that are told of

void python_told_init(struct python_told *t, size_t limit)
{
    *t = (struct python_told){.figures = json_array()};
    excerpt_init(&t->result, limit);
    excerpt_init(&t->displayed, limit);
}

void python_told_fini(struct python_told *t)
{
    excerpt_fini(&t->result);
    excerpt_fini(&t->displayed);
    json_decref(t->figures);
    json_decref(t->error);
}

// ---- images

static const struct {
    const char *member, *mime_type;
    bool is_shown; // no client takes a picture of vectors
} IMAGES[] = {
    {"png", "image/png", true},
    {"jpeg", "image/jpeg", true},
    {"svg", "image/svg+xml", false},
};

static bool has_room(const struct python_told *t, size_t chars)
{
    return t->images < IMAGES_MAX && chars <= IMAGE_CHARS_MAX &&
           t->image_chars + chars <= TOTAL_CHARS_MAX;
}

// Return the length of base64 without line ends at its end, which some writers add.
static size_t base64_chars(const char *base64)
{
    size_t chars = strlen(base64);
    while (chars > 0 && base64[chars - 1] == '\n')
        chars--;
    return chars;
}

static bool show(struct python_told *t, struct tool_call *c, const char *base64,
                 const char *mime_type)
{
    size_t chars = base64_chars(base64);
    if (tool_call_images(c) != IMAGES_INLINE || !has_room(t, chars))
        return false;
    json_t *block = json_pack("{s:s, s:s%, s:s}", "type", "image", "data", base64, chars,
                              "mimeType", mime_type);
    if (!block)
        return false;
    t->images++;
    t->image_chars += chars;
    tool_call_add_block(c, block);
    return true;
}

static int64_t image_bytes(const char *member, const char *data)
{
    if (str_eq(member, "svg"))
        return (int64_t)strlen(data);
    size_t chars = base64_chars(data);
    size_t digits = chars;
    while (digits > 0 && data[digits - 1] == '=')
        digits--;
    return (int64_t)(chars / 4 * 3 - (chars - digits));
}

// Add the image of a value; return whether the value is an image.
static bool add_figure(struct python_told *t, struct tool_call *c, const json_t *line)
{
    size_t i = 0;
    while (i < ARRAY_LEN(IMAGES) && !json_is_string(json_object_get(line, IMAGES[i].member)))
        i++;
    if (i == ARRAY_LEN(IMAGES))
        return false;
    const char *data = text_string(line, IMAGES[i].member);
    const char *path = text_string(line, "file");
    if (json_array_size(t->figures) >= FIGURES_MAX || tool_call_images(c) == IMAGES_OFF)
        return true;
    json_t *figure = json_pack("{s:s, s:b}", "mime_type", IMAGES[i].mime_type, "shown",
                               IMAGES[i].is_shown && show(t, c, data, IMAGES[i].mime_type));
    if (*path) {
        json_object_set_new(figure, "path", json_lossy_string(path, strlen(path)));
        tool_call_add_link(c, path, IMAGES[i].mime_type, image_bytes(IMAGES[i].member, data));
    }
    json_array_append_new(t->figures, figure);
    return true;
}

// ---- text

// Return the readable form of a value, a new string; NULL: none.
static char *readable(const json_t *line)
{
    static const char *const FORMS[] = {"text", "markdown", "latex", "html"};
    for (size_t i = 0; i < ARRAY_LEN(FORMS); i++) {
        const json_t *form = json_object_get(line, FORMS[i]);
        if (json_is_string(form))
            return xstrdup(json_string_value(form));
    }
    const json_t *value = json_object_get(line, "json");
    if (!value)
        value = json_object_get(line, "extra");
    return value ? json_to_string(value) : NULL;
}

void python_told_result(struct python_told *t, struct tool_call *c, const json_t *line)
{
    bool is_main = json_is_true(json_object_get(line, "is_main_result"));
    bool is_figure = add_figure(t, c, line);
    char *text auto_free = readable(line);
    if (!text || (is_figure && !is_main)) // "<Figure size 640x480 with 1 Axes>" tells nothing
        return;
    t->has_result |= is_main;
    excerpt_add(is_main ? &t->result : &t->displayed, text, strlen(text));
    if (!is_main && !str_ends(text, "\n"))
        excerpt_add(&t->displayed, "\n", 1);
}

void python_told_error(struct python_told *t, const json_t *line)
{
    static const char *const MEMBERS[] = {"name", "value", "traceback"};
    json_decref(t->error);
    t->error = json_object();
    for (size_t i = 0; i < ARRAY_LEN(MEMBERS); i++) {
        const char *s = text_string(line, MEMBERS[i]);
        struct excerpt cut;
        excerpt_init(&cut, t->result.half * 2);
        excerpt_add(&cut, s, strlen(s));
        json_object_set_new(t->error, MEMBERS[i], excerpt_text(&cut, ""));
        excerpt_fini(&cut);
    }
}

void python_told_add(const struct python_told *t, json_t *structured)
{
    static const char ADVICE[] = "; print or save a part of it";
    if (t->has_result)
        json_object_set_new(structured, "result", excerpt_text(&t->result, ADVICE));
    if (t->displayed.total > 0)
        json_object_set_new(structured, "displayed", excerpt_text(&t->displayed, ADVICE));
    if (json_array_size(t->figures) > 0)
        json_object_set(structured, "figures", t->figures);
    if (t->error)
        json_object_set(structured, "error", t->error);
    if (excerpt_is_cut(&t->result) || excerpt_is_cut(&t->displayed))
        json_object_set_new(structured, "truncated", json_true());
}
