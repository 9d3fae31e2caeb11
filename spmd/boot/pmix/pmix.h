#ifndef PERIGEE_PMIX_H
#define PERIGEE_PMIX_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

// All functions that return int return 0 or a status of PMIx; those after
// load may be called only if it has returned 0.

// load opens the library, or says why not.
int perigee_pmix_load(const char *path, char *why, size_t size);
int perigee_pmix_init(void);
uint32_t perigee_pmix_rank(void);
// number reads what the server says of the whole job, or of this rank.
int perigee_pmix_number(const char *key, int of_job, uint32_t *number);
int perigee_pmix_put(const char *key, char *text);
int perigee_pmix_fence(void);
// The fence is over because a process has ended that will not come to it.
enum { PERIGEE_PMIX_PARTIAL_SUCCESS = -52 };
// get sets *text to memory that the caller frees.
int perigee_pmix_get(uint32_t rank, const char *key, char **text);
int perigee_pmix_finalize(void);
const char *perigee_pmix_error(int rc);

#endif
