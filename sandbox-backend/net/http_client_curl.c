// SPDX-License-Identifier: Apache-2.0
// libcurl, loaded with the first request. Debian's libcurl brings about 30 more libraries with it.
// Loading them takes most of the time and memory of a program's start, and many processes end
// without a request. So the programs are not linked with libcurl. They are linked with these
// functions, which have curl's names and call the library.
#define CURL_DISABLE_TYPECHECK // here curl_easy_setopt and the like are functions, not macros
#include <curl/curl.h>
#include <dlfcn.h>
#include <stdarg.h>

#include "sandbox-backend/net/http_client_internal.h"

#undef curl_easy_setopt
#undef curl_easy_getinfo
#undef curl_multi_setopt

#define LIBRARY "libcurl.so.4" // of Debian's libcurl4

#define FUNCTIONS(X)       \
    X(global_init)         \
    X(easy_init)           \
    X(easy_setopt)         \
    X(easy_getinfo)        \
    X(easy_pause)          \
    X(easy_strerror)       \
    X(easy_cleanup)        \
    X(multi_init)          \
    X(multi_setopt)        \
    X(multi_assign)        \
    X(multi_add_handle)    \
    X(multi_remove_handle) \
    X(multi_socket_action) \
    X(multi_info_read)     \
    X(multi_strerror)      \
    X(multi_cleanup)       \
    X(slist_append)        \
    X(slist_free_all)

#define POINTER(name) __typeof__(curl_##name) *name;
static struct {
    bool loaded;
    FUNCTIONS(POINTER)
} lib;

#define FIND(name)                                   \
    if (!(lib.name = dlsym(library, "curl_" #name))) \
        return err_set(e, ERR_INTERNAL,              \
                       LIBRARY " has no curl_" #name "; install Debian's libcurl4");

int http_client_load(struct err *e)
{
    if (lib.loaded)
        return 0;
    void *library = dlopen(LIBRARY, RTLD_NOW | RTLD_LOCAL); // for the life of the process
    if (!library)
        return err_set(e, ERR_INTERNAL,
                       "cannot load the HTTP library: %s; install Debian's libcurl4", dlerror());
    FUNCTIONS(FIND)
    CURLcode code = lib.global_init(CURL_GLOBAL_DEFAULT);
    if (code != CURLE_OK)
        return err_set(e, ERR_INTERNAL, "the HTTP library does not start: %s",
                       lib.easy_strerror(code));
    lib.loaded = true;
    return 0;
}

CURL *curl_easy_init(void)
{
    return lib.easy_init();
}

// An option's number tells the type of its value (curl.h, CURLOPTTYPE).
CURLcode curl_easy_setopt(CURL *easy, CURLoption option, ...)
{
    va_list values;
    CURLcode code;
    va_start(values, option);
    if (option < CURLOPTTYPE_OBJECTPOINT)
        code = lib.easy_setopt(easy, option, va_arg(values, long));
    else if (option >= CURLOPTTYPE_OFF_T && option < CURLOPTTYPE_BLOB)
        code = lib.easy_setopt(easy, option, va_arg(values, curl_off_t));
    else
        code = lib.easy_setopt(easy, option, va_arg(values, void *));
    va_end(values);
    return code;
}

CURLcode curl_easy_getinfo(CURL *easy, CURLINFO info, ...)
{
    va_list into;
    va_start(into, info);
    CURLcode code = lib.easy_getinfo(easy, info, va_arg(into, void *));
    va_end(into);
    return code;
}

CURLcode curl_easy_pause(CURL *easy, int what)
{
    return lib.easy_pause(easy, what);
}

const char *curl_easy_strerror(CURLcode code)
{
    return lib.easy_strerror(code);
}

void curl_easy_cleanup(CURL *easy)
{
    lib.easy_cleanup(easy);
}

CURLM *curl_multi_init(void)
{
    return lib.multi_init();
}

CURLMcode curl_multi_setopt(CURLM *multi, CURLMoption option, ...)
{
    va_list values;
    CURLMcode code;
    va_start(values, option);
    if ((int)option < CURLOPTTYPE_OBJECTPOINT)
        code = lib.multi_setopt(multi, option, va_arg(values, long));
    else
        code = lib.multi_setopt(multi, option, va_arg(values, void *));
    va_end(values);
    return code;
}

CURLMcode curl_multi_assign(CURLM *multi, curl_socket_t fd, void *ctx)
{
    return lib.multi_assign(multi, fd, ctx);
}

CURLMcode curl_multi_add_handle(CURLM *multi, CURL *easy)
{
    return lib.multi_add_handle(multi, easy);
}

CURLMcode curl_multi_remove_handle(CURLM *multi, CURL *easy)
{
    return lib.multi_remove_handle(multi, easy);
}

CURLMcode curl_multi_socket_action(CURLM *multi, curl_socket_t fd, int events, int *running)
{
    return lib.multi_socket_action(multi, fd, events, running);
}

CURLMsg *curl_multi_info_read(CURLM *multi, int *left)
{
    return lib.multi_info_read(multi, left);
}

const char *curl_multi_strerror(CURLMcode code)
{
    return lib.multi_strerror(code);
}

CURLMcode curl_multi_cleanup(CURLM *multi)
{
    return lib.multi_cleanup(multi);
}

struct curl_slist *curl_slist_append(struct curl_slist *list, const char *text)
{
    return lib.slist_append(list, text);
}

void curl_slist_free_all(struct curl_slist *list)
{
    if (list) // NULL in a fetch that failed because there is no library
        lib.slist_free_all(list);
}
