// SPDX-License-Identifier: Apache-2.0
// Tests how the contents of a template are read from the list of packages that its build has kept.
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "sandbox-backend/base/fd.h"
#include "sandbox-backend/base/mem.h"
#include "sandbox-backend/base/str.h"
#include "sandbox-backend/drivers/driver.h"
#include "tests/lib/harness/tap.h"

static char dir[] = "/tmp/cubby-contents-XXXXXX";

static void check(const char *list, const char *want)
{
    char *path auto_free = str_printf("%s/packages.txt", dir);
    ok(file_replace(path, list, strlen(list), 0600, NULL) == 0, "write");
    char *got auto_free = driver_contents(dir);
    is_str(got, want, "contents");
    unlink(path);
}

int main(void)
{
    ok(mkdtemp(dir) != NULL, "a directory");
    char *none auto_free = driver_contents(dir);
    ok(none == NULL, "no list, nothing is said");
    check("", "");
    check("adduser 3.1\nbash 5\ngcc-12-base 12\ngit-man 2\npython3-numpy-dev 1\n", "bash");
    check("git 2\npython3 3.11\npython3-pandas 1\npython3-numpy 1",
          "git, Python 3 (numpy, pandas)");
    check("python3 3.11\n", "Python 3");
    rmdir(dir);
    return tap_done();
}
