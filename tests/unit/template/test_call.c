// SPDX-License-Identifier: Apache-2.0
// Fetching a guest's file: it may take long while bytes arrive, and a silent guest is given up.
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <sys/wait.h>
#include <unistd.h>

#include "sandbox-backend/base/clock.h"
#include "sandbox-backend/base/fd.h"
#include "sandbox-backend/base/mem.h"
#include "sandbox-backend/base/str.h"
#include "sandbox-backend/template/call.h"
#include "tests/lib/harness/tap.h"

#define BLOCK    (1 << 20)
#define BLOCKS   6
#define PAUSE_MS 500
#define STALL_MS 2000 // less than all blocks take, and four times a pause

static int listen_at(const char *path)
{
    struct sockaddr_un address = {.sun_family = AF_UNIX};
    memcpy(address.sun_path, path, strlen(path) + 1);
    int fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);
    is_int(bind(fd, (struct sockaddr *)&address, sizeof address), 0, "bind");
    is_int(listen(fd, 1), 0, "listen");
    return fd;
}

static void say(int fd, const char *text)
{
    (void)fd_write_all(fd, text, strlen(text), NULL);
}

// The guest's side: a file of BLOCKS, of which `sent` blocks arrive, with a pause before each.
static void serve(int listener, int sent)
{
    static char block[BLOCK], line[4096];
    int fd = accept(listener, NULL, NULL);
    if (fd < 0 || read(fd, line, sizeof line) <= 0) // the CONNECT line
        _exit(1);
    say(fd, "OK\n");
    if (read(fd, line, sizeof line) <= 0) // the request
        _exit(1);
    char *head = str_printf("HTTP/1.1 200 OK\r\nContent-Length: %d\r\n\r\n", BLOCKS * BLOCK);
    say(fd, head);
    for (int i = 0; i < sent; i++) {
        usleep(PAUSE_MS * 1000); // the slowness is what is tested
        memset(block, 'a' + i, sizeof block);
        if (fd_write_all(fd, block, sizeof block, NULL) < 0)
            _exit(1);
    }
    while (read(fd, line, sizeof line) > 0)
        ;
    _exit(0);
}

static void fetch(struct pump *p, const char *dir, int sent, enum err_code wanted)
{
    struct err e = ERR_INIT;
    char *path auto_free = str_printf("%s/%d", dir, sent);
    int listener auto_close = listen_at(path);
    int file auto_close = memfd_create("file", MFD_CLOEXEC);
    int64_t bytes = 0, begun = clock_mono_ms();
    pid_t guest = fork();
    if (guest == 0)
        serve(listener, sent);
    int result = call_fetch(p, path, "/x", file, 0, (int64_t)BLOCKS * BLOCK, STALL_MS, &bytes, &e);
    is_int(e.code, wanted, "%d blocks: %s", sent, e.msg);
    is_int(result, wanted ? -1 : 0, "the result");
    is_int(bytes, (long)sent * BLOCK, "the bytes that came");
    ok(clock_mono_ms() - begun > STALL_MS, "it took longer than a period");
    char last = 0;
    is_int(pread(file, &last, 1, bytes - 1), 1, "the last byte");
    is_int(last, 'a' + sent - 1, "is in its place");
    pump_pause(p, 100, NULL); // the end of the call's connection
    waitpid(guest, NULL, 0);
    unlink(path);
}

int main(void)
{
    struct pump p;
    char dir[] = "/tmp/cubby-call-XXXXXX";
    ok(mkdtemp(dir) != NULL, "a directory");
    pump_init(&p, NULL, NULL);
    fetch(&p, dir, BLOCKS, ERR_NONE);
    fetch(&p, dir, 2, ERR_TIMEOUT);
    pump_fini(&p);
    rmdir(dir);
    return tap_done();
}
