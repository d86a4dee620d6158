// SPDX-License-Identifier: Apache-2.0
// Memory through which a large file passes the page cache by (O_DIRECT).
//
// In an emulated guest a page of the cache costs several times what moving its bytes does: 100 MB
// written through it took 1.5 s of processor time, and 0.6 s beside it. Small files go through it,
// being likely to be used at once. What such I/O asks for: memory, offset and length in whole
// blocks of the disk. What it promises: a read sees what was written before it, either way, because
// the kernel writes back and drops the cached pages of its range first. It makes nothing durable:
// as before, that takes an fsync, which no upload does.
#pragma once
#include <stdbool.h>

// A power of two, and the longer the cheaper: 64 KB at a time take twice as long.
#define DIRECT_BLOCK_BYTES (1024 * 1024)
#define DIRECT_BLOCK_ALIGN 4096 // at least a block of any disk
#define DIRECT_BLOCKS      4    // at once; who gets none uses the page cache

char *direct_block_take(void);       // of DIRECT_BLOCK_BYTES; NULL: none is free
void direct_block_give(char *block); // NULL is fine

// Whether reads and writes of `fd` pass the cache by. False: its file system cannot (tmpfs).
bool direct_block_switch(int fd, bool is_direct);
