// SPDX-License-Identifier: Apache-2.0
// Makes the initramfs of a guest whose programs are for another processor than this host's:
//
//     initramfs-pack INIT ENVD MODULES OUT
#include <stdio.h>

#include "sandbox-backend/template/initramfs.h"

int main(int argc, char **argv)
{
    struct err e = ERR_INIT;
    if (argc != 5) {
        fprintf(stderr, "usage: %s INIT ENVD MODULES OUT\n", argv[0]);
        return 2;
    }
    const struct initramfs_spec spec = {
        .init = argv[1], .envd = argv[2], .modules_dir = argv[3], .out = argv[4]};
    if (initramfs_build(&spec, NULL, &e) == 0)
        return 0;
    fprintf(stderr, "%s: %s\n", argv[0], e.msg);
    return 1;
}
