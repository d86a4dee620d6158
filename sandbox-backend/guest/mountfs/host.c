// SPDX-License-Identifier: Apache-2.0
// The host's end of a mount.
#include "sandbox-backend/guest/mountfs/host.h"

#include <errno.h>
#include <fcntl.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <poll.h>
#include <string.h>
#include <sys/socket.h>
#include <time.h>
#include <unistd.h>

#include "sandbox-backend/base/mem.h"

#define OUT_FULL   (4 * 1024 * 1024)
#define READ_BYTES (256 * 1024)

TAILQ_HEAD(calls, call);

static struct {
    int listener, conn; // conn -1: none
    int newcomer;       // a connection that has not shown the token yet; -1: none
    struct mount_hello hello;
    size_t hello_len; // bytes of `hello` that it has sent
    bool ended;
    unsigned char token[MOUNT_TOKEN_BYTES];
    uint64_t next_id;
    int64_t lost_ms;    // since when there is no connection; 0: there is one, or calls fail already
    bool absent;        // calls fail
    struct calls calls; // sent, or waiting for a connection, in order
    struct buf in, out;
    LIST_HEAD(, open_file) files;
    bool used[MOUNT_HANDLES_MAX]; // numbers of files
} host = {.listener = -1, .conn = -1, .newcomer = -1};

int64_t host_now_ms(void)
{
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return (int64_t)t.tv_sec * 1000 + t.tv_nsec / 1000000;
}

void host_init(int listener, const unsigned char *token)
{
    host.listener = listener;
    memcpy(host.token, token, sizeof host.token);
    TAILQ_INIT(&host.calls);
    LIST_INIT(&host.files);
    host.lost_ms = host_now_ms();
}

// ---- calls

struct call *host_call(uint16_t op, fuse_req_t req, struct node *node,
                       void (*done)(struct call *c, const struct answer *a))
{
    struct call *c = xcalloc(1, sizeof *c);
    *c = (struct call){.head = {.op = op}, .req = req, .done = done, .node = node};
    if (node) {
        node_ref(node);
        c->generation = node->generation;
    }
    return c;
}

static void finish(struct call *c, const struct answer *a)
{
    c->done(c, a);
    if (c->node)
        node_unref(c->node);
    if (c->other)
        node_unref(c->other);
    free(c->name);
    free(c->new_name);
    buf_fini(&c->frame);
    free(c);
}

void host_drop(struct call *c, int error)
{
    finish(c, &(struct answer){.error = error});
}

static void fail_all(int error)
{
    struct call *c;
    while ((c = TAILQ_FIRST(&host.calls))) {
        TAILQ_REMOVE(&host.calls, c, link);
        host_drop(c, error);
    }
}

// A program that is killed while there is no host need not wait for one. Its request is still sent
// later, because the host may have received it already.
static void on_interrupt(fuse_req_t req, void *data)
{
    struct call *c;
    (void)data;
    if (host.conn >= 0)
        return;
    TAILQ_FOREACH (c, &host.calls, link) {
        if (c->req == req && c->head.op != MOUNT_OPEN && c->head.op != MOUNT_CREATE &&
            c->head.op != MOUNT_OPENDIR) {
            fuse_reply_err(req, EINTR);
            c->req = NULL;
            return;
        }
    }
}

static void flush(void);

void host_send(struct call *c, const char *path, const void *more, size_t more_len)
{
    c->head.id = ++host.next_id;
    c->head.path_len = (uint32_t)strlen(path);
    c->head.more_len = (uint32_t)more_len;
    c->sent_ms = host_now_ms();
    buf_add(&c->frame, &c->head, sizeof c->head);
    buf_add(&c->frame, path, c->head.path_len);
    if (more_len)
        buf_add(&c->frame, more, more_len);
    if (host.absent) {
        host_drop(c, ENOTCONN);
        return;
    }
    TAILQ_INSERT_TAIL(&host.calls, c, link);
    if (host.conn >= 0) {
        buf_add(&host.out, c->frame.data, c->frame.len);
        flush();
    }
    if (c->req)
        fuse_req_interrupt_func(c->req, on_interrupt, NULL);
}

void host_tell(const struct mount_request *head)
{
    if (host.conn >= 0)
        buf_add(&host.out, head, sizeof *head);
}

// ---- open files

struct open_file *host_file_new(struct node *node, int flags, bool is_dir)
{
    uint32_t number = 0;
    while (number < MOUNT_HANDLES_MAX && host.used[number])
        number++;
    if (number == MOUNT_HANDLES_MAX)
        return NULL;
    struct open_file *f = xcalloc(1, sizeof *f);
    *f = (struct open_file){.number = number, .node = node, .flags = flags, .is_dir = is_dir};
    node_ref(node);
    host.used[number] = true;
    LIST_INSERT_HEAD(&host.files, f, link);
    return f;
}

void host_file_free(struct open_file *f)
{
    host.used[f->number] = false;
    LIST_REMOVE(f, link);
    node_unref(f->node);
    free(f->data);
    free(f);
}

// A file that cannot be opened again is told to its program by the next use (ESTALE).
static void on_opened_again(struct call *c, const struct answer *a)
{
    (void)c;
    (void)a;
}

static void open_again(struct calls *first)
{
    struct open_file *f;
    char path[PATH_MAX];
    LIST_FOREACH (f, &host.files, link) {
        if (!f->is_open || !node_path(f->node, NULL, path))
            continue;
        struct call *c =
            host_call(f->is_dir ? MOUNT_OPENDIR : MOUNT_OPEN, NULL, f->node, on_opened_again);
        c->head.id = ++host.next_id;
        c->head.handle = f->number;
        c->head.flags = (uint32_t)(f->flags & ~(O_CREAT | O_EXCL | O_TRUNC));
        c->head.path_len = (uint32_t)strlen(path);
        buf_add(&c->frame, &c->head, sizeof c->head);
        buf_add(&c->frame, path, c->head.path_len);
        TAILQ_INSERT_TAIL(first, c, link);
    }
}

// ---- the connection

static void lose(void)
{
    struct call *c, *next;
    if (host.conn < 0)
        return;
    close(host.conn);
    host.conn = -1;
    buf_fini(&host.in);
    buf_fini(&host.out);
    host.lost_ms = host_now_ms();
    // Files are opened again by the next connection in any case.
    for (c = TAILQ_FIRST(&host.calls); c; c = next) {
        next = TAILQ_NEXT(c, link);
        if (c->done == on_opened_again) {
            TAILQ_REMOVE(&host.calls, c, link);
            finish(c, &(struct answer){0});
        }
    }
}

static void flush(void)
{
    while (host.out.len) {
        ssize_t n = send(host.conn, host.out.data, host.out.len, MSG_NOSIGNAL | MSG_DONTWAIT);
        if (n <= 0)
            return; // an error shows when the connection is read
        buf_consume(&host.out, (size_t)n);
    }
}

static void send_again(void)
{
    struct calls all = TAILQ_HEAD_INITIALIZER(all);
    struct call *c;
    open_again(&all);
    TAILQ_FOREACH (c, &host.calls, link) {
        c->head.how |= MOUNT_RETRY;
        memcpy(c->frame.data, &c->head, sizeof c->head);
    }
    TAILQ_CONCAT(&all, &host.calls, link);
    TAILQ_CONCAT(&host.calls, &all, link);
    TAILQ_FOREACH (c, &host.calls, link)
        buf_add(&host.out, c->frame.data, c->frame.len);
}

static bool is_token(const unsigned char *given)
{
    unsigned char differs = 0;
    for (size_t i = 0; i < MOUNT_TOKEN_BYTES; i++)
        differs |= given[i] ^ host.token[i];
    return !differs;
}

static void take_answers(void)
{
    struct mount_answer head;
    size_t at = 0;
    while (host.in.len - at >= sizeof head) {
        memcpy(&head, host.in.data + at, sizeof head);
        struct call *c = TAILQ_FIRST(&host.calls);
        if (!c || c->head.id != head.id || head.len > MOUNT_ANSWER_MAX) {
            lose();
            return;
        }
        if (host.in.len - at < sizeof head + head.len)
            break;
        struct answer a = {.error = (int)head.error,
                           .flags = head.flags,
                           .data = host.in.data + at + sizeof head,
                           .len = head.len};
        TAILQ_REMOVE(&host.calls, c, link);
        finish(c, &a);
        at += sizeof head + head.len;
    }
    if (at)
        buf_consume(&host.in, at);
}

static void receive(void)
{
    ssize_t n = recv(host.conn, buf_room(&host.in, READ_BYTES), READ_BYTES, MSG_DONTWAIT);
    if (n < 0 && (errno == EAGAIN || errno == EINTR))
        return;
    if (n <= 0) {
        lose();
        return;
    }
    buf_took(&host.in, (size_t)n);
    take_answers();
}

static void dismiss(void)
{
    if (host.newcomer >= 0)
        close(host.newcomer);
    host.newcomer = -1;
    host.hello_len = 0;
}

// The newcomer takes the place of the connection, which may be dead without a word.
static void welcome(void)
{
    const struct mount_welcome text = {.magic = MOUNT_MAGIC, .version = MOUNT_VERSION};
    lose();
    host.conn = steal_fd(&host.newcomer);
    host.hello_len = 0;
    buf_add(&host.out, &text, sizeof text);
    host.ended = host.hello.flags & MOUNT_HELLO_END;
    host.absent = false;
    host.lost_ms = 0;
    if (!host.ended)
        send_again();
    flush();
}

static void greet(void)
{
    ssize_t n = recv(host.newcomer, (char *)&host.hello + host.hello_len,
                     sizeof host.hello - host.hello_len, MSG_DONTWAIT);
    if (n < 0 && (errno == EAGAIN || errno == EINTR))
        return;
    host.hello_len += n > 0 ? (size_t)n : 0;
    if (n > 0 && host.hello_len < sizeof host.hello)
        return;
    if (n > 0 && host.hello.magic == MOUNT_MAGIC && host.hello.version == MOUNT_VERSION &&
        is_token(host.hello.token))
        welcome();
    else
        dismiss();
}

static void take_newcomer(void)
{
    int on = 1;
    int conn = accept4(host.listener, NULL, NULL, SOCK_CLOEXEC | SOCK_NONBLOCK);
    if (conn < 0)
        return;
    setsockopt(conn, IPPROTO_TCP, TCP_NODELAY, &on, sizeof on);
    dismiss();
    host.newcomer = conn;
}

// ---- the loop

bool host_is_ended(void)
{
    return host.ended;
}

bool host_is_full(void)
{
    return host.out.len > OUT_FULL;
}

int host_wait_ms(void)
{
    if (!host.lost_ms)
        return -1;
    int64_t most = host.absent ? HOST_GONE_MS : HOST_ABSENT_MS;
    int64_t left = host.lost_ms + most - host_now_ms();
    return left < 0 ? 0 : (int)left;
}

int host_poll(struct pollfd *out)
{
    out[0] = (struct pollfd){.fd = host.listener, .events = POLLIN};
    out[1] = (struct pollfd){.fd = host.newcomer, .events = POLLIN};
    out[2] =
        (struct pollfd){.fd = host.conn, .events = (short)(POLLIN | (host.out.len ? POLLOUT : 0))};
    return HOST_POLLED;
}

void host_serve(void)
{
    if (host.conn >= 0)
        receive();
    if (host.conn >= 0)
        flush();
    if (host.newcomer >= 0)
        greet();
    take_newcomer();
    if (host_wait_ms() == 0) {
        host.ended = host.absent;
        host.absent = true;
        fail_all(ENOTCONN);
    }
}
