// SPDX-License-Identifier: Apache-2.0
// The last line of a run's text, which tells how the run ended.
#include "mcp-server/text/text.h"
#include "sandbox-backend/base/mem.h"
#include "tests/lib/harness/tap.h"

static void is_end(int code, const char *status, const char *want)
{
    struct buf out auto_buf = BUF_INIT;
    json_t *o = json_pack("{s:i, s:s, s:i}", "exit_code", code, "status", status, "duration_ms", 7);
    text_add_end(&out, o);
    is_str(buf_str(&out), want, "%s", status);
    json_decref(o);
}

int main(void)
{
    is_end(0, "exit status 0", "[exit code 0, 7 ms]");
    is_end(3, "exit status 3", "[exit code 3, 7 ms]");
    is_end(137, "exit status 137 (out of memory)", "[exit code 137 (out of memory), 7 ms]");
    is_end(-1, "signal: killed (out of memory)", "[signal: killed (out of memory), after 7 ms]");
    is_end(2, "", "[exit code 2, 7 ms]");
    return tap_done();
}
