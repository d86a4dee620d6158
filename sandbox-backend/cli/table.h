// SPDX-License-Identifier: Apache-2.0
// A table for people: columns as wide as their widest cell, and nothing in them that a terminal
// would obey.
#pragma once
#include <stdio.h>

#define TABLE_COLUMNS_MAX 10

struct table {
    int columns;
    int count;    // of cells
    char **cells; // owned, row by row
};

void table_init(struct table *t, int columns);
void table_init_headed(struct table *t, const char *const *headings, int columns);
void table_cell(struct table *t, const char *text); // the next one, left to right; copied
void table_print(const struct table *t, FILE *to);
void table_fini(struct table *t);
