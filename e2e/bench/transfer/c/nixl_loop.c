// The least that one can do with libnixl_capi.so: two processes, one request, post
// and poll. It is what perigee's nixl engine is measured against.
//
//     nixl_loop LIBRARY
//
// Reads lines "write|read[:BLOCKS] BYTES COUNT" and answers each with the median of COUNT runs
// in nanoseconds. A run moves BLOCKS (1) blocks of BYTES in one request.
//
// With MEM=vram in the environment the bytes lie in the memory of GPU 0, and "copy BYTES COUNT" is a copy
// inside it without NIXL, from one buffer of this process to another.
#define _GNU_SOURCE
#include <dlfcn.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <time.h>
#include <unistd.h>

enum { HOST_SIZE = 64 << 20, GPU_SIZE = 256 << 20, MAX_COUNT = 100000 };

typedef struct {
    bool progress_thread, listen_thread;
    int listen_port, thread_sync;
    unsigned workers;
    uint64_t progress_delay, listen_delay;
    bool telemetry;
    char zeros[256];
} config;

static void die(const char *what, int status) {
    fprintf(stderr, "nixl_loop: %s: %d\n", what, status);
    _exit(1);
}

static void *library;

static void *function(const char *name) {
    void *f = dlsym(library, name);
    if (!f) die(name, 0);
    return f;
}

// CALL calls a function of the library and ends the process if it fails.
#define CALL(name, types, ...)                                                                     \
    do {                                                                                           \
        int status = ((int(*) types)function("nixl_capi_" #name))(__VA_ARGS__);                    \
        if (status < 0) die(#name, status);                                                        \
    } while (0)

// CUDA calls a function of CUDA's driver and ends the process if it fails.
#define CUDA(name, types, ...)                                                                     \
    do {                                                                                           \
        static int(*f) types;                                                                      \
        if (!f) f = (int(*) types)dlsym(driver, #name);                                            \
        int code = f ? f(__VA_ARGS__) : -1;                                                        \
        if (code) die(#name, code);                                                                \
    } while (0)

static bool vram;
static void *driver;
static size_t SIZE;

static int64_t now(void) {
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return t.tv_sec * INT64_C(1000000000) + t.tv_nsec;
}

static int compare(const void *a, const void *b) {
    int64_t x = *(const int64_t *)a, y = *(const int64_t *)b;
    return (x > y) - (x < y);
}

static void send_all(int fd, const void *data, size_t n) {
    if (write(fd, data, n) != (ssize_t)n) die("write", n);
}

static void receive_all(int fd, void *data, size_t n) {
    for (size_t done = 0; done < n;) {
        ssize_t k = read(fd, (char *)data + done, n - done);
        if (k <= 0) _exit(0); // the other process has ended
        done += k;
    }
}

static void *agent, *args, *map;
static char *buffer;
static const char *names[] = {"bare-0", "bare-1"};

static char *gpu_memory(void) {
    uint64_t address;
    CUDA(cuMemAlloc_v2, (uint64_t *, size_t), &address, SIZE);
    return (char *)address;
}

static void open_gpu(void) {
    int device;
    void *context;
    driver = dlopen("libcuda.so.1", RTLD_NOW);
    if (!driver) die("libcuda.so.1", 0);
    CUDA(cuInit, (unsigned), 0);
    CUDA(cuDeviceGet, (int *, int), &device, 0);
    CUDA(cuDevicePrimaryCtxRetain, (void **, int), &context, device);
    CUDA(cuCtxSetCurrent, (void *), context);
}

static char *host_memory(void) {
    char *p = mmap(NULL, SIZE, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    if (p == MAP_FAILED) die("mmap", SIZE);
    // The same kind of pages as perigee's, which decide more than any loop does.
    madvise(p, SIZE, MADV_HUGEPAGE);
    memset(p, 0, SIZE);
    return p;
}

static void open_agent(int me) {
    // A peer reaches GPU memory only with this process's help: a thread makes progress, as in perigee.
    config c = {.workers = 1, .progress_thread = vram, .progress_delay = vram ? 100 : 0};
    void *params, *backend, *list;
    if (vram) open_gpu();
    CALL(create_configured_agent, (const char *, config *, void **), names[me], &c, &agent);
    CALL(create_params, (void **), &params);
    CALL(params_add, (void *, const char *, const char *), params, "ucx_error_handling_mode", "none");
    CALL(create_backend, (void *, const char *, void *, void **), agent, "UCX", params, &backend);
    CALL(create_opt_args, (void **), &args);
    CALL(opt_args_add_backend, (void *, void *), args, backend);
    CALL(opt_args_set_skip_desc_merge, (void *, bool), args, true);
    CALL(create_notif_map, (void **), &map);
    buffer = vram ? gpu_memory() : host_memory();
    CALL(create_reg_dlist, (int, void **), vram, &list);
    CALL(reg_dlist_add_desc, (void *, uintptr_t, size_t, uint64_t, void *, size_t), list,
         (uintptr_t)buffer, SIZE, 0, NULL, 0);
    CALL(register_mem, (void *, void *, void *), agent, list, args);
}

// meet exchanges metadata and notifications and returns the address of the other's buffer.
static char *meet(int me, int in, int out) {
    struct {
        size_t size;
        char *buffer;
    } mine, theirs;
    void *data;
    char *name;
    CALL(get_local_md, (void *, void **, size_t *), agent, &data, &mine.size);
    mine.buffer = buffer;
    send_all(out, &mine, sizeof mine);
    send_all(out, data, mine.size);
    receive_all(in, &theirs, sizeof theirs);
    data = malloc(theirs.size);
    receive_all(in, data, theirs.size);
    CALL(load_remote_md, (void *, void *, size_t, char **), agent, data, theirs.size, &name);
    for (int round = 0; round < 2; round++) {
        CALL(gen_notif, (void *, const char *, const void *, size_t, void *), agent, names[!me], "x", 1, NULL);
        for (size_t got = 0; !got;) {
            CALL(get_notifs, (void *, void *, void *), agent, map, NULL);
            CALL(notif_map_size, (void *, size_t *), map, &got);
        }
        CALL(notif_map_clear, (void *), map);
        // In step, so that no notification is taken for one of the next round.
        char c;
        send_all(out, "x", 1);
        receive_all(in, &c, 1);
    }
    return theirs.buffer;
}

static int64_t took[MAX_COUNT];

static int64_t median(int count) {
    qsort(took, count, sizeof *took, compare);
    return took[count / 2];
}

// copy returns when the bytes are there: cuMemcpyDtoD itself may return before.
static int64_t copy(size_t size, int count) {
    static char *other;
    if (!other) other = gpu_memory();
    for (int i = 0; i < count; i++) {
        int64_t start = now();
        CUDA(cuMemcpyDtoD_v2, (uint64_t, uint64_t, size_t), (uint64_t)other, (uint64_t)buffer, size);
        CUDA(cuStreamSynchronize, (void *), NULL);
        took[i] = now() - start;
    }
    return median(count);
}

static int64_t measure(int op, char *remote, size_t size, size_t blocks, int count) {
    int (*post)(void *, void *, void *) = function("nixl_capi_post_xfer_req");
    int (*poll)(void *, void *) = function("nixl_capi_get_xfer_status");
    void *here, *there, *req;
    CALL(create_xfer_dlist, (int, void **), vram, &here);
    CALL(create_xfer_dlist, (int, void **), vram, &there);
    for (size_t i = 0; i < blocks; i++) {
        CALL(xfer_dlist_add_desc, (void *, uintptr_t, size_t, uint64_t), here, (uintptr_t)buffer + i * size, size, 0);
        CALL(xfer_dlist_add_desc, (void *, uintptr_t, size_t, uint64_t), there, (uintptr_t)remote + i * size, size, 0);
    }
    CALL(create_xfer_req, (void *, int, void *, void *, const char *, void **, void *), agent, op, here,
         there, names[1], &req, args);
    for (int i = 0; i < count; i++) {
        int64_t start = now();
        int status = post(agent, req, NULL);
        while (status == 1) status = poll(agent, req);
        if (status < 0) die("transfer", status);
        took[i] = now() - start;
    }
    CALL(release_xfer_req, (void *, void *), agent, req);
    CALL(destroy_xfer_req, (void *), req);
    CALL(destroy_xfer_dlist, (void *), here);
    CALL(destroy_xfer_dlist, (void *), there);
    return median(count);
}

int main(int argc, char **argv) {
    if (argc != 2) die("usage: nixl_loop LIBRARY", argc);
    const char *mem = getenv("MEM");
    vram = mem && !strcmp(mem, "vram");
    SIZE = vram ? GPU_SIZE : HOST_SIZE;
    int there[2], back[2];
    if (pipe(there) || pipe(back)) die("pipe", 0);
    int me = fork() == 0;
    int in = me ? there[0] : back[0], out = me ? back[1] : there[1];
    close(me ? there[1] : back[1]);
    close(me ? back[0] : there[0]);
    library = dlopen(argv[1], RTLD_NOW);
    if (!library) {
        fprintf(stderr, "nixl_loop: %s\n", dlerror());
        _exit(1);
    }
    open_agent(me);
    char *remote = meet(me, in, out);
    if (me) {
        char c;
        receive_all(in, &c, 1); // the target sleeps until the initiator ends
    }
    char op[16];
    size_t size;
    int count;
    while (scanf("%15s %zu %d", op, &size, &count) == 3) {
        char *colon = strchr(op, ':');
        size_t blocks = colon ? strtoul(colon + 1, NULL, 10) : 1;
        if (size == 0 || blocks == 0 || blocks > SIZE / size || count < 1 || count > MAX_COUNT)
            die("bad request", count);
        bool copies = vram && op[0] == 'c';
        printf("%lld\n", (long long)(copies ? copy(size, count) : measure(op[0] == 'w', remote, size, blocks, count)));
        fflush(stdout);
    }
    _exit(0); // the library does not survive exit
}
