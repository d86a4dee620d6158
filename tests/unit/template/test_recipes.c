// SPDX-License-Identifier: Apache-2.0
// The templates that ship, and the lists of packages.
#include <stdlib.h>
#include <string.h>

#include "sandbox-backend/base/mem.h"
#include "sandbox-backend/base/str.h"
#include "sandbox-backend/drivers/microvm/image/template.h"
#include "sandbox-backend/template/extras.h"
#include "sandbox-backend/template/initramfs_modules.h"
#include "sandbox-backend/template/recipes.h"
#include "tests/lib/harness/tap.h"

// Tell whether a list has the word.
static bool has(const char *list, const char *word)
{
    char *lines auto_free = extras_lines(list);
    char *wanted auto_free = str_printf("%s\n", word);
    const char *at = strstr(lines, wanted);
    return at && (at == lines || at[-1] == '\n');
}

static void test_table(void)
{
    const struct recipe *r;
    for (int i = 0; (r = recipe_at(i)); i++) {
        ok(template_name_ok(r->name) && r->summary && r->memory_mb >= 512 && r->disk_mb >= 8192,
           "%s is complete", r->name);
        ok(recipe_find(r->name) == r, "and found by its name");
        ok(!r->modules || initramfs_modules_is_extra(r->modules), "with modules that exist");
    }
    ok(recipe_find("code-interpreter-v1") == recipe_find("full") && recipe_find("full"), "alias");
    ok(!recipe_find("default") && !recipe_find("minimal") && !recipe_find("x"), "no others");
}

static void test_full(void)
{
    static const char *const COMMON[] = {
        "PyPDF2",        "geopy",       "PyMuPDF",     "docx2txt",
        "pdfminer.six",  "rdkit",       "pytesseract", "python-chess",
        "stockfish",     "yfinance",    "CoolProp",    "seaborn",
        "python-pptx",   "python-docx", "pdfplumber",  "geopandas",
        "yt-dlp",        "pydub",       "pyaudio",     "biopython",
        "pubchempy",     "googletrans", "pyshp",       "SpeechRecognition",
        "opencv-python", "selenium",    "waybackpy",   "networkx",
        "wbdata"};
    static const char *const SYSTEM[] = {"poppler-utils", "pdfgrep", "libimage-exiftool-perl",
                                         "unlambda", "stockfish"};
    const struct recipe *full = recipe_find("full");
    const struct recipe *all = recipe_find("all_pip_apt_pkg");
    for (size_t i = 0; i < ARRAY_LEN(COMMON); i++)
        ok(has(full->pip, COMMON[i]), "%s is in full", COMMON[i]);
    for (size_t i = 0; i < ARRAY_LEN(SYSTEM); i++)
        ok(has(full->packages, SYSTEM[i]), "%s is in full", SYSTEM[i]);
    ok(has(full->packages, "nodejs") && has(full->packages, "esbuild"), "JavaScript is in full");
    ok(has(all->pip, "torch") && has(all->pip, "torchvision") && has(all->pip, "wbdata"),
       "all_pip_apt_pkg has PyTorch too");
    ok(!has(full->pip, "torch"), "full does not");
}

static void test_lines(void)
{
    char *none auto_free = extras_lines(NULL);
    char *some auto_free = extras_lines(" a,b>=2  c==1.*\n,d[x,y]");
    is_str(none, "", "no list");
    is_str(some, "a\nb>=2\nc==1.*\nd[x,y]\n", "commas and blanks");
}

static void count(void *ctx, char *hook)
{
    (*(int *)ctx)++;
    free(hook);
}

static void find_copy(void *ctx, char *hook)
{
    *(bool *)ctx |= str_eq(hook, "sync-in '/a b/mcp_gateway' /usr/lib/cubby/mcp_gateway");
    free(hook);
}

static void test_hooks(void)
{
    bool copied = false;
    extras_hooks(&(struct template_extras){.files = "/a b/mcp_gateway"}, find_copy, &copied);
    ok(copied, "files are copied below /usr/lib/cubby");
    int hooks = 0;
    extras_hooks(&(struct template_extras){.pip = " , "}, count, &hooks);
    is_int(hooks, 0, "nothing to install needs no hook");
    extras_hooks(&(struct template_extras){.script = "true"}, count, &hooks);
    ok(hooks >= 3, "a script has a beginning and an end");
}

int main(void)
{
    test_table();
    test_full();
    test_lines();
    test_hooks();
    return tap_done();
}
