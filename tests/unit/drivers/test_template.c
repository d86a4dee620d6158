// SPDX-License-Identifier: Apache-2.0
// Templates on the disk: names, template.json, listing, removing.
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "sandbox-backend/base/fd.h"
#include "sandbox-backend/base/mem.h"
#include "sandbox-backend/base/str.h"
#include "sandbox-backend/drivers/microvm/image/template.h"
#include "tests/lib/harness/tap.h"

static char home[] = "/tmp/cubby-test-XXXXXX";

static char *put(const char *path, const char *text)
{
    char *full = str_printf("%s/%s", home, path);
    char *dir auto_free = xstrndup(full, (size_t)(strrchr(full, '/') - full));
    dir_make(dir, 0700, NULL);
    file_write_atomic(full, text, strlen(text), 0600, NULL);
    return full;
}

static void save(const char *name)
{
    char *dir auto_free = template_dir(home, name);
    struct template t = {.name = xstrdup(name),
                         .created_at = xstrdup("2026-01-02T03:04:05Z"),
                         .kernel = xstrdup("6.1.0-1-cloud-amd64"),
                         .qemu = xstrdup("7.2.22"),
                         .machine = xstrdup("microvm,acpi=on"),
                         .cpu_model = xstrdup("qemu64"),
                         .accel = xstrdup("tcg"),
                         .envd_version = xstrdup("0.5.7"),
                         .memory_mb = 512,
                         .cpus = 1,
                         .disk_mb = 8192,
                         .python = true};
    struct err e = ERR_INIT;
    dir_make(dir, 0700, &e);
    ok(template_save(dir, &t, &e) == 0, "saves %s: %s", name, e.msg);
    template_fini(&t);
    ok(!t.name, "and is empty after fini");
}

static void test_names(void)
{
    char longest[TEMPLATE_NAME_MAX + 2];
    memset(longest, 'a', sizeof(longest));
    longest[TEMPLATE_NAME_MAX] = '\0';
    ok(template_name_ok("default"), "default");
    ok(template_name_ok("py3.11_a-b"), "all signs");
    ok(template_name_ok(longest), "the longest");
    longest[TEMPLATE_NAME_MAX] = 'a';
    longest[TEMPLATE_NAME_MAX + 1] = '\0';
    ok(!template_name_ok(longest), "one longer");
    ok(!template_name_ok(""), "nothing");
    ok(!template_name_ok("."), "a dot");
    ok(!template_name_ok(".."), "two dots");
    ok(!template_name_ok(".build-x"), "a hidden name");
    ok(!template_name_ok("a/b"), "a slash");
    ok(!template_name_ok("-x"), "looks like an option");
    ok(!template_name_ok("A"), "upper case");
}

static void test_round_trip(void)
{
    struct template t;
    struct err e = ERR_INIT;
    char *dir auto_free = template_dir(home, "one");
    save("one");
    is_int(template_load(dir, &t, &e), 0, "loads: %s", e.msg);
    is_str(t.name, "one", "name");
    is_str(t.machine, "microvm,acpi=on", "machine");
    is_str(t.accel, "tcg", "accel");
    is_int(t.memory_mb, 512, "memory");
    is_int(t.disk_mb, 8192, "disk");
    ok(t.python, "the Python kernel");
    ok(!t.processor, "no processor, as in templates of older versions");
    t.processor = xstrdup("AuthenticAMD 25/17 1.ecx=00000001");
    is_int(template_save(dir, &t, &e), 0, "saves the processor: %s", e.msg);
    template_fini(&t);
    is_int(template_load(dir, &t, &e), 0, "loads it: %s", e.msg);
    is_str(t.processor, "AuthenticAMD 25/17 1.ecx=00000001", "the processor");
    template_fini(&t);
}

static void refuses(const char *text, const char *word)
{
    char *path auto_free = put("templates/bad/template.json", text);
    char *dir auto_free = template_dir(home, "bad");
    struct template t;
    struct err e = ERR_INIT;
    is_int(template_load(dir, &t, &e), -1, "refuses %s", text);
    is_int(e.code, ERR_INVALID, "as invalid");
    ok(strstr(e.msg, word), "and says \"%s\": %s", word, e.msg);
    ok(!t.name && !t.kernel, "nothing is left behind");
}

static void test_bad_files(void)
{
    struct template t;
    struct err e = ERR_INIT;
    char *dir auto_free = template_dir(home, "nobody");
    is_int(template_load(dir, &t, &e), -1, "a missing one");
    is_int(e.code, ERR_NOT_FOUND, "is not found");
    ok(strstr(e.msg, "cubby template build nobody"), "and what to do: %s", e.msg);
    refuses("", "template.json");
    refuses("[]", "not a JSON object");
    refuses("{\"format\":2}", "format");
    refuses("{\"format\":1,\"name\":7}", "name");
    refuses("{\"format\":1,\"name\":\"x\"}", "created_at");
    char *gone auto_free = str_printf("%s/templates/bad", home);
    dir_remove(gone, NULL);
}

struct seen {
    struct buf names;
    int bad;
};

static int on_each(const struct template *t, const char *dir, void *ctx)
{
    struct seen *s = ctx;
    ok(str_ends(dir, t->name), "the directory of %s", t->name);
    buf_printf(&s->names, "%s ", t->name);
    return str_eq(t->name, "stop") ? 7 : 0;
}

static void on_bad(const char *name, const struct err *why, void *ctx)
{
    is_str(name, "broken", "the broken one: %s", why->msg);
    ((struct seen *)ctx)->bad++;
}

static void test_list(void)
{
    struct seen s = {0};
    struct err e = ERR_INIT;
    char *a auto_free = put("templates/.build-x-00000000/template.json", "{}");
    char *b auto_free = put("templates/broken/template.json", "{}");
    save("two");
    is_int(template_list(home, on_each, on_bad, &s, &e), 0, "lists: %s", e.msg);
    is_str(buf_str(&s.names), "one two ", "by name, without what is being built");
    is_int(s.bad, 1, "and without the broken one");
    save("stop");
    buf_clear(&s.names);
    is_int(template_list(home, on_each, NULL, &s, &e), 7, "stops when told");
    is_str(buf_str(&s.names), "one stop ", "there");
    buf_fini(&s.names);
    is_int(template_list("/nonexistent", on_each, NULL, &s, &e), 0, "no home has no templates");
}

static void test_remove(void)
{
    struct err e = ERR_INIT;
    char *used auto_free = put("sandboxes/abc/sandbox.json", "{\"template\":\"two\"}");
    char *junk auto_free = put("sandboxes/def/sandbox.json", "not json");
    is_int(template_remove(home, "../one", false, &e), -1, "no way out");
    is_int(e.code, ERR_INVALID, "%s", e.msg);
    e = ERR_INIT;
    is_int(template_remove(home, "nobody", false, &e), -1, "a missing one");
    is_int(e.code, ERR_NOT_FOUND, "%s", e.msg);
    e = ERR_INIT;
    is_int(template_remove(home, "two", false, &e), -1, "one that is used");
    is_int(e.code, ERR_CONFLICT, "%s", e.msg);
    ok(strstr(e.msg, "abc"), "names the sandbox");
    e = ERR_INIT;
    is_int(template_remove(home, "two", true, &e), 0, "unless forced: %s", e.msg);
    char *kept auto_free = put("snapshots/snap-a/snapshot.json", "{\"template\":\"one\"}");
    is_int(template_remove(home, "one", false, &e), -1, "one that a snapshot needs");
    is_int(e.code, ERR_CONFLICT, "%s", e.msg);
    ok(strstr(e.msg, "snap-a"), "names the snapshot");
    char *needed auto_free = template_snapshots(home, "one");
    is_str(needed, "snap-a", "which is listed");
    char *running auto_free = put("sandboxes/ghi/sandbox.json", "{\"template\":\"one\"}");
    ok(!template_hibernated(home, "one"), "one with a machine is not hibernated");
    char *image auto_free =
        put("sandboxes/jkl/sandbox.json", "{\"template\":\"one\",\"image\":\"\"}");
    char *hibernated auto_free = template_hibernated(home, "one");
    is_str(hibernated, "jkl", "one that is an image is");
    e = ERR_INIT;
    unlink(kept);
    unlink(running);
    unlink(image);
    is_int(template_remove(home, "one", false, &e), 0, "an unused one: %s", e.msg);
    char *dir auto_free = template_dir(home, "one");
    ok(!file_exists(dir), "is gone");
}

int main(void)
{
    if (!mkdtemp(home))
        return 1;
    test_names();
    test_round_trip();
    test_bad_files();
    test_list();
    test_remove();
    dir_remove(home, NULL);
    return tap_done();
}
