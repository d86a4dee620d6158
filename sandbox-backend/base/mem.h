// SPDX-License-Identifier: Apache-2.0
// Allocation, and cleanup attributes for straight-line code.
#pragma once
#include <stddef.h>
#include <stdlib.h>

// Abort when out of memory; never return NULL. For sizes that Cubby's code decides.
void *xmalloc(size_t size);
void *xcalloc(size_t count, size_t size);
void *xrealloc(void *p, size_t size);
char *xstrdup(const char *s);              // new string
char *xstrndup(const char *s, size_t len); // new string, NUL added
void *xmemdup(const void *p, size_t size); // new memory

// For sizes that a peer decides: NULL when out of memory.
void *try_malloc(size_t size) __attribute__((warn_unused_result));
void *try_realloc(void *p, size_t size) __attribute__((warn_unused_result));

// Return memory to the system after a peer's large message of `bytes`, and everything made of it,
// has been freed. By itself the allocator does so only for the end of its heap.
void mem_give_back(size_t bytes);

// `char *s auto_free = NULL;` frees at the end of the scope; steal(&s) hands it over instead.
void mem_free_ptr(void *pp);
void mem_close_fd(const int *fd);
#define auto_free  __attribute__((cleanup(mem_free_ptr)))
#define auto_close __attribute__((cleanup(mem_close_fd)))

// Take the pointer (or descriptor) out of a variable, and leave NULL (or -1) in it.
#define steal(pp)                          \
    ({                                     \
        __typeof__(*(pp)) stolen_ = *(pp); \
        *(pp) = NULL;                      \
        stolen_;                           \
    })
int steal_fd(int *fd);

#define container_of(ptr, type, member) \
    ((type *)((char *)(1 ? (ptr) : &((type *)0)->member) - offsetof(type, member)))

#define ARRAY_LEN(a) (sizeof(a) / sizeof((a)[0]))
