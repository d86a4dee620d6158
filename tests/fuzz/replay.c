// SPDX-License-Identifier: Apache-2.0
// Runs a fuzz target over the files of its corpus, for compilers without libFuzzer.
#include <dirent.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>

#include "sandbox-backend/base/fd.h"
#include "sandbox-backend/base/mem.h"
#include "sandbox-backend/base/str.h"
#include "tests/lib/harness/tap.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

int main(int argc, char **argv)
{
    DIR *dir = argc > 1 ? opendir(argv[1]) : NULL;
    const struct dirent *entry;
    while (dir && (entry = readdir(dir))) {
        if (entry->d_name[0] == '.')
            continue;
        char *path auto_free = str_printf("%s/%s", argv[1], entry->d_name);
        struct buf content auto_buf = BUF_INIT;
        struct err e = ERR_INIT;
        ok(file_read(path, 1 << 24, &content, &e) == 0, "read %s", entry->d_name);
        LLVMFuzzerTestOneInput((const uint8_t *)buf_str(&content), content.len);
        ok(true, "survived %s", entry->d_name);
    }
    if (dir)
        closedir(dir);
    ok(dir != NULL, "the corpus %s is there", argc > 1 ? argv[1] : "(none given)");
    return tap_done();
}
