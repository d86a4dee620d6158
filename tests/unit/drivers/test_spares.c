// SPDX-License-Identifier: Apache-2.0
// Which templates get a spare, and which lose it.
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "sandbox-backend/base/fd.h"
#include "sandbox-backend/drivers/host/host_jail.h"
#include "sandbox-backend/drivers/host/spares.h"
#include "sandbox-backend/host/meminfo.h"
#include "tests/lib/harness/tap.h"

#define ROOM    "MemTotal: 1000000 kB\nMemAvailable: 900000 kB\n"
#define NO_ROOM "MemTotal: 1000000 kB\nMemAvailable: 190000 kB\n"

static uv_loop_t loop;
static char memory[] = "/tmp/spares-XXXXXX";
static char templates[] = "/tmp/spares-templates-XXXXXX";
static char calls[256]; // "+a" made for template a, "-a" dropped

static void note(char what, const char *template)
{
    size_t length = strlen(calls);
    snprintf(calls + length, sizeof calls - length, "%c%s", what, template);
}

static void on_make(uv_loop_t *unused, const char *template)
{
    (void)unused;
    note('+', template);
}

static void on_drop(const char *template)
{
    note('-', template);
}

static struct spares spares = SPARES_INITIALIZER(spares, on_make, on_drop);

static void run_until(const char *expected, const char *what)
{
    while (strlen(calls) < strlen(expected) && uv_run(&loop, UV_RUN_ONCE))
        ;
    is_str(calls, expected, "%s", what);
}

static void make_templates(void)
{
    if (!mkdtemp(templates) || chdir(templates) < 0)
        abort();
    for (const char *name = "a\0b\0c\0"; *name; name += 2)
        if (mkdir(name, 0700) < 0)
            abort();
}

static void begin(const char *text)
{
    calls[0] = '\0';
    ok(file_replace(memory, text, strlen(text), 0600, NULL) == 0, "the memory");
}

static void close_all(const char *expected, const char *what)
{
    spares_close(&spares);
    is_str(calls, expected, "%s", what);
    uv_run(&loop, UV_RUN_DEFAULT);
}

static void test_made_and_dropped(void)
{
    begin(ROOM);
    spares_want(&spares, &loop, "a");
    is_str(calls, "", "not at once: the machine's first command goes first");
    spares_want(&spares, &loop, "a");
    run_until("+a", "one for a template, however often it is used");
    close_all("+a-a", "the end drops it");
}

static void test_at_most(void)
{
    begin(ROOM);
    spares_want(&spares, &loop, "a");
    spares_want(&spares, &loop, "b");
    spares_want(&spares, &loop, "a");
    spares_want(&spares, &loop, "c");
    is_str(calls, "-b", "the template that was not used for longest loses its spare");
    run_until("-b+a+c", "the others have one");
    close_all("-b+a+c-c-a", "the end drops both");
}

static void test_short_of_memory(void)
{
    begin(NO_ROOM);
    spares_want(&spares, &loop, "a");
    run_until("-a", "no spare is made or kept while memory is short");
    close_all("-a-a", "the end");
}

static void test_gone(void)
{
    begin(ROOM);
    rmdir("b");
    spares_want(&spares, &loop, "b");
    uv_run(&loop, UV_RUN_DEFAULT);
    is_str(calls, "-b", "a template that is gone loses its spare, and is looked at no more");
    close_all("-b", "the end finds none");
}

static void test_off(void)
{
    struct err e = ERR_INIT;
    const struct driver_jail without = {.off = true};
    host_jail_close();
    ok(host_jail_open(&without, NULL, &e) == 0, "a daemon that wants none");
    begin(ROOM);
    spares_want(&spares, &loop, "a");
    uv_run(&loop, UV_RUN_DEFAULT);
    close_all("", "has none");
}

int main(void)
{
    struct err e = ERR_INIT;
    const struct driver_jail with = {.off = true, .spares = true};
    int fd = mkstemp(memory);
    make_templates();
    uv_loop_init(&loop);
    ok(fd >= 0 && host_jail_open(&with, NULL, &e) == 0, "a daemon that wants spares");
    close(fd);
    meminfo_use(memory);
    test_made_and_dropped();
    test_at_most();
    test_short_of_memory();
    test_gone();
    test_off();
    host_jail_close();
    is_int(uv_loop_close(&loop), 0, "no handle is left");
    unlink(memory);
    return tap_done();
}
