#define _GNU_SOURCE
#include <errno.h>
#include <fcntl.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/eventfd.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <unistd.h>

extern char **environ;

enum {
	resource = 7, // the exit code: fault.Resource

	// What Go's runtime opens first: 3 in place of standard ones that are closed, and, with the first file or timer,
	// 2 more, without which it would end the process.
	least_descriptors = 5,
};

// refuse ends the process in the form of all of perigee's errors.
__attribute__((format(printf, 1, 2), noreturn)) static void refuse(const char *format, ...) {
	char text[512];
	va_list list;
	va_start(list, format);
	int n = vsnprintf(text, sizeof text, format, list);
	va_end(list);
	if (n > (int)sizeof text - 1)
		n = sizeof text - 1;
	ssize_t ignored = write(STDERR_FILENO, text, n);
	(void)ignored;
	_exit(resource);
}

// variable is the text that Go's runtime will read: the first of several.
static char *variable(const char *name) {
	size_t n = strlen(name);
	for (char **v = environ; v != NULL && *v != NULL; v++)
		if (strncmp(*v, name, n) == 0 && (*v)[n] == '=')
			return *v + n + 1;
	return NULL;
}

// 24 KB for each of GOMAXPROCS are taken, and minutes for 100,000 of them. More than there are CPUs are of no use. The
// runtime reads the text where it is, so it is written over; it only gets shorter.
static void bound_procs(void) {
	long most = sysconf(_SC_NPROCESSORS_CONF);
	if (most < 64)
		most = 64;
	char *value = variable("GOMAXPROCS");
	if (value != NULL && strtol(value, NULL, 10) > most)
		snprintf(value, strlen(value) + 1, "%ld", most);
}

// is_size reports whether the runtime can read a GOMEMLIMIT (parseByteCount in its string.go).
static bool is_size(const char *s) {
	char *end;
	errno = 0;
	// strtoll would pass over white space. Go takes signs, and refuses what is below 0.
	if (*s != '+' && *s != '-' && (*s < '0' || *s > '9'))
		return false;
	long long n = strtoll(s, &end, 10);
	if (errno != 0 || end == s || n < 0)
		return false;
	const char *units[] = {"", "B", "KiB", "MiB", "GiB", "TiB"};
	for (int i = 0; i < 6; i++)
		if (strcmp(end, units[i]) == 0)
			return i < 2 || n <= INT64_MAX >> 10 * (i - 1);
	return false;
}

// taken is a number of KiB that the kernel counts for this process, or 0.
static unsigned long long taken(const char *key) {
	char text[4096];
	int fd = open("/proc/self/status", O_RDONLY | O_CLOEXEC);
	ssize_t n = fd < 0 ? -1 : read(fd, text, sizeof text - 1);
	close(fd);
	text[n < 0 ? 0 : n] = '\0';
	char *found = strstr(text, key);
	return found == NULL ? 0 : strtoull(found + strlen(key), NULL, 10);
}

// refuse_beyond ends the process if one of its limits does not leave so many bytes.
static void refuse_beyond(size_t bytes) {
	const struct {
		int which;
		const char *key, *what, *option;
	} limits[] = {{RLIMIT_AS, "\nVmSize:", "address space", "-v"}, {RLIMIT_DATA, "\nVmData:", "data", "-d"}};
	for (int i = 0; i < 2; i++) {
		struct rlimit l;
		unsigned long long now = taken(limits[i].key), more = (bytes + 1023) >> 10;
		if (getrlimit(limits[i].which, &l) == 0 && l.rlim_cur != RLIM_INFINITY && now + more > l.rlim_cur >> 10)
			refuse("perigee: the limit on %s is %llu KiB, and the program has %llu and needs %llu more\n"
			       "  hint: raise it: ulimit %s unlimited; or let a scenario keep less\n",
			       limits[i].what, (unsigned long long)l.rlim_cur >> 10, now, more, limits[i].option);
	}
}

// Go's runtime ends the process by a dump, and with the exit code of a wrong command line, when it gets no memory or no
// thread. It asks for them by functions of runtime/cgo, whose calls of mmap, fatalf and abort the linker leads here.
// No other calls come here: libraries are not linked into the program, and package syscall does without C.

void *__real_mmap(void *at, size_t bytes, int protection, int flags, int fd, off_t offset);

void *__wrap_mmap(void *at, size_t bytes, int protection, int flags, int fd, off_t offset) {
	void *got = __real_mmap(at, bytes, protection, flags, fd, offset);
	if (got == MAP_FAILED && errno == ENOMEM) {
		refuse_beyond(bytes);
		refuse("perigee: the system gives the program no more memory; it needs %zu KiB more\n"
		       "  hint: free memory, or let a scenario keep less\n", bytes >> 10);
	}
	return got;
}

__attribute__((noreturn)) void __wrap_fatalf(const char *format, ...) {
	struct rlimit l;
	(void)format; // of pthread_create, or of malloc that is as short of memory
	if (getrlimit(RLIMIT_STACK, &l) != 0 || l.rlim_cur == RLIM_INFINITY)
		l.rlim_cur = 2 << 20; // glibc's
	refuse_beyond(l.rlim_cur);
	if (getrlimit(RLIMIT_NPROC, &l) == 0 && l.rlim_cur != RLIM_INFINITY)
		refuse("perigee: no more threads can be started; the limit is %llu for all that this user runs\n"
		       "  hint: raise it (ulimit -u), and that of the cgroup (pids.max); or end other processes\n",
		       (unsigned long long)l.rlim_cur);
	refuse("perigee: no more threads can be started\n"
	       "  hint: raise the limit of the cgroup (pids.max); or end other processes\n");
}

__attribute__((noreturn)) void __wrap_abort(void) {
	refuse_beyond(0);
	refuse("perigee: the system refused memory that the program cannot go on without\n"
	       "  hint: free memory, or raise the limits on it (ulimit -a)\n");
}

// check_descriptors looks whether Go's runtime can open what it cannot go on without.
static void check_descriptors(void) {
	int fds[least_descriptors], n = 0;
	while (n < least_descriptors && (fds[n] = eventfd(0, EFD_CLOEXEC)) >= 0)
		n++;
	bool full = n < least_descriptors && (errno == EMFILE || errno == ENFILE);
	for (int i = 0; i < n; i++)
		close(fds[i]);
	struct rlimit l;
	if (full && getrlimit(RLIMIT_NOFILE, &l) == 0)
		refuse("perigee: of %llu file descriptors that the program may have %d are free, and it needs at least %d to start\n"
		       "  hint: raise the limit: ulimit -n 1024\n",
		       (unsigned long long)l.rlim_cur, n, least_descriptors);
}

bool perigee_stdout_closed;

// Go's runtime opens /dev/null in the place of a standard output or error that is closed. Here it is marked as one that
// this process was not given: what is written there by the name /dev/stdout would be lost.
static void hold(int closed) {
	int fd = open("/dev/null", O_RDWR | O_CLOEXEC);
	if (fd >= 0 && fd != closed) {
		dup3(fd, closed, O_CLOEXEC);
		close(fd);
	}
}

__attribute__((constructor)) static void perigee_early(void) {
	perigee_stdout_closed = fcntl(STDOUT_FILENO, F_GETFD) < 0;
	check_descriptors();
	if (perigee_stdout_closed)
		hold(STDOUT_FILENO);
	if (fcntl(STDERR_FILENO, F_GETFD) < 0)
		hold(STDERR_FILENO);
	const char *limit = variable("GOMEMLIMIT");
	if (limit != NULL && *limit != '\0' && strcmp(limit, "off") != 0 && !is_size(limit)) {
		char shown[41]; // the terminal is not for what others have put there
		size_t n = 0;
		for (; limit[n] != '\0' && n < sizeof shown - 1; n++)
			shown[n] = limit[n] >= ' ' && limit[n] <= '~' ? limit[n] : '?';
		shown[n] = '\0';
		refuse("perigee: GOMEMLIMIT=%s: want a size such as 4GiB or 500MiB, or off\n"
		       "  hint: unset GOMEMLIMIT, or set it to a number with B, KiB, MiB, GiB or TiB behind it\n",
		       shown);
	}
	bound_procs();
}
