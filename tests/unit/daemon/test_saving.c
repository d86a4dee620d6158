// SPDX-License-Identifier: Apache-2.0
// The saving of a hibernated sandbox, whose image is linked file by file.
#include <dlfcn.h>
#include <errno.h>
#include <fts.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "sandbox-backend/base/fd.h"
#include "sandbox-backend/base/mem.h"
#include "sandbox-backend/base/str.h"
#include "sandbox-backend/daemon/sandbox/store.h"
#include "sandbox-backend/daemon/snapshot/snapshot.h"
#include "tests/lib/harness/tap.h"

static int reads_until_failure;

// Instead of libc's, which it calls. The failing read reads too: fts_close loses memory of a tree
// that was never read.
FTSENT *fts_read(FTS *tree)
{
    FTSENT *(*libc)(FTS *);
    void *symbol = dlsym(RTLD_NEXT, "fts_read");
    memcpy(&libc, &symbol, sizeof libc);
    FTSENT *at = libc(tree);
    if (reads_until_failure-- != 0)
        return at;
    errno = EIO;
    return NULL;
}

static struct err told;
static bool is_told;

static void on_image(const struct sandbox *sb, const struct machine_saved *saved, json_t *disk_env,
                     const struct err *e, void *ctx)
{
    (void)sb;
    (void)disk_env;
    (void)ctx;
    ok(!saved == !!e, "either a result or an error");
    told = e ? *e : ERR_INIT;
    is_told = true;
}

static int64_t never(const struct sandbox *sb)
{
    (void)sb;
    return INT64_MAX;
}

static struct sandbox *hibernated(struct store *store)
{
    struct sandbox *sb = sandbox_new(store, NULL);
    struct err e = ERR_INIT;
    char *image auto_free = str_printf("%s/image", sb->dir);
    dir_make(sb->dir, 0700, &e);
    dir_make(image, 0700, &e);
    ok(!err_is(&e), "it has an image: %s", e.msg);
    sb->image = xstrdup("");
    sandbox_set_state(sb, SANDBOX_PAUSED);
    return sb;
}

static void forget(struct sandbox *sb)
{
    deadline_close(&sb->turn, NULL);
    sandbox_set_state(sb, SANDBOX_KILLING);
    sandbox_set_state(sb, SANDBOX_DEAD);
}

int main(void)
{
    static const struct store_hooks HOOKS = {.sleep_next_ms = never};
    char home[] = "/tmp/cubby-saving-XXXXXX";
    uv_loop_t loop;
    struct store store;
    struct store_limits limits;
    struct err e = ERR_INIT;
    uv_loop_init(&loop);
    store_limits_defaults(&limits);
    ok(mkdtemp(home) && store_open(&store, &loop, &HOOKS, home, &limits, &e) == 0, "a home: %s",
       e.msg);
    struct sandbox *sb = hibernated(&store);
    char *to auto_free = str_printf("%s/to", home);
    dir_make(to, 0700, NULL);

    reads_until_failure = 1;
    saving_start(sb, to, SAVE_TO_KEEP, on_image, NULL);
    uv_run(&loop, UV_RUN_DEFAULT);
    ok(is_told && strstr(told.msg, "read the image of the sandbox"),
       "an image that cannot be read to its end is not saved: %s", told.msg);

    forget(sb);
    store_close(&store);
    uv_run(&loop, UV_RUN_DEFAULT);
    sandbox_free(sb);
    store_fini(&store);
    ok(uv_loop_close(&loop) == 0, "nothing is left open");
    dir_remove(home, NULL);
    return tap_done();
}
