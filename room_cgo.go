package main

// Go's runtime takes 1.3 GB of address space before the first line of Go, most of it only reserved, and a rank with its
// threads 1.9 GB. Where a limit leaves less, the runtime ends the process in the middle of its start with a dump of
// itself. So a constructor, which the loader calls, looks at this before the runtime starts. Without cgo there is none.

/*
#include <stdio.h>
#include <sys/resource.h>
#include <unistd.h>

#define RESOURCE 7 // the exit code, fault.Resource

// Both in bytes. With 2.0e9 and 0.2e9 jobs ran on 2 CPUs, with 1.8e9 and 0.1e9 some ended so.
#define ADDRESS_SPACE 2000000000UL
#define DATA 200000000UL

static void room_for(int resource, const char *command, const char *what, unsigned long want) {
	struct rlimit limit;
	if (getrlimit(resource, &limit) != 0 || limit.rlim_cur >= want)
		return;
	fprintf(stderr, "perigee: the limit %s %lu leaves %.2f GB of %s, and perigee needs %.1f GB before it does anything\n"
		"  hint: raise the limit: %s unlimited\n",
		command, (unsigned long)limit.rlim_cur >> 10, limit.rlim_cur / 1e9, what, want / 1e9, command);
	_exit(RESOURCE);
}

__attribute__((constructor)) static void room(void) {
	room_for(RLIMIT_AS, "ulimit -v", "address space", ADDRESS_SPACE);
	room_for(RLIMIT_DATA, "ulimit -d", "data", DATA);
}
*/
import "C"
