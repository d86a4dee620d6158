// SPDX-License-Identifier: Apache-2.0
// Allocation that aborts for small fixed sizes, and cleanup attributes for straight-line code.
#pragma once
#include <stddef.h>
#include <stdlib.h>

// Abort the program when memory is out; never return NULL. For sizes our own code decides.
void *xmalloc(size_t size);
void *xcalloc(size_t count, size_t size);
void *xrealloc(void *p, size_t size);
char *xstrdup(const char *s);              // new string
char *xstrndup(const char *s, size_t len); // new string, NUL added
void *xmemdup(const void *p, size_t size); // new memory

// For sizes that a peer decides: NULL when memory is out.
void *try_malloc(size_t size) __attribute__((warn_unused_result));
void *try_realloc(void *p, size_t size) __attribute__((warn_unused_result));

// After a peer's message of `bytes`, and what was made of it, has been freed: a large one's memory
// goes back to the system, which the allocator by itself does only when nothing lies behind it.
void mem_give_back(size_t bytes);

// `char *s auto_free = NULL;` frees at the end of the scope; steal(&s) hands it over instead.
void mem_free_ptr(void *pp);
void mem_close_fd(const int *fd);
#define auto_free  __attribute__((cleanup(mem_free_ptr)))
#define auto_close __attribute__((cleanup(mem_close_fd)))

// Takes the pointer (or descriptor) out of a variable and leaves NULL (or -1) in it.
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
