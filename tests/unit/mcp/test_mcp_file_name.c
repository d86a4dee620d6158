// SPDX-License-Identifier: Apache-2.0
// The name of a downloaded file.
#include <string.h>

#include "mcp-server/tools/files/file_name.h"
#include "sandbox-backend/base/mem.h"
#include "tests/lib/harness/tap.h"

static void check(const char *disposition, const char *url, const char *want)
{
    char *name auto_free = file_name_of(disposition, url);
    is_str(name, want, "%s %s", disposition ? disposition : "-", url);
}

int main(void)
{
    check(NULL, "http://h/a/b.csv", "b.csv");
    check(NULL, "http://h/a/b.csv?x=/y.z#w", "b.csv");
    check(NULL, "http://h/a/", "downloaded_file");
    check(NULL, "http://h", "downloaded_file");
    check(NULL, "http://h?x=/y", "downloaded_file");
    check(NULL, "http://h/..", "downloaded_file");
    check(NULL, "http://h/a%20b.txt", "a b.txt");
    check(NULL, "http://h/a%2Fetc%2Fpasswd", "passwd");
    check(NULL, "http://h/%2e%2e", "downloaded_file");
    check(NULL, "http://h/a%00b",
          "a\xef\xbf\xbd"
          "b");
    check(NULL, "http://h/%ff.txt", "\xef\xbf\xbd.txt");
    check(NULL, "http://h/a%0Ab", "ab");
    check("attachment; filename=\"r.pdf\"", "http://h/x", "r.pdf");
    check("attachment; filename=r.pdf", "http://h/x", "r.pdf");
    check("attachment;FILENAME = r.pdf ; x=y", "http://h/x", "r.pdf");
    check("attachment; filename=\"a \\\"q\\\" b;c.txt\"", "http://h/x", "a \"q\" b;c.txt");
    check("attachment; filename=\"../../etc/passwd\"", "http://h/x", "passwd");
    check("attachment; filename=\"C:\\\\d\\\\f.txt\"", "http://h/x", "f.txt");
    check("attachment; filename=\"\"", "http://h/x.y", "x.y");
    check("attachment; filename=\"..\"", "http://h/x.y", "x.y");
    check("attachment; filename*=UTF-8''na%C3%AFve.txt; filename=\"n.txt\"", "http://h/x",
          "na\xc3\xafve.txt");
    check("attachment; filename=\"n.txt\"; filename*=UTF-8'en'%e2%82%ac.txt", "http://h/x",
          "\xe2\x82\xac.txt");
    check("attachment; filename*=latin-1''n%E4.txt; filename=\"n.txt\"", "http://h/x", "n.txt");
    check("inline", "http://h/x.y", "x.y");
    check("attachment; xfilename=\"a.b\"", "http://h/x.y", "x.y");
    check("attachment; a=\"; filename=evil.sh\"", "http://h/x.y", "x.y");

    char longest[600];
    memset(longest, 'a', sizeof longest);
    memcpy(longest, "http://h/", 9);
    longest[sizeof longest - 1] = '\0';
    char *name auto_free = file_name_of(NULL, longest);
    is_int(strlen(name), 200, "a name has an end");
    return tap_done();
}
