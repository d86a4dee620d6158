// SPDX-License-Identifier: Apache-2.0
// What a machine that goes on from an image needs beside what one of the template needs: its disk
// and its pages. Both by a worker: before QEMU is started, and once QEMU has mapped the memory.
#include "sandbox-backend/drivers/microvm/machine.h"

#include "sandbox-backend/base/fault.h"
#include "sandbox-backend/base/fd.h"
#include "sandbox-backend/base/mem.h"
#include "sandbox-backend/base/str.h"
#include "sandbox-backend/drivers/microvm/disk_image.h"
#include "sandbox-backend/drivers/microvm/guest_memory.h"
#include "sandbox-backend/drivers/microvm/machine_image.h"
#include "sandbox-backend/drivers/microvm/page_file.h"
#include "sandbox-backend/drivers/microvm/sized.h"

#define ZEROS_AT_ONCE 256 // pages
#define SPLIT_PAGES   256 // fewer are not worth a thread

struct machine_restore {
    char *image; // owned, as all strings here
    char *template;
    char *overlay; // of the machine
    struct machine_size size;
    char *memory; // what the guest's is a private mapping of
    uint64_t ram_bytes;
    struct page_file pages;
    pid_t qemu;
};

static void run_open(void *ctx, struct err *e)
{
    struct machine_restore *r = ctx;
    struct template t;
    char *pages auto_free = str_printf("%s/" MACHINE_IMAGE_PAGES, r->image);
    char *disk auto_free = str_printf("%s/" MACHINE_IMAGE_DISK, r->image);
    r->memory = sized_load(&t, r->template, &r->size, e);
    if (!r->memory)
        return;
    r->ram_bytes = (uint64_t)t.memory_mb * 1024 * 1024;
    if (machine_image_check(r->image, &t, e) == 0 &&
        page_file_open(&r->pages, pages, r->ram_bytes, e) == 0) {
        FAULT("restore.1");
        if (file_copy(disk, r->overlay, 0600, e) == 0)
            disk_image_check(r->overlay, e); // the copy, which nobody else can change any more
        FAULT("restore.2");
    }
    template_fini(&t);
}

void machine__restore_open(struct machine *m, const char *image, machine_work_then *then)
{
    struct machine_restore *r = xcalloc(1, sizeof *r);
    *r = (struct machine_restore){.image = xstrdup(image),
                                  .template = xstrdup(m->template),
                                  .size = m->size,
                                  .overlay = str_printf("%s/" MACHINE_OVERLAY, m->dir)};
    m->restore = r;
    machine__work(m, run_open, then, r);
}

char *machine__restore_vmstate(const struct machine *m)
{
    return str_printf("%s/" MACHINE_IMAGE_VMSTATE, m->restore->image);
}

// ---- pages

static int write_zeros(const struct guest_memory *memory, const struct page_range *range,
                       struct err *e)
{
    static const char zeros[ZEROS_AT_ONCE * PAGE_BYTES];
    for (uint32_t done = 0; done < range->count;) {
        uint32_t rest = range->count - done, count = rest < ZEROS_AT_ONCE ? rest : ZEROS_AT_ONCE;
        if (guest_memory_write(memory, range->first + done, count, zeros, e) != 0)
            return -1;
        done += count;
    }
    return 0;
}

// Some of the ranges, and what they have for contents.
struct fill {
    const struct guest_memory *memory; // borrowed, as all of it
    const struct page_range *ranges;
    size_t count;
    const char *data;
    struct err error;
};

static void fill(void *ctx)
{
    struct fill *f = ctx;
    for (size_t i = 0; i < f->count && !err_is(&f->error); i++) {
        const struct page_range *range = &f->ranges[i];
        if (range->kind == PAGE_ZERO) {
            write_zeros(f->memory, range, &f->error);
            continue;
        }
        guest_memory_write(f->memory, range->first, range->count, f->data, &f->error);
        f->data += (size_t)range->count * PAGE_BYTES;
    }
}

// The second gets what begins behind half of the pages. How many pages there are.
static uint64_t split(const struct page_file *pages, struct fill *first, struct fill *second)
{
    uint64_t total = 0, before = 0;
    size_t i = 0;
    const char *data = pages->data;
    for (size_t k = 0; k < pages->range_count; k++)
        total += pages->ranges[k].count;
    for (; i < pages->range_count && before < total / 2; i++) {
        before += pages->ranges[i].count;
        if (pages->ranges[i].kind == PAGE_DATA)
            data += (size_t)pages->ranges[i].count * PAGE_BYTES;
    }
    first->ranges = pages->ranges;
    first->count = i;
    first->data = pages->data;
    second->ranges = pages->ranges + i;
    second->count = pages->range_count - i;
    second->data = data;
    return total;
}

// The third: whether what the other two fill in is what was saved. They need longer.
struct verify {
    const char *image; // borrowed
    struct err error;
};

static void verify(void *ctx)
{
    struct verify *v = ctx;
    machine_image_check_pages(v->image, &v->error);
}

// Nearly all of the time is the kernel's, which breaks the sharing of one page after the other: two
// threads need half of it where a processor is idle.
static void run_fill(void *ctx, struct err *e)
{
    struct machine_restore *r = ctx;
    struct guest_memory memory;
    if (guest_memory_open(&memory, r->qemu, r->memory, r->ram_bytes, e) != 0)
        return;
    FAULT("restore.3");
    struct fill first = {.memory = &memory}, second = {.memory = &memory};
    struct verify check = {.image = r->image};
    uv_thread_t helper, verifier;
    bool verifying = uv_thread_create(&verifier, verify, &check) == 0;
    bool helped = split(&r->pages, &first, &second) >= SPLIT_PAGES &&
                  uv_thread_create(&helper, fill, &second) == 0;
    fill(&first);
    if (helped)
        uv_thread_join(&helper);
    else
        fill(&second);
    guest_memory_close(&memory);
    if (verifying)
        uv_thread_join(&verifier);
    else
        verify(&check);
    const struct err *errors[] = {&check.error, &first.error, &second.error};
    for (size_t i = 0; i < ARRAY_LEN(errors) && !err_is(e); i++)
        *e = *errors[i];
}

void machine__restore_fill(struct machine *m, machine_work_then *then)
{
    m->restore->qemu = subproc_pid(m->qemu);
    machine__work(m, run_fill, then, m->restore);
}

void machine__restore_free(struct machine *m)
{
    struct machine_restore *r = m->restore;
    if (!r)
        return;
    m->restore = NULL;
    page_file_close(&r->pages);
    free(r->image);
    free(r->template);
    free(r->memory);
    free(r->overlay);
    free(r);
}
