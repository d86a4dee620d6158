// SPDX-License-Identifier: Apache-2.0
// The processor that a template or an image was made on, and another host's.
#include <linux/kvm.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "sandbox-backend/base/fd.h"
#include "sandbox-backend/base/mem.h"
#include "sandbox-backend/base/str.h"
#include "sandbox-backend/drivers/microvm/fit.h"
#include "sandbox-backend/drivers/microvm/image/machine_image.h"
#include "sandbox-backend/drivers/microvm/image/processor.h"
#include "tests/lib/harness/tap.h"

#define EPYC    "AuthenticAMD 25/17 1.ecx=81202000 7.ebx=01800003"
#define LOSES   "AuthenticAMD 25/17 1.ecx=81202000 7.ebx=01800002"
#define OTHER   "AuthenticAMD 25/1 1.ecx=81202000 7.ebx=01800003"
#define LONGER  "AuthenticAMD 25/171 1.ecx=81202000 7.ebx=01800003"
#define SKYLAKE "GenuineIntel 6/85 1.ecx=ffffffff 7.ebx=ffffffff"

static void fits(const char *saved, const char *here, const char *complaint)
{
    struct buf why auto_buf = BUF_INIT;
    bool is_fit = processor_fits(saved, here, &why);
    is_int(is_fit, !complaint, "%s on %s", saved ? saved : "unknown", here ? here : "unknown");
    if (complaint)
        is_str(buf_str(&why), complaint, "the reason");
    else
        is_int(why.len, 0, "no reason");
}

static void test_comparing(void)
{
    fits(EPYC, EPYC, NULL);
    fits(LOSES, EPYC, NULL); // a feature more
    fits(NULL, EPYC, NULL);  // a template of an older version
    fits(EPYC, NULL, NULL);  // KVM cannot be asked, which is told elsewhere
    fits(EPYC, LOSES,
         "this processor lacks features that the saved machine uses, in CPUID 7.ebx=00000001");
    fits(EPYC, "AuthenticAMD 25/17",
         "this processor lacks features that the saved machine uses, in CPUID 1.ecx=81202000, "
         "7.ebx=01800003");
    fits(EPYC, OTHER, "saved on processor AuthenticAMD 25/17, and this host has AuthenticAMD 25/1");
    fits(OTHER, LONGER,
         "saved on processor AuthenticAMD 25/1, and this host has AuthenticAMD 25/171");
    fits(EPYC, SKYLAKE,
         "saved on processor AuthenticAMD 25/17, and this host has GenuineIntel 6/85");
    fits("", EPYC, "saved on processor , and this host has AuthenticAMD 25/17");
}

#if defined(__x86_64__)
// Each word with features counts, also those of newer processors.
static void test_describing(void)
{
    static const struct kvm_cpuid_entry2 ENTRIES[] = {
        {.function = 0, .ebx = 0x756e6547, .edx = 0x49656e69, .ecx = 0x6c65746e},
        {.function = 1, .eax = 0x806f8, .ecx = 1U << 27 | 1, .edx = 2},
        {.function = 7, .index = 1, .eax = 0x10, .edx = 0x20},
        {.function = 7, .index = 2, .edx = 0x3f},
    };
    struct kvm_cpuid2 *all auto_free = xcalloc(1, sizeof *all + sizeof ENTRIES);
    all->nent = ARRAY_LEN(ENTRIES);
    memcpy(all->entries, ENTRIES, sizeof ENTRIES);
    char *text auto_free = processor__describe(all);
    ok(str_starts(text, "GenuineIntel 6/143 1.ecx=00000001 1.edx=00000002 "), "%s", text);
    ok(strstr(text, " 7.1.eax=00000010 7.1.edx=00000020 7.2.edx=0000003f "), "leaf 7: %s", text);
}
#else
static void test_describing(void)
{
}
#endif

// Where KVM can be asked: its answer has each part, and fits itself.
static void test_this_host(void)
{
    char *here auto_free = processor_here();
    if (!here) {
#if defined(__x86_64__)
        ok(access("/dev/kvm", R_OK | W_OK) != 0, "KVM answers where it can be opened");
#endif
        return;
    }
    ok(strchr(here, '/') && strstr(here, " 1.edx=") && strstr(here, " 80000008.ebx="), "%s", here);
    fits(here, here, NULL);
}

static struct template kvm_template(void)
{
    static char name[] = "one", text[] = "x", accel[] = "kvm", processor[] = EPYC;
    return (struct template){.name = name,
                             .created_at = text,
                             .kernel = text,
                             .qemu = text,
                             .machine = text,
                             .cpu_model = text,
                             .accel = accel,
                             .processor = processor,
                             .envd_version = text,
                             .memory_mb = 512,
                             .cpus = 1,
                             .disk_mb = 1};
}

static void test_a_template(void)
{
    struct template t = kvm_template();
    struct err e = ERR_INIT;
    processor_use(EPYC);
    is_int(fit_check_processor(&t, &e), 0, "fits the host that it was made on: %s", e.msg);
    processor_use(LOSES);
    is_int(fit_check_processor(&t, &e), -1, "not one that has lost a feature");
    is_str(
        e.msg,
        "template one does not fit this host's processor (this processor lacks features that the "
        "saved machine uses, in CPUID 7.ebx=00000001): run \"cubby template build one\"",
        "in one sentence");
    char tcg[] = "tcg";
    t.accel = tcg;
    is_int(fit_check_processor(&t, NULL), 0, "emulation gives each host the same processor");
}

// Write an image whose files are empty, and check it on the host `here`.
static int check_image(const char *dir, const char *saved, const char *here, struct err *e)
{
    struct template t = kvm_template();
    int64_t bytes;
    *e = (struct err)ERR_INIT;
    processor_use(saved);
    ok(machine_image_seal(dir, &t, true, false, &bytes, e) == 0, "sealed: %s", e->msg);
    processor_use(here);
    return machine_image_check(dir, &t, e);
}

static void test_an_image(void)
{
    static const char *const EMPTY[] = {MACHINE_IMAGE_VMSTATE, MACHINE_IMAGE_PAGES,
                                        MACHINE_IMAGE_DISK};
    char dir[] = "/tmp/cubby-test-XXXXXX";
    struct err e = ERR_INIT;
    ok(mkdtemp(dir), "a directory");
    for (size_t i = 0; i < ARRAY_LEN(EMPTY); i++) {
        char *path auto_free = str_printf("%s/%s", dir, EMPTY[i]);
        file_replace(path, "", 0, 0600, NULL);
    }
    is_int(check_image(dir, EPYC, LOSES, &e), -1, "refused");
    is_int(e.code, ERR_PRECONDITION, "as a precondition");
    ok(strstr(e.msg, "the image does not fit this host's processor") &&
           strstr(e.msg, "7.ebx=00000001") && strstr(e.msg, "cubby template build one"),
       "and says why and what to do: %s", e.msg);
    is_int(check_image(dir, LOSES, EPYC, &e), -1, "its empty files are refused");
    ok(!strstr(e.msg, "processor"), "not its processor: %s", e.msg);
    ok(dir_remove(dir, &e) == 0, "removed");
}

int main(void)
{
    test_this_host();
    test_comparing();
    test_describing();
    test_a_template();
    test_an_image();
    return tap_done();
}
