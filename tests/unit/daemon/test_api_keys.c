// SPDX-License-Identifier: Apache-2.0
// The name of a key that a handler has borrowed stays while the file is read again.
#include "sandbox-backend/daemon/http/api_keys.h"

#include <stdlib.h>
#include <string.h>

#include "sandbox-backend/base/fd.h"
#include "sandbox-backend/base/mem.h"
#include "sandbox-backend/base/str.h"
#include "tests/lib/harness/tap.h"

#define ABC "ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad" // of "abc"

static int reads;

static void on_read(void *ctx)
{
    (void)ctx;
    reads++;
}

static void write_key(const char *path, const char *name)
{
    struct err e = ERR_INIT;
    char *text auto_free =
        str_printf("{\"tokens\": [{\"name\": \"%s\", \"sha256\": \"" ABC "\"}]}", name);
    if (file_write_atomic(path, text, strlen(text), 0600, &e) < 0)
        ok(false, "%s", e.msg);
}

int main(void)
{
    char folder[] = "/tmp/cubby-test-api-keys.XXXXXX";
    if (!mkdtemp(folder))
        return 1;
    char *path auto_free = str_printf("%s/keys.json", folder);
    struct api_keys k = {0};
    struct err e = ERR_INIT;
    write_key(path, "a");
    ok(api_keys_init(&k, path, &e) == 0, "a file %s", e.msg);
    k.watch.on_read = on_read;
    const char *owner = k.keys.list.items[0].name;
    write_key(path, "b");
    k.keys.looked_ms = 0; // long ago
    ok(api_keys_knows(&k, "b") && !api_keys_knows(&k, "a"), "the file is read again");
    ok(str_eq(owner, "a"), "the name of a key that is gone is still there");
    is_int(reads, 0, "whoever follows the file is not told in the middle of a request");
    api_keys_look(&k);
    is_int(reads, 1, "but at the next look");
    api_keys_look(&k);
    is_int(reads, 1, "once");
    api_keys_fini(&k);
    dir_remove(folder, NULL);
    return tap_done();
}
