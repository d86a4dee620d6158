// SPDX-License-Identifier: Apache-2.0
// The groups of users, by group(5). initgroups(3) does not work here: a static program has no NSS.
#include "sandbox-backend/base/groups.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

bool groups_is_member(const char *members, const char *name)
{
    size_t len = strlen(name);
    for (const char *p = members; *p;) {
        size_t n = strcspn(p, ",");
        if (n == len && memcmp(p, name, n) == 0)
            return true;
        p += n + (p[n] == ',');
    }
    return false;
}

// Parse a line "name:password:id:members". False: it is malformed.
static bool parse(char *line, gid_t *id, const char **members)
{
    char *fields[4] = {line};
    line[strcspn(line, "\n")] = '\0';
    for (int i = 1; i < 4; i++) {
        char *colon = strchr(fields[i - 1], ':');
        if (!colon)
            return false;
        *colon = '\0';
        fields[i] = colon + 1;
    }
    char *end;
    unsigned long number = strtoul(fields[2], &end, 10);
    *id = (gid_t)number;
    *members = fields[3];
    return *fields[2] && !*end && number < (gid_t)-1;
}

size_t groups_of(const char *file, const char *user, gid_t own, gid_t *out, size_t max)
{
    size_t count = 0;
    out[count++] = own;
    FILE *f = fopen(file, "re");
    char *line = NULL;
    size_t room = 0;
    while (f && count < max && getline(&line, &room, f) >= 0) {
        gid_t id;
        const char *members;
        if (parse(line, &id, &members) && id != own && groups_is_member(members, user))
            out[count++] = id;
    }
    free(line);
    if (f)
        fclose(f);
    return count;
}
