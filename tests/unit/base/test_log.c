// SPDX-License-Identifier: Apache-2.0
// Each event is one line, whatever bytes are in it.
#include <errno.h>
#include <string.h>
#include <unistd.h>

#include "sandbox-backend/base/buf.h"
#include "sandbox-backend/base/str.h"
#include "sandbox-backend/log/log.h"
#include "tests/lib/harness/tap.h"

static int fds[2];

// The next line without its time.
static const char *line(void)
{
    static char text[20000];
    ssize_t n = read(fds[0], text, sizeof text - 1);
    text[n > 0 ? n : 0] = '\0';
    const char *blank = strchr(text, ' ');
    return blank ? blank + 1 : text;
}

int main(void)
{
    if (pipe(fds) != 0)
        return 1;
    log_set_fd(fds[1]);
    errno = EBUSY;
    log_info("thing.made", "id=%s n=%d", "x", 5);
    is_int(errno, EBUSY, "errno is left alone");
    is_str(line(), "info thing.made id=x n=5\n", "an event with fields");
    log_warn("thing.odd", "s=%s", "a\nb\x1b[31m\x7f\tc");
    is_str(line(), "warn thing.odd s=a\\x0ab\\x1b[31m\\x7f\\x09c\n", "control characters");
    log_error("thing.bytes", "s=%s", "\xC3\xA4\xE4\xC2\x9B\xF0\x9F\x98\x80\xF0\x9F");
    is_str(line(), "error thing.bytes s=\xC3\xA4\\xe4\\xc2\\x9b\xF0\x9F\x98\x80\\xf0\\x9f\n",
           "text stays, bytes and C1 controls do not");
    char longest[10000];
    memset(longest, 'x', sizeof longest - 1);
    longest[sizeof longest - 1] = '\0';
    log_info("thing.long", "s=%s", longest);
    const char *l = line();
    ok(strlen(l) < 4200 && str_ends(l, "xxx...\n"), "a long line is cut, and says so");
    log_debug("thing.hidden", "x");
    log_info("thing.shown", "%s", "");
    is_str(line(), "info thing.shown\n", "below the level nothing is written");
    log_set_level(LOG_DEBUG);
    log_debug("thing.debug", "x");
    is_str(line(), "debug thing.debug x\n", "until it is lowered");
    ok(log_parse_level("warn") == LOG_WARN && log_parse_level("debug") == LOG_DEBUG &&
           log_parse_level("loud") == -1,
       "names of levels");
    close(fds[0]);
    close(fds[1]);
    return tap_done();
}
