// SPDX-License-Identifier: Apache-2.0
// The structure of an image: PNG (ISO/IEC 15948), JPEG (ITU-T T.81), GIF (89a), WebP (RFC 9649).
#include "mcp-server/tools/files/image.h"

#include <stdint.h>
#include <string.h>

#include "sandbox-backend/base/str.h"

static uint32_t big_endian(const unsigned char *p, size_t count)
{
    uint32_t value = 0;
    for (size_t i = 0; i < count; i++)
        value = value << 8 | p[i];
    return value;
}

static uint32_t little_endian(const unsigned char *p, size_t count)
{
    uint32_t value = 0;
    while (count > 0)
        value = value << 8 | p[--count];
    return value;
}

// ---- PNG: a signature, then chunks of a length, a name, that many bytes and a checksum

#define PNG_SIGNATURE  ((size_t)8)
#define PNG_CHUNK      ((size_t)12)
#define PNG_IHDR_BYTES ((size_t)13)

static bool is_png(const unsigned char *p, size_t len)
{
    bool has_pixels = false;
    if (len < PNG_SIGNATURE + PNG_CHUNK + PNG_IHDR_BYTES ||
        big_endian(p + 8, 4) != PNG_IHDR_BYTES || memcmp(p + 12, "IHDR", 4) != 0 ||
        big_endian(p + 16, 4) == 0 || big_endian(p + 20, 4) == 0)
        return false;
    for (size_t at = PNG_SIGNATURE; len - at >= PNG_CHUNK;) {
        size_t size = big_endian(p + at, 4);
        if (size > len - at - PNG_CHUNK)
            return false;
        if (memcmp(p + at + 4, "IEND", 4) == 0)
            return has_pixels;
        has_pixels |= memcmp(p + at + 4, "IDAT", 4) == 0;
        at += PNG_CHUNK + size;
    }
    return false;
}

// ---- JPEG: markers of two bytes, and behind most of them a length with what it counts

#define JPEG_EOI 0xd9
#define JPEG_SOS 0xda

static bool is_frame(unsigned char marker) // SOF, not DHT, JPG or DAC
{
    return marker >= 0xc0 && marker <= 0xcf && marker != 0xc4 && marker != 0xc8 && marker != 0xcc;
}

// A height of 0 means that it follows the first scan, which few decoders know.
static bool is_jpeg(const unsigned char *p, size_t len)
{
    static const char EOI[] = {'\xff', (char)JPEG_EOI};
    bool has_frame = false;
    size_t at = 2;
    while (len - at >= 4 && p[at] == 0xff) {
        unsigned char marker = p[at + 1];
        if (marker == 0xff) { // a fill byte
            at++;
            continue;
        }
        size_t size = big_endian(p + at + 2, 2);
        if (size < 2 || size > len - at - 2)
            return false;
        if (is_frame(marker))
            has_frame =
                size >= 8 && big_endian(p + at + 5, 2) != 0 && big_endian(p + at + 7, 2) != 0;
        at += 2 + size;
        if (marker == JPEG_SOS)
            return has_frame && memmem(p + at, len - at, EOI, sizeof EOI);
    }
    return false;
}

// ---- GIF: a size, blocks, and a trailer, behind which some programs leave zeros

#define GIF_HEAD    ((size_t)13)
#define GIF_TRAILER 0x3b

static bool is_gif(const unsigned char *p, size_t len)
{
    while (len > GIF_HEAD && p[len - 1] == 0)
        len--;
    return len > GIF_HEAD && p[len - 1] == GIF_TRAILER && little_endian(p + 6, 2) != 0 &&
           little_endian(p + 8, 2) != 0;
}

// ---- WebP: a RIFF with its size, and the size of its first chunk

#define RIFF_HEAD  ((size_t)8)
#define WEBP_CHUNK ((size_t)20) // up to the bytes of the first chunk

static bool is_webp(const unsigned char *p, size_t len)
{
    if (len <= WEBP_CHUNK || memcmp(p + 12, "VP8", 3) != 0 || !strchr(" LX", p[15]) || !p[15])
        return false;
    size_t riff = little_endian(p + 4, 4);
    size_t first = little_endian(p + 16, 4);
    return riff <= len - RIFF_HEAD && first > 0 && riff > WEBP_CHUNK - RIFF_HEAD &&
           first <= riff - (WEBP_CHUNK - RIFF_HEAD);
}

bool image_is_whole(const char *type, const char *data, size_t len)
{
    const unsigned char *p = (const unsigned char *)data;
    return str_eq(type, "image/png")    ? is_png(p, len)
           : str_eq(type, "image/jpeg") ? is_jpeg(p, len)
           : str_eq(type, "image/gif")  ? is_gif(p, len)
                                        : str_eq(type, "image/webp") && is_webp(p, len);
}
