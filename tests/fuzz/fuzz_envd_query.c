// SPDX-License-Identifier: Apache-2.0
// Fuzz envd's parsers of the query and headers of a file request. A value comes out of a query
// unchanged, a range lies within its file, and no header breaks the parser. The first byte chooses
// the parser.
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include "sandbox-backend/base/mem.h"
#include "sandbox-backend/base/str.h"
#include "sandbox-backend/envd/core/accept_encoding.h"
#include "sandbox-backend/envd/files/files.h"
#include "sandbox-backend/envd/files/representation.h"
#include "sandbox-backend/envd/fs/entry.h"
#include "sandbox-backend/net/http_server_internal.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static void check(bool right)
{
    if (!right)
        abort();
}

// The value of `name` in a target; new string, NULL for none.
static char *query(const char *target, const char *name, bool *bad)
{
    static struct http_peer peer;
    struct http_request *req = xcalloc(1, sizeof *req);
    peer.parser.target = target;
    req->peer = &peer;
    const char *value = http_request_query(req, name, bad);
    check(!value || !*bad);
    char *copy = value ? xstrdup(value) : NULL;
    http_request_free(req);
    return copy;
}

static void fuzz_query(const char *text)
{
    bool bad;
    char *target auto_free = str_printf("/files?%s", text);
    char *any auto_free = query(target, "path", &bad);
    check(!any || strlen(any) <= strlen(text));
    struct buf made auto_buf = BUF_INIT;
    buf_adds(&made, "/files?a=b&path=");
    percent_encode(&made, text, strlen(text) % 2);
    buf_adds(&made, "&path=second");
    char *back auto_free = query(buf_str(&made), "path", &bad);
    check(!bad && str_eq(back, text));
}

static void fuzz_range(const char *text)
{
    static const int64_t SIZES[] = {0, 1, 10, INT64_MAX};
    for (size_t i = 0; i < ARRAY_LEN(SIZES); i++) {
        int64_t from = -1;
        int64_t len = -1;
        if (byte_range_parse(text, SIZES[i], &from, &len) == BYTE_RANGE_PART)
            check(from >= 0 && len > 0 && from < SIZES[i] && len <= SIZES[i] - from);
    }
}

static void fuzz_conditions(const char *text)
{
    const struct stat st = {.st_ino = 1, .st_size = 10, .st_mtim = {.tv_sec = 784111777}};
    struct validator v;
    validator_init(&v, &st, "", &(struct timespec){.tv_sec = 784111877});
    const struct validator_conditions all[] = {
        {.if_match = text},
        {.if_none_match = text},
        {.if_modified_since = text},
        {.if_unmodified_since = text},
    };
    for (size_t i = 0; i < ARRAY_LEN(all); i++) {
        int status = validator_evaluate(&v, &all[i]);
        check(status == 200 || status == 304 || status == 412);
    }
    // What is certain for a range is certain for If-Match, where that is a tag.
    if (validator_allows_range(&v, text) && *text == '"')
        check(validator_evaluate(&v, &all[0]) == 200);
}

static void fuzz_metadata(const char *text)
{
    struct err e = ERR_INIT;
    const char *end = strchr(text, ':');
    char *name auto_free = str_printf("X-Metadata-%.*s", end ? (int)(end - text) : 0, text);
    const struct http_header header = {.name = name, .value = end ? end + 1 : text};
    json_t *map = metadata_from_headers(&header, 1, &e);
    check(map ? json_object_size(map) == 1 && !err_is(&e) : e.code == ERR_INVALID);
    json_decref(map);
}

static void fuzz_signature(const char *text)
{
    struct err e = ERR_INIT;
    char right[SIGNATURE_BYTES];
    const struct signature_claim claim = {
        .path = text, .operation = "read", .username = "", .expires = NULL};
    signature_make(right, &claim, "token");
    check(signature_check(right, &claim, "token", 0, &e) == 0);
    check(str_eq(text, right) || signature_check(text, &claim, "token", 0, &e) < 0);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    if (size == 0)
        return 0;
    char *text auto_free = xstrndup((const char *)data + 1, size - 1);
    switch (data[0] % 6) {
    case 0:
        fuzz_query(text);
        break;
    case 1:
        fuzz_range(text);
        break;
    case 2:
        check(accept_encoding(text) <= CODING_GZIP_ONLY);
        break;
    case 3:
        fuzz_conditions(text);
        break;
    case 4:
        fuzz_metadata(text);
        break;
    default:
        fuzz_signature(text);
    }
    return 0;
}
