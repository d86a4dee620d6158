// SPDX-License-Identifier: Apache-2.0
// cubby template build: recipes, and what is installed beside Debian packages.
#include "sandbox-backend/cli/template_recipe.h"

#include <stdlib.h>
#include <string.h>

#include "sandbox-backend/base/fd.h"
#include "sandbox-backend/base/mem.h"
#include "sandbox-backend/base/str.h"
#include "sandbox-backend/cli/cli.h"
#include "sandbox-backend/template/initramfs_modules.h"
#include "sandbox-backend/template/recipes.h"

#define SCRIPT_BYTES_MAX (100 * 1024) // it is handed over as one variable
#define NODE_PACKAGES    "nodejs,npm"

int template_take_modules(struct template_build *spec)
{
    if (initramfs_modules_is_extra(spec->modules) && !spec->kernel) {
        spec->extra_modules = spec->modules;
        spec->modules = NULL;
    }
    if (spec->modules && !spec->kernel) {
        cli_usage_error("--modules needs --kernel, or is docker");
        return -1;
    }
    return 0;
}

// Return two lists as one. Either may be NULL.
static const char *join(struct template_wish *wish, const char *a, const char *b)
{
    if (!a || !b)
        return a ? a : b;
    wish->owned[wish->count] = str_printf("%s,%s", a, b);
    return wish->owned[wish->count++];
}

// pip and npm would take a word that begins with '-' for an option.
static int check_list(const char *option, const char *list, struct err *e)
{
    for (const char *at = list; at && *at; at += strcspn(at, ", \t\n")) {
        at += strspn(at, ", \t\n");
        if (*at == '-')
            return err_set(e, ERR_INVALID, "%s takes names of packages, not options", option);
    }
    return 0;
}

static int take_script(struct template_build *spec, struct template_wish *wish, struct err *e)
{
    struct buf text auto_buf = BUF_INIT;
    if (!wish->script)
        return 0;
    if (file_read(wish->script, SCRIPT_BYTES_MAX, &text, e) < 0)
        return err_wrap(e, "--script");
    if (memchr(text.data ? text.data : "", '\0', text.len))
        return err_set(e, ERR_INVALID, "--script %s: it has a NUL byte", wish->script);
    spec->extras.script = wish->owned[wish->count++] = buf_take(&text);
    return 0;
}

static int take_wishes(struct template_build *spec, struct template_wish *wish, struct err *e)
{
    bool any = wish->pip || wish->npm || wish->script;
    if (any && spec->source.kind != FROM_PACKAGES)
        return err_set(e, ERR_INVALID,
                       "--pip, --npm and --script are for templates of Debian packages; use a "
                       "Dockerfile to install into an image");
    if (check_list("--pip", wish->pip, e) < 0 || check_list("--npm", wish->npm, e) < 0)
        return -1;
    spec->extras.pip = join(wish, spec->extras.pip, wish->pip);
    spec->extras.npm = join(wish, spec->extras.npm, wish->npm);
    if (wish->npm)
        spec->packages = join(wish, spec->packages, NODE_PACKAGES);
    return take_script(spec, wish, e);
}

static json_t *variables_of(const char *assignment)
{
    const char *equals = strchr(assignment, '=');
    char *name auto_free = xstrndup(assignment, (size_t)(equals - assignment));
    return json_pack("{s:s}", name, equals + 1);
}

static void take_recipe(struct template_build *spec, struct template_wish *wish,
                        const struct recipe *r)
{
    spec->packages = join(wish, r->packages, spec->packages);
    spec->extras = (struct template_extras){
        .pip = r->pip, .npm = r->npm, .files = r->files, .script = r->script, .tolerant = true};
    spec->warm = r->warm;
    spec->memory_mb = r->memory_mb;
    spec->disk_mb = r->disk_mb;
    spec->start = spec->start ? spec->start : r->start;
    spec->ready = spec->ready ? spec->ready : r->ready;
    if (!spec->extra_modules)
        spec->extra_modules = r->modules;
    if (r->environment && !spec->environment.variables)
        spec->environment.variables = variables_of(r->environment);
}

int template_take_recipe(struct template_build *spec, struct template_wish *wish, struct err *e)
{
    const struct recipe *recipe = recipe_find(spec->name);
    spec->memory_mb = TEMPLATE_MEMORY_MB_DEFAULT;
    spec->disk_mb = TEMPLATE_DISK_MB_DEFAULT;
    if (recipe && spec->source.kind == FROM_PACKAGES)
        take_recipe(spec, wish, recipe);
    return take_wishes(spec, wish, e);
}

void template_wish_fini(struct template_wish *wish)
{
    for (int i = 0; i < wish->count; i++)
        free(wish->owned[i]);
    *wish = (struct template_wish){0};
}
