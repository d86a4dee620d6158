// SPDX-License-Identifier: Apache-2.0
// The processor that a guest sees under KVM.
//
// KVM itself is asked (KVM_GET_SUPPORTED_CPUID), not /proc/cpuinfo: the flags there are also the
// kernel's own words, of which each release adds and drops some.
#include "sandbox-backend/drivers/microvm/image/processor.h"

#include <fcntl.h>
#include <linux/kvm.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>

#include "sandbox-backend/base/mem.h"
#include "sandbox-backend/base/str.h"

#define KVM_DEVICE  "/dev/kvm"
#define ENTRIES_MAX 256 // KVM's own limit
#define WORD_CHARS  32

// The words of CPUID that have features, a bit each. `set_by_guest`: bits that only show what the
// guest's kernel has switched on (OSXSAVE, OSPKE).
static const struct word {
    uint32_t leaf, index;
    const char *name;
    enum { EAX, EBX, ECX, EDX } at;
    uint32_t set_by_guest;
} WORDS[] = {
    {1, 0, "1.ecx", ECX, 1U << 27},
    {1, 0, "1.edx", EDX, 0},
    {7, 0, "7.ebx", EBX, 0},
    {7, 0, "7.ecx", ECX, 1U << 4},
    {7, 0, "7.edx", EDX, 0},
    {7, 1, "7.1.eax", EAX, 0},
    {7, 1, "7.1.edx", EDX, 0},
    {7, 2, "7.2.edx", EDX, 0},
    {0xd, 0, "d.eax", EAX, 0},
    {0xd, 1, "d.1.eax", EAX, 0},
    {0x40000001, 0, "40000001.eax", EAX, 0},
    {0x80000001, 0, "80000001.ecx", ECX, 0},
    {0x80000001, 0, "80000001.edx", EDX, 0},
    {0x80000008, 0, "80000008.ebx", EBX, 0},
};

#if defined(__x86_64__)
static const struct kvm_cpuid_entry2 *find_leaf(const struct kvm_cpuid2 *all, uint32_t leaf,
                                                uint32_t index)
{
    for (uint32_t i = 0; i < all->nent; i++)
        if (all->entries[i].function == leaf && all->entries[i].index == index)
            return &all->entries[i];
    return NULL;
}

// Return family and model of leaf 1's eax, as /proc/cpuinfo and the vendors' manuals count them.
static void split_model(uint32_t eax, unsigned *family, unsigned *model)
{
    *family = eax >> 8 & 0xf;
    *model = eax >> 4 & 0xf;
    if (*family == 0xf || *family == 6)
        *model |= eax >> 12 & 0xf0;
    if (*family == 0xf)
        *family += eax >> 20 & 0xff;
}

char *processor__describe(const struct kvm_cpuid2 *all)
{
    const struct kvm_cpuid_entry2 *vendor = find_leaf(all, 0, 0);
    const struct kvm_cpuid_entry2 *version = find_leaf(all, 1, 0);
    if (!vendor || !version)
        return NULL;
    const uint32_t letters[] = {vendor->ebx, vendor->edx, vendor->ecx};
    char name[sizeof letters + 1] = {0};
    memcpy(name, letters, sizeof letters);
    for (char *c = name; *c; c++)
        if (*c <= ' ' || *c > '~')
            *c = '_'; // one word: the vendors' hypervisors may have blanks in it
    unsigned family, model;
    split_model(version->eax, &family, &model);
    struct buf text = BUF_INIT;
    buf_printf(&text, "%s %u/%u", name, family, model);
    for (size_t i = 0; i < ARRAY_LEN(WORDS); i++) {
        const struct kvm_cpuid_entry2 *entry = find_leaf(all, WORDS[i].leaf, WORDS[i].index);
        const uint32_t bits[] = {entry ? entry->eax : 0, entry ? entry->ebx : 0,
                                 entry ? entry->ecx : 0, entry ? entry->edx : 0};
        buf_printf(&text, " %s=%08x", WORDS[i].name, bits[WORDS[i].at] & ~WORDS[i].set_by_guest);
    }
    return buf_take(&text);
}

static char *ask_kvm(void)
{
    int fd auto_close = open(KVM_DEVICE, O_RDWR | O_CLOEXEC);
    if (fd < 0)
        return NULL;
    struct kvm_cpuid2 *all = calloc(1, sizeof *all + ENTRIES_MAX * sizeof(struct kvm_cpuid_entry2));
    if (!all)
        abort();
    all->nent = ENTRIES_MAX;
    char *text = ioctl(fd, KVM_GET_SUPPORTED_CPUID, all) == 0 ? processor__describe(all) : NULL;
    free(all);
    return text;
}
#else
// Only x86-64 so far: elsewhere the processor is not known, and fits.
static char *ask_kvm(void)
{
    return NULL;
}
#endif

static const char *used; // of processor_use

void processor_use(const char *text)
{
    used = text;
}

char *processor_here(void)
{
    return used ? xstrdup(used) : ask_kvm();
}

// ---- comparing

// Return the bits of the word `name` of a text that processor_here made; 0 if it has none.
static uint32_t bits_of(const char *text, const char *name)
{
    char key[WORD_CHARS];
    size_t len = (size_t)snprintf(key, sizeof key, " %s=", name);
    const char *found = strstr(text, key);
    return found ? (uint32_t)strtoul(found + len, NULL, 16) : 0;
}

// Return how many characters of the text name the vendor and the model.
static size_t name_chars(const char *text)
{
    size_t vendor = strcspn(text, " ");
    return text[vendor] ? vendor + 1 + strcspn(text + vendor + 1, " ") : vendor;
}

bool processor_fits(const char *saved, const char *here, struct buf *why)
{
    if (!saved || !here)
        return true;
    size_t n = name_chars(saved), m = name_chars(here);
    if (n != m || memcmp(saved, here, n) != 0) {
        buf_printf(why, "saved on processor %.*s, and this host has %.*s", (int)n, saved, (int)m,
                   here);
        return false;
    }
    bool fits = true;
    for (size_t i = 0; i < ARRAY_LEN(WORDS); i++) {
        uint32_t lost = bits_of(saved, WORDS[i].name) & ~bits_of(here, WORDS[i].name);
        if (!lost)
            continue;
        buf_printf(why, "%s %s=%08x",
                   fits ? "this processor lacks features that the saved machine uses, in CPUID"
                        : ",",
                   WORDS[i].name, lost);
        fits = false;
    }
    return fits;
}
