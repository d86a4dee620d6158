// SPDX-License-Identifier: Apache-2.0
// The additional steps of a machine that is restored from an image: its disk and its pages. A
// worker does both: the disk before QEMU is started, the pages once QEMU has mapped the memory.
#include "sandbox-backend/drivers/microvm/machine.h"

#include "sandbox-backend/base/fault.h"
#include "sandbox-backend/base/fd.h"
#include "sandbox-backend/base/mem.h"
#include "sandbox-backend/base/str.h"
#include "sandbox-backend/drivers/microvm/image/disk_image.h"
#include "sandbox-backend/drivers/microvm/image/guest_memory.h"
#include "sandbox-backend/drivers/microvm/image/machine_image.h"
#include "sandbox-backend/drivers/microvm/image/page_file.h"
#include "sandbox-backend/drivers/microvm/image/template.h"

#define ZEROS_AT_ONCE 256 // pages
#define SPLIT_PAGES   256 // fewer pages are not worth a thread

struct machine_restore {
    char *image; // owned, as all strings here
    char *template;
    char *overlay; // the machine's
    struct machine_size size;
    char *memory; // the file that the guest's memory is a private mapping of
    uint64_t ram_bytes;
    bool has_memory; // false: the image has a disk alone
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
        machine_image_has_memory(r->image, &r->has_memory, e) == 0 &&
        (!r->has_memory || page_file_open(&r->pages, pages, r->ram_bytes, e) == 0)) {
        FAULT("restore.1");
        if (file_copy(disk, r->overlay, 0600, e) == 0)
            disk_image_check(r->overlay, e); // the copy: no other program can change it
        FAULT("restore.2");
    }
    template_fini(&t);
}

void machine__restore_open(struct microvm *m, const char *image, core_work_then *then)
{
    struct machine_restore *r = xcalloc(1, sizeof *r);
    *r = (struct machine_restore){.image = xstrdup(image),
                                  .template = xstrdup(m->core.template),
                                  .size = m->core.size,
                                  .overlay = str_printf("%s/" MACHINE_OVERLAY, m->core.dir)};
    m->restore = r;
    core_work(&m->core, run_open, then, r);
}

char *machine__restore_vmstate(const struct microvm *m)
{
    return str_printf("%s/" MACHINE_IMAGE_VMSTATE, m->restore->image);
}

bool machine__restore_boots(const struct microvm *m)
{
    return m->restore && !m->restore->has_memory;
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

// Some of the ranges, with the position of their contents in the file.
struct fill {
    const struct guest_memory *memory; // borrowed, as all pointers here
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

// Split the pages in two halves of about equal size: `second` gets the rest. Return the number of
// all pages.
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

// The check that the pages are those that were saved. It runs in a third thread and takes less time
// than the two that fill.
struct verify {
    const char *image; // borrowed
    struct err error;
};

static void verify(void *ctx)
{
    struct verify *v = ctx;
    machine_image_check_pages(v->image, &v->error);
}

// Fill in the pages. Nearly all of the time goes to the kernel, which breaks the sharing of each
// page in turn. Two threads take half as long if a processor is idle.
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

void machine__restore_fill(struct microvm *m, core_work_then *then)
{
    m->restore->qemu = subproc_pid(m->core.guest);
    core_work(&m->core, run_fill, then, m->restore);
}

void machine__restore_free(struct microvm *m)
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
