// SPDX-License-Identifier: Apache-2.0
// The control socket.
#include "sandbox-backend/netd/control.h"

#include <errno.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include "sandbox-backend/base/clock.h"
#include "sandbox-backend/base/json.h"
#include "sandbox-backend/base/mem.h"
#include "sandbox-backend/log/log.h"

#define LINE_MAX_BYTES (NET_POLICY_TEXT_MAX + 64)
#define CHUNK_BYTES    16384

void control_init(struct control *c, int listen_fd,
                  void (*on_change)(void *ctx, struct control_change *change), void *ctx)
{
    *c = (struct control){.listen_fd = listen_fd,
                          .fd = -1,
                          .passed_fd = -1,
                          .poll_index = -1,
                          .on_change = on_change,
                          .ctx = ctx};
}

static void hang_up(struct control *c)
{
    if (c->fd >= 0)
        close(steal_fd(&c->fd));
    if (c->passed_fd >= 0)
        close(steal_fd(&c->passed_fd));
    buf_fini(&c->line);
    c->line = BUF_INIT;
}

void control_fini(struct control *c)
{
    hang_up(c);
}

// The answer is short and the client's buffer is empty, so it fits.
static void say(struct control *c, const json_t *egress, const struct err *e)
{
    json_t *json =
        err_is(e) ? json_pack("{s:s}", "error", e->msg) : json_pack("{s:O*}", "egress", egress);
    struct buf text auto_buf = BUF_INIT;
    json_to_buf(&text, json);
    buf_addc(&text, '\n');
    json_decref(json);
    if (send(c->fd, text.data, text.len, MSG_DONTWAIT | MSG_NOSIGNAL) < 0)
        log_warn("control.answer", "errno=%d", errno);
}

static int parse_change(struct control *c, const json_t *json, struct control_change *out,
                        struct err *e)
{
    const json_t *egress = json_object_get(json, "egress");
    const char *use = json_string_value(egress);
    if (net_policy_from_json(&out->rules, json_object_get(json, "policy"), e) < 0)
        return -1;
    if ((use != NULL) != (c->passed_fd >= 0))
        return err_set(e, ERR_INVALID, "egress and the descriptor do not agree");
    if (use && gate_parse_use(use, &out->egress, e) < 0)
        return -1;
    out->sets_egress = egress != NULL;
    out->egress.fd = steal_fd(&c->passed_fd);
    return 0;
}

static void on_line(struct control *c, size_t len)
{
    struct err e = ERR_INIT;
    struct control_change change = {.egress = {.fd = -1}};
    json_t *json = json_parse(c->line.data, len, &e);
    if (json && parse_change(c, json, &change, &e) == 0) {
        log_info("control.policy", "internet=%d allow=%zu deny=%zu egress=%s",
                 change.rules.internet, change.rules.allow_count, change.rules.deny_count,
                 !change.sets_egress    ? "kept"
                 : change.egress.fd < 0 ? "none"
                                        : "new");
        c->on_change(c->ctx, &change);
    }
    net_policy_fini(&change.rules);
    say(c, json_object_get(json, "egress"), &e);
    json_decref(json);
}

// Receive some of the line, and keep the descriptor that comes with it.
static ssize_t receive(struct control *c, char *chunk, size_t size)
{
    union {
        struct cmsghdr align;
        char bytes[CMSG_SPACE(sizeof(int))];
    } control;
    struct iovec piece = {.iov_base = chunk, .iov_len = size};
    struct msghdr message = {.msg_iov = &piece,
                             .msg_iovlen = 1,
                             .msg_control = control.bytes,
                             .msg_controllen = sizeof(control.bytes)};
    ssize_t n = recvmsg(c->fd, &message, MSG_DONTWAIT | MSG_CMSG_CLOEXEC);
    struct cmsghdr *head = n > 0 ? CMSG_FIRSTHDR(&message) : NULL;
    if (!head || head->cmsg_level != SOL_SOCKET || head->cmsg_type != SCM_RIGHTS)
        return n;
    if (c->passed_fd >= 0)
        close(c->passed_fd);
    memcpy(&c->passed_fd, CMSG_DATA(head), sizeof(int));
    return n;
}

static void read_line(struct control *c)
{
    char chunk[CHUNK_BYTES];
    ssize_t n = receive(c, chunk, sizeof(chunk));
    if (n < 0 && (errno == EAGAIN || errno == EINTR))
        return;
    if (n <= 0 || !buf_try_add(&c->line, chunk, (size_t)n, LINE_MAX_BYTES)) {
        hang_up(c);
        return;
    }
    const char *newline = memchr(c->line.data, '\n', c->line.len);
    if (!newline)
        return;
    on_line(c, (size_t)(newline - c->line.data));
    hang_up(c);
}

void control_fill(struct control *c, struct pollset *set, int *timeout)
{
    c->poll_index =
        c->listen_fd < 0 ? -1 : pollset_add(set, c->fd < 0 ? c->listen_fd : c->fd, POLLIN);
    if (c->fd < 0)
        return;
    int64_t left = c->deadline - clock_mono_ms();
    left = left < 0 ? 0 : left;
    if (*timeout < 0 || left < *timeout)
        *timeout = (int)left;
}

void control_poll(struct control *c, const struct pollset *set)
{
    bool has_event = c->poll_index >= 0 && pollset_events(set, c->poll_index);
    if (c->fd >= 0 && has_event) {
        read_line(c);
    } else if (c->fd >= 0 && clock_mono_ms() >= c->deadline) {
        hang_up(c);
    } else if (c->fd < 0 && has_event) {
        c->fd = accept4(c->listen_fd, NULL, NULL, SOCK_CLOEXEC | SOCK_NONBLOCK);
        c->deadline = clock_mono_ms() + CONTROL_LINE_MS;
    }
}
