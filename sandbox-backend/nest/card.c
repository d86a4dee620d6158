// SPDX-License-Identifier: Apache-2.0
// The guest's network card. Its address and its name are those of a microVM's (guest/netif.h).
#include "sandbox-backend/nest/card.h"

#include <errno.h>
#include <fcntl.h>
#include <linux/if_tun.h>
#include <net/if.h>
#include <net/if_arp.h>
#include <sched.h>
#include <stdio.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/socket.h>
#include <unistd.h>

#include "sandbox-backend/base/fd.h"
#include "sandbox-backend/base/mem.h"
#include "sandbox-backend/guest/netif.h"

#define TUN "/dev/net/tun"

static const unsigned char MAC[] = {0x52, 0x54, 0x00, 0xc0, 0xbb, 0x01};

static int enter(struct err *e)
{
    return unshare(CLONE_NEWNET) < 0 ? err_sys(e, errno, "make a network namespace") : 0;
}

static int set_mac(struct err *e)
{
    struct ifreq r = {.ifr_name = NETIF_CARD};
    int fd auto_close = socket(AF_INET, SOCK_DGRAM | SOCK_CLOEXEC, 0);
    r.ifr_hwaddr.sa_family = ARPHRD_ETHER;
    memcpy(r.ifr_hwaddr.sa_data, MAC, sizeof MAC);
    if (fd < 0 || ioctl(fd, SIOCSIFHWADDR, &r) < 0)
        return err_sys(e, errno, "set the address of " NETIF_CARD);
    return 0;
}

// Allow what users do in other tiers: any port, and ping.
static void set_kernel(bool is_of_host)
{
    // The range has groups of the host where the namespace belongs to the host's root.
    const char *const settings[][2] = {
        {"/proc/sys/net/ipv4/ip_unprivileged_port_start", "0"},
        {"/proc/sys/net/ipv4/ping_group_range", is_of_host ? "0 2147483647" : "0 65535"},
    };
    for (size_t i = 0; i < ARRAY_LEN(settings); i++) {
        int fd auto_close = open(settings[i][0], O_WRONLY | O_CLOEXEC);
        if (fd < 0 || write(fd, settings[i][1], strlen(settings[i][1])) < 0)
            fprintf(stderr, "cubby-nest: %s: %s\n", settings[i][0], strerror(errno));
    }
}

int card_make(bool is_of_host, struct err *e)
{
    struct ifreq r = {.ifr_name = NETIF_CARD, .ifr_flags = IFF_TAP | IFF_NO_PI};
    if (enter(e) < 0)
        return -1;
    int fd auto_close = open(TUN, O_RDWR | O_CLOEXEC | O_NONBLOCK); // belongs to this namespace
    if (fd < 0)
        return err_sys(e, errno, "open " TUN);
    if (ioctl(fd, TUNSETIFF, &r) < 0)
        return err_sys(e, errno, "make a TAP device (this needs CAP_NET_ADMIN)");
    if (set_mac(e) < 0)
        return -1;
    netif_up();
    set_kernel(is_of_host);
    return steal_fd(&fd);
}

int card_make_none(bool is_of_host, struct err *e)
{
    struct ifreq r = {.ifr_name = "lo", .ifr_flags = IFF_UP | IFF_RUNNING};
    if (enter(e) < 0)
        return -1;
    int fd auto_close = socket(AF_INET, SOCK_DGRAM | SOCK_CLOEXEC, 0);
    if (fd < 0 || ioctl(fd, SIOCSIFFLAGS, &r) < 0)
        return err_sys(e, errno, "bring the loopback up");
    set_kernel(is_of_host);
    return 0;
}
