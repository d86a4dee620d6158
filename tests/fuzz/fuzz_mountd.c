// SPDX-License-Identifier: Apache-2.0
// Fuzz the requests that a guest sends to cubby-mountd. The input is what arrives on the
// connection. The directory is a new one in memory, and nothing outside of it may change.
#include <assert.h>
#include <fcntl.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "sandbox-backend/base/fd.h"
#include "sandbox-backend/base/mem.h"
#include "sandbox-backend/base/str.h"
#include "sandbox-backend/mountd/session.h"
#include "sandbox-backend/volume/removed.h"

#define BIG    (1 << 20)    // a guest may make files of any size, which costs a test too much time
#define LIMIT  (256 * 1024) // of the volume
#define GROWTH 65536

// A text that no answer may hold, because a request cannot know it.
static char *mark; // owned

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

// Files in the directory, and a file beside it to which a link leads.
static void fill(const char *dir, const char *hidden_text)
{
    struct err e = ERR_INIT;
    char *inside auto_free = NULL, *hidden auto_free = NULL, *link auto_free = NULL;
    if (asprintf(&inside, "%s/in/a", dir) < 0 || asprintf(&hidden, "%s/in/.env", dir) < 0 ||
        asprintf(&link, "%s/in/l", dir) < 0)
        abort();
    assert(file_replace(inside, "text", 4, 0600, &e) == 0);
    assert(file_replace(hidden, hidden_text, strlen(hidden_text), 0600, &e) == 0);
    assert(symlink("../secret", link) == 0);
}

static void check(const char *dir, const struct session *s)
{
    struct err e = ERR_INIT;
    struct buf text auto_buf = BUF_INIT;
    char *path auto_free = NULL;
    assert(!s->out.len || !memmem(s->out.data, s->out.len, mark, strlen(mark)));
    if (asprintf(&path, "%s/secret", dir) < 0)
        abort();
    assert(file_read(path, 100, &text, &e) == 0 && str_eq(buf_str(&text), mark));
}

// Check that the counts of a volume are not too low, and its files within the limit, but for what
// the last change made a directory grow.
static void check_room(const struct space *space, const char *in)
{
    int64_t counted = space_used(space);
    int root auto_close = open(in, O_PATH | O_DIRECTORY | O_CLOEXEC);
    assert(removed_measure(space, root));
    assert(space_used(space) <= counted && space_used(space) <= LIMIT + GROWTH);
}

// Serve the requests: for a directory of the host (space NULL), or for a volume.
static void serve(const uint8_t *data, size_t size, const struct space *space)
{
    char dir[] = "/tmp/fuzz-mountd-XXXXXX";
    struct err e = ERR_INIT;
    struct share *share auto_free = xcalloc(1, sizeof *share);
    struct session session = {.share = share};
    mark = random_hex(16);
    if (!mkdtemp(dir))
        abort();
    char *in auto_free = NULL, *secret auto_free = NULL;
    if (asprintf(&in, "%s/in", dir) < 0 || asprintf(&secret, "%s/secret", dir) < 0)
        abort();
    assert(mkdir(in, 0700) == 0 && file_replace(secret, mark, strlen(mark), 0600, &e) == 0);
    fill(dir, space ? "shown" : mark); // nothing is hidden in a volume
    assert(share_init(share, open(in, O_PATH | O_DIRECTORY | O_CLOEXEC), false, space, &e) == 0);
    buf_add(&session.in, data, size);
    while (session_serve(&session, &e) > 0) {
        check(dir, &session);
        buf_clear(&session.out);
    }
    check(dir, &session);
    session_fini(&session);
    share_fini(share);
    if (space)
        check_room(space, in);
    dir_remove(dir, &e);
    free(steal(&mark));
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    struct err e = ERR_INIT;
    struct space space;
    const struct mount_request *head = (const void *)data;
    if (size >= sizeof *head && (head->size > BIG || head->offset > BIG))
        return 0;
    serve(data, size, NULL);
    assert(space_make(&space, LIMIT, &e) == 0);
    serve(data, size, &space);
    space_fini(&space);
    return 0;
}
