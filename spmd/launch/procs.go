//go:build cgo

package launch

/*
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

extern char **environ;

// Before Go's runtime starts, which takes 24 KB for each of GOMAXPROCS, and minutes for 100,000 of them. More than
// there are CPUs are of no use. The runtime reads the text where it is, so it is written over; it only gets shorter.
__attribute__((constructor)) static void perigee_bound_procs(void) {
	static const char name[] = "GOMAXPROCS=";
	long most = sysconf(_SC_NPROCESSORS_CONF);
	if (most < 64)
		most = 64;
	for (char **v = environ; v != NULL && *v != NULL; v++) {
		char *value = *v + sizeof name - 1;
		if (strncmp(*v, name, sizeof name - 1) == 0 && strtol(value, NULL, 10) > most)
			snprintf(value, strlen(value) + 1, "%ld", most);
	}
}
*/
import "C"
