// SPDX-License-Identifier: Apache-2.0
// Fuzz the handover messages to egress, since a guest may have broken into netd. A message comes
// with descriptors of any number and kind. Egress accepts only a name that a certificate can have,
// an address in digits and one stream socket. It keeps no other descriptor open.
#include <arpa/inet.h>
#include <errno.h>
#include <fcntl.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include "sandbox-backend/base/mem.h"
#include "sandbox-backend/egress/handover.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

#define FDS_MAX 7

static int to, from;  // the packet sockets
static int stream[2]; // of what is handed over

static void require(bool promise)
{
    if (!promise)
        abort();
}

static int lowest_free(void)
{
    int fd = dup(to);
    require(fd >= 0);
    close(fd);
    return fd;
}

static void prepare(void)
{
    int pair[2];
    require(socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_NONBLOCK | SOCK_CLOEXEC, 0, pair) == 0);
    require(socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, stream) == 0);
    to = pair[0];
    from = pair[1];
}

// A message of that many descriptors, the last ones of which are no stream sockets.
static bool post(const uint8_t *data, size_t size, int fds, int odd)
{
    int all[FDS_MAX];
    union {
        struct cmsghdr header;
        char bytes[CMSG_SPACE(sizeof all)];
    } control = {.bytes = {0}};
    struct iovec piece = {.iov_base = (void *)(uintptr_t)data, .iov_len = size};
    struct msghdr message = {.msg_iov = &piece, .msg_iovlen = 1};
    for (int i = 0; i < FDS_MAX; i++)
        all[i] = i < fds - odd ? stream[1] : to;
    if (fds > 0) {
        message.msg_control = control.bytes;
        message.msg_controllen = CMSG_SPACE((size_t)fds * sizeof(int));
        struct cmsghdr *c = CMSG_FIRSTHDR(&message);
        c->cmsg_level = SOL_SOCKET;
        c->cmsg_type = SCM_RIGHTS;
        c->cmsg_len = CMSG_LEN((size_t)fds * sizeof(int));
        memcpy(CMSG_DATA(c), all, (size_t)fds * sizeof(int));
    }
    return sendmsg(to, &message, MSG_NOSIGNAL) >= 0;
}

static void check_target(const struct tunnel_target *target)
{
    unsigned char bytes[sizeof(struct in6_addr)];
    require(inet_pton(AF_INET, target->address, bytes) == 1 ||
            inet_pton(AF_INET6, target->address, bytes) == 1);
    require(target->port > 0 && target->port <= 65535 && strlen(target->name) < 256);
    for (const char *c = target->name; *c; c++)
        require(*c > ' ' && *c < 0x7f && !strchr("*/@%\"\\", *c));
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    if (!to)
        prepare();
    if (size < 2 || size > 100000) // an empty one is the end
        return 0;
    int fds = data[0] & 7, odd = data[0] >> 3 & 1, lowest = lowest_free();
    struct tunnel_target target;
    struct err e = ERR_INIT;
    json_t *json;
    int fd;
    if (!post(data + 1, size - 1, fds, odd))
        return 0;
    enum handover got = handover_receive(from, &target, &json, &fd, &e);
    require(got == HANDOVER_ONE || got == HANDOVER_BAD);
    require((got == HANDOVER_ONE) == (fd >= 0) && (got == HANDOVER_ONE) == (json != NULL));
    require(got == HANDOVER_ONE || err_is(&e));
    if (got == HANDOVER_ONE) {
        require(fds == 1 && !odd);
        check_target(&target);
        close(fd);
    }
    json_decref(json);
    require(lowest_free() == lowest);
    return 0;
}
