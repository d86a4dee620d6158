// SPDX-License-Identifier: Apache-2.0
// The process that is a test's machine: it serves vm.net with one thread a connection, and a small
// envd.
//
// This envd has:
// - POST /init (kept, and written to init.json in the machine's directory)
// - GET /health
// - GET /whoami (checks the token)
// - POST /echo
// - GET /hang (never answered; makes the file "hanging")
// - GET /cut (an answer that breaks off)
// - /files with a signature (which is not checked; answers with the machine's directory)
// - WatchDir (begins, and then sends nothing more)
// - Start (kept in the file "started")
// - List (from the file "processes")
// - GET /envs (the environment of the last /init)
// - POST /spin keeps a processor busy until DELETE /spin.
//
// connects.log has a line with the port for each CONNECT. The Python kernel's port is the one that
// the file "kernel-port" names, if it exists. calls.log has a line for each /init, /freeze and
// /unfreeze, and for each image that is made.
//
// State that outlives a pause, and that an image contains: the machine's memory is the mapped file
// "memory", its disk the directory "disk".
// - POST /count starts a program that counts for as long as the machine runs. GET /count returns
//   the count and the boot id.
// - PUT and GET /disk/<name> write and read a file of the disk.
// - GET /random takes 16 bytes from a generator that depends only on its state and on the entropy
//   of /init: two machines of one image with the same entropy answer the same.
//
// In the mode "guest" it serves only vm.net, in the namespace it runs in. process_guest.sh has
// started the programs that vm.net reaches there.
#include <arpa/inet.h>
#include <fcntl.h>
#include <poll.h>
#include <pthread.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <time.h>
#include <unistd.h>
#include <uv.h>

#include "sandbox-backend/base/fd.h"
#include "sandbox-backend/base/json.h"
#include "sandbox-backend/base/limits.h"
#include "sandbox-backend/base/mem.h"
#include "sandbox-backend/base/str.h"
#include "sandbox-backend/connect/connect.h"
#include "sandbox-backend/net/http_server.h"
#include "tests/lib/process_driver/process_driver.h"
#include "tests/lib/process_driver/process_internal.h"

#define LISTENER      3
#define GUEST_ADDRESS "10.0.2.15" // set by process_guest.sh

#define LOOPBACK "127.0.0.9" // stands for the guest's loopback in the other mode

static const char *dir;
static const char *init_mode;
static int envd_port;
static struct machine_memory *memory; // mapped, shared with its file
static const char *guest_address = "127.0.0.1";

// ---- its memory
#define COUNT_NS 2000000 // rare enough that a machine at rest does not count as used (pause.h)

struct machine_memory {
    char boot[33];
    char token[129]; // "": none is needed
    bool counting;
    long long count;
    uint64_t pool; // of random bytes
};

static void memory_map(void)
{
    char *path auto_free = str_printf("%s/memory", dir);
    int fd auto_close = open(path, O_RDWR | O_CREAT | O_CLOEXEC, 0600);
    void *at = fd < 0 || ftruncate(fd, sizeof *memory) < 0
                   ? MAP_FAILED
                   : mmap(NULL, sizeof *memory, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
    if (at == MAP_FAILED)
        abort();
    memory = at;
    if (memory->boot[0])
        return; // it counts already
    char *boot auto_free = random_hex(16);
    memcpy(memory->boot, boot, sizeof memory->boot);
}

// Count in a thread, the only one that writes the count.
static void *run_count(void *arg)
{
    (void)arg;
    for (;;) {
        nanosleep(&(struct timespec){.tv_nsec = COUNT_NS}, NULL);
        if (__atomic_load_n(&memory->counting, __ATOMIC_RELAXED))
            __atomic_fetch_add(&memory->count, 1, __ATOMIC_RELAXED);
    }
    return NULL;
}

static uint64_t pool_next(void)
{
    memory->pool += 0x9e3779b97f4a7c15; // splitmix64
    uint64_t x = memory->pool;
    x = (x ^ (x >> 30)) * 0xbf58476d1ce4e5b9;
    x = (x ^ (x >> 27)) * 0x94d049bb133111eb;
    return x ^ (x >> 31);
}

static void pool_stir(const char *entropy)
{
    for (; *entropy; entropy++) {
        memory->pool ^= (unsigned char)*entropy;
        memory->pool = pool_next();
    }
}

void process__note(const char *machine, const char *what)
{
    char *path auto_free = str_printf("%s/calls.log", machine);
    FILE *f = fopen(path, "ae");
    if (!f)
        return;
    fprintf(f, "%s\n", what);
    fclose(f);
}

// ---- vm.net
static int dial(int port)
{
    struct sockaddr_in address = {.sin_family = AF_INET,
                                  .sin_port = htons((uint16_t)port),
                                  .sin_addr.s_addr = inet_addr(guest_address)};
    int fd auto_close = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
    if (fd < 0 || connect(fd, (struct sockaddr *)&address, sizeof address) < 0)
        return -1;
    return steal_fd(&fd);
}

static bool pump(int from, int to)
{
    char chunk[65536];
    ssize_t n = read(from, chunk, sizeof chunk);
    if (n > 0)
        return fd_write_all(to, chunk, (size_t)n, NULL) == 0;
    shutdown(to, n == 0 ? SHUT_WR : SHUT_RDWR); // an end of one direction, or of both
    return false;
}

// Each direction has a thread of its own: with full buffers both ways, a single thread would wait
// for one reader and block the other direction.
struct direction {
    int from, to;
};

static void *run_direction(void *arg)
{
    struct direction d = *(struct direction *)arg;
    free(arg);
    while (pump(d.from, d.to))
        ;
    return NULL;
}

static pthread_t start_direction(int from, int to)
{
    struct direction *d = xmalloc(sizeof *d);
    *d = (struct direction){from, to};
    pthread_t thread;
    if (pthread_create(&thread, NULL, run_direction, d) != 0)
        abort();
    return thread;
}

// Return the port of a "CONNECT <port>" line; 0 for another line.
static int read_port(int client)
{
    char line[64] = "";
    size_t n = 0;
    int port = 0;
    while (n < sizeof line - 1 && read(client, line + n, 1) == 1 && line[n++] != '\n')
        ;
    return sscanf(line, "CONNECT %d\n", &port) == 1 ? port : 0;
}

// Connect as envd's relay does, to an address that stands for the guest's loopback.
static int dial_loopback(int client)
{
    int port = fd_write_all(client, "OK\n", 3, NULL) == 0 ? read_port(client) : 0;
    struct sockaddr_in address = {.sin_family = AF_INET,
                                  .sin_port = htons((uint16_t)port),
                                  .sin_addr.s_addr = inet_addr(LOOPBACK)};
    int fd auto_close = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
    if (!port || fd < 0 || connect(fd, (struct sockaddr *)&address, sizeof address) < 0)
        return -1;
    return steal_fd(&fd);
}

static int real_port(int port)
{
    struct buf text auto_buf = BUF_INIT;
    char *path auto_free = str_printf("%s/kernel-port", dir);
    if (port == ENVD_PORT)
        return envd_port;
    return port == KERNEL_PORT && file_read(path, 16, &text, NULL) == 0 ? atoi(buf_str(&text))
                                                                        : port;
}

static void *serve(void *arg)
{
    int client auto_close = (int)(intptr_t)arg;
    int port = read_port(client);
    if (port == 0)
        return NULL;
    char *log auto_free = str_printf("%s/connects.log", dir);
    FILE *f = fopen(log, "ae");
    if (f) {
        fprintf(f, "%d\n", port);
        fclose(f);
    }
    bool relayed = port == ENVD_RELAY_PORT && envd_port != ENVD_PORT;
    int guest auto_close = relayed ? dial_loopback(client) : dial(real_port(port));
    const char *answer = guest < 0 ? "ERR refused\n" : "OK\n";
    if (fd_write_all(client, answer, strlen(answer), NULL) < 0 || guest < 0)
        return NULL;
    pthread_t in = start_direction(client, guest);
    while (pump(guest, client))
        ;
    pthread_join(in, NULL);
    return NULL;
}

static void *run_vmnet(void *arg)
{
    (void)arg;
    for (int fd; (fd = accept4(LISTENER, NULL, NULL, SOCK_CLOEXEC)) >= 0;) {
        pthread_t thread;
        if (pthread_create(&thread, NULL, serve, (void *)(intptr_t)fd) != 0)
            abort();
        pthread_detach(thread);
    }
    return NULL;
}

// ---- envd
// Stop the machine once before it answers, if a test made the file "stop-at-init" in its directory,
// or if the template's "init" is "stop" and this is the first answer. A test sends SIGCONT.
static void stop_if_asked(void)
{
    static bool stopped;
    char *sign auto_free = str_printf("%s/stop-at-init", dir);
    bool at_first = strcmp(init_mode, "stop") == 0 && !stopped;
    stopped = true;
    if (unlink(sign) == 0 || at_first)
        raise(SIGSTOP);
}

static void on_init(struct http_request *req, const char *body, size_t len, void *ctx)
{
    (void)ctx;
    struct err e = ERR_INIT;
    const char *new_token = "", *entropy = "";
    char *path auto_free = str_printf("%s/init.json", dir);
    json_t *json = json_parse(body, len, &e);
    process__note(dir, "init");
    stop_if_asked();
    if (strcmp(init_mode, "die") == 0)
        _exit(7);
    if (strcmp(init_mode, "silent") == 0) {
        json_decref(json);
        return;
    }
    static int times;
    bool worn_out = strcmp(init_mode, "once") == 0 && times++ > 0;
    if (!json || worn_out || strcmp(init_mode, "refuse") == 0) {
        http_respond_error(req, 400, "this machine refuses /init");
        json_decref(json);
        return;
    }
    json_get_string(json, "accessToken", &new_token, "", &e);
    json_get_string(json, "entropy", &entropy, "", &e);
    snprintf(memory->token, sizeof memory->token, "%s", new_token);
    pool_stir(entropy);
    file_replace(path, body, len, 0600, &e);
    json_decref(json);
    http_respond(req, 204, NULL, NULL, 0);
}

static void on_echo_data(struct http_request *req, const char *data, size_t len, void *ctx)
{
    (void)ctx;
    if (!http_response_write(req, data, len))
        http_request_pause(req);
}

static void on_echo_drain(void *ctx)
{
    http_request_resume(ctx);
}

static void on_echo_end(struct http_request *req, void *ctx)
{
    (void)ctx;
    http_response_end(req);
}

static void echo(struct http_request *req)
{
    static const struct http_body_events EVENTS = {.on_data = on_echo_data, .on_end = on_echo_end};
    size_t count = 0;
    const struct http_header *headers = http_request_headers(req, &count);
    for (size_t i = 0; i < count; i++) {
        char *name auto_free = str_printf("X-Got-%s", headers[i].name);
        http_response_header(req, name, headers[i].value);
    }
    http_response_on_drain(req, on_echo_drain, req);
    http_response_begin(req, 200, -1);
    http_request_stream(req, &EVENTS, NULL);
}

static bool is_allowed(const struct http_request *req)
{
    const char *said = http_request_header(req, "X-Access-Token");
    return !memory->token[0] || str_eq_secret(said, memory->token);
}

static void tell_count(struct http_request *req)
{
    char text[120];
    int n = snprintf(text, sizeof text, "{\"count\": %lld, \"boot\": \"%s\"}\n",
                     __atomic_load_n(&memory->count, __ATOMIC_RELAXED), memory->boot);
    http_respond(req, 200, "application/json", text, (size_t)n);
}

static void tell_random(struct http_request *req)
{
    char text[40];
    unsigned long long first = pool_next(), second = pool_next();
    int n = snprintf(text, sizeof text, "%016llx%016llx", first, second);
    http_respond(req, 200, "text/plain", text, (size_t)n);
}

static void on_disk_body(struct http_request *req, const char *body, size_t len, void *ctx)
{
    char *path auto_free = ctx;
    struct err e = ERR_INIT;
    if (file_replace(path, body, len, 0600, &e) < 0)
        http_respond_error(req, 500, "%s", e.msg);
    else
        http_respond(req, 204, NULL, NULL, 0);
}

static void serve_disk(struct http_request *req, const char *name)
{
    char *path = str_printf("%s/disk/%s", dir, name);
    struct buf text auto_buf = BUF_INIT;
    if (strcmp(http_request_method(req), "PUT") == 0) {
        http_request_collect(req, LIMIT_JSON_BODY_BYTES, on_disk_body, path);
        return;
    }
    if (file_read(path, LIMIT_JSON_BODY_BYTES, &text, NULL) < 0)
        http_respond_error(req, 404, "no file %s on the disk", name);
    else
        http_respond(req, 200, "text/plain", buf_str(&text), text.len);
    free(path);
}

static bool spinning;

static void *run_spin(void *arg)
{
    (void)arg;
    while (__atomic_load_n(&spinning, __ATOMIC_RELAXED))
        ;
    return NULL;
}

// Answer with the environment of the last /init.
static void tell_environment(struct http_request *req)
{
    struct buf text auto_buf = BUF_INIT;
    char *path auto_free = str_printf("%s/init.json", dir);
    struct err e = ERR_INIT;
    bool known = file_read(path, LIMIT_JSON_BODY_BYTES, &text, &e) == 0;
    json_t *init = known ? json_parse(buf_str(&text), text.len, &e) : NULL;
    json_t *given = json_object_get(init, "envVars");
    char *answer auto_free = given ? json_to_string(given) : xstrdup("{}");
    http_respond(req, 200, "application/json", answer, strlen(answer));
    json_decref(init);
}

// Handle /spin: POST makes a processor busy; DELETE ends that.
static void set_spin(struct http_request *req)
{
    pthread_t thread;
    bool on = strcmp(http_request_method(req), "POST") == 0;
    bool was = __atomic_exchange_n(&spinning, on, __ATOMIC_RELAXED);
    if (on && !was && pthread_create(&thread, NULL, run_spin, NULL) == 0)
        pthread_detach(thread);
    http_respond(req, 204, NULL, NULL, 0);
}

// Answer a request about the machine's state. Return false for any other path.
static bool serve_state(struct http_request *req, const char *path)
{
    if (strcmp(path, "/count") == 0) {
        if (strcmp(http_request_method(req), "POST") == 0)
            __atomic_store_n(&memory->counting, true, __ATOMIC_RELAXED);
        tell_count(req);
    } else if (strcmp(path, "/spin") == 0) {
        set_spin(req);
    } else if (strcmp(path, "/random") == 0) {
        tell_random(req);
    } else if (strncmp(path, "/disk/", 6) == 0) {
        serve_disk(req, path + 6);
    } else {
        return false;
    }
    return true;
}

// Answer with the running processes, a JSON array in the file "processes"; without it, none.
static void tell_processes(struct http_request *req)
{
    struct buf text auto_buf = BUF_INIT;
    char *path auto_free = str_printf("%s/processes", dir);
    bool some = file_read(path, 4096, &text, NULL) == 0;
    char *answer auto_free = str_printf("{\"processes\": %s}", some ? buf_str(&text) : "[]");
    http_respond(req, 200, "application/json", answer, strlen(answer));
}

// Record the request in the file "started". No process is started, and none fails.
static void on_process_start(struct http_request *req, const char *body, size_t len, void *ctx)
{
    (void)ctx;
    char *sign auto_free = str_printf("%s/started", dir);
    file_replace(sign, body, len, 0600, NULL);
    static const char END[] =
        "{\"event\":{\"end\":{\"exited\":true,\"status\":\"exit status 0\"}}}";
    struct buf answer auto_buf = BUF_INIT;
    connect_envelope(&answer, 0, END, sizeof END - 1);
    connect_envelope_end(&answer, NULL);
    http_respond(req, 200, CONNECT_STREAM_TYPE, answer.data, answer.len);
}

// The machine's file "freeze-mode" changes the answer: "404", "503" or "silent" (and so on for
// either).
static void serve_freeze(struct http_request *req, const char *what)
{
    struct buf mode auto_buf = BUF_INIT;
    char *path auto_free = str_printf("%s/freeze-mode", dir);
    process__note(dir, what);
    if (file_read(path, 64, &mode, NULL) < 0)
        http_respond(req, 204, NULL, NULL, 0);
    else if (!str_eq(buf_str(&mode), "silent"))
        http_respond_error(req, atoi(buf_str(&mode)), "this machine does not %s", what);
}

static void on_request(struct http_request *req, void *ctx)
{
    (void)ctx;
    const char *path = http_request_path(req);
    if (strcmp(path, "/init") == 0) {
        http_request_collect(req, LIMIT_JSON_BODY_BYTES, on_init, NULL);
    } else if (strcmp(path, "/health") == 0) {
        http_respond(req, 204, NULL, NULL, 0);
    } else if (strcmp(path, "/files") == 0 && http_request_query(req, "signature", NULL)) {
        http_respond(req, 200, "text/plain", dir, strlen(dir)); // tells its directory
    } else if (!is_allowed(req)) {
        http_respond_error(req, 401, "unauthorized access, please provide a valid access token");
    } else if (strcmp(path, "/freeze") == 0 || strcmp(path, "/unfreeze") == 0) {
        serve_freeze(req, path + 1);
    } else if (strcmp(path, "/whoami") == 0) {
        http_respond(req, 200, "text/plain", "envd", 4);
    } else if (strcmp(path, "/echo") == 0) {
        echo(req);
    } else if (strcmp(path, "/cut") == 0) {
        http_response_begin(req, 200, 1000);
        http_response_write(req, "half", 4);
        http_response_end(req); // less than declared: the connection breaks
    } else if (strcmp(path, "/filesystem.Filesystem/WatchDir") == 0) {
        http_response_begin(req, 200, -1);
        http_response_write(req, "armed", 5);
    } else if (strcmp(path, "/envs") == 0) {
        tell_environment(req);
    } else if (strcmp(path, "/process.Process/List") == 0) {
        tell_processes(req);
    } else if (strcmp(path, "/process.Process/Start") == 0) {
        http_request_collect(req, LIMIT_JSON_BODY_BYTES, on_process_start, NULL);
    } else if (strcmp(path, "/hang") == 0) {
        char *sign auto_free = str_printf("%s/hanging", dir);
        file_replace(sign, "", 0, 0600, NULL);
    } else if (!serve_state(req, path)) {
        http_respond_error(req, 404, "nothing at %s", path);
    }
}

int process_machine_main(const char *machine_dir, const char *mode)
{
    uv_loop_t loop;
    struct err e = ERR_INIT;
    pthread_t vmnet, counter;
    dir = machine_dir;
    init_mode = mode;
    signal(SIGPIPE, SIG_IGN);
    if (strcmp(mode, "guest") == 0) {
        guest_address = GUEST_ADDRESS;
        envd_port = ENVD_PORT;
        run_vmnet(NULL);
        return 1; // the listener failed
    }
    char *disk auto_free = str_printf("%s/disk", dir);
    if (dir_make(disk, 0700, &e) < 0) {
        fprintf(stderr, "machine: %s\n", e.msg);
        return 1;
    }
    memory_map();
    uv_loop_init(&loop);
    struct http_server *server =
        http_server_new(&loop, &(struct http_server_opts){.on_request = on_request});
    if (http_server_listen_tcp(server, "127.0.0.1", 0, &e) < 0) {
        fprintf(stderr, "machine: %s\n", e.msg);
        return 1;
    }
    envd_port = http_server_port(server);
    if (pthread_create(&counter, NULL, run_count, NULL) != 0 ||
        pthread_create(&vmnet, NULL, run_vmnet, NULL) != 0)
        return 1;
    return uv_run(&loop, UV_RUN_DEFAULT);
}
