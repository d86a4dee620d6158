// SPDX-License-Identifier: Apache-2.0
// The commands that a guest runs before it becomes a template, so that every sandbox finds them
// warm.
#include "sandbox-backend/template/warm.h"

#include <stddef.h>
#include <stdio.h>

#include "sandbox-backend/base/clock.h"
#include "sandbox-backend/base/mem.h"
#include "sandbox-backend/template/call.h"
#include "sandbox-backend/template/setup.h"
#include "sandbox-backend/template/source/guest_python.h"

#define STEP_MS 600000 // the slowest step takes half a minute under TCG, minutes on a busy host

struct warm_step {
    const char *user;
    const char *script;
    bool python; // only for a template with the Python kernel
};
static const struct warm_step STEPS[] = {
    {.user = "user",
     .script = "echo ready; id; pwd; env; ls -la / . /tmp; cat /etc/os-release; uname -a; date"},
    {.user = "user",
     .script =
         "set -e; d=$(mktemp -d); cd $d; printf 'b\\na\\n' > x; cp x y; mv y z; mkdir -p q/r\n"
         "sort x | head -n 1; grep -rn a . ; find . -type f | xargs wc -l; sed -i s/a/c/ x\n"
         "diff x z || true; tail -n 1 x; cut -c1 x | tr a b | uniq; awk '{print $1}' x\n"
         "tar czf x.tar.gz x; tar tzf x.tar.gz; ps aux; df -h .; du -sh .; touch w; chmod 600 w\n"
         "ln -s w v; readlink -f v; stat w; rm -rf $d"},
    {.user = "user",
     .script = "python3 -c 'import argparse, asyncio, base64, collections, contextlib, csv,"
               " dataclasses, datetime, decimal, enum, functools, glob, hashlib, http.client, io,"
               " itertools, json, logging, math, os, pathlib, pickle, random, re, shutil, socket,"
               " sqlite3, ssl, statistics, string, struct, subprocess, sys, tempfile, textwrap,"
               " threading, time, traceback, typing, unittest, urllib.request, uuid, zipfile;"
               " print(json.dumps({\"python\": sys.version}))'; python --version"},
    // One test passes and one fails, because pytest loads the code that explains failures only for
    // a failure.
    {.user = "user",
     .script = "d=$(mktemp -d); cd $d; printf 'def f(x):\\n    return x + 1\\n' > m.py\n"
               "printf 'import m, pytest\\ndef test_1():\\n    assert m.f(1) == 2\\n"
               "def test_2():\\n    assert [m.f(1)] == [1]\\n' > test_m.py\n"
               "pytest -q; code=$?; rm -rf $d; [ $code = 1 ]"},
    {.user = "user",
     .script = "set -e; pip --version; d=$(mktemp -d); cd $d; git init -q; echo a > a\n"
               "git add a; git -c user.name=a -c user.email=a@b commit -qm a; git log; git diff; "
               "git status\n"
               "rm -rf $d; curl --version; wget --version; unzip -v > /dev/null; sudo -n id"},
    // Runs last, so that the pages which it brings into memory are not evicted by the steps before.
    {.user = "user", .script = "python3 /usr/lib/cubby/kernel/exercise.py", .python = true},
    // matplotlib's list of fonts stays: otherwise each new interpreter would make it again.
    {.user = "root",
     .script =
         "find /home/user/.cache -mindepth 1 -maxdepth 1 ! -name matplotlib -exec rm -rf {} +\n"
         "rm -rf /root/.cache /tmp/* /var/tmp/*; sync"},
};

// The names in /tmp and /var/tmp as arguments. Where nothing matches, a glob stands for itself.
#define TMP_NAMES "set -- /tmp/* /tmp/.[!.]* /var/tmp/* /var/tmp/.[!.]*\n"
#define TMP_LIST  "/run/cubby-tmp"

// What users have in /tmp and /var/tmp stays in the template, as with Docker. So the first step
// lists it, and the last step removes what is new: the programs in between, and the Python kernel,
// may have made it. The shell alone compares, so a long list would take long, and is not made.
static const char LIST_TMP[] = "rm -rf " GUEST_WHEELS "\n" TMP_NAMES "[ $# -le 1000 ] || exit 0\n"
                               "for f; do printf '%s\\n' \"$f\"; done >" TMP_LIST;
static const char REMOVE_NEW_TMP[] =
    "[ -s " TMP_LIST " ] || { sync; exit 0; }\n"
    "n='\n'; had=$n; while IFS= read -r f; do had=$had$f$n; done <" TMP_LIST "\n" TMP_NAMES
    "for f; do case $had in *\"$n$f$n\"*) ;; *) rm -rf \"$f\";; esac; done\n"
    "rm -f " TMP_LIST "; sync";

// For files of unknown origin. A program that is missing changes nothing.
static const struct warm_step FOREIGN_STEPS[] = {
    {.user = "root", .script = LIST_TMP},
    {.user = TEMPLATE_USER,
     .script = "echo ready; { id; pwd; env; ls -la / . /tmp; cat /etc/os-release; uname -a; date\n"
               "d=/tmp/cubby-warm-$$; mkdir $d && cd $d && echo a > x && cp x y && mv y z && grep "
               "-rn a .\n"
               "find . -type f; head -n 1 x; tail -n 1 x; wc -l x; sed s/a/b/ x; sort x; ps aux\n"
               "df -h .; du -sh .; tar czf x.tar.gz x; git --version; node --version\n"
               "pip --version; curl --version; } >/dev/null 2>&1; rm -rf $d; :"},
    {.user = TEMPLATE_USER,
     .script = "python3 -c 'import argparse, asyncio, base64, collections, csv, datetime, glob,"
               " hashlib, http.client, io, json, logging, math, os, pathlib, random, re, shutil,"
               " socket, ssl, subprocess, sys, tempfile, threading, time, traceback, typing,"
               " urllib.request, uuid' >/dev/null 2>&1; :"},
    {.user = TEMPLATE_USER, .script = "python3 /usr/lib/cubby/kernel/exercise.py", .python = true},
    {.user = "root", .script = REMOVE_NEW_TMP},
};

int template_warm_up(struct pump *p, const char *vmnet, bool python, bool foreign, int log,
                     struct err *e)
{
    const struct warm_step *steps = foreign ? FOREIGN_STEPS : STEPS;
    size_t count = foreign ? ARRAY_LEN(FOREIGN_STEPS) : ARRAY_LEN(STEPS);
    for (size_t i = 0; i < count; i++) {
        if (steps[i].python && !python)
            continue;
        struct buf out auto_buf = BUF_INIT;
        int64_t start = clock_mono_ms();
        const char *args[] = {"-l", "-c", steps[i].script, NULL};
        struct call_command command = {
            .user = steps[i].user, .cmd = "/bin/bash", .args = args, .timeout_ms = STEP_MS};
        if (call_run(p, vmnet, &command, &out, e) < 0)
            return e->code == ERR_CANCELED ? -1 : err_wrap(e, "step %zu", i + 1);
        dprintf(log, "warm-up step %zu: %lld ms\n", i + 1, (long long)(clock_mono_ms() - start));
    }
    return 0;
}
