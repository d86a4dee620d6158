// SPDX-License-Identifier: Apache-2.0
// One connection of cubby-mountd to a guest.
#include "sandbox-backend/mountd/session.h"

#include <errno.h>
#include <string.h>
#include <unistd.h>

#include "sandbox-backend/base/fd.h"
#include "sandbox-backend/base/mem.h"

#define OUT_ENOUGH (256 * 1024)
#define READ_BYTES (256 * 1024)
#define KEEP_BYTES (4 * 1024 * 1024)

void session_fini(struct session *s)
{
    buf_fini(&s->in);
    buf_fini(&s->out);
}

static int check(const struct mount_request *head, struct err *e)
{
    if (head->path_len >= PATH_MAX || head->more_len > MOUNT_DATA_MAX)
        return err_set(e, ERR_INVALID, "the guest sent a request that is too long");
    return 0;
}

// `body` is the path and the rest of the request.
static void serve(struct session *s, const struct mount_request *head, const char *body)
{
    char path[PATH_MAX];
    struct mount_answer answer = {.id = head->id};
    size_t at = s->out.len;
    memcpy(path, body, head->path_len);
    path[head->path_len] = '\0';
    const struct request r = {.head = head, .path = path, .more = body + head->path_len};
    buf_add(&s->out, &answer, sizeof answer);
    answer.error = share_path_is_valid(path, head->path_len)
                       ? (uint32_t)share_serve(s->share, &r, &s->out, &answer.flags)
                       : EINVAL;
    if (answer.error)
        s->out.len = at + sizeof answer;
    answer.len = (uint32_t)(s->out.len - at - sizeof answer);
    memcpy(s->out.data + at, &answer, sizeof answer);
    if (head->op == MOUNT_RELEASE)
        s->out.len = at;
}

int session_serve(struct session *s, struct err *e)
{
    int served = 0;
    size_t at = 0;
    while (s->out.len < OUT_ENOUGH && s->in.len - at >= sizeof(struct mount_request)) {
        struct mount_request head; // the bytes in the buffer may not be aligned
        memcpy(&head, s->in.data + at, sizeof head);
        if (check(&head, e) < 0)
            return -1;
        size_t whole = sizeof head + head.path_len + head.more_len;
        if (s->in.len - at < whole)
            break;
        serve(s, &head, s->in.data + at + sizeof head);
        at += whole;
        served++;
    }
    if (at)
        buf_consume(&s->in, at);
    return served;
}

// Return 1 after bytes, 0 at the end of the connection.
static int receive(struct session *s, int conn, struct err *e)
{
    ssize_t n;
    do
        n = read(conn, buf_room(&s->in, READ_BYTES), READ_BYTES);
    while (n < 0 && errno == EINTR);
    if (n > 0)
        buf_took(&s->in, (size_t)n);
    if (n < 0 && errno != ECONNRESET)
        return err_sys(e, errno, "read from the guest");
    return n > 0;
}

int session_run(struct session *s, int conn, struct err *e)
{
    for (;;) {
        int served = session_serve(s, e);
        if (served < 0)
            return -1;
        if (s->out.len && fd_write_all(conn, s->out.data, s->out.len, e) < 0)
            return e->sys == EPIPE || e->sys == ECONNRESET ? 0 : -1;
        if (s->out.cap > KEEP_BYTES)
            buf_fini(&s->out);
        else
            buf_clear(&s->out);
        int more = served ? 1 : receive(s, conn, e);
        if (more <= 0)
            return more;
    }
}
