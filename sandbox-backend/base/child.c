// SPDX-License-Identifier: Apache-2.0
// Start a child process that shares the parent's memory until it executes a program.
#include "sandbox-backend/base/child.h"

#include <errno.h>
#include <linux/sched.h>
#include <pthread.h>
#include <sched.h>
#include <signal.h>
#include <stdint.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <unistd.h>

#define STACK_BYTES (64 * 1024)

static pthread_once_t key_once = PTHREAD_ONCE_INIT;
static pthread_key_t stack_key;

static void unmap_stack(void *stack)
{
    munmap(stack, STACK_BYTES);
}

static void make_key(void)
{
    pthread_key_create(&stack_key, unmap_stack);
}

// A stack for each thread that starts children. The parent thread stands still while the child uses
// it, so one is enough, and keeping it saves two system calls each time. It ends with its thread.
static char *child_stack(void)
{
    pthread_once(&key_once, make_key);
    char *stack = pthread_getspecific(stack_key);
    if (stack)
        return stack;
    void *mapped = mmap(NULL, STACK_BYTES, PROT_READ | PROT_WRITE,
                        MAP_PRIVATE | MAP_ANONYMOUS | MAP_STACK, -1, 0);
    stack = mapped == MAP_FAILED ? NULL : mapped;
    pthread_setspecific(stack_key, stack);
    return stack;
}

// glibc has no clone3: the child must call a function on its new stack and never return here. Both
// versions return the pid, or a negative errno. In the child, the frame pointer is 0, which ends a
// debugger's stack trace there.
#if defined(__x86_64__)
static long clone3_call(struct clone_args *args, int (*function)(void *), void *argument)
{
    long rc = SYS_clone3;
    register int (*run)(void *) __asm__("r12") = function;
    register void *arg __asm__("r13") = argument;
    __asm__ volatile("syscall\n\t"
                     "test %%rax, %%rax\n\t"
                     "jnz 1f\n\t"
                     "xor %%ebp, %%ebp\n\t"
                     "mov %[arg], %%rdi\n\t"
                     "call *%[run]\n\t"
                     "mov %%eax, %%edi\n\t"
                     "mov %[exit], %%eax\n\t"
                     "syscall\n\t"
                     "hlt\n"
                     "1:"
                     : "+a"(rc)
                     : "D"(args),
                       "S"(sizeof *args), [run] "r"(run), [arg] "r"(arg), [exit] "i"(SYS_exit_group)
                     : "rcx", "r11", "memory", "cc");
    return rc;
}
#elif defined(__aarch64__)
static long clone3_call(struct clone_args *args, int (*function)(void *), void *argument)
{
    register long rc __asm__("x0") = (long)(intptr_t)args;
    register size_t size __asm__("x1") = sizeof *args;
    register long number __asm__("x8") = SYS_clone3;
    register int (*run)(void *) __asm__("x19") = function;
    register void *arg __asm__("x20") = argument;
    __asm__ volatile("svc #0\n\t"
                     "cbnz x0, 1f\n\t"
                     "mov x29, xzr\n\t"
                     "mov x0, %[arg]\n\t"
                     "blr %[run]\n\t"
                     "mov x8, %[exit]\n\t"
                     "svc #0\n\t"
                     "brk #0\n"
                     "1:"
                     : "+r"(rc)
                     : "r"(size),
                       "r"(number), [run] "r"(run), [arg] "r"(arg), [exit] "i"(SYS_exit_group)
                     : "memory", "cc");
    return rc;
}
#else
#error "clone3_call needs a version for this processor"
#endif

static pid_t clone_into_cgroup(int (*function)(void *), void *argument, char *stack,
                               const struct child_opts *opts)
{
    struct clone_args args = {
        .flags = CLONE_VM | CLONE_VFORK | CLONE_INTO_CGROUP | (uint64_t)opts->namespaces,
        .exit_signal = SIGCHLD,
        .stack = (uintptr_t)stack,
        .stack_size = STACK_BYTES,
        .cgroup = (uint64_t)opts->cgroup_fd,
    };
    long rc = clone3_call(&args, function, argument);
    if (rc < 0) {
        errno = (int)-rc;
        return -1;
    }
    return (pid_t)rc;
}

pid_t child_clone(int (*run)(void *arg), void *arg, const struct child_opts *opts, bool *in_cgroup)
{
    sigset_t all;
    sigset_t ours;
    pid_t pid = -1;
    char *stack = child_stack();
    if (in_cgroup)
        *in_cgroup = false;
    if (!stack)
        return -1;
    sigfillset(&all);
    sigprocmask(SIG_SETMASK, &all, &ours);
    if (opts->cgroup_fd >= 0) {
        pid = clone_into_cgroup(run, arg, stack, opts);
        if (in_cgroup)
            *in_cgroup = pid > 0;
    }
    if (opts->cgroup_fd < 0 || (pid < 0 && errno != EAGAIN && errno != ENOMEM))
        pid = clone(run, stack + STACK_BYTES, CLONE_VM | CLONE_VFORK | SIGCHLD | opts->namespaces,
                    arg);
    int sys = errno;
    sigprocmask(SIG_SETMASK, &ours, NULL);
    errno = sys;
    return pid;
}
