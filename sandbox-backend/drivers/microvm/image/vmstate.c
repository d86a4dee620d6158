// SPDX-License-Identifier: Apache-2.0
// The file of a machine's device state, as QEMU's migration/savevm.c and vmstate.c write it.
#include "sandbox-backend/drivers/microvm/image/vmstate.h"

#include <stdbool.h>
#include <stdint.h>
#include <string.h>

#include "sandbox-backend/base/buf.h"
#include "sandbox-backend/base/fd.h"

#define FILE_MAX_BYTES (64 << 20)
#define MAGIC          "QEVM\0\0\0\3" // with the version of the format
#define MAGIC_BYTES    8

enum { SECTION_START = 1, SECTION_FULL = 4, SUBSECTION = 5, CONFIGURATION = 7 };

struct reader {
    const unsigned char *at, *end;
    bool failed;
};

static const unsigned char *take(struct reader *r, size_t n)
{
    r->failed |= (size_t)(r->end - r->at) < n;
    if (r->failed)
        return NULL;
    r->at += n;
    return r->at - n;
}

static uint8_t take_byte(struct reader *r)
{
    const unsigned char *b = take(r, 1);
    return b ? *b : 0;
}

static uint32_t take_number(struct reader *r)
{
    const unsigned char *b = take(r, 4);
    return b ? (uint32_t)b[0] << 24 | (uint32_t)b[1] << 16 | (uint32_t)b[2] << 8 | b[3] : 0;
}

static void expect(struct reader *r, const char *text)
{
    const unsigned char *found = take(r, strlen(text));
    r->failed |= !found || memcmp(found, text, strlen(text)) != 0;
}

// Pass the subsection that lists the migration's capabilities: its length, name, version, and the
// names, each with its length before it.
static void pass_capabilities(struct reader *r)
{
    take_byte(r);
    take_byte(r);
    expect(r, "configuration/capabilities");
    take_number(r);
    for (uint32_t left = take_number(r); left && !r->failed; left--)
        take(r, take_byte(r));
}

// Pass the section: the machine's name, and at most one subsection.
static void pass_configuration(struct reader *r)
{
    take_byte(r);
    take(r, take_number(r));
    if (r->at < r->end && *r->at == SUBSECTION)
        pass_capabilities(r);
}

static bool is_section(const struct reader *r)
{
    return !r->failed && r->at < r->end && (*r->at == SECTION_START || *r->at == SECTION_FULL);
}

int vmstate_open_bare(const char *path, struct err *e)
{
    struct buf state auto_buf = BUF_INIT;
    if (file_read(path, FILE_MAX_BYTES, &state, e) < 0)
        return -1;
    const unsigned char *begin = (const unsigned char *)buf_str(&state);
    struct reader r = {.at = begin, .end = begin + state.len};
    const unsigned char *magic = take(&r, MAGIC_BYTES);
    r.failed |= !magic || memcmp(magic, MAGIC, MAGIC_BYTES) != 0;
    if (!r.failed && r.at < r.end && *r.at == CONFIGURATION)
        pass_configuration(&r);
    if (!is_section(&r))
        return err_set(e, ERR_INTERNAL, "%s does not begin as QEMU's device state does", path);
    struct buf bare auto_buf = BUF_INIT;
    buf_add(&bare, begin, MAGIC_BYTES);
    buf_add(&bare, r.at, (size_t)(r.end - r.at));
    return fd_open_memory("vmstate", bare.data, bare.len, e);
}
