// SPDX-License-Identifier: Apache-2.0
// Sandboxes that were moved to another node.
#include "sandbox-backend/daemon/sandbox/moved.h"

#include <string.h>
#include <unistd.h>

#include "sandbox-backend/base/buf.h"
#include "sandbox-backend/base/fd.h"
#include "sandbox-backend/base/home.h"
#include "sandbox-backend/base/mem.h"
#include "sandbox-backend/base/sandbox_id.h"
#include "sandbox-backend/base/str.h"
#include "sandbox-backend/daemon/sandbox/store.h"

#define MOVED "moved" // a directory of the home

static char *path_of(const struct store *store, const char *id)
{
    return str_printf("%s/" MOVED "/%.*s", store->home, (int)sandbox_id_len(id), id);
}

int moved_note(const struct store *store, const char *id, const char *node, struct err *e)
{
    char *dir auto_free = home_path(store->home, MOVED);
    char *path auto_free = path_of(store, id);
    return dir_make(dir, 0700, e) < 0 ? -1 : file_replace(path, node, strlen(node), 0600, e);
}

char *moved_to(const struct store *store, const char *id)
{
    char *path auto_free = path_of(store, id);
    struct buf text auto_buf = BUF_INIT;
    if (!sandbox_id_len(id) || file_read(path, NODE_NAME_MAX, &text, NULL) < 0 ||
        !node_name_is_valid(buf_str(&text)))
        return NULL;
    return xstrdup(buf_str(&text));
}

void moved_forget(const struct store *store, const char *id)
{
    char *path auto_free = path_of(store, id);
    unlink(path);
}
