// SPDX-License-Identifier: Apache-2.0
// The guest's network: the loopback and one card with a fixed address.
#include "sandbox-backend/guest/netif.h"

#include <arpa/inet.h>
#include <errno.h>
#include <net/if.h>
#include <net/route.h>
#include <stdio.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/socket.h>
#include <unistd.h>

#include "sandbox-backend/guest/step.h"

static void set_address(struct sockaddr *to, const char *text)
{
    struct sockaddr_in in = {.sin_family = AF_INET};
    inet_pton(AF_INET, text, &in.sin_addr);
    memcpy(to, &in, sizeof(in));
}

static int set_up(int fd, const char *name)
{
    struct ifreq r = {0};
    snprintf(r.ifr_name, sizeof(r.ifr_name), "%s", name);
    if (ioctl(fd, SIOCGIFFLAGS, &r) < 0)
        return -1;
    r.ifr_flags = (short)(r.ifr_flags | IFF_UP);
    return ioctl(fd, SIOCSIFFLAGS, &r);
}

static int set_card(int fd)
{
    struct ifreq r = {0};
    snprintf(r.ifr_name, sizeof(r.ifr_name), NETIF_CARD);
    // The wire is a socket: larger frames need less work for each byte (2 to 3 times less here).
    r.ifr_mtu = NETIF_MTU;
    if (ioctl(fd, SIOCSIFMTU, &r) < 0)
        return -1;
    set_address(&r.ifr_addr, NETIF_ADDRESS);
    if (ioctl(fd, SIOCSIFADDR, &r) < 0)
        return -1;
    set_address(&r.ifr_netmask, NETIF_MASK);
    if (ioctl(fd, SIOCSIFNETMASK, &r) < 0 || set_up(fd, NETIF_CARD) < 0)
        return -1;
    struct rtentry route = {.rt_flags = RTF_UP | RTF_GATEWAY};
    set_address(&route.rt_dst, "0.0.0.0");
    set_address(&route.rt_genmask, "0.0.0.0");
    set_address(&route.rt_gateway, NETIF_GATEWAY);
    return ioctl(fd, SIOCADDRT, &route);
}

void netif_up(void)
{
    // Before an interface comes up, so that none gets a link-local address: netd carries IPv4 only.
    step_write("/proc/sys/net/ipv6/conf/all/disable_ipv6", "1");
    step_write("/proc/sys/net/ipv6/conf/default/disable_ipv6", "1");
    // The loopback has ::1 all the same, since programs bind it.
    step_write("/proc/sys/net/ipv6/conf/lo/disable_ipv6", "0");
    int fd = socket(AF_INET, SOCK_DGRAM | SOCK_CLOEXEC, 0);
    if (fd < 0 || set_up(fd, "lo") < 0)
        step_say("lo: %s", strerror(errno));
    if (fd < 0 || set_card(fd) < 0)
        step_say(NETIF_CARD ": %s", strerror(errno));
    if (fd >= 0)
        close(fd);
}
