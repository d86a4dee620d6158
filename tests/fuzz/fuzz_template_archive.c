// SPDX-License-Identifier: Apache-2.0
// Fuzz what an import reads of an archive: its manifest, if the input begins with '{', else the
// whole file.
#include <assert.h>
#include <stdint.h>
#include <stdio.h>
#include <unistd.h>

#include "sandbox-backend/base/fd.h"
#include "sandbox-backend/base/json.h"
#include "sandbox-backend/base/mem.h"
#include "sandbox-backend/template/move/archive.h"
#include "sandbox-backend/template/move/transfer.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static void check_manifest(const char *text, size_t size)
{
    struct err e = ERR_INIT;
    json_t *manifest = json_parse(text, size, &e);
    if (!manifest)
        return;
    e = ERR_INIT;
    if (transfer_check_manifest(manifest, "/", &e) < 0)
        assert(e.code != ERR_NONE);
    else
        assert(json_array_size(json_object_get(manifest, "files")) > 0);
    json_decref(manifest);
}

static void check_file(const void *data, size_t size)
{
    struct err e = ERR_INIT;
    json_t *manifest;
    struct sha256 digest;
    char path[64], byte;
    int fd auto_close = fd_open_memory("archive", data, size, &e);
    assert(fd >= 0);
    snprintf(path, sizeof path, "/proc/self/fd/%d", fd);
    struct archive_reader *r = archive_open(path, &manifest, &e);
    assert(r || e.code != ERR_NONE);
    while (r && archive_read(r, &byte, 1, &e) == 0)
        continue;
    e = ERR_INIT;
    if (r && archive_read_end(r, &digest, &e) < 0)
        assert(e.code != ERR_NONE);
    archive_reader_free(r);
    json_decref(manifest);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    if (size && data[0] == '{')
        check_manifest((const char *)data, size);
    else
        check_file(data, size);
    return 0;
}
