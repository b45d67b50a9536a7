// Makes the system calls of a program and of all that it starts fail, as a full disk or a wrong clock would.
// Preloaded by benchmarks/faults.py:
//   FAULTS_ROOT     what lies in a folder of this one is on the disk that fills up; other files are as ever
//   FAULTS_COUNTER  a file of two numbers: how often something was written there, by any of the programs, and how often
//                   a call failed, or told a wrong time
//   FAULTS_FULL     the number of the write from which on the disk is full
//   FAULTS_FILE     a pattern of names below the root: only writes to these files are counted; then all fail
//   FAULTS_LOG      a file that gets the name of each file that is written, a line a write
//   FAULTS_READONLY a folder on a file system that may not be written to
//   FAULTS_CLOCK    `back`: the clock runs backwards; `jump`: it is a day ahead every other second
#define _GNU_SOURCE
#include <dlfcn.h>
#include <errno.h>
#include <fcntl.h>
#include <fnmatch.h>
#include <limits.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/time.h>
#include <sys/uio.h>
#include <time.h>
#include <unistd.h>

#define REAL(name) ((__typeof__(&name))dlsym(RTLD_NEXT, #name))

static const char *root, *readonly, *wrong_clock, *file, *written;
static long long full = LLONG_MAX, *counter;

__attribute__((constructor)) static void begin(void) {
  root = getenv("FAULTS_ROOT");
  readonly = getenv("FAULTS_READONLY");
  wrong_clock = getenv("FAULTS_CLOCK");
  file = getenv("FAULTS_FILE");
  written = getenv("FAULTS_LOG");
  if (getenv("FAULTS_FULL")) full = atoll(getenv("FAULTS_FULL"));
  const char *path = getenv("FAULTS_COUNTER");
  int fd = path ? REAL(open)(path, O_RDWR | O_CLOEXEC) : -1;
  if (fd < 0) return;
  void *at = mmap(0, 2 * sizeof *counter, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
  if (at != MAP_FAILED) counter = at;
  close(fd);
}

static int struck(int error) {
  if (counter) __atomic_add_fetch(counter + 1, 1, __ATOMIC_RELAXED);
  errno = error;
  return 1;
}

static int below(const char *path, const char *folder) {
  size_t length = folder ? strlen(folder) : 0;
  return length && !strncmp(path, folder, length) && path[length] == '/';
}

// Whether the disk has no room for what is written to this path now.
static int no_room(const char *path) {
  if (!counter || !below(path, root)) return 0;
  const char *name = path + strlen(root) + 1;
  if (!strchr(name, '/')) return 0;
  int fd = written ? REAL(open)(written, O_WRONLY | O_APPEND | O_CLOEXEC) : -1;
  if (fd >= 0) dprintf(fd, "%s\n", name);  // into the log, which no write is counted of
  if (fd >= 0) close(fd);
  int counts = !file || !fnmatch(file, name, 0);
  if (__atomic_add_fetch(counter, counts, __ATOMIC_RELAXED) < full) return 0;
  return struck(ENOSPC);
}

static int refused_fd(int fd) {
  char link[64], path[PATH_MAX];
  struct stat status;
  if (!counter || fstat(fd, &status) || !S_ISREG(status.st_mode)) return 0;
  snprintf(link, sizeof link, "/proc/self/fd/%d", fd);
  ssize_t length = readlink(link, path, sizeof path - 1);
  if (length < 0) return 0;
  path[length] = 0;
  return no_room(path);
}

static int refused_path(int folder, const char *path) {
  char whole[PATH_MAX], link[64];
  if (!path) return 0;
  if (path[0] != '/') {
    snprintf(link, sizeof link, "/proc/self/fd/%d", folder);
    ssize_t length = folder == AT_FDCWD ? (getcwd(whole, sizeof whole) ? (ssize_t)strlen(whole) : -1)
                                        : readlink(link, whole, sizeof whole);
    if (length < 0 || length + strlen(path) + 2 > sizeof whole) return 0;
    whole[length] = '/';
    strcpy(whole + length + 1, path);
    path = whole;
  }
  return below(path, readonly) ? struck(EROFS) : no_room(path);
}

#define WRITES(result, name, parameters, arguments) \
  result name parameters { return refused_fd(fd) ? -1 : REAL(name) arguments; }
WRITES(ssize_t, write, (int fd, const void *data, size_t size), (fd, data, size))
WRITES(ssize_t, pwrite, (int fd, const void *data, size_t size, off_t at), (fd, data, size, at))
WRITES(ssize_t, pwrite64, (int fd, const void *data, size_t size, off64_t at), (fd, data, size, at))
WRITES(ssize_t, writev, (int fd, const struct iovec *parts, int count), (fd, parts, count))
WRITES(int, fsync, (int fd), (fd))
WRITES(int, fdatasync, (int fd), (fd))

static int enlarges(int fd, off64_t size) {
  struct stat status;
  return !fstat(fd, &status) && size > status.st_size && refused_fd(fd);
}
int ftruncate(int fd, off_t size) { return enlarges(fd, size) ? -1 : REAL(ftruncate)(fd, size); }
int ftruncate64(int fd, off64_t size) { return enlarges(fd, size) ? -1 : REAL(ftruncate64)(fd, size); }
int posix_fallocate(int fd, off_t at, off_t size) {
  return enlarges(fd, at + size) ? ENOSPC : REAL(posix_fallocate)(fd, at, size);
}
int posix_fallocate64(int fd, off64_t at, off64_t size) {
  return enlarges(fd, at + size) ? ENOSPC : REAL(posix_fallocate64)(fd, at, size);
}

// An existing file is opened for writing also on a full disk.
#define OPENS(name, head, folder, arguments)                               \
  int name head {                                                          \
    va_list rest;                                                          \
    va_start(rest, flags);                                                 \
    mode_t mode = flags & (O_CREAT | O_TMPFILE) ? va_arg(rest, mode_t) : 0; \
    va_end(rest);                                                          \
    if (flags & O_CREAT ? refused_path(folder, path)                       \
                        : (flags & (O_WRONLY | O_RDWR)) && readonly && refused_path(folder, path)) \
      return -1;                                                           \
    return REAL(name) arguments;                                           \
  }
OPENS(open, (const char *path, int flags, ...), AT_FDCWD, (path, flags, mode))
OPENS(open64, (const char *path, int flags, ...), AT_FDCWD, (path, flags, mode))
OPENS(openat, (int folder, const char *path, int flags, ...), folder, (folder, path, flags, mode))
OPENS(openat64, (int folder, const char *path, int flags, ...), folder, (folder, path, flags, mode))

int mkdir(const char *path, mode_t mode) { return refused_path(AT_FDCWD, path) ? -1 : REAL(mkdir)(path, mode); }
int mkdirat(int folder, const char *path, mode_t mode) {
  return refused_path(folder, path) ? -1 : REAL(mkdirat)(folder, path, mode);
}

// What is renamed or removed needs no room, but a file system that may be written to.
static int fixed(const char *path) { return below(path, readonly) && struck(EROFS); }
int rename(const char *one, const char *other) { return fixed(one) || fixed(other) ? -1 : REAL(rename)(one, other); }
int unlink(const char *path) { return fixed(path) ? -1 : REAL(unlink)(path); }
int rmdir(const char *path) { return fixed(path) ? -1 : REAL(rmdir)(path); }

static void turn(struct timespec *now) {
  struct timespec steady;
  struck(errno);
  REAL(clock_gettime)(CLOCK_MONOTONIC, &steady);
  if (!strcmp(wrong_clock, "jump")) {
    now->tv_sec += steady.tv_sec % 2 * 86400;
    return;
  }
  // What goes forwards by a second goes backwards by one.
  long long since = (steady.tv_sec - atoll(getenv("FAULTS_BEGAN"))) * 1000000000 + steady.tv_nsec;
  long long is = now->tv_sec * 1000000000 + now->tv_nsec - 2 * since;
  *now = (struct timespec){is / 1000000000, is % 1000000000};
}
int clock_gettime(clockid_t clock, struct timespec *now) {
  int failed = REAL(clock_gettime)(clock, now);
  if (!failed && wrong_clock && (clock == CLOCK_REALTIME || clock == CLOCK_REALTIME_COARSE)) turn(now);
  return failed;
}
int gettimeofday(struct timeval *now, void *zone) {
  struct timespec found;
  int failed = REAL(gettimeofday)(now, zone);
  if (failed || !wrong_clock) return failed;
  found = (struct timespec){now->tv_sec, now->tv_usec * 1000};
  turn(&found);
  *now = (struct timeval){found.tv_sec, found.tv_nsec / 1000};
  return 0;
}
time_t time(time_t *at) {
  struct timespec now;
  clock_gettime(CLOCK_REALTIME, &now);
  if (at) *at = now.tv_sec;
  return now.tv_sec;
}
