// SPDX-License-Identifier: Apache-2.0
// The ended log: it finds sandboxes, has a limit, survives a restart, and tolerates a damaged file.
#include "sandbox-backend/daemon/sandbox/ended_log.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "sandbox-backend/base/buf.h"
#include "sandbox-backend/base/clock.h"
#include "sandbox-backend/base/fd.h"
#include "sandbox-backend/base/mem.h"
#include "sandbox-backend/base/str.h"
#include "tests/lib/harness/tap.h"

static void add(struct ended_log *log, const char *id, const char *owner, enum ended_why why,
                const char *detail)
{
    struct ended_entry entry = {.why = why,
                                .at_ns = clock_wall_ns(),
                                .detail = (char *)(uintptr_t)detail,
                                .owner = (char *)(uintptr_t)owner};
    snprintf(entry.id, sizeof entry.id, "%s", id);
    ended_log_add(log, &entry);
}

static struct ended_log ended; // large

static size_t lines_of(const char *path)
{
    struct buf text auto_buf = BUF_INIT;
    size_t n = 0;
    file_read(path, 1 << 24, &text, NULL);
    for (const char *at = buf_str(&text); (at = strchr(at, '\n')); at++)
        n++;
    return n;
}

static void id_of(int n, char out[SANDBOX_ID_MAX + 1])
{
    snprintf(out, SANDBOX_ID_MAX + 1, "%020d", n);
}

static void test_restart(const char *home)
{
    char long_detail[2000];
    memset(long_detail, 'x', sizeof long_detail - 1);
    long_detail[sizeof long_detail - 1] = '\0';
    ended_log_open(&ended, home);
    ok(!ended_log_find(&ended, "aaaaaaaaaaaaaaaaaaaa"), "unknown at first");
    add(&ended, "aaaaaaaaaaaaaaaaaaaa", "ci", ENDED_DIED, "line\nbreak \"\x1b\xff");
    add(&ended, "bbbbbbbbbbbbbbbbbbbb", NULL, ENDED_EXPIRED, NULL);
    add(&ended, "cccccccccccccccccccc", NULL, ENDED_KILLED, long_detail);
    ended_log_close(&ended);
    ended_log_open(&ended, home);
    const struct ended_entry *a = ended_log_find(&ended, "aaaaaaaaaaaaaaaaaaaa");
    ok(a && a->why == ENDED_DIED && str_starts(a->detail, "line\nbreak"), "kept with its reason");
    is_str(a->owner, "ci", "and with the key that it belonged to");
    const struct ended_entry *c = ended_log_find(&ended, "cccccccccccccccccccc");
    ok(c && strlen(c->detail) < 500, "a long detail is cut");
    const struct ended_entry *b = ended_log_find(&ended, "bbbbbbbbbbbbbbbbbbbb");
    char *sentence auto_free = ended_sentence(b);
    ok(!b->owner, "one of the unix socket has none");
    ok(str_starts(sentence, "its time to live ended at 20") && str_ends(sentence, "Z"), "%s",
       sentence);
    ended_log_close(&ended);
}

static void test_bound(const char *home, const char *path)
{
    char id[SANDBOX_ID_MAX + 1];
    ended_log_open(&ended, home);
    for (int i = 0; i < 5 * ENDED_LOG_MAX; i++) {
        id_of(i, id);
        add(&ended, id, NULL, ENDED_KILLED, NULL);
    }
    id_of(5 * ENDED_LOG_MAX - 1, id);
    ok(ended_log_find(&ended, id) != NULL, "the last is known");
    id_of(4 * ENDED_LOG_MAX, id);
    ok(ended_log_find(&ended, id) != NULL, "the oldest that fits is known");
    id_of(4 * ENDED_LOG_MAX - 1, id);
    ok(!ended_log_find(&ended, id), "the one before is not");
    ok(lines_of(path) <= 2 * ENDED_LOG_MAX, "the file has %zu lines", lines_of(path));
    ended_log_close(&ended);
    ended_log_open(&ended, home);
    id_of(4 * ENDED_LOG_MAX, id);
    ok(ended_log_find(&ended, id) != NULL, "and so after a restart");
    is_int((int)lines_of(path), ENDED_LOG_MAX, "the file was made small");
    ended_log_close(&ended);
}

static void test_unwritable(const char *home)
{
    char *path auto_free = str_printf("%s/nowhere/deeper", home);
    ended_log_open(&ended, path);
    add(&ended, "aaaaaaaaaaaaaaaaaaaa", NULL, ENDED_KILLED, NULL);
    ok(ended_log_find(&ended, "aaaaaaaaaaaaaaaaaaaa") != NULL,
       "remembered though it cannot be written");
    ended_log_close(&ended);
}

int main(void)
{
    char home[] = "/tmp/cubby-ended-XXXXXX";
    if (!mkdtemp(home))
        return 1;
    char *path auto_free = str_printf("%s/ended.jsonl", home);
    test_restart(home);
    test_bound(home, path);
    test_unwritable(home);
    dir_remove(home, NULL);
    return tap_done();
}
