// SPDX-License-Identifier: Apache-2.0
// Forms of a git repository that a guest must not make.
//
// git on the host runs what the configuration of a repository says. The rules hide that of `.git`
// (rules.c). But the guest could write a configuration elsewhere, and lead git there:
//
//  1. `.git` as a file ("gitdir: elsewhere") or as a link. So `.git` can only be made as a
//     directory, and a file of this name is only read.
//  2. A bare repository, which is any directory with HEAD, objects and refs. So HEAD can be made
//     below `.git` only, and no directory leaves a `.git`.
//
// Nobody runs git on the host in a volume, so all is allowed there.
#include <errno.h>
#include <string.h>

#include "sandbox-backend/mountd/share.h"

static const char *last_name(const char *path)
{
    const char *slash = strrchr(path, '/');
    return slash ? slash + 1 : path;
}

// Return whether a directory on the way to the last name is `.git`.
static bool is_in_git(const char *path)
{
    for (const char *slash; (slash = strchr(path, '/')); path = slash + 1)
        if (slash - path == 4 && strncasecmp(path, ".git", 4) == 0)
            return true;
    return false;
}

static bool is_git(const char *path)
{
    return strcasecmp(last_name(path), ".git") == 0;
}

bool share__git_may_make(const struct share *s, const char *path)
{
    return s->space ||
           (!is_git(path) && (strcasecmp(last_name(path), "HEAD") != 0 || is_in_git(path)));
}

bool share__git_may_write(const struct share *s, const char *path)
{
    return s->space || !is_git(path);
}

bool share__git_may_move(const struct share *s, const char *from, bool is_dir, const char *to)
{
    return is_dir ? s->space || !is_in_git(from) || is_in_git(to) : share__git_may_make(s, to);
}
