/* Counts what a process does to files below one folder, and lets the k-th such call go wrong.

   Loaded by LD_PRELOAD.  FAULTS_FOLDER names the folder; FAULTS_STATE a file of six 64-bit numbers
   that all processes of a run share (struct state); FAULTS_LOG a file that gets every call with its
   bytes, so that the disk after a loss of power can be built from it.

   Counted: open for writing, write, fsync, ftruncate, rename, link, unlink, mkdir, rmdir, chmod.
   Not seen: bytes that a process writes through mmap (of SQLite only the -shm file, which is made
   anew from the log), and what glibc itself writes for C streams (Python and SQLite use none). */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <signal.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/types.h>
#include <sys/uio.h>
#include <unistd.h>

enum { NOTHING, ONCE, FULL, READ_ONLY, KILL, TORN };
struct state { long count, at, how, error, hits, reserved; };

static struct state nowhere, *state = &nowhere;
static char folder[PATH_MAX];
static size_t length;
static int journal = -1;

__attribute__((constructor)) static void begin(void) {
    const char *place = getenv("FAULTS_STATE"), *below = getenv("FAULTS_FOLDER");
    const char *name = getenv("FAULTS_LOG");
    if (!place || !below || !name) return;
    int handle = syscall(SYS_openat, AT_FDCWD, place, O_RDWR | O_CLOEXEC);
    if (handle < 0) return;
    void *found = mmap(NULL, sizeof nowhere, PROT_READ | PROT_WRITE, MAP_SHARED, handle, 0);
    syscall(SYS_close, handle);
    if (found == MAP_FAILED) return;
    state = found;
    int low = syscall(SYS_openat, AT_FDCWD, name, O_WRONLY | O_APPEND | O_CLOEXEC);
    journal = fcntl(low, F_DUPFD_CLOEXEC, 700);
    syscall(SYS_close, low);
    strncpy(folder, below, sizeof folder - 1);
    length = strlen(folder);
}

static int below(const char *path) {
    return length && !strncmp(path, folder, length) && (path[length] == '/' || !path[length]);
}

/* The full path of what a handle is of; 0 where that is not below the folder. */
static int of_handle(int handle, char *path) {
    char link[64];
    if (!length) return 0;
    snprintf(link, sizeof link, "/proc/self/fd/%d", handle);
    ssize_t size = syscall(SYS_readlinkat, AT_FDCWD, link, path, PATH_MAX - 1);
    if (size <= 0) return 0;
    path[size] = 0;
    return below(path);
}

static int of_name(int at, const char *name, char *path) {
    char start[PATH_MAX] = "";
    if (!length || !name) return 0;
    if (!strncmp(name, "/proc/self/fd/", 14)) return of_handle(atoi(name + 14), path);
    if (name[0] == '/') {
        snprintf(path, PATH_MAX, "%s", name);
        return below(path);
    }
    if (at == AT_FDCWD) {
        if (syscall(SYS_getcwd, start, sizeof start) < 0) return 0;
    } else of_handle(at, start);
    if (snprintf(path, PATH_MAX, "%s/%s", start, name) >= PATH_MAX) return 0;
    return below(path);
}

static void note(const char *call, const char *path, const char *other, long offset,
                 const void *bytes, size_t size) {
    char head[3 * PATH_MAX];
    if (journal < 0) return;
    int used = snprintf(head, sizeof head, "%s\t%s\t%s\t%ld\t%zu\n", call, path, other, offset,
                        bytes ? size : 0);
    struct iovec parts[2] = {{head, used}, {(void *)bytes, bytes ? size : 0}};
    syscall(SYS_writev, journal, parts, bytes && size ? 2 : 1);
}

/* Whether this call goes on: 0, or the error that it ends with, or -1: half of it, then the end.
   `grows`: whether it needs room on the disk. */
static int fate(const char *call, int grows) {
    long number = __atomic_add_fetch(&state->count, 1, __ATOMIC_SEQ_CST);
    long how = state->how;
    if (how == NOTHING || number < state->at) return 0;
    if (how == ONCE && number > state->at) return 0;
    if (how == FULL && !grows) return 0;
    long hits = __atomic_add_fetch(&state->hits, 1, __ATOMIC_SEQ_CST);
    if (how == KILL || (how == TORN && strcmp(call, "write"))) {
        kill(0, SIGKILL); /* the command, and all that it started */
        _exit(137);
    }
    if (how == TORN || (how == FULL && hits == 1 && !strcmp(call, "write"))) return -1;
    return state->error;
}

#define REAL(name) ((__typeof__(&name))dlsym(RTLD_NEXT, #name))
#define FAILS(call, grows) \
    do { \
        int said = fate(call, grows); \
        if (said) { note("failed " call, path, "", 0, NULL, 0); errno = said; return -1; } \
    } while (0)

/* --- opening ---------------------------------------------------------------------------------- */

static int opening(int at, const char *name, int flags, mode_t mode) {
    char path[PATH_MAX];
    int changes = (flags & O_ACCMODE) != O_RDONLY || flags & (O_CREAT | O_TRUNC);
    int counted = changes && of_name(at, name, path);
    int made = 0;
    if (counted) {
        struct stat found;
        made = flags & O_CREAT && syscall(SYS_newfstatat, at, name, &found, 0) < 0;
        FAILS("open", made);
    }
    int handle = syscall(SYS_openat, at, name, flags, mode);
    if (counted && handle >= 0)
        note(made ? "create" : flags & O_TRUNC ? "empty" : "open", path, "", 0, NULL, 0);
    return handle;
}

#define OPENS(name) \
    int name(const char *path, int flags, ...) { \
        va_list rest; va_start(rest, flags); mode_t mode = va_arg(rest, mode_t); va_end(rest); \
        return opening(AT_FDCWD, path, flags, mode); \
    }
#define OPENS_AT(name) \
    int name(int at, const char *path, int flags, ...) { \
        va_list rest; va_start(rest, flags); mode_t mode = va_arg(rest, mode_t); va_end(rest); \
        return opening(at, path, flags, mode); \
    }
OPENS(open)
OPENS(open64)
OPENS_AT(openat)
OPENS_AT(openat64)
int creat(const char *name, mode_t mode) {
    return opening(AT_FDCWD, name, O_CREAT | O_WRONLY | O_TRUNC, mode);
}

/* --- writing ---------------------------------------------------------------------------------- */

/* `offset` below 0: at the handle's own place. */
static ssize_t writing(int handle, const void *bytes, size_t size, long offset) {
    char path[PATH_MAX];
    int counted = of_handle(handle, path), said = counted ? fate("write", 1) : 0;
    size_t whole = size;
    if (said > 0) {
        note("failed write", path, "", 0, NULL, 0);
        errno = said;
        return -1;
    }
    if (said < 0) size /= 2;
    ssize_t done = offset < 0 ? syscall(SYS_write, handle, bytes, size)
                              : syscall(SYS_pwrite64, handle, bytes, size, offset);
    if (counted && done >= 0) {
        if (offset < 0) offset = syscall(SYS_lseek, handle, 0, SEEK_CUR) - done;
        note(size < whole ? "half write" : "write", path, "", offset, bytes, done);
    }
    if (said < 0 && state->how == TORN) {
        kill(0, SIGKILL);
        _exit(137);
    }
    if (said < 0 && done == 0) {
        errno = state->error;
        return -1;
    }
    return done;
}

ssize_t write(int handle, const void *bytes, size_t size) {
    return writing(handle, bytes, size, -1);
}
ssize_t pwrite(int handle, const void *bytes, size_t size, off_t offset) {
    return writing(handle, bytes, size, offset);
}
ssize_t pwrite64(int handle, const void *bytes, size_t size, off64_t offset) {
    return writing(handle, bytes, size, offset);
}
ssize_t writev(int handle, const struct iovec *parts, int count) {
    char path[PATH_MAX];
    if (!of_handle(handle, path)) return syscall(SYS_writev, handle, parts, count);
    ssize_t total = 0;
    for (int i = 0; i < count; i++) {
        ssize_t done = writing(handle, parts[i].iov_base, parts[i].iov_len, -1);
        if (done < 0) return total ? total : done;
        total += done;
        if ((size_t)done < parts[i].iov_len) break;
    }
    return total;
}

#define OF_HANDLE(name, call, grows, number, declared, extra, offset) \
    int name declared { \
        char path[PATH_MAX]; \
        int counted = of_handle(handle, path); \
        if (counted) FAILS(call, grows); \
        int done = syscall extra; \
        if (counted && !done) note(call, path, "", offset, NULL, 0); \
        return done; \
    }
OF_HANDLE(fsync, "fsync", 1, 0, (int handle), (SYS_fsync, handle), 0)
OF_HANDLE(fdatasync, "fsync", 1, 0, (int handle), (SYS_fdatasync, handle), 0)
OF_HANDLE(ftruncate, "ftruncate", 0, 0, (int handle, off_t size), (SYS_ftruncate, handle, size), size)
OF_HANDLE(ftruncate64, "ftruncate", 0, 0, (int handle, off64_t size),
          (SYS_ftruncate, handle, size), size)
OF_HANDLE(fchmod, "chmod", 0, 0, (int handle, mode_t mode), (SYS_fchmod, handle, mode), 0)

/* --- names ------------------------------------------------------------------------------------ */

static int moving(const char *call, int from, const char *old, int to, const char *new, long how,
                  int flags) {
    char path[PATH_MAX], other[PATH_MAX];
    int a = of_name(from, old, path), b = of_name(to, new, other), counted = a || b;
    int links = how == SYS_linkat;
    if (counted) {
        int said = fate(call, 1);
        if (said) { note("failed rename", path, other, 0, NULL, 0); errno = said; return -1; }
    }
    int done = syscall(how, from, old, to, new, flags);
    if (counted && !done) note(links ? "link" : "rename", path, other, 0, NULL, 0);
    return done;
}
int rename(const char *old, const char *new) {
    return moving("rename", AT_FDCWD, old, AT_FDCWD, new, SYS_renameat2, 0);
}
int renameat(int from, const char *old, int to, const char *new) {
    return moving("rename", from, old, to, new, SYS_renameat2, 0);
}
int renameat2(int from, const char *old, int to, const char *new, unsigned int flags) {
    return moving("rename", from, old, to, new, SYS_renameat2, flags);
}
int link(const char *old, const char *new) {
    return moving("link", AT_FDCWD, old, AT_FDCWD, new, SYS_linkat, 0);
}
int linkat(int from, const char *old, int to, const char *new, int flags) {
    return moving("link", from, old, to, new, SYS_linkat, flags);
}

static int named(const char *call, int grows, int at, const char *name, long how, long extra) {
    char path[PATH_MAX];
    int counted = of_name(at, name, path);
    if (counted) {
        struct stat found;
        /* mkdir of what is there changes nothing. */
        if (how == SYS_mkdirat && syscall(SYS_newfstatat, at, name, &found, 0) == 0) counted = 0;
    }
    if (counted) {
        int said = fate(call, grows);
        if (said) { note("failed", path, call, 0, NULL, 0); errno = said; return -1; }
    }
    int done = syscall(how, at, name, extra, 0);
    if (counted && !done) note(call, path, "", 0, NULL, 0);
    return done;
}
int unlink(const char *name) { return named("unlink", 0, AT_FDCWD, name, SYS_unlinkat, 0); }
int unlinkat(int at, const char *name, int flags) {
    return named(flags & AT_REMOVEDIR ? "rmdir" : "unlink", 0, at, name, SYS_unlinkat, flags);
}
int rmdir(const char *name) {
    return named("rmdir", 0, AT_FDCWD, name, SYS_unlinkat, AT_REMOVEDIR);
}
int mkdir(const char *name, mode_t mode) {
    return named("mkdir", 1, AT_FDCWD, name, SYS_mkdirat, mode);
}
int mkdirat(int at, const char *name, mode_t mode) {
    return named("mkdir", 1, at, name, SYS_mkdirat, mode);
}
int chmod(const char *name, mode_t mode) {
    return named("chmod", 0, AT_FDCWD, name, SYS_fchmodat, mode);
}
