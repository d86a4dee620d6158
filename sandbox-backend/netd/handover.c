// SPDX-License-Identifier: Apache-2.0
// A connection given to cubby-egress.
#include "sandbox-backend/netd/handover.h"

#include <arpa/inet.h>
#include <errno.h>
#include <jansson.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include "sandbox-backend/base/buf.h"
#include "sandbox-backend/base/json.h"
#include "sandbox-backend/base/mem.h"

static void write_message(struct buf *text, const struct endpoint *to, const char *name,
                          bool is_tls)
{
    char address[INET_ADDRSTRLEN];
    struct in_addr in = {.s_addr = htonl(to->address)};
    inet_ntop(AF_INET, &in, address, sizeof(address));
    json_t *json = json_pack("{s:s, s:s, s:i, s:b}", "name", name, "address", address, "port",
                             (int)to->port, "tls", is_tls);
    json_to_buf(text, json);
    json_decref(json);
}

const char *handover_send(int egress_fd, int fd, const struct endpoint *to, const char *name,
                          bool is_tls)
{
    int guest auto_close = fd;
    struct buf text auto_buf = BUF_INIT;
    union {
        struct cmsghdr align;
        char bytes[CMSG_SPACE(sizeof(int))];
    } control = {.bytes = {0}};
    write_message(&text, to, name, is_tls);
    struct iovec iov = {.iov_base = text.data, .iov_len = text.len};
    struct msghdr message = {.msg_iov = &iov,
                             .msg_iovlen = 1,
                             .msg_control = control.bytes,
                             .msg_controllen = sizeof(control.bytes)};
    struct cmsghdr *c = CMSG_FIRSTHDR(&message);
    c->cmsg_level = SOL_SOCKET;
    c->cmsg_type = SCM_RIGHTS;
    c->cmsg_len = CMSG_LEN(sizeof(int));
    memcpy(CMSG_DATA(c), &guest, sizeof(int));
    if (sendmsg(egress_fd, &message, MSG_DONTWAIT | MSG_NOSIGNAL) >= 0)
        return NULL;
    return errno == EAGAIN ? "the egress proxy is busy" : "the egress proxy is gone";
}
