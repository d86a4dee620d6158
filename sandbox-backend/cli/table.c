// SPDX-License-Identifier: Apache-2.0
// A table for people.
#include "sandbox-backend/cli/table.h"

#include <assert.h>
#include <stdlib.h>
#include <string.h>

#include "sandbox-backend/base/mem.h"
#include "sandbox-backend/cli/cli.h"

void table_init(struct table *t, int columns)
{
    assert(columns <= TABLE_COLUMNS_MAX);
    *t = (struct table){.columns = columns};
}

void table_cell(struct table *t, const char *text)
{
    t->cells = xrealloc(t->cells, (size_t)(t->count + 1) * sizeof *t->cells);
    struct buf safe = BUF_INIT;
    cli_safe(&safe, text);
    t->cells[t->count++] = safe.len ? buf_take(&safe) : xstrdup("");
}

void table_init_headed(struct table *t, const char *const *headings, int columns)
{
    table_init(t, columns);
    for (int i = 0; i < columns; i++)
        table_cell(t, headings[i]);
}

// Characters, as near to columns of a terminal as one gets without knowing its font.
static int width_of(const char *text)
{
    int width = 0;
    for (; *text; text++)
        width += ((unsigned char)*text & 0xc0) != 0x80;
    return width;
}

void table_print(const struct table *t, FILE *to)
{
    int width[TABLE_COLUMNS_MAX] = {0};
    for (int i = 0; i < t->count; i++) {
        int w = width_of(t->cells[i]);
        if (w > width[i % t->columns])
            width[i % t->columns] = w;
    }
    for (int i = 0; i < t->count; i++) {
        bool last = i % t->columns == t->columns - 1;
        int pad = last ? 0 : width[i % t->columns] - width_of(t->cells[i]) + 2;
        fprintf(to, "%s%*s%s", t->cells[i], pad, "", last ? "\n" : "");
    }
}

void table_fini(struct table *t)
{
    for (int i = 0; i < t->count; i++)
        free(t->cells[i]);
    free(t->cells);
    *t = (struct table){0};
}
