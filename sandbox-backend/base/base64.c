// SPDX-License-Identifier: Apache-2.0
// Base64 (RFC 4648), declared in str.h.
#include <endian.h>
#include <stdint.h>
#include <string.h>

#include "sandbox-backend/base/str.h"

// All pairs of digits: one look-up encodes 12 bits. Commands' output passes through here.
#define ROW(c)                                                                                  \
    c "A" c "B" c "C" c "D" c "E" c "F" c "G" c "H" c "I" c "J" c "K" c "L" c "M" c "N" c "O" c \
      "P" c "Q" c "R" c "S" c "T" c "U" c "V" c "W" c "X" c "Y" c "Z" c "a" c "b" c "c" c "d" c \
      "e" c "f" c "g" c "h" c "i" c "j" c "k" c "l" c "m" c "n" c "o" c "p" c "q" c "r" c "s" c \
      "t" c "u" c "v" c "w" c "x" c "y" c "z" c "0" c "1" c "2" c "3" c "4" c "5" c "6" c "7" c \
      "8" c "9" c "+" c "/"
// clang-format off
static const char PAIRS[] =
    ROW("A") ROW("B") ROW("C") ROW("D") ROW("E") ROW("F") ROW("G") ROW("H")
    ROW("I") ROW("J") ROW("K") ROW("L") ROW("M") ROW("N") ROW("O") ROW("P")
    ROW("Q") ROW("R") ROW("S") ROW("T") ROW("U") ROW("V") ROW("W") ROW("X")
    ROW("Y") ROW("Z") ROW("a") ROW("b") ROW("c") ROW("d") ROW("e") ROW("f")
    ROW("g") ROW("h") ROW("i") ROW("j") ROW("k") ROW("l") ROW("m") ROW("n")
    ROW("o") ROW("p") ROW("q") ROW("r") ROW("s") ROW("t") ROW("u") ROW("v")
    ROW("w") ROW("x") ROW("y") ROW("z") ROW("0") ROW("1") ROW("2") ROW("3")
    ROW("4") ROW("5") ROW("6") ROW("7") ROW("8") ROW("9") ROW("+") ROW("/");
// clang-format on
#undef ROW

static const char *pair_of(uint64_t bits)
{
    return PAIRS + 2 * (bits & 0xfff);
}

// Encode three bytes as four digits.
static void encode_quad(char *to, unsigned a, unsigned b, unsigned c)
{
    memcpy(to, pair_of(a << 4 | b >> 4), 2);
    memcpy(to + 2, pair_of(b << 8 | c), 2);
}

void base64_encode(struct buf *out, const void *data, size_t len)
{
    const unsigned char *p = data;
    size_t digits = (len + 2) / 3 * 4;
    char *to = buf_room(out, digits);
    for (; len >= 8; p += 6, len -= 6, to += 8) { // uses six of the eight bytes that are loaded
        uint64_t word;
        memcpy(&word, p, sizeof word);
        word = be64toh(word);
        memcpy(to, pair_of(word >> 52), 2);
        memcpy(to + 2, pair_of(word >> 40), 2);
        memcpy(to + 4, pair_of(word >> 28), 2);
        memcpy(to + 6, pair_of(word >> 16), 2);
    }
    for (; len >= 3; p += 3, len -= 3, to += 4)
        encode_quad(to, p[0], p[1], p[2]);
    if (len) {
        encode_quad(to, p[0], len == 2 ? p[1] : 0, 0);
        to[3] = '=';
        if (len == 1)
            to[2] = '=';
    }
    buf_took(out, digits);
}

#define NO_DIGIT 0x80
#define X        NO_DIGIT
// From '+' to 'z'.
static const unsigned char VALUES[] = {
    62, X,  62, X,  63, 52, 53, 54, 55, 56, 57, 58, 59, 60, 61, X,  X,  X,  X,  X,
    X,  X,  0,  1,  2,  3,  4,  5,  6,  7,  8,  9,  10, 11, 12, 13, 14, 15, 16, 17,
    18, 19, 20, 21, 22, 23, 24, 25, X,  X,  X,  X,  63, X,  26, 27, 28, 29, 30, 31,
    32, 33, 34, 35, 36, 37, 38, 39, 40, 41, 42, 43, 44, 45, 46, 47, 48, 49, 50, 51};
#undef X

static unsigned base64_value(char c)
{
    unsigned at = (unsigned)(unsigned char)c - '+';
    return at < sizeof VALUES ? VALUES[at] : NO_DIGIT;
}

// Decode the last two or three digits to one or two bytes.
static unsigned decode_rest(char *to, const char *s, size_t len)
{
    unsigned first = base64_value(s[0]);
    unsigned second = base64_value(s[1]);
    unsigned third = len == 3 ? base64_value(s[2]) : 0;
    to[0] = (char)(first << 2 | second >> 4);
    if (len == 3)
        to[1] = (char)(second << 4 | third >> 2);
    return first | second | third;
}

void base64url_encode(struct buf *out, const void *data, size_t len)
{
    size_t before = out->len;
    base64_encode(out, data, len);
    for (size_t i = before; i < out->len; i++) {
        if (out->data[i] == '+')
            out->data[i] = '-';
        else if (out->data[i] == '/')
            out->data[i] = '_';
    }
    while (out->len > before && out->data[out->len - 1] == '=')
        out->data[--out->len] = '\0';
}

bool base64_decode(struct buf *out, const char *s, size_t len)
{
    size_t pad = 0;
    while (len && pad < 2 && s[len - 1] == '=') {
        len--;
        pad++;
    }
    if (len % 4 == 1 || (pad && (len + pad) % 4 != 0))
        return false;
    size_t bytes = len / 4 * 3 + (len % 4 ? len % 4 - 1 : 0);
    char *to = buf_room(out, bytes);
    unsigned bad = 0;
    for (; len >= 4; s += 4, len -= 4, to += 3) {
        unsigned a = base64_value(s[0]);
        unsigned b = base64_value(s[1]);
        unsigned c = base64_value(s[2]);
        unsigned d = base64_value(s[3]);
        bad |= a | b | c | d;
        to[0] = (char)(a << 2 | b >> 4);
        to[1] = (char)(b << 4 | c >> 2);
        to[2] = (char)(c << 6 | d);
    }
    if (len)
        bad |= decode_rest(to, s, len);
    bool fine = !(bad & NO_DIGIT);
    buf_took(out, fine ? bytes : 0); // a failure adds nothing
    return fine;
}
