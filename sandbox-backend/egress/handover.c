// SPDX-License-Identifier: Apache-2.0
// Receives the connections that netd hands over.
#include "sandbox-backend/egress/handover.h"

#include <arpa/inet.h>
#include <errno.h>
#include <stdbool.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include "sandbox-backend/base/host_pattern.h"
#include "sandbox-backend/base/json.h"
#include "sandbox-backend/base/mem.h"
#include "sandbox-backend/egress/egress.h"

#define FDS_MAX 4 // more than one is an error, and all are closed

int handover_parse(const json_t *json, struct tunnel_target *target, struct err *e)
{
    unsigned char bytes[sizeof(struct in6_addr)];
    int64_t port;
    if (!json_is_object(json))
        return err_set(e, ERR_INVALID, "the message is not an object");
    if (json_get_string(json, "name", &target->name, "", e) < 0 ||
        json_get_string(json, "address", &target->address, "", e) < 0 ||
        json_get_int(json, "port", 1, 65535, &port, 0, e) < 0 ||
        json_get_bool(json, "tls", &target->tls, false, e) < 0 ||
        json_get_bool(json, "dial", &target->dial, false, e) < 0)
        return -1;
    target->port = (int)port;
    if (inet_pton(AF_INET, target->address, bytes) != 1 &&
        inet_pton(AF_INET6, target->address, bytes) != 1)
        return err_set(e, ERR_INVALID, "address must be a numeric IP address");
    if (port == 0)
        return err_set(e, ERR_INVALID, "port is missing");
    if (*target->name && (target->name[0] == '*' || host_pattern_check(target->name, NULL) < 0))
        return err_set(e, ERR_INVALID, "name must be the name of a host");
    return 0;
}

// Keep the first descriptor and close all others. Return how many there were.
static int take_fds(struct msghdr *message, int *fd)
{
    int count = 0;
    for (struct cmsghdr *c = CMSG_FIRSTHDR(message); c; c = CMSG_NXTHDR(message, c)) {
        if (c->cmsg_level != SOL_SOCKET || c->cmsg_type != SCM_RIGHTS)
            continue;
        size_t n = (c->cmsg_len - CMSG_LEN(0)) / sizeof(int);
        for (size_t i = 0; i < n; i++, count++) {
            int one;
            memcpy(&one, CMSG_DATA(c) + i * sizeof one, sizeof one);
            if (count == 0)
                *fd = one;
            else
                close(one);
        }
    }
    return count;
}

// libuv aborts on descriptors that epoll(7) does not accept, such as a file's.
static bool is_stream(int fd)
{
    int type;
    socklen_t len = sizeof type;
    return getsockopt(fd, SOL_SOCKET, SO_TYPE, &type, &len) == 0 && type == SOCK_STREAM;
}

static int check(const struct msghdr *message, int fds, int fd, struct err *e)
{
    if (message->msg_flags & (MSG_TRUNC | MSG_CTRUNC))
        return err_set(e, ERR_TOO_LARGE, "the message is too long");
    if (fds != 1)
        return err_set(e, ERR_INVALID, "the message has %d descriptors instead of one", fds);
    if (!is_stream(fd))
        return err_set(e, ERR_INVALID, "the message's descriptor is not a stream socket");
    return 0;
}

enum handover handover_receive(int socket, struct tunnel_target *target, json_t **json, int *fd,
                               struct err *e)
{
    char text[EGRESS_MESSAGE_MAX];
    union {
        struct cmsghdr header; // for alignment
        char bytes[CMSG_SPACE(FDS_MAX * sizeof(int))];
    } control;
    struct iovec piece = {.iov_base = text, .iov_len = sizeof text};
    struct msghdr message = {.msg_iov = &piece,
                             .msg_iovlen = 1,
                             .msg_control = control.bytes,
                             .msg_controllen = sizeof control.bytes};
    *json = NULL;
    *fd = -1;
    ssize_t n = recvmsg(socket, &message, MSG_DONTWAIT | MSG_CMSG_CLOEXEC);
    if (n < 0)
        return errno == EAGAIN || errno == EINTR ? HANDOVER_NONE : HANDOVER_OVER;
    int fds = take_fds(&message, fd);
    if (n == 0 && fds == 0)
        return HANDOVER_OVER;
    if (check(&message, fds, *fd, e) == 0 && (*json = json_parse_few(text, (size_t)n, 16, e)) &&
        handover_parse(*json, target, e) == 0)
        return HANDOVER_ONE;
    json_decref(steal(json));
    if (*fd >= 0)
        close(steal_fd(fd));
    return HANDOVER_BAD;
}
