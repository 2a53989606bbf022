/* Preloaded into a program: while the file $FULL_DISK exists, files whose path contains what it says do not grow.

   As on a full disk, what is there already can be overwritten and read. */

#define _GNU_SOURCE
#include <dlfcn.h>
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/uio.h>
#include <unistd.h>

static int lies_on_full_disk(int file)
{
    const char *flag = getenv("FULL_DISK");
    char part[64], link[32], path[PATH_MAX];
    ssize_t length;
    int opened;

    if (flag == NULL || (opened = open(flag, O_RDONLY | O_CLOEXEC)) < 0)
        return 0;
    length = syscall(SYS_read, opened, part, sizeof part - 1);
    close(opened);
    if (length <= 0)
        return 0;
    part[length] = '\0';
    snprintf(link, sizeof link, "/proc/self/fd/%d", file);
    length = readlink(link, path, sizeof path - 1);
    if (length <= 0)
        return 0;
    path[length] = '\0';
    return strstr(path, part) != NULL;
}

static int has_no_room(int file, off_t end)
{
    int before = errno;
    struct stat now;
    int full = fstat(file, &now) == 0 && S_ISREG(now.st_mode) && end > now.st_size && lies_on_full_disk(file);

    errno = full ? ENOSPC : before;
    return full;
}

static off_t size_of(const struct iovec *parts, int count)
{
    off_t size = 0;

    for (int i = 0; i < count; i++)
        size += (off_t) parts[i].iov_len;
    return size;
}

#define NEXT(name) ((__typeof__(&name)) dlsym(RTLD_NEXT, #name))

ssize_t write(int file, const void *bytes, size_t size)
{
    return has_no_room(file, lseek(file, 0, SEEK_CUR) + (off_t) size) ? -1 : NEXT(write)(file, bytes, size);
}

ssize_t pwrite(int file, const void *bytes, size_t size, off_t at)
{
    return has_no_room(file, at + (off_t) size) ? -1 : NEXT(pwrite)(file, bytes, size, at);
}

ssize_t pwrite64(int file, const void *bytes, size_t size, off_t at)
{
    return has_no_room(file, at + (off_t) size) ? -1 : NEXT(pwrite64)(file, bytes, size, at);
}

ssize_t pwritev(int file, const struct iovec *parts, int count, off_t at)
{
    return has_no_room(file, at + size_of(parts, count)) ? -1 : NEXT(pwritev)(file, parts, count, at);
}

ssize_t pwritev64(int file, const struct iovec *parts, int count, off_t at)
{
    return has_no_room(file, at + size_of(parts, count)) ? -1 : NEXT(pwritev64)(file, parts, count, at);
}

int posix_fallocate(int file, off_t at, off_t size)
{
    return has_no_room(file, at + size) ? ENOSPC : NEXT(posix_fallocate)(file, at, size);
}

int posix_fallocate64(int file, off_t at, off_t size)
{
    return has_no_room(file, at + size) ? ENOSPC : NEXT(posix_fallocate64)(file, at, size);
}
