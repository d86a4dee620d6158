// SPDX-License-Identifier: Apache-2.0
// The entries that a step copies, as a tar (libarchive). The guest unpacks it as root, so the tar
// has no owners. Archives that ADD unpacks become directories of the tar.
#include <archive.h>
#include <archive_entry.h>
#include <errno.h>
#include <fcntl.h>
#include <string.h>
#include <unistd.h>

#include "sandbox-backend/base/mem.h"
#include "sandbox-backend/base/str.h"
#include "sandbox-backend/build/build_context_internal.h"

#define BLOCK_BYTES 65536
#define MODE_BITS   07777

struct packing {
    struct build_context *context;
    struct archive *out;
    struct err *e;
};

static struct archive *open_reader(int fd)
{
    struct archive *in = archive_read_new();
    archive_read_support_filter_gzip(in);
    archive_read_support_filter_bzip2(in);
    archive_read_support_filter_xz(in);
    archive_read_support_filter_zstd(in);
    archive_read_support_format_tar(in);
    if (lseek(fd, 0, SEEK_SET) == 0 && archive_read_open_fd(in, fd, BLOCK_BYTES) == ARCHIVE_OK)
        return in;
    archive_read_free(in);
    return NULL;
}

bool build_context__is_archive(int fd)
{
    struct archive_entry *entry = NULL;
    struct archive *in = open_reader(fd);
    int status = in ? archive_read_next_header(in, &entry) : ARCHIVE_FATAL;
    if (in)
        archive_read_free(in);
    return status == ARCHIVE_OK || status == ARCHIVE_WARN;
}

static int fail_archive(const struct packing *p, struct archive *a, const char *what)
{
    const char *why = archive_error_string(a);
    int sys = archive_errno(a);
    return err_set(p->e, sys == ENOSPC ? ERR_NO_SPACE : ERR_INTERNAL, "%.200s: %s", what,
                   why ? why : "an unknown error");
}

static int write_header(const struct packing *p, struct archive_entry *entry)
{
    int status = archive_write_header(p->out, entry);
    return status == ARCHIVE_OK || status == ARCHIVE_WARN
               ? 0
               : fail_archive(p, p->out, archive_entry_pathname(entry));
}

static int changed(const struct packing *p, const char *path)
{
    return err_set(p->e, ERR_CONFLICT, "%.200s changed during the build; build again", path);
}

// ---- one file
static int write_file(const struct packing *p, const struct build_context_entry *from)
{
    char block[BLOCK_BYTES];
    int fd auto_close = build_context__open(p->context, from->path, O_RDONLY | O_NONBLOCK);
    if (fd < 0)
        return changed(p, from->path);
    int64_t left = from->st.st_size;
    for (ssize_t n; (n = read(fd, block, sizeof block)) != 0; left -= n) {
        if (n < 0)
            return err_sys(p->e, errno, "read %s", from->path);
        if (n > left)
            return changed(p, from->path);
        if (archive_write_data(p->out, block, (size_t)n) != n)
            return fail_archive(p, p->out, from->path);
    }
    return left ? changed(p, from->path) : 0;
}

static int write_content(const struct packing *p, const struct build_context_entry *from)
{
    if (from->text && archive_write_data(p->out, from->text, strlen(from->text)) < 0)
        return fail_archive(p, p->out, from->path);
    return from->text || !S_ISREG(from->st.st_mode) ? 0 : write_file(p, from);
}

static int write_entry(const struct packing *p, const struct build_context_entry *from)
{
    struct archive_entry *entry = archive_entry_new();
    archive_entry_set_pathname(entry, from->path);
    archive_entry_set_filetype(entry, from->st.st_mode & S_IFMT);
    archive_entry_set_perm(entry, from->st.st_mode & MODE_BITS);
    archive_entry_set_mtime(entry, from->st.st_mtim.tv_sec, 0);
    if (from->target)
        archive_entry_set_symlink(entry, from->target);
    archive_entry_set_size(entry, S_ISREG(from->st.st_mode) ? from->st.st_size : 0);
    int result = write_header(p, entry);
    archive_entry_free(entry);
    return result < 0 ? -1 : write_content(p, from);
}

// ---- an archive that ADD unpacks
static bool leads_out(const char *path)
{
    for (const char *s = path; s && *s; s = strchr(s, '/'), s = s ? s + 1 : NULL)
        if (strncmp(s, "..", 2) == 0 && (s[2] == '/' || !s[2]))
            return true;
    return false;
}

static int move_below(const struct packing *p, const char *top, struct archive_entry *entry)
{
    const char *path = archive_entry_pathname(entry), *hard = archive_entry_hardlink(entry);
    if (!path || leads_out(path) || (hard && leads_out(hard)))
        return err_set(p->e, ERR_INVALID, "%.200s has an entry that leads out of it", top);
    char *moved auto_free = str_printf("%s/%s", top, path + strspn(path, "/"));
    char *link auto_free = hard ? str_printf("%s/%s", top, hard + strspn(hard, "/")) : NULL;
    archive_entry_copy_pathname(entry, moved);
    if (link)
        archive_entry_copy_hardlink(entry, link);
    archive_entry_set_uid(entry, 0);
    archive_entry_set_gid(entry, 0);
    archive_entry_copy_uname(entry, "");
    archive_entry_copy_gname(entry, "");
    return write_header(p, entry);
}

static int copy_data(const struct packing *p, struct archive *in, const char *top)
{
    char block[BLOCK_BYTES];
    for (la_ssize_t n; (n = archive_read_data(in, block, sizeof block)) != 0;) {
        if (n < 0)
            return fail_archive(p, in, top);
        if (archive_write_data(p->out, block, (size_t)n) != n)
            return fail_archive(p, p->out, top);
    }
    return 0;
}

static int write_unpacked(const struct packing *p, const struct build_context_entry *from)
{
    struct build_context_entry dir = {.path = from->path, .st = {.st_mode = S_IFDIR | 0755}};
    int fd auto_close = build_context__open(p->context, from->path, O_RDONLY | O_NONBLOCK);
    struct archive *in = fd < 0 ? NULL : open_reader(fd);
    struct archive_entry *entry = NULL;
    int status = ARCHIVE_FATAL, result = in ? write_entry(p, &dir) : changed(p, from->path);
    while (result == 0 && ((status = archive_read_next_header(in, &entry)) == ARCHIVE_OK ||
                           status == ARCHIVE_WARN)) {
        mode_t type = archive_entry_filetype(entry);
        if (type == S_IFCHR || type == S_IFBLK)
            continue;
        result = move_below(p, from->path, entry);
        if (result == 0)
            result = copy_data(p, in, from->path);
    }
    if (result == 0 && status != ARCHIVE_EOF)
        result = fail_archive(p, in, from->path);
    if (in)
        archive_read_free(in);
    return result;
}

int build_context_pack(struct build_context *c, const json_t *step, const struct selection *s,
                       int fd, struct err *e)
{
    struct packing p = {.context = c, .out = archive_write_new(), .e = e};
    int result = 0;
    archive_write_set_format_gnutar(p.out);
    if (archive_write_open_fd(p.out, fd) != ARCHIVE_OK)
        result = fail_archive(&p, p.out, "the archive of the context");
    for (size_t i = 0; result == 0 && i < s->count; i++)
        result = s->entries[i].unpack ? write_unpacked(&p, &s->entries[i])
                                      : write_entry(&p, &s->entries[i]);
    if (result == 0 && archive_write_close(p.out) != ARCHIVE_OK)
        result = fail_archive(&p, p.out, "the archive of the context");
    archive_write_free(p.out);
    // The key of the layer is the hash of what was selected, so the archive must hold just that.
    struct selection again;
    if (result < 0 || build_context_select(c, step, &again, e) < 0)
        return -1;
    result = strcmp(again.hash, s->hash) == 0 ? 0 : changed(&p, c->path);
    selection_fini(&again);
    return result;
}
