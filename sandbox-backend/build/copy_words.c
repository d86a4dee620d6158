// SPDX-License-Identifier: Apache-2.0
// The values of --chown and --chmod of COPY and ADD.
#include "sandbox-backend/build/copy_words.h"

#include <ctype.h>
#include <stdbool.h>
#include <string.h>

#define OCTAL_DIGITS_MAX 5          // 04755 has a leading zero
#define NAME_CHARS       "._-$@+\\" // beside letters and digits; in names of users and groups

static bool is_name(const char *text, size_t len)
{
    for (size_t i = 0; i < len; i++)
        if (!isalnum((unsigned char)text[i]) && (unsigned char)text[i] < 0x80 &&
            !strchr(NAME_CHARS, text[i]))
            return false;
    return len > 0 && text[0] != '-';
}

int copy_words_check_owner(const char *owner, struct err *e)
{
    size_t user = strcspn(owner, ":");
    const char *group = owner[user] ? owner + user + 1 : NULL;
    bool fine = (user == 0 && group) || is_name(owner, user);
    if (!*owner || (fine && (!group || is_name(group, strlen(group)))))
        return 0;
    return err_set(e, ERR_INVALID, "--chown=%.60s is not USER, USER:GROUP or :GROUP", owner);
}

// One clause: "u=rwX", "go-w", "a+r".
static bool is_clause(const char *text, size_t len)
{
    size_t who = strspn(text, "ugoa");
    size_t op = strspn(text + who, "+-=");
    size_t what = strspn(text + who + op, "rwxXstugo");
    return op == 1 && who + op + what == len;
}

static bool is_symbolic(const char *mode)
{
    for (const char *s = mode;; s++) {
        size_t len = strcspn(s, ",");
        if (!is_clause(s, len))
            return false;
        s += len;
        if (!*s)
            return true;
    }
}

int copy_words_check_mode(const char *mode, struct err *e)
{
    size_t digits = strspn(mode, "01234567");
    bool octal = digits > 0 && !mode[digits] && digits <= OCTAL_DIGITS_MAX &&
                 (digits < OCTAL_DIGITS_MAX || mode[0] == '0');
    if (!*mode || octal || is_symbolic(mode))
        return 0;
    return err_set(e, ERR_INVALID,
                   "--chmod=%.60s is not a mode: give octal digits such as 0644, or symbols such "
                   "as u=rwX,go=rX",
                   mode);
}
