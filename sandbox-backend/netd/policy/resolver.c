// SPDX-License-Identifier: Apache-2.0
// DNS for a guest that may reach only certain names.
#include "sandbox-backend/netd/policy/resolver.h"

#include <netdb.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include "sandbox-backend/base/buf.h"
#include "sandbox-backend/base/clock.h"
#include "sandbox-backend/base/fd.h"
#include "sandbox-backend/base/mem.h"
#include "sandbox-backend/base/str.h"
#include "sandbox-backend/log/log.h"

#define RESOLV_CONF       "/etc/resolv.conf"
#define RESOLV_CONF_BYTES 65536
#define DNS_PORT          53

struct query {
    int fd; // owned, connected to the resolver; -1: this query is free
    uint16_t guest_port;
    uint16_t id; // of our question
    struct dns_question question;
    int64_t again_at, late_at;
    int poll_index;
};

struct resolver {
    struct policy *policy;     // borrowed
    struct frames *frames;     // borrowed
    struct refusals *refusals; // borrowed
    struct query queries[RESOLVER_MAX];
};

struct resolver *resolver_new(struct policy *policy, struct frames *frames,
                              struct refusals *refusals)
{
    struct resolver *r = xcalloc(1, sizeof(*r));
    *r = (struct resolver){.policy = policy, .frames = frames, .refusals = refusals};
    for (int i = 0; i < RESOLVER_MAX; i++)
        r->queries[i].fd = -1;
    return r;
}

static void drop(struct query *q)
{
    if (q->fd >= 0)
        close(steal_fd(&q->fd));
}

void resolver_free(struct resolver *r)
{
    for (int i = 0; r && i < RESOLVER_MAX; i++)
        drop(&r->queries[i]);
    free(r);
}

// ---- to the guest

static void answer(struct resolver *r, uint16_t guest_port, const struct dns_question *question,
                   const struct dns_result *result)
{
    uint8_t frame[WIRE_HEAD_BYTES + WIRE_UDP_BYTES + DNS_ANSWER_MAX];
    uint8_t *udp = frame + WIRE_HEAD_BYTES;
    size_t len = WIRE_UDP_BYTES + dns_make_answer(udp + WIRE_UDP_BYTES, question, result);
    wire_make_head(frame, WIRE_DNS_IP, WIRE_PROTO_UDP, len);
    wire_put16(udp, DNS_PORT);
    wire_put16(udp + 2, guest_port);
    wire_put16(udp + 4, (uint16_t)len);
    wire_put16(udp + 6, 0); // no checksum, which RFC 768 allows over IPv4
    frames_send(r->frames, frame, WIRE_HEAD_BYTES + len);
}

static void answer_code(struct resolver *r, uint16_t guest_port,
                        const struct dns_question *question, enum dns_rcode rcode)
{
    answer(r, guest_port, question, &(struct dns_result){.rcode = rcode});
}

// `address`: the one that the name has; 0 when it is not known.
static void refuse(struct resolver *r, uint16_t guest_port, const struct dns_question *question,
                   uint32_t address, const char *why)
{
    const struct endpoint to = {.address = address, .proto = WIRE_PROTO_UDP, .port = DNS_PORT};
    refusals_add(r->refusals, why, &to, question->name);
    answer_code(r, guest_port, question, DNS_NXDOMAIN);
}

static void fail(struct resolver *r, struct query *q, const char *why)
{
    log_warn("resolver.failed", "name=%s why=\"%s\"", q->question.name, why);
    answer_code(r, q->guest_port, &q->question, DNS_SERVFAIL);
    drop(q);
}

// ---- to the host's resolver

// Use the first server of resolv.conf(5) that is an address, as libslirp does.
static int connect_to_server(const char *conf)
{
    char line[256], server[128];
    for (const char *at = conf; *at; at += strcspn(at, "\n"), at += *at == '\n') {
        struct addrinfo hints = {.ai_flags = AI_NUMERICHOST | AI_NUMERICSERV,
                                 .ai_socktype = SOCK_DGRAM};
        struct addrinfo *found = NULL;
        snprintf(line, sizeof(line), "%.*s", (int)strcspn(at, "\n"), at);
        if (sscanf(line, "nameserver %127s", server) != 1 ||
            getaddrinfo(server, "53", &hints, &found) != 0)
            continue;
        int fd = socket(found->ai_family, SOCK_DGRAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
        if (fd >= 0 && connect(fd, found->ai_addr, found->ai_addrlen) < 0) {
            close(fd);
            fd = -1;
        }
        freeaddrinfo(found);
        return fd;
    }
    return -1;
}

static int open_socket(void)
{
    struct buf conf auto_buf = BUF_INIT;
    if (file_read(RESOLV_CONF, RESOLV_CONF_BYTES, &conf, NULL) < 0)
        return -1;
    int fd = connect_to_server(buf_str(&conf));
    if (fd >= POLLSET_MAX) {
        close(fd);
        return -1;
    }
    return fd;
}

static void ask(struct resolver *r, struct query *q, int64_t now)
{
    uint8_t message[DNS_ANSWER_MAX];
    size_t len = dns_make_question(message, q->id, q->question.name);
    q->again_at = now + RESOLVER_AGAIN_MS;
    if (send(q->fd, message, len, MSG_DONTWAIT | MSG_NOSIGNAL) < 0)
        fail(r, q, "the host's resolver cannot be reached");
}

static void begin(struct resolver *r, uint16_t guest_port, const struct dns_question *question)
{
    struct query *free_query = NULL;
    int64_t now = clock_mono_ms();
    for (int i = 0; i < RESOLVER_MAX; i++) {
        struct query *q = &r->queries[i];
        if (q->fd >= 0 && q->guest_port == guest_port && q->question.id == question->id &&
            str_eq(q->question.name, question->name))
            return; // the guest repeats its question; ours is repeated anyway
        if (q->fd < 0)
            free_query = q;
    }
    int fd = free_query ? open_socket() : -1;
    if (fd < 0) {
        log_warn("resolver.failed", "name=%s why=\"%s\"", question->name,
                 free_query ? "no name server in " RESOLV_CONF : "too many questions");
        answer_code(r, guest_port, question, DNS_SERVFAIL);
        return;
    }
    *free_query = (struct query){.fd = fd,
                                 .guest_port = guest_port,
                                 .question = *question,
                                 .late_at = now + RESOLVER_LATE_MS,
                                 .poll_index = -1};
    random_bytes(&free_query->id, sizeof(free_query->id));
    ask(r, free_query, now);
}

bool resolver_from_guest(struct resolver *r, const struct packet *p)
{
    struct dns_question question;
    if (!dns_parse_question(&question, p->l4 + WIRE_UDP_BYTES, p->payload_len))
        return false;
    const char *why = policy_denies_question(r->policy, question.name);
    if (why) {
        refuse(r, p->sport, &question, 0, why);
    } else if (question.type != DNS_TYPE_A) {
        answer_code(r, p->sport, &question, DNS_OK);
    } else {
        begin(r, p->sport, &question);
    }
    return true;
}

// ---- its answer

// The rules may have changed since the question.
static void take(struct resolver *r, struct query *q, const struct dns_result *result)
{
    struct dns_result open = *result;
    const char *why = policy_denies_question(r->policy, q->question.name);
    open.count = 0;
    for (size_t i = 0; !why && i < result->count; i++) {
        if (policy_denies_answer(r->policy, result->addresses[i]))
            continue;
        names_add(&r->policy->names, q->question.name, result->addresses[i], result->ttl_s,
                  clock_mono_ms());
        open.addresses[open.count++] = result->addresses[i];
    }
    if (!why && result->count > 0 && open.count == 0)
        why = "a name with a denied address";
    if (why)
        refuse(r, q->guest_port, &q->question, result->count ? result->addresses[0] : 0, why);
    else
        answer(r, q->guest_port, &q->question, &open);
    drop(q);
}

static void receive(struct resolver *r, struct query *q)
{
    uint8_t message[DNS_MESSAGE_MAX];
    struct dns_result result;
    ssize_t n = recv(q->fd, message, sizeof(message), MSG_DONTWAIT);
    if (n < 0) {
        fail(r, q, "the host's resolver cannot be reached");
        return;
    }
    if (dns_parse_answer(&result, q->id, q->question.name, message, (size_t)n))
        take(r, q, &result);
}

// ---- waiting

static void shorten(int *timeout, int64_t left)
{
    left = left < 0 ? 0 : left;
    if (*timeout < 0 || left < *timeout)
        *timeout = (int)left;
}

void resolver_fill(struct resolver *r, struct pollset *set, int *timeout)
{
    int64_t now = clock_mono_ms();
    for (int i = 0; i < RESOLVER_MAX; i++) {
        struct query *q = &r->queries[i];
        q->poll_index = -1;
        if (q->fd < 0)
            continue;
        q->poll_index = pollset_add(set, q->fd, POLLIN);
        shorten(timeout, (q->again_at < q->late_at ? q->again_at : q->late_at) - now);
    }
}

void resolver_poll(struct resolver *r, const struct pollset *set)
{
    int64_t now = clock_mono_ms();
    for (int i = 0; i < RESOLVER_MAX; i++) {
        struct query *q = &r->queries[i];
        if (q->fd < 0 || q->poll_index < 0) // begun after the wait
            continue;
        if (pollset_events(set, q->poll_index))
            receive(r, q);
        else if (now >= q->late_at)
            fail(r, q, "the host's resolver did not answer in time");
        else if (now >= q->again_at)
            ask(r, q, now);
    }
}
