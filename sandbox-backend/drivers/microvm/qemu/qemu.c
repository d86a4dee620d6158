// SPDX-License-Identifier: Apache-2.0
// QEMU's command line for Cubby's one type of machine.
//
// Choices, each measured with QEMU 7.2 and Debian's 6.1 cloud kernel:
// - virtio-mmio in its modern form, and virtio-net without guest_announce, without offloads that it
//   cannot use, and without announcements after a restore. All of these would make a restored guest
//   run cold code.
// - A balloon that is never inflated. Through it the guest tells which of its memory is free (free
//   page reporting), and QEMU drops those pages from its mapping. A page that the guest uses again
//   then has the template's contents, not zeros. So page-poison is off: a guest that expects a
//   value in free pages (page_poison, init_on_free) must then report none, and Linux does not
//   (virtballoon_validate). All other guests treat free pages as uninitialised.
// - The serial console ends in a ring in QEMU's memory. However much the guest prints, the host's
//   disk does not fill, and the last 64 KiB are there to explain a panic.
// - A guest that panics reboots (panic=-1). A reboot or power-off pauses QEMU, which sends a QMP
//   event; the driver then reads the console and ends the machine.
#include "sandbox-backend/drivers/microvm/qemu/qemu.h"

#include <errno.h>
#include <fcntl.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <unistd.h>

#include "sandbox-backend/base/buf.h"
#include "sandbox-backend/base/home.h"
#include "sandbox-backend/base/mem.h"
#include "sandbox-backend/base/str.h"

#define ARGV_MAX 96

struct argv {
    char **items; // owned
    int count;
};

static void add(struct argv *a, const char *fmt, ...) __attribute__((format(printf, 2, 3)));
static void add(struct argv *a, const char *fmt, ...)
{
    va_list args;
    if (a->count >= ARGV_MAX - 1)
        abort();
    va_start(args, fmt);
    a->items[a->count++] = str_vprintf(fmt, args);
    va_end(args);
}

// Return a value for use inside a comma-separated option, where QEMU reads two commas as one. New
// string.
static char *comma_safe(const char *value)
{
    struct buf out = BUF_INIT;
    for (const char *c = value; *c; c++) {
        buf_addc(&out, *c);
        if (*c == ',')
            buf_addc(&out, ',');
    }
    return out.data ? buf_take(&out) : xstrdup("");
}

// Add a descriptor set with one descriptor. QEMU can open it any number of times, but only with the
// access that the descriptor has.
static void add_set(struct argv *a, int set, int fd)
{
    add(a, "-add-fd");
    add(a, "set=%d,fd=%d", set, fd);
}

static void add_memory(struct argv *a, const struct qemu_config *c)
{
    add(a, "-m");
    add(a, "%dM", c->memory_mb);
    add(a, "-object");
    add(a, "memory-backend-file,id=mem0,size=%dM,mem-path=" QEMU_MEMORY_PATH ",share=%s",
        c->memory_mb, c->memory_shared ? "on" : "off");
}

// No file is locked (locking=off). Any QEMU that can read the template's disk could lock one byte
// of it and so keep all other machines from starting.
#define FILE_OPTIONS "locking=off,cache.no-flush=on"

// Add a raw image below `node`. Nothing is flushed to the disk: neither a template in the making
// nor a sandbox outlives a crash of the host.
static void add_raw_disk(struct argv *a, const char *node, bool read_only)
{
    const char *mode = read_only ? "read-only=on" : "discard=unmap";
    add_set(a, QEMU_SET_DISK, QEMU_FD_DISK);
    add(a, "-blockdev");
    add(a, "driver=file,node-name=%s-file,filename=" QEMU_FDSET "%d," FILE_OPTIONS ",%s", node,
        QEMU_SET_DISK, mode);
    add(a, "-blockdev");
    add(a, "driver=raw,node-name=%s,file=%s-file,cache.no-flush=on,%s", node, node, mode);
}

static void add_overlay(struct argv *a, const char *node, const char *base)
{
    add_set(a, QEMU_SET_OVERLAY, QEMU_FD_OVERLAY);
    add(a, "-blockdev");
    add(a, "driver=file,node-name=%s-file,filename=" QEMU_FDSET "%d," FILE_OPTIONS ",discard=unmap",
        node, QEMU_SET_OVERLAY);
    add(a, "-blockdev");
    add(a,
        "driver=qcow2,node-name=%s,file=%s-file,backing=%s,cache.no-flush=on,discard=unmap,"
        "lazy-refcounts=on",
        node, node, base);
}

static void add_disk(struct argv *a, const struct qemu_config *c)
{
    if (c->disk_overlay) {
        add_raw_disk(a, QEMU_DISK_BASE_NODE, true);
        add_overlay(a, QEMU_DISK_NODE, QEMU_DISK_BASE_NODE);
    } else {
        add_raw_disk(a, QEMU_DISK_NODE, false);
    }
    add(a, "-device");
    // A write that finds the host's disk full stops the guest until there is room (machine_full.c).
    // The guest gets all other errors.
    add(a, "virtio-blk-device,id=" QEMU_DISK_ID ",drive=" QEMU_DISK_NODE
           ",werror=enospc,rerror=report");
}

static void add_devices(struct argv *a, const struct qemu_config *c)
{
    add(a, "-netdev");
    add(a, "stream,id=n0,server=off,addr.type=fd,addr.str=%d", QEMU_FD_NET);
    add(a, "-device");
    add(a, "virtio-net-device,id=net0,netdev=n0,mac=" QEMU_GUEST_MAC ",guest_announce=off");
    add(a, "-object");
    add(a, "rng-builtin,id=entropy");
    add(a, "-device");
    add(a, "virtio-rng-device,id=rng0,rng=entropy");
    if (!c->gives_back)
        return;
    add(a, "-device");
    add(a, "virtio-balloon-device,id=balloon0,free-page-reporting=on,page-poison=off");
}

static void add_console(struct argv *a, const struct qemu_config *c)
{
    if (c->console_file)
        add_set(a, QEMU_SET_CONSOLE, QEMU_FD_CONSOLE);
    add(a, "-chardev");
    if (c->console_file)
        add(a, "file,id=" QEMU_CONSOLE_ID ",path=" QEMU_FDSET "%d", QEMU_SET_CONSOLE);
    else
        add(a, "ringbuf,id=" QEMU_CONSOLE_ID ",size=%d", QEMU_CONSOLE_BYTES);
    add(a, "-serial");
    add(a, "chardev:" QEMU_CONSOLE_ID);
    add(a, "-chardev");
    add(a, "socket,id=qmp,fd=%d,server=on,wait=off", QEMU_FD_QMP);
    add(a, "-mon");
    add(a, "chardev=qmp,mode=control");
}

static void add_boot(struct argv *a, const struct qemu_config *c)
{
    if (c->kernel) {
        add(a, "-kernel");
        add(a, "%s", c->kernel);
    }
    if (c->initrd) {
        add(a, "-initrd");
        add(a, "%s", c->initrd);
    }
    if (c->append) {
        add(a, "-append");
        add(a, "%s", c->append);
    }
    if (c->incoming) {
        add(a, "-incoming");
        add(a, "defer");
    }
    if (c->no_header) {
        add(a, "-global");
        add(a, "migration.send-configuration=off");
    }
}

static void add_machine(struct argv *a, const struct qemu_config *c)
{
    char *name auto_free = comma_safe(c->name);
    add(a, "-name");
    add(a, "guest=%s", name);
    add(a, "-machine");
    add(a, "%s,memory-backend=mem0", c->machine);
    add(a, "-accel");
    // Not thread=single: in QEMU 7.2 its one thread, which runs all processors, can enable the
    // virtual clock again after "stop" has disabled it. After one stop in four, a paused QEMU then
    // wakes up to 10,000 times a second for a timer that never comes. A guest with one processor
    // runs the same code either way: QEMU translates for parallel execution only if it has more.
    if (str_eq(c->accel, "tcg"))
        add(a, "tcg,thread=multi,tb-size=%d", QEMU_TB_SIZE_MB);
    else
        add(a, "%s", c->accel);
    add(a, "-cpu");
    add(a, "%s", c->cpu_model);
    add(a, "-smp");
    add(a, "%d", c->cpus);
}

static void add_switches(struct argv *a)
{
    static const char *const switches[] = {
        "-nodefaults", "-no-user-config", "-display", "none", "-global",
        "virtio-mmio.force-legacy=false", "-global", "migration.announce-rounds=0", "-action",
        "reboot=shutdown,shutdown=pause,panic=pause", "-sandbox",
        // The system calls that seccomp takes away from a QEMU that its guest has broken into.
        "on,obsolete=deny,elevateprivileges=deny,spawn=deny,resourcecontrol=deny"};
    for (size_t i = 0; i < ARRAY_LEN(switches); i++)
        add(a, "%s", switches[i]);
}

char **qemu_argv(const struct qemu_config *c)
{
    struct argv a = {.items = xcalloc(ARGV_MAX, sizeof(char *))};
    add(&a, "%s", c->binary);
    add_machine(&a, c);
    add_switches(&a);
    add_memory(&a, c);
    add_disk(&a, c);
    add_devices(&a, c);
    add_console(&a, c);
    add_boot(&a, c);
    return a.items;
}

void qemu_argv_free(char **argv)
{
    for (char **item = argv; item && *item; item++)
        free(*item);
    free(argv);
}

char *qemu_preload(struct err *e)
{
    return self_program("cubby-qemu.so", e);
}
