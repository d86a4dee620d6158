// SPDX-License-Identifier: Apache-2.0
// The files of a machine that is kept while another is tried in its place.
#include "sandbox-backend/daemon/aside.h"

#include <dirent.h>
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#include "sandbox-backend/base/fault.h"
#include "sandbox-backend/base/fd.h"
#include "sandbox-backend/base/mem.h"
#include "sandbox-backend/base/str.h"
#include "sandbox-backend/daemon/dir_work.h"

typedef int (*visit)(const char *from, const char *to, const char *name, struct err *e);

// A record that is just being replaced has its name in front.
static bool is_of_the_machine(const char *name)
{
    return name[0] != '.' && !str_starts(name, DIR_WORK_RECORD) && !str_eq(name, DIR_WORK_IMAGE) &&
           !str_eq(name, DIR_WORK_NEW) && !str_eq(name, ASIDE_DIR) && !str_eq(name, ASIDE_PART);
}

static int each(const char *from, const char *to, visit cb, struct err *e)
{
    struct dirent **names = NULL;
    int n = scandir(from, &names, NULL, alphasort);
    int result = n < 0 ? err_sys(e, errno, "look into %s", from) : 0;
    for (int i = 0; i < n; i++) {
        if (result == 0 && is_of_the_machine(names[i]->d_name))
            result = cb(from, to, names[i]->d_name, e);
        free(names[i]);
    }
    free(names);
    return result;
}

static int move(const char *from, const char *to, const char *name, struct err *e)
{
    char *old auto_free = str_printf("%s/%s", from, name);
    char *new auto_free = str_printf("%s/%s", to, name);
    FAULT("aside.1");
    return rename(old, new) < 0 ? err_sys(e, errno, "move %s to %s", old, to) : 0;
}

static int remove_one(const char *from, const char *to, const char *name, struct err *e)
{
    (void)to;
    char *path auto_free = str_printf("%s/%s", from, name);
    return dir_remove(path, e);
}

int aside_clear(const char *dir, struct err *e)
{
    char *part auto_free = str_printf("%s/" ASIDE_PART, dir);
    char *whole auto_free = str_printf("%s/" ASIDE_DIR, dir);
    return dir_remove(part, e) < 0 ? -1 : dir_remove(whole, e);
}

int aside_put(const char *dir, struct err *e)
{
    char *part auto_free = str_printf("%s/" ASIDE_PART, dir);
    char *whole auto_free = str_printf("%s/" ASIDE_DIR, dir);
    if (mkdir(part, 0700) < 0)
        return err_sys(e, errno, "make %s", part);
    if (each(dir, part, move, e) < 0)
        return -1;
    FAULT("aside.2");
    return rename(part, whole) < 0 ? err_sys(e, errno, "rename %s", part) : 0;
}

int aside_take_back(const char *dir, struct err *e)
{
    char *part auto_free = str_printf("%s/" ASIDE_PART, dir);
    char *whole auto_free = str_printf("%s/" ASIDE_DIR, dir);
    if (file_exists(whole)) {
        if (each(dir, NULL, remove_one, e) < 0)
            return -1;
        FAULT("aside.3");
        if (rename(whole, part) < 0)
            return err_sys(e, errno, "rename %s", whole);
    }
    if (!file_exists(part))
        return 0;
    return each(part, dir, move, e) < 0 ? -1 : dir_remove(part, e);
}

bool aside_is_there(const char *dir)
{
    char *part auto_free = str_printf("%s/" ASIDE_PART, dir);
    char *whole auto_free = str_printf("%s/" ASIDE_DIR, dir);
    return file_exists(part) || file_exists(whole);
}
