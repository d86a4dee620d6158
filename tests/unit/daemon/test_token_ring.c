// SPDX-License-Identifier: Apache-2.0
// The tokens of a file are read again when the file has changed, or could not be read before.
#include "sandbox-backend/keys/token_ring.h"

#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <unistd.h>

#include "sandbox-backend/base/clock.h"
#include "sandbox-backend/base/fd.h"
#include "sandbox-backend/base/mem.h"
#include "sandbox-backend/base/str.h"
#include "tests/lib/harness/tap.h"

#define ABC      "ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad" // of "abc"
#define ONE      "{\"tokens\": [{\"name\": \"a\", \"sha256\": \"" ABC "\"}]}"
#define LATER_MS 10000 // than the last look

static int64_t now_ms;

static void write_file(const char *path, const char *text)
{
    struct err e = ERR_INIT;
    if (file_write_atomic(path, text, strlen(text), 0600, &e) < 0)
        ok(false, "%s", e.msg);
}

static bool is_new(struct token_ring *r)
{
    struct token_list old;
    now_ms += LATER_MS;
    if (!token_ring_refresh(r, now_ms, &old))
        return false;
    token_list_fini(&old);
    return true;
}

static bool knows_abc(const struct token_ring *r)
{
    struct sha256 digest = sha256_of("abc", 3);
    return token_ring_find(r, &digest) >= 0;
}

// The next look happens without a single descriptor that could be opened.
static bool is_new_without_descriptors(struct token_ring *r)
{
    struct rlimit before, none;
    getrlimit(RLIMIT_NOFILE, &before);
    none = (struct rlimit){.rlim_cur = 0, .rlim_max = before.rlim_max};
    setrlimit(RLIMIT_NOFILE, &none);
    bool result = is_new(r);
    setrlimit(RLIMIT_NOFILE, &before);
    return result;
}

static void test_read_that_failed(const char *path)
{
    struct token_ring r;
    struct err e = ERR_INIT;
    write_file(path, ONE);
    ok(token_ring_init(&r, path, true, &e) == 0 && knows_abc(&r), "a token");
    write_file(path, "{\"tokens\": []}");
    ok(!is_new_without_descriptors(&r) && knows_abc(&r),
       "it cannot be seen that it was taken back");
    ok(is_new(&r) && !knows_abc(&r), "but at the next look");
    ok(!is_new(&r), "and then nothing is new");
    write_file(path, ONE);
    ok(!is_new_without_descriptors(&r), "a file that cannot be read");
    ok(is_new(&r) && knows_abc(&r), "is read later");
    unlink(path);
    ok(!is_new(&r) && knows_abc(&r), "and is gone then: its tokens stay");
    write_file(path, "{\"tokens\": []}");
    ok(is_new(&r) && !knows_abc(&r), "until there is a file again");
    token_ring_fini(&r);
}

static void test_broken(const char *path)
{
    struct token_ring r;
    struct err e = ERR_INIT;
    write_file(path, ONE);
    ok(token_ring_init(&r, path, false, &e) == 0, "a file");
    write_file(path, "{");
    ok(!is_new(&r) && knows_abc(&r), "a broken one changes nothing");
    struct file_stamp stamp;
    ok(file_stamp_get(path, &stamp) && file_stamp_equal(&stamp, &r.stamp),
       "and is not read again as long as it is the same");
    write_file(path, ONE);
    ok(is_new(&r) && knows_abc(&r), "mended");
    token_ring_fini(&r);
}

int main(void)
{
    char folder[] = "/tmp/cubby-test-ring.XXXXXX";
    if (!mkdtemp(folder))
        return 1;
    now_ms = clock_mono_ms();
    char *path auto_free = str_printf("%s/keys.json", folder);
    test_read_that_failed(path);
    test_broken(path);
    dir_remove(folder, NULL);
    return tap_done();
}
