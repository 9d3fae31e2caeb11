// Loaded into a program before it runs (LD_PRELOAD): lets one rank exit with code
// 3, at once or when a process opens a named pipe. PERIGEE_E2E_EXIT is the rank
// and, after a blank, the pipe; or "small", which lets that rank make files of at
// most 1 KiB instead.
#include <fcntl.h>
#include <pthread.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <unistd.h>

static const char *variables[] = {
    "PERIGEE_RANK", "OMPI_COMM_WORLD_RANK", "PMI_RANK", "PMI_ID", "SLURM_PROCID", NULL,
};

static void *await(void *path) {
  if (open(path, O_RDONLY) >= 0) _exit(3);
  return NULL;
}

__attribute__((constructor)) static void begin(void) {
  static char order[4096];
  const char *given = getenv("PERIGEE_E2E_EXIT"), *rank = NULL;
  for (const char **v = variables; *v && !rank; v++) rank = getenv(*v);
  if (!given || !rank || strlen(given) >= sizeof order) return;
  strcpy(order, given);
  char *path = strchr(order, ' ');
  if (path) *path++ = 0;
  if (strcmp(rank, order) != 0) return;
  if (!path) _exit(3);
  if (strcmp(path, "small") == 0) {
    struct rlimit limit = {1024, 1024};
    setrlimit(RLIMIT_FSIZE, &limit);
    return;
  }
  pthread_t thread;
  pthread_create(&thread, NULL, await, path);
}
