// A stand-in for CUDA's driver and for NVML: GPUs whose memory is that of the host. See Driver in devicetest.go.
#define _GNU_SOURCE
#include <dlfcn.h>
#include <link.h>
#include <pthread.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>

enum { MOST = 16, NO_DEVICE = 100, INVALID_DEVICE = 101, NO_CONTEXT = 201, OUT_OF_MEMORY = 2, INVALID_VALUE = 1 };

static struct gpu { int number; size_t used; } gpus[MOST];
static struct piece { uint64_t address; size_t size; struct gpu *gpu; struct piece *next; } *pieces;
static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static _Thread_local struct gpu *current;

static size_t setting(const char *name, size_t otherwise) {
	const char *text = getenv(name);
	return text ? strtoull(text, NULL, 10) : otherwise;
}
static int all(void) {
	size_t n = setting("STANDIN_GPUS", 2);
	return n < MOST ? (int)n : MOST;
}
static size_t memory(void) { return setting("STANDIN_GPU_BYTES", 64 << 20); }

// visible fills in the GPUs that CUDA_VISIBLE_DEVICES leaves, in its order.
static int visible(int *list) {
	const char *shown = getenv("CUDA_VISIBLE_DEVICES");
	int n = 0;
	if (!shown) {
		for (; n < all(); n++) list[n] = n;
		return n;
	}
	for (char *end; *shown && n < MOST; shown = *end == ',' ? end + 1 : end) {
		long number = strtol(shown, &end, 10);
		if (end == shown || number < 0 || number >= all()) break;
		list[n++] = number;
	}
	return n;
}

int cuInit(unsigned flags) {
	int list[MOST];
	(void)flags;
	return getenv("STANDIN_FAILS") ? 803 : visible(list) ? 0 : NO_DEVICE;
}
int cuDeviceGetCount(int *n) {
	int list[MOST];
	*n = visible(list);
	return 0;
}
int cuDeviceGet(int *device, int ordinal) {
	int list[MOST], n = visible(list);
	if (ordinal < 0 || ordinal >= n) return INVALID_DEVICE;
	*device = list[ordinal];
	return 0;
}
int cuDeviceGetUuid_v2(unsigned char *uuid, int device) {
	memset(uuid, 0x10 + device, 16);
	return 0;
}
int cuDevicePrimaryCtxRetain(void **context, int device) {
	gpus[device].number = device;
	*context = &gpus[device];
	return 0;
}
int cuCtxSetCurrent(void *context) {
	current = context;
	return 0;
}
int cuMemGetInfo_v2(size_t *left, size_t *total) {
	if (!current) return NO_CONTEXT;
	pthread_mutex_lock(&lock);
	*total = memory();
	*left = *total > current->used ? *total - current->used : 0;
	pthread_mutex_unlock(&lock);
	return 0;
}
int cuMemAlloc_v2(uint64_t *address, size_t size) {
	if (!current) return NO_CONTEXT;
	if (!size) return INVALID_VALUE;
	int code = OUT_OF_MEMORY;
	pthread_mutex_lock(&lock);
	if (size <= memory() && current->used <= memory() - size) {
		void *at = mmap(NULL, size, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
		struct piece *p = at == MAP_FAILED ? NULL : malloc(sizeof *p);
		if (p) {
			*p = (struct piece){(uint64_t)at, size, current, pieces};
			pieces = p;
			current->used += size;
			*address = p->address;
			code = 0;
		}
	}
	pthread_mutex_unlock(&lock);
	return code;
}
// As the real driver may, it returns from a copy of pageable memory before the bytes are in the GPU: the last one stays
// out until the stream has been waited for, or its next copy.
static _Thread_local struct { char *to, byte; } late;

int cuStreamSynchronize(void *stream) {
	(void)stream;
	if (late.to) *late.to = late.byte;
	late.to = NULL;
	return current ? 0 : NO_CONTEXT;
}
int cuMemFree_v2(uint64_t address) {
	if (cuStreamSynchronize(NULL)) return NO_CONTEXT;
	int code = INVALID_VALUE;
	pthread_mutex_lock(&lock);
	for (struct piece **at = &pieces; *at; at = &(*at)->next) {
		struct piece *p = *at;
		if (p->address != address) continue;
		*at = p->next;
		p->gpu->used -= p->size;
		munmap((void *)address, p->size);
		free(p);
		code = 0;
		break;
	}
	pthread_mutex_unlock(&lock);
	return code;
}

// inside reports whether bytes lie in one allocation: CUDA refuses a copy of others.
static int inside(uint64_t address, size_t size) {
	int found = 0;
	pthread_mutex_lock(&lock);
	for (struct piece *p = pieces; p && !found; p = p->next)
		found = address >= p->address && size <= p->size && address - p->address <= p->size - size;
	pthread_mutex_unlock(&lock);
	return found;
}

int cuMemcpyHtoD_v2(uint64_t to, const void *from, size_t size) {
	if (!current) return NO_CONTEXT;
	if (!size || !inside(to, size)) return INVALID_VALUE;
	cuStreamSynchronize(NULL);
	memcpy((void *)to, from, size - 1);
	late.to = (char *)to + size - 1;
	late.byte = ((const char *)from)[size - 1];
	return 0;
}
int cuMemcpyDtoH_v2(void *to, uint64_t from, size_t size) {
	if (!current) return NO_CONTEXT;
	if (!inside(from, size)) return INVALID_VALUE;
	cuStreamSynchronize(NULL);
	memcpy(to, (void *)from, size);
	return 0;
}
int cuMemcpyDtoD_v2(uint64_t to, uint64_t from, size_t size) {
	if (!current) return NO_CONTEXT;
	if (!inside(to, size) || !inside(from, size)) return INVALID_VALUE;
	cuStreamSynchronize(NULL);
	memcpy((void *)to, (void *)from, size);
	return 0;
}
int cuGetErrorString(int code, const char **text) {
	*text = code == OUT_OF_MEMORY ? "out of memory" : "a failure";
	return 0;
}

// NVML lists all GPUs, whatever CUDA_VISIBLE_DEVICES leaves.
typedef struct { unsigned long long total, left, used; } nvml_memory;
typedef struct { char old[16]; unsigned domain, bus, device, id, subsystem; char address[32]; } nvml_pci;

int nvmlInit_v2(void) { return all() ? 0 : 9; }
int nvmlShutdown(void) { return 0; }
const char *nvmlErrorString(int code) { (void)code; return "a failure"; }
int nvmlDeviceGetCount_v2(unsigned *n) {
	*n = all();
	return 0;
}
int nvmlDeviceGetHandleByIndex_v2(unsigned index, void **device) {
	*device = &gpus[index];
	return 0;
}
int nvmlDeviceGetName(void *device, char *name, unsigned size) {
	(void)device;
	snprintf(name, size, "Stand-in GPU");
	return 0;
}
int nvmlDeviceGetUUID(void *device, char *name, unsigned size) {
	int b = 0x10 + (int)((struct gpu *)device - gpus);
	snprintf(name, size, "GPU-%x%x%x%x-%x%x-%x%x-%x%x-%x%x%x%x%x%x", b, b, b, b, b, b, b, b, b, b, b, b, b, b, b, b);
	return 0;
}
int nvmlDeviceGetMemoryInfo(void *device, nvml_memory *m) {
	(void)device;
	*m = (nvml_memory){memory(), memory(), 0};
	return 0;
}
int nvmlDeviceGetPciInfo_v3(void *device, nvml_pci *pci) {
	int number = (int)((struct gpu *)device - gpus);
	memset(pci, 0, sizeof *pci);
	snprintf(pci->address, sizeof pci->address, "00000000:%02X:00.0", 0x40 * number + 0x1b);
	return 0;
}

// NIXL asks UCX for the kind of registered memory, and refuses host memory in place of a GPU's. Where this library is
// preloaded, it answers in UCX's place for the memory of its GPUs. The structure is that of ucp_mem_query in UCX's api.
typedef struct { uint64_t fields; void *address; size_t size; int kind; } ucp_attributes;

static int is_ucp(struct dl_phdr_info *info, size_t size, void *found) {
	(void)size;
	if (!strstr(info->dlpi_name, "/libucp")) return 0;
	*(void **)found = dlopen(info->dlpi_name, RTLD_NOLOAD | RTLD_LAZY);
	return 1;
}
int ucp_mem_query(void *registered, ucp_attributes *to) {
	enum { ADDRESS = 1, KIND = 4, CUDA = 1 };
	static int (*query)(void *, ucp_attributes *);
	void *library = NULL;
	if (!query && dl_iterate_phdr(is_ucp, &library) && library) *(void **)&query = dlsym(library, "ucp_mem_query");
	if (!query) return -1;
	uint64_t asked = to->fields;
	to->fields |= ADDRESS;
	int status = query(registered, to);
	if (!status && asked & KIND && inside((uint64_t)to->address, 1)) to->kind = CUDA;
	to->fields = asked;
	return status;
}
