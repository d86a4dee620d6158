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

#define BIG (1 << 20) // a guest may make files of any size, which costs a test too much time

// A text that no answer may hold, because a request cannot know it.
static char *mark; // owned

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

// Files in the directory, and a file beside it to which a link leads.
static void fill(const char *dir)
{
    struct err e = ERR_INIT;
    char *inside auto_free = NULL, *hidden auto_free = NULL, *link auto_free = NULL;
    if (asprintf(&inside, "%s/in/a", dir) < 0 || asprintf(&hidden, "%s/in/.env", dir) < 0 ||
        asprintf(&link, "%s/in/l", dir) < 0)
        abort();
    assert(file_replace(inside, "text", 4, 0600, &e) == 0);
    assert(file_replace(hidden, mark, strlen(mark), 0600, &e) == 0);
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

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    char dir[] = "/tmp/fuzz-mountd-XXXXXX";
    struct err e = ERR_INIT;
    struct share *share auto_free = xcalloc(1, sizeof *share);
    struct session session = {.share = share};
    const struct mount_request *head = (const void *)data;
    if (size >= sizeof *head && (head->size > BIG || head->offset > BIG))
        return 0;
    mark = random_hex(16);
    if (!mkdtemp(dir))
        abort();
    char *in auto_free = NULL, *secret auto_free = NULL;
    if (asprintf(&in, "%s/in", dir) < 0 || asprintf(&secret, "%s/secret", dir) < 0)
        abort();
    assert(mkdir(in, 0700) == 0 && file_replace(secret, mark, strlen(mark), 0600, &e) == 0);
    fill(dir);
    assert(share_init(share, open(in, O_PATH | O_DIRECTORY | O_CLOEXEC), false, &e) == 0);
    buf_add(&session.in, data, size);
    while (session_serve(&session, &e) > 0) {
        check(dir, &session);
        buf_clear(&session.out);
    }
    check(dir, &session);
    session_fini(&session);
    share_fini(share);
    dir_remove(dir, &e);
    free(steal(&mark));
    return 0;
}
