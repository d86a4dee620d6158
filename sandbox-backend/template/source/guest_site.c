// SPDX-License-Identifier: Apache-2.0
#include "sandbox-backend/template/source/guest_site.h"

#include "sandbox-backend/base/buf.h"
#include "sandbox-backend/base/fd.h"
#include "sandbox-backend/template/call.h"
#include "sandbox-backend/template/source/guest_python.h"

#define GUEST_SITE     "/usr/lib/cubby/sitecustomize.py"
#define FILE_BYTES_MAX 65536

// In the standard library's directory, Python of a virtual environment finds it as well. It is
// compiled here, because a user could not write the cache. The directory of commands is no place of
// modules, and /etc/profile may have set a strict umask.
static const char ADD[] = "import sys\n"
                          "sys.path = [place for place in sys.path if place]\n"
                          "import importlib.util, os, py_compile, sysconfig\n"
                          "os.umask(0o22)\n"
                          "with open('" GUEST_SITE "', encoding='utf-8') as f:\n"
                          "    text = f.read()\n"
                          "os.unlink('" GUEST_SITE "')\n"
                          "spec = importlib.util.find_spec('sitecustomize')\n"
                          "new = os.path.join(sysconfig.get_path('stdlib'), 'sitecustomize.py')\n"
                          "path = spec.origin if spec and spec.origin else new\n"
                          "with open(path, 'a+', encoding='utf-8') as f:\n"
                          "    f.seek(0)\n"
                          "    if text not in f.read():\n"
                          "        f.write('\\n' + text)\n"
                          "py_compile.compile(path, doraise=True)\n";

int guest_site_add(struct pump *p, const char *vmnet, const char *file, struct err *e)
{
    struct buf text auto_buf = BUF_INIT;
    struct buf out auto_buf = BUF_INIT;
    return file_read(file, FILE_BYTES_MAX, &text, e) < 0 ||
                   call_put(p, vmnet, GUEST_SITE, &text, e) < 0 ||
                   guest_python_run(p, vmnet, ADD, &out, e) < 0
               ? -1
               : 0;
}
