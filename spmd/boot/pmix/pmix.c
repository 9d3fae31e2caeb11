//go:build cgo

#define _GNU_SOURCE
#include "pmix.h"

#include <dlfcn.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

// The declarations below are those parts of the PMIx standard (versions 2 to 5)
// that are used here. Sizes and offsets are part of its binary interface.

typedef int status_t;

typedef struct {
	char nspace[256];
	uint32_t rank;
} proc_t;

typedef struct {
	uint16_t type;
	union {
		bool flag;
		char *string;
		uint16_t uint16;
		uint32_t uint32;
		uint64_t largest[3];
	} data;
} value_t;

typedef struct {
	char key[512];
	uint32_t flags;
	value_t value;
} info_t;

_Static_assert(sizeof(proc_t) == 260, "pmix_proc_t");
_Static_assert(sizeof(value_t) == 32, "pmix_value_t");
_Static_assert(sizeof(info_t) == 552 && offsetof(info_t, value) == 520, "pmix_info_t");

enum {
	TYPE_BOOL = 1,
	TYPE_STRING = 3,
	TYPE_UINT16 = 13,
	TYPE_UINT32 = 14,
	SCOPE_GLOBAL = 3,
};

static const uint32_t RANK_WILDCARD = UINT32_MAX - 1;

static struct {
	status_t (*Init)(proc_t *, info_t *, size_t);
	status_t (*Put)(uint8_t scope, const char *key, value_t *);
	status_t (*Commit)(void);
	status_t (*Fence)(const proc_t *, size_t, const info_t *, size_t);
	status_t (*Get)(const proc_t *, const char *key, const info_t *, size_t, value_t **);
	status_t (*Finalize)(const info_t *, size_t);
	const char *(*Error_string)(status_t);
} lib;

static proc_t self;

static int resolve(void *handle, void *place, const char *name, char *why, size_t size) {
	void *symbol = dlsym(handle, name);
	if (symbol == NULL) {
		snprintf(why, size, "it has no function %s", name);
		return 0;
	}
	memcpy(place, &symbol, sizeof symbol);
	return 1;
}

int perigee_pmix_load(const char *path, char *why, size_t size) {
	// Global: the library loads plugins, which look for its symbols.
	void *handle = dlopen(path, RTLD_NOW | RTLD_GLOBAL);
	if (handle == NULL) {
		snprintf(why, size, "%s", dlerror());
		return -1;
	}
	if (!resolve(handle, &lib.Init, "PMIx_Init", why, size) ||
	    !resolve(handle, &lib.Put, "PMIx_Put", why, size) ||
	    !resolve(handle, &lib.Commit, "PMIx_Commit", why, size) ||
	    !resolve(handle, &lib.Fence, "PMIx_Fence", why, size) ||
	    !resolve(handle, &lib.Get, "PMIx_Get", why, size) ||
	    !resolve(handle, &lib.Finalize, "PMIx_Finalize", why, size) ||
	    !resolve(handle, &lib.Error_string, "PMIx_Error_string", why, size))
		return -1;
	return 0;
}

int perigee_pmix_init(void) { return lib.Init(&self, NULL, 0); }

uint32_t perigee_pmix_rank(void) { return self.rank; }

int perigee_pmix_number(const char *key, int of_job, uint32_t *number) {
	proc_t whose = self;
	if (of_job)
		whose.rank = RANK_WILDCARD;
	value_t *v = NULL;
	status_t rc = lib.Get(&whose, key, NULL, 0, &v);
	if (rc != 0)
		return rc;
	if (v == NULL)
		return -1;
	rc = 0;
	if (v->type == TYPE_UINT32)
		*number = v->data.uint32;
	else if (v->type == TYPE_UINT16)
		*number = v->data.uint16;
	else
		rc = -1;
	free(v);
	return rc;
}

int perigee_pmix_put(const char *key, char *text) {
	value_t v = {.type = TYPE_STRING, .data = {.string = text}};
	status_t rc = lib.Put(SCOPE_GLOBAL, key, &v);
	return rc != 0 ? rc : lib.Commit();
}

int perigee_pmix_fence(void) {
	proc_t all = self;
	all.rank = RANK_WILDCARD;
	// Without it the fence of Slurm's plugin returns at once.
	info_t collect = {.key = "pmix.collect", .value = {.type = TYPE_BOOL, .data = {.flag = true}}};
	return lib.Fence(&all, 1, &collect, 1);
}

int perigee_pmix_get(uint32_t rank, const char *key, char **text) {
	proc_t whose = self;
	whose.rank = rank;
	value_t *v = NULL;
	status_t rc = lib.Get(&whose, key, NULL, 0, &v);
	if (rc != 0)
		return rc;
	if (v == NULL || v->type != TYPE_STRING || v->data.string == NULL) {
		free(v);
		return -1;
	}
	*text = v->data.string; // the caller frees it
	free(v);
	return 0;
}

int perigee_pmix_finalize(void) { return lib.Finalize(NULL, 0); }

const char *perigee_pmix_error(int rc) { return lib.Error_string(rc); }
