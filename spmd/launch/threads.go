//go:build cgo

package launch

/*
#cgo LDFLAGS: -pthread
#include <pthread.h>
#include <signal.h>
#include <stdlib.h>

static void *pass(void *gate) {
	pthread_mutex_lock(gate);
	pthread_mutex_unlock(gate);
	return NULL;
}

// perigee_threads starts as many threads as it may, want at most, ends them, and returns how many they were.
static int perigee_threads(int want) {
	pthread_mutex_t gate = PTHREAD_MUTEX_INITIALIZER;
	pthread_attr_t small;
	sigset_t all, before;
	int n = 0;
	pthread_t *threads = calloc(want, sizeof *threads);
	if (threads == NULL)
		return 0;
	pthread_attr_init(&small);
	pthread_attr_setstacksize(&small, 64 << 10);
	pthread_attr_setguardsize(&small, 0);
	sigfillset(&all); // they handle no signals of the program
	pthread_sigmask(SIG_SETMASK, &all, &before);
	pthread_mutex_lock(&gate);
	while (n < want && pthread_create(&threads[n], &small, pass, &gate) == 0)
		n++;
	pthread_mutex_unlock(&gate);
	for (int i = 0; i < n; i++)
		pthread_join(threads[i], NULL);
	pthread_sigmask(SIG_SETMASK, &before, NULL);
	pthread_attr_destroy(&small);
	free(threads);
	return n;
}
*/
import "C"

// startable returns how many threads can be started now, want at most. It tries, since limits come from several places:
// the user's (ulimit -u), the container's and the kernel's.
func startable(want int) int { return int(C.perigee_threads(C.int(want))) }
