// SPDX-License-Identifier: Apache-2.0
// cubby top: show what the sandboxes use of this host, again and again, on a terminal.
//
// From the first picture on, the terminal shows its alternate screen, without echo and line
// editing. It is restored whatever ends the program: a key, a signal, an error.
#include <errno.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <termios.h>
#include <unistd.h>

#include "sandbox-backend/base/buf.h"
#include "sandbox-backend/base/fd.h"
#include "sandbox-backend/base/mem.h"
#include "sandbox-backend/cli/cli.h"
#include "sandbox-backend/cli/connection.h"

#define EVERY_MS  2000
#define ENTER     "\033[?1049h\033[?25l" // another screen, no cursor
#define LEAVE     "\033[?25h\033[?1049l"
#define HOME      "\033[H"
#define REST_LINE "\033[K"
#define REST      "\033[J"
#define KEYS      "q quit   c by CPU   m by memory   a by age"

// Global for the signal handler.
static struct termios found;
static volatile sig_atomic_t is_ours;

static void put_back(void)
{
    if (!is_ours)
        return;
    is_ours = 0;
    if (write(STDOUT_FILENO, LEAVE, sizeof LEAVE - 1) < 0) {
        // the terminal is gone
    }
    tcsetattr(STDIN_FILENO, TCSANOW, &found);
}

static void on_end(int number)
{
    put_back();
    _exit(number == SIGINT ? 0 : 128 + number);
}

static void on_resize(int number)
{
    (void)number; // poll returns, and the next picture has the new size
}

static void take_terminal(void)
{
    struct sigaction end = {.sa_handler = on_end};
    struct sigaction resize = {.sa_handler = on_resize};
    tcgetattr(STDIN_FILENO, &found);
    struct termios ours = found;
    ours.c_lflag &= ~(tcflag_t)(ICANON | ECHO);
    ours.c_cc[VSUSP] = _POSIX_VDISABLE; // else the shell would get the terminal in this mode
    sigaction(SIGINT, &end, NULL);
    sigaction(SIGTERM, &end, NULL);
    sigaction(SIGHUP, &end, NULL);
    sigaction(SIGQUIT, &end, NULL);
    sigaction(SIGWINCH, &resize, NULL);
    is_ours = 1;
    tcsetattr(STDIN_FILENO, TCSANOW, &ours);
    fd_write_all(STDOUT_FILENO, ENTER, sizeof ENTER - 1, NULL);
}

// ---- a picture
// Return the length of the part of a line that fits the screen. Nothing in the line moves the
// cursor.
static size_t fitting(const char *line, size_t len, int columns)
{
    size_t at = 0;
    for (int width = 0; at < len; at++) {
        bool starts = ((unsigned char)line[at] & 0xc0) != 0x80;
        if (starts && width++ == columns)
            break;
    }
    return at;
}

static void draw(const char *text, const struct winsize *size)
{
    struct buf out auto_buf = BUF_INIT;
    buf_adds(&out, HOME);
    for (int row = 1; *text && row < size->ws_row; row++) {
        size_t len = strcspn(text, "\n");
        buf_add(&out, text, fitting(text, len, size->ws_col));
        buf_adds(&out, REST_LINE "\n");
        text += len;
        text += *text == '\n';
    }
    buf_adds(&out, REST);
    fd_write_all(STDOUT_FILENO, out.data, out.len, NULL);
}

static void show(const json_t *stats, enum stats_order order)
{
    struct winsize size = {0};
    char *text = NULL;
    size_t len = 0;
    FILE *to = open_memstream(&text, &len);
    if (!to)
        abort();
    stats_view_print(stats, order, to);
    fputs("\n" KEYS "\n", to);
    fclose(to);
    if (ioctl(STDOUT_FILENO, TIOCGWINSZ, &size) < 0 || size.ws_row == 0 || size.ws_col == 0)
        size = (struct winsize){.ws_row = 24, .ws_col = 80};
    draw(text, &size);
    free(text);
}

// ---- keys
// Wait until the next picture is due, or a key is pressed. Return false to end.
static bool wait_for_key(enum stats_order *order)
{
    struct pollfd in = {.fd = STDIN_FILENO, .events = POLLIN};
    char key = 0;
    int ready = poll(&in, 1, EVERY_MS);
    if (ready <= 0)
        return ready == 0 || errno == EINTR;
    if (read(STDIN_FILENO, &key, 1) != 1 || key == 'q' || key == 'Q')
        return false;
    if (key == 'c')
        *order = STATS_BY_CPU;
    else if (key == 'm')
        *order = STATS_BY_MEMORY;
    else if (key == 'a')
        *order = STATS_BY_AGE;
    return true;
}

static int live(struct connection *c, struct err *e)
{
    enum stats_order order = STATS_BY_CPU;
    json_t *stats = connection_stats(c, NULL, e);
    if (!stats)
        return -1;
    take_terminal();
    do {
        show(stats, order);
        json_decref(stats);
        stats = NULL;
    } while (wait_for_key(&order) && (stats = connection_stats(c, NULL, e)));
    put_back();
    return err_is(e) ? -1 : 0;
}

static int once(struct connection *c, struct err *e)
{
    json_t *stats =
        connection_is_idle(c) ? json_pack("{s:[]}", "sandboxes") : connection_stats(c, NULL, e);
    if (stats)
        stats_view_print(stats, STATS_BY_CPU, stdout);
    json_decref(stats);
    return stats ? 0 : -1;
}

int verb_top(int argc, char **argv)
{
    struct backend_opts server = {0};
    const struct cli_usage usage = {
        .synopsis = "top",
        .text =
            "Shows every two seconds what the sandboxes use of this host: private memory, "
            "processor,\n"
            "disk, network and state. Keys: q quits; c, m and a sort by CPU, memory and age. When\n"
            "standard output is not a terminal, prints one table.",
        .server = &server,
    };
    int done = cli_begin(&usage, &argc, argv);
    if (done >= 0)
        return done;
    if (argc > 1)
        return cli_usage_error("top takes no operand; see cubby top --help");
    struct err e = ERR_INIT;
    struct connection c;
    if (connection_open(&c, &server, CONNECT_STARTS_IF_USED, &e) < 0)
        return cli_fail(&e);
    bool on_terminal = isatty(STDIN_FILENO) && isatty(STDOUT_FILENO) && !connection_is_idle(&c);
    int result = on_terminal ? live(&c, &e) : once(&c, &e);
    connection_close(&c);
    return result < 0 ? cli_fail(&e) : 0;
}
