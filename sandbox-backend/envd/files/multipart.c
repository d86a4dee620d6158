// SPDX-License-Identifier: Apache-2.0
// Takes a multipart/form-data body apart as its bytes arrive.
//
// Data is searched for the delimiter and passed on in pieces as large as they arrived. Only the end
// of a piece may hold the beginning of a delimiter. The parser keeps no bytes for that: CR occurs
// only at the start of a delimiter (a boundary with CR is refused). So after a mismatch the bytes
// that matched so far are data, and equal the beginning of the delimiter.
#include "sandbox-backend/envd/files/multipart.h"

#include <string.h>
#include <strings.h>

#include "sandbox-backend/base/mem.h"
#include "sandbox-backend/base/str.h"

static void set_state(struct multipart *m, enum multipart_state to)
{
    static const unsigned FROM[] = {
        [MULTIPART_PREAMBLE] = 1 << MULTIPART_DELIMITED, // it was not a delimiter
        [MULTIPART_DELIMITED] = 1 << MULTIPART_PREAMBLE | 1 << MULTIPART_DATA,
        [MULTIPART_HEADERS] = 1 << MULTIPART_DELIMITED,
        [MULTIPART_DATA] = 1 << MULTIPART_HEADERS | 1 << MULTIPART_DELIMITED,
        [MULTIPART_EPILOGUE] = 1 << MULTIPART_DELIMITED,
    };
    if (!(FROM[to] >> m->state & 1))
        abort();
    m->state = to;
}

static size_t skip_space(const char *s)
{
    return strspn(s, " \t");
}

// Read a token or a quoted string at `s`; *end is after it. New string.
static char *read_value(const char *s, const char **end)
{
    if (*s != '"') {
        size_t n = strcspn(s, "; \t");
        *end = s + n;
        return xstrndup(s, n);
    }
    struct buf out = BUF_INIT;
    for (s++; *s && *s != '"'; s++) {
        if (*s == '\\' && (s[1] == '"' || s[1] == '\\'))
            s++;
        buf_addc(&out, *s);
    }
    *end = *s ? s + 1 : s;
    buf_addc(&out, '\0');
    return buf_take(&out);
}

// Return the parameter `name` of a header value "type; name=value; ...". New string, or NULL.
static char *parameter(const char *value, const char *name)
{
    size_t len = strlen(name);
    const char *p = value + strcspn(value, ";");
    while (*p == ';') {
        p += 1 + skip_space(p + 1);
        size_t n = strcspn(p, "=;");
        bool wanted = n == len && strncasecmp(p, name, len) == 0;
        p += n;
        if (*p != '=')
            continue;
        char *got = read_value(p + 1, &p);
        if (wanted)
            return got;
        free(got);
        p += strcspn(p, ";");
    }
    return NULL;
}

// Form encoders escape only these three characters (WHATWG HTML, 4.10.21.8).
static void unescape(char *s)
{
    static const struct {
        const char *escape;
        char plain;
    } ESCAPES[] = {{"%22", '"'}, {"%0D", '\r'}, {"%0A", '\n'}};
    char *to = s;
    while (*s) {
        char c = *s;
        size_t taken = 1;
        for (size_t i = 0; i < ARRAY_LEN(ESCAPES); i++)
            if (strncasecmp(s, ESCAPES[i].escape, 3) == 0) {
                c = ESCAPES[i].plain;
                taken = 3;
            }
        *to++ = c;
        s += taken;
    }
    *to = '\0';
}

// Return the file name: filename*=UTF-8''a%20b (RFC 8187) wins over filename="a b".
static char *read_filename(const char *disposition)
{
    char *extended auto_free = parameter(disposition, "filename*");
    const char *quote = extended ? strchr(extended, '\'') : NULL;
    quote = quote ? strchr(quote + 1, '\'') : NULL;
    if (quote)
        return percent_decode(quote + 1, strlen(quote + 1), false, NULL);
    char *plain = parameter(disposition, "filename");
    if (plain)
        unescape(plain);
    return plain;
}

int multipart_init(struct multipart *m, const char *content_type,
                   const struct multipart_events *events, void *ctx, struct err *e)
{
    *m = (struct multipart){.events = events, .ctx = ctx};
    char *boundary auto_free = parameter(content_type, "boundary");
    size_t len = boundary ? strlen(boundary) : 0;
    if (len == 0)
        return err_set(e, ERR_INVALID, "multipart body without a boundary in Content-Type");
    if (len > MULTIPART_BOUNDARY_MAX || strpbrk(boundary, "\r\n"))
        return err_set(e, ERR_INVALID, "multipart boundary must be at most %d characters",
                       MULTIPART_BOUNDARY_MAX);
    memcpy(m->delimiter, "\r\n--", 4);
    memcpy(m->delimiter + 4, boundary, len + 1);
    m->delimiter_len = len + 4;
    // The first delimiter may stand at the very start, without a line before it.
    m->matched = m->implied = 2;
    return 0;
}

void multipart_fini(struct multipart *m)
{
    buf_fini(&m->line);
    free(steal(&m->name));
    free(steal(&m->filename));
}

static int stopped(struct err *e)
{
    return err_set(e, ERR_CANCELED, "the reader of the parts stopped");
}

static int emit(struct multipart *m, const char *data, size_t len, struct err *e)
{
    if (len == 0 || !m->in_part || m->events->on_data(data, len, m->ctx) == 0)
        return 0;
    return stopped(e);
}

// The bytes that matched the beginning of a delimiter were data.
static int emit_matched(struct multipart *m, struct err *e)
{
    size_t implied = m->implied;
    size_t n = m->matched - implied;
    m->matched = m->implied = 0;
    return emit(m, m->delimiter + implied, n, e);
}

// Return how many bytes at the end of `data` begin an incomplete delimiter.
static size_t begun_at_end(const struct multipart *m, const char *data, size_t len)
{
    size_t most = m->delimiter_len - 1 < len ? m->delimiter_len - 1 : len;
    const char *end = data + len;
    const char *cr = memrchr(end - most, '\r', most);
    size_t n = cr ? (size_t)(end - cr) : 0;
    return memcmp(m->delimiter, cr ? cr : end, n) == 0 ? n : 0;
}

// Continue to match a delimiter whose beginning has matched. Return the number of bytes taken;
// `matched` is 0 after a mismatch.
static ssize_t feed_matched(struct multipart *m, const char *data, size_t len, struct err *e)
{
    size_t n = 0;
    while (n < len && m->matched < m->delimiter_len && data[n] == m->delimiter[m->matched]) {
        m->matched++;
        n++;
    }
    if (n < len && m->matched < m->delimiter_len && emit_matched(m, e) < 0)
        return -1;
    return (ssize_t)n;
}

static ssize_t feed_unmatched(struct multipart *m, const char *data, size_t len, struct err *e)
{
    const char *delimiter = memmem(data, len, m->delimiter, m->delimiter_len);
    size_t found = delimiter ? m->delimiter_len : begun_at_end(m, data, len);
    size_t plain = delimiter ? (size_t)(delimiter - data) : len - found;
    m->matched = found;
    return emit(m, data, plain, e) < 0 ? -1 : (ssize_t)(plain + found);
}

// Take preamble or data up to the end of the next delimiter. Return the bytes taken, -1 on failure.
static ssize_t feed_data(struct multipart *m, const char *data, size_t len, struct err *e)
{
    ssize_t n = m->matched ? feed_matched(m, data, len, e) : feed_unmatched(m, data, len, e);
    if (n >= 0 && m->matched == m->delimiter_len) {
        set_state(m, MULTIPART_DELIMITED);
        buf_clear(&m->line);
    }
    return n;
}

static int end_part(struct multipart *m, struct err *e)
{
    m->matched = m->implied = 0;
    bool ended = m->in_part;
    m->in_part = false;
    return ended && m->events->on_part_end(m->ctx) != 0 ? stopped(e) : 0;
}

// Take one byte after a delimiter: "--" closes the body, white space and a line end begin a part.
// After any other character, the bytes that looked like a delimiter were data.
static int feed_delimited(struct multipart *m, char c, struct err *e)
{
    if (m->line.len == 0 && !memchr(" \t\r\n-", c, 5)) {
        set_state(m, m->in_part ? MULTIPART_DATA : MULTIPART_PREAMBLE);
        return emit_matched(m, e) < 0 || emit(m, &c, 1, e) < 0 ? -1 : 0;
    }
    buf_addc(&m->line, c);
    if (m->line.len == 2 && memcmp(m->line.data, "--", 2) == 0) {
        set_state(m, MULTIPART_EPILOGUE);
        return end_part(m, e);
    }
    if (c == '\n') {
        set_state(m, MULTIPART_HEADERS);
        m->head_len = 0;
        buf_clear(&m->line);
        return end_part(m, e);
    }
    if (!memchr(" \t\r-", c, 4) || m->line.len > MULTIPART_BOUNDARY_MAX ||
        (m->line.len > 1 && memchr(m->line.data, '-', m->line.len)))
        return err_set(e, ERR_INVALID, "malformed multipart body: bytes after a boundary");
    return 0;
}

static int begin_part(struct multipart *m, struct err *e)
{
    set_state(m, MULTIPART_DATA);
    m->in_part = true;
    // An empty part's delimiter follows its headers at once: their line end is its CRLF.
    m->matched = m->implied = 2;
    int rc = m->events->on_part(m->name, m->filename, m->ctx);
    free(steal(&m->name));
    free(steal(&m->filename));
    return rc ? stopped(e) : 0;
}

static int header_line(struct multipart *m, struct err *e)
{
    static const char DISPOSITION[] = "content-disposition:";
    if (m->line.len && m->line.data[m->line.len - 1] == '\r')
        m->line.data[--m->line.len] = '\0';
    if (m->line.len == 0)
        return begin_part(m, e);
    const char *line = buf_str(&m->line);
    if (strlen(line) != m->line.len)
        return err_set(e, ERR_INVALID, "malformed multipart body: NUL in a header");
    if (strncasecmp(line, DISPOSITION, sizeof DISPOSITION - 1) == 0) {
        free(m->name);
        free(m->filename);
        m->name = parameter(line, "name");
        m->filename = read_filename(line);
    }
    buf_clear(&m->line);
    return 0;
}

static int feed_header(struct multipart *m, char c, struct err *e)
{
    if (++m->head_len > MULTIPART_HEAD_MAX)
        return err_set(e, ERR_INVALID, "the headers of a part are longer than %d bytes",
                       MULTIPART_HEAD_MAX);
    if (c == '\n')
        return header_line(m, e);
    buf_addc(&m->line, c);
    return 0;
}

int multipart_feed(struct multipart *m, const char *data, size_t len, struct err *e)
{
    size_t i = 0;
    while (i < len) {
        ssize_t n = 1;
        switch (m->state) {
        case MULTIPART_PREAMBLE:
        case MULTIPART_DATA:
            n = feed_data(m, data + i, len - i, e);
            break;
        case MULTIPART_DELIMITED:
            n = feed_delimited(m, data[i], e) < 0 ? -1 : 1;
            break;
        case MULTIPART_HEADERS:
            n = feed_header(m, data[i], e) < 0 ? -1 : 1;
            break;
        case MULTIPART_EPILOGUE:
            return 0;
        }
        if (n < 0)
            return -1;
        i += (size_t)n;
    }
    return 0;
}

int multipart_finish(const struct multipart *m, struct err *e)
{
    if (m->state == MULTIPART_EPILOGUE)
        return 0;
    return err_set(e, ERR_INVALID, "malformed multipart body: it ends before its last boundary");
}
