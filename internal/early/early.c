#include <errno.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <unistd.h>

extern char **environ;

enum {
	resource = 7, // the exit code: fault.Resource

	// What Go's runtime takes at its start on every machine. The more CPUs there are the more threads it has, each with
	// a stack and more, so that limits somewhat above these may be too low, too.
	least_address_space = 720, // MiB; 768 was too little for any command, and 1954 always enough
	least_data = 76,           // MiB; 78 was too little even with small stacks, and 195 always enough
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

static void check_limit(int which, unsigned long least, const char *what, const char *option) {
	struct rlimit l;
	if (getrlimit(which, &l) == 0 && l.rlim_cur != RLIM_INFINITY && l.rlim_cur < least << 20)
		refuse("perigee: the limit on %s is %llu KiB, and the program needs at least %lu to start\n"
		       "  hint: raise it: ulimit %s unlimited\n",
		       what, (unsigned long long)l.rlim_cur >> 10, least << 10, option);
}

__attribute__((constructor)) static void perigee_early(void) {
	check_limit(RLIMIT_AS, least_address_space, "address space", "-v");
	check_limit(RLIMIT_DATA, least_data, "data", "-d");
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
