// SPDX-License-Identifier: Apache-2.0
// Saving a guest that is larger than the host's free memory: its pages go to the file in parts. A
// QEMU that lies about the files that it leaves.
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include "sandbox-backend/base/fd.h"
#include "sandbox-backend/base/mem.h"
#include "sandbox-backend/base/str.h"
#include "sandbox-backend/drivers/microvm/image/save_files.h"
#include "sandbox-backend/host/meminfo.h"
#include "tests/lib/harness/tap.h"

#define MB        (1024 * 1024)
#define RAM_MB    16
#define OWN_FROM  500
#define OWN_PAGES 3000 // eleven times what the buffer holds

static char dir[] = "/tmp/cubby-save-XXXXXX";

static void put(const char *name, const void *data, size_t len)
{
    char *path auto_free = str_printf("%s/%s", dir, name);
    ok(file_replace(path, data, len, 0600, NULL) == 0, "write %s", name);
}

// A template's directory as far as this needs one, and a disk.
static void make_template(void)
{
    char text[] = "x", memory[] = TEMPLATE_MEMORY;
    char empty[32] = {0};
    struct template t = {.name = text,
                         .created_at = text,
                         .kernel = text,
                         .qemu = text,
                         .machine = text,
                         .cpu_model = text,
                         .accel = text,
                         .envd_version = text,
                         .memory_mb = RAM_MB,
                         .cpus = 1,
                         .disk_mb = 1};
    char *path auto_free = str_printf("%s/%s", dir, memory);
    empty[29] = 0x10; // the size of a disk: 1 MiB
    ok(template_save(dir, &t, NULL) == 0, "template.json");
    put(memory, "", 0);
    ok(truncate(path, RAM_MB * MB) == 0, "its memory");
    put(TEMPLATE_OVERLAY, empty, sizeof empty);
    put("machine", empty, sizeof empty);
}

static pid_t start_guest(int out)
{
    pid_t pid = fork();
    if (pid != 0)
        return pid;
    prctl(PR_SET_PDEATHSIG, SIGKILL); // a test that ends early leaves no guest behind
    char *path auto_free = str_printf("%s/" TEMPLATE_MEMORY, dir);
    FILE *file = fopen(path, "r+");
    char *ram = file ? mmap(NULL, RAM_MB * MB, PROT_READ | PROT_WRITE, MAP_PRIVATE, fileno(file), 0)
                     : MAP_FAILED;
    if (ram == MAP_FAILED)
        _exit(1);
    for (size_t i = 0; i < OWN_PAGES; i++) // each third is written with zeros
        ram[(OWN_FROM + i) * PAGE_BYTES] = (char)(i % 3 ? 1 + i % 100 : 0);
    if (write(out, "", 1) != 1)
        _exit(1);
    for (;;)
        pause();
}

static void check_pages(const char *path)
{
    struct err e = ERR_INIT;
    struct page_file f;
    ok(page_file_open(&f, path, RAM_MB * MB, &e) == 0, "read: %s", e.msg);
    const char *data = f.data;
    uint64_t next = OWN_FROM, wrong = 0;
    for (size_t i = 0; i < f.range_count; i++) {
        const struct page_range *r = &f.ranges[i];
        wrong += r->first != next;
        for (uint64_t page = r->first - OWN_FROM; page < r->first - OWN_FROM + r->count; page++) {
            wrong += (r->kind == PAGE_ZERO) != (page % 3 == 0);
            if (r->kind == PAGE_ZERO)
                continue;
            wrong += *data != (char)(1 + page % 100);
            data += PAGE_BYTES;
        }
        next = r->first + r->count;
    }
    is_int(next, OWN_FROM + OWN_PAGES, "all of them");
    is_int(wrong, 0, "as they are");
    page_file_close(&f);
}

// The head of the machine's disk is its QEMU's to write, who may be anybody by now.
static void test_a_disk_of_no_size(struct save_files s)
{
    struct err e = ERR_INIT;
    char all_ones[32];
    memset(all_ones, 0xff, sizeof all_ones);
    char *path auto_free = str_printf("%s/lies", dir);
    put("lies", all_ones, sizeof all_ones);
    s.overlay = path;
    ok(save_files_prepare(&s, &e) != 0 && e.code == ERR_INVALID, "refused, and told: %s", e.msg);
    save_files_fini(&s);
}

// So is the state of its devices, and QEMU may write as much of that as it likes.
static void test_devices_without_end(struct save_files *s, const char *vmstate)
{
    struct err e = ERR_INIT;
    ok(truncate(vmstate, 1LL << 40) == 0, "a file that would be read for long");
    ok(save_files_seal(s, &e) != 0 && e.code == ERR_TOO_LARGE, "refused, unread: %s", e.msg);
    ok(truncate(vmstate, 200 * 1024) == 0, "one of the usual size");
    e = ERR_INIT;
    ok(save_files_seal(s, &e) == 0 && s->bytes > 0, "is taken: %s", e.msg);
}

int main(void)
{
    struct err e = ERR_INIT;
    int pipe_fds[2];
    char c;
    ok(mkdtemp(dir) && pipe(pipe_fds) == 0, "a place");
    make_template();
    const char full[] = "MemTotal: 8000000 kB\nMemAvailable: 2048 kB\n";
    put("meminfo", full, strlen(full));
    char *meminfo auto_free = str_printf("%s/meminfo", dir);
    char *image auto_free = str_printf("%s/image", dir);
    char *overlay auto_free = str_printf("%s/machine", dir);
    char *pages auto_free = str_printf("%s/pages", image);
    char *vmstate auto_free = str_printf("%s/vmstate", image);
    meminfo_use(meminfo);
    ok(dir_make(image, 0700, &e) == 0, "image");
    pid_t pid = start_guest(pipe_fds[1]);
    ok(read(pipe_fds[0], &c, 1) == 1, "a guest");
    struct save_files s = {.dir = image,
                           .template_dir = dir,
                           .overlay = overlay,
                           .qemu = pid,
                           .memory = {.mem = -1, .pagemap = -1}};
    test_a_disk_of_no_size(s);
    ok(save_files_prepare(&s, &e) == 0, "prepare: %s", e.msg);
    is_int(s.buffer_pages, 256, "a small buffer");
    is_int(s.disk_bytes, MB, "the disk's size");
    ok(save_files_read(&s, &e) == 0, "read: %s", e.msg);
    is_int(s.pages.total, OWN_PAGES, "its own");
    ok(save_files_write(&s, &e) == 0, "write: %s", e.msg);
    test_devices_without_end(&s, vmstate);
    save_files_fini(&s);
    kill(pid, SIGKILL);
    waitpid(pid, NULL, 0);
    check_pages(pages);
    ok(dir_remove(dir, &e) == 0, "removed");
    return tap_done();
}
