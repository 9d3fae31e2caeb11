// What perigee uses of libnixl_capi.so, and the loops that must not be left to Go.
//
// The declarations below are perigee's own; they describe the ABI of the library
// versions 1.4 and 1.5. All handles of the library are opaque pointers here.
#ifndef PERIGEE_PAPI_H
#define PERIGEE_PAPI_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

// Status codes of the library that perigee distinguishes. Negative ones are errors.
enum { PAPI_OK = 0, PAPI_IN_PROGRESS = 1 };

// Outcomes of papi_run and papi_wait beside the library's.
enum { PAPI_ABORTED = 1001, PAPI_LATE = 1002 };

// How long the progress thread of UCX sleeps if no event wakes it. With 0 it never sleeps, and
// takes a core from the ranks that work; with less than a millisecond it does not either. The threads of
// other backends wait for no event: between hosts they never sleep, as those of NIXL's Python, inside a host, where
// ranks tend to outnumber cores, for some microseconds.
enum { PAPI_UCX_DELAY_US = 1000, PAPI_NAP_US = 50 };

// The configuration of an agent. A later library may read more than 1.5 does, so the
// struct ends in zeros.
typedef struct {
    bool progress_thread;
    bool listen_thread;
    int listen_port;
    int thread_sync;
    unsigned int workers;
    uint64_t progress_delay_us;
    uint64_t listen_delay_us;
    bool telemetry;
    char zeros[256];
} papi_config;

// X(return type, name without the prefix nixl_capi_, parameters)
#define PAPI_FUNCTIONS(X)                                                                          \
    X(bool, is_stub, (void))                                                                       \
    X(int, create_configured_agent, (const char *name, const papi_config *, void **agent))         \
    X(int, destroy_agent, (void *agent))                                                           \
    X(int, get_available_plugins, (void *agent, void **strings))                                   \
    X(int, string_list_size, (void *strings, size_t *))                                            \
    X(int, string_list_get, (void *strings, size_t, const char **))                                \
    X(int, destroy_string_list, (void *strings))                                                   \
    X(int, get_plugin_params, (void *agent, const char *plugin, void **mems, void **params))       \
    X(int, mem_list_size, (void *mems, size_t *))                                                  \
    X(int, mem_list_get, (void *mems, size_t, int *mem))                                           \
    X(int, destroy_mem_list, (void *mems))                                                         \
    X(int, params_create_iterator, (void *params, void **iterator))                                \
    X(int, params_iterator_next,                                                                   \
      (void *iterator, const char **key, const char **value, bool *more))                          \
    X(int, params_destroy_iterator, (void *iterator))                                              \
    X(int, create_params, (void **params))                                                         \
    X(int, params_add, (void *params, const char *key, const char *value))                         \
    X(int, destroy_params, (void *params))                                                         \
    X(int, create_backend, (void *agent, const char *plugin, void *params, void **backend))        \
    X(int, destroy_backend, (void *backend))                                                       \
    X(int, create_opt_args, (void **args))                                                         \
    X(int, opt_args_add_backend, (void *args, void *backend))                                      \
    X(int, opt_args_set_skip_desc_merge, (void *args, bool))                                       \
    X(int, destroy_opt_args, (void *args))                                                         \
    X(int, create_reg_dlist, (int mem, void **list))                                               \
    X(int, reg_dlist_add_desc,                                                                     \
      (void *list, uintptr_t addr, size_t len, uint64_t dev, const void *meta, size_t meta_len))   \
    X(int, destroy_reg_dlist, (void *list))                                                        \
    X(int, register_mem, (void *agent, void *list, void *args))                                    \
    X(int, deregister_mem, (void *agent, void *list, void *args))                                  \
    X(int, get_local_md, (void *agent, void **data, size_t *len))                                  \
    X(int, load_remote_md, (void *agent, const void *data, size_t len, char **name))               \
    X(int, invalidate_remote_md, (void *agent, const char *name))                                  \
    X(int, agent_make_connection, (void *agent, const char *name, void *args))                     \
    X(int, gen_notif, (void *agent, const char *name, const void *data, size_t len, void *args))   \
    X(int, create_notif_map, (void **map))                                                         \
    X(int, get_notifs, (void *agent, void *map, void *args))                                       \
    X(int, notif_map_size, (void *map, size_t *))                                                  \
    X(int, notif_map_get_agent_at, (void *map, size_t, const char **name))                         \
    X(int, notif_map_get_notifs_size, (void *map, const char *name, size_t *))                     \
    X(int, notif_map_get_notif,                                                                    \
      (void *map, const char *name, size_t, const void **data, size_t *len))                       \
    X(int, notif_map_clear, (void *map))                                                           \
    X(int, destroy_notif_map, (void *map))                                                         \
    X(int, create_xfer_dlist, (int mem, void **list))                                              \
    X(int, xfer_dlist_add_desc, (void *list, uintptr_t addr, size_t len, uint64_t dev))            \
    X(int, destroy_xfer_dlist, (void *list))                                                       \
    X(int, create_xfer_req,                                                                        \
      (void *agent, int op, void *local, void *remote, const char *name, void **req, void *args))  \
    X(int, prep_xfer_dlist,                                                                        \
      (void *agent, const char *name, void *list, void **prepared, void *args))                    \
    X(int, release_xfer_dlist_handle, (void *agent, void *prepared))                               \
    X(int, make_xfer_req,                                                                          \
      (void *agent, int op, void *local, const int *local_index, size_t local_count,               \
       void *remote, const int *remote_index, size_t remote_count, void **req, void *args))        \
    X(int, post_xfer_req, (void *agent, void *req, void *args))                                    \
    X(int, get_xfer_status, (void *agent, void *req))                                              \
    X(int, release_xfer_req, (void *agent, void *req))                                             \
    X(int, destroy_xfer_req, (void *req))

// What the library says of a request that is complete. Durations are in microseconds.
typedef struct {
    uint64_t start, posting, moving, bytes, descriptors;
    uint64_t zeros[8]; // for a later library
} papi_telemetry;

// The loaded library.
typedef struct {
    // NULL where the library lacks it.
    int (*get_xfer_telemetry)(void *agent, void *req, papi_telemetry *);
#define PAPI_MEMBER(type, name, parameters) type(*name) parameters;
    PAPI_FUNCTIONS(PAPI_MEMBER)
#undef PAPI_MEMBER
} papi;

// papi_load opens a library for good and fills in its functions. It returns 0, or -1 with the
// loader's words in text, or the number of missing functions with their names in text.
int papi_load(const char *path, papi *out, char *text, size_t size);

// papi_catch_crashes makes crashes of what is loaded end the process with a line that says so
// and an exit code. Crashes of Go's code, and signals that others send, go on to Go's handlers.
void papi_catch_crashes(int exit_code);

// papi_flush writes out what C's streams hold. A negative status is that of a stream.
int papi_flush(void);

// papi_where writes the path of the library that a name without a slash leads to. Where it does not
// load, papi_where writes the loader's error and returns -1. text is empty at first.
int papi_where(const char *name, char *text, size_t size);

// An agent with its one backend. enter, if not NULL, makes the CUDA context current on the
// calling thread; Go may call from any.
typedef struct {
    const papi *api;
    void *agent, *backend, *args, *map;
    void *file_backend, *file_args; // NULL until papi_open_files
    int (*enter)(void *);
    void *context;
    unsigned char *mail; // what papi_fetch has got, in mailed bytes; there is room for mail_room
    size_t mailed, mail_room;
} papi_agent;

// papi_enter comes before every call of the library that may touch the memory of a GPU, or take keys to it: UCX asks
// for the context of the thread that calls it.
static inline int papi_enter(papi_agent *a) { return a->enter ? a->enter(a->context) : 0; }

// Each returns 0 or a status of the library; papi_open and papi_open_files say in *what which step failed, NULL for
// that of creating the backend. params are keys and values, each a string, with an empty key at the end. delay_us is
// that of the progress thread, if there is one. papi_start is papi_open without a backend.
int papi_start(papi_agent *a, const char *name, bool thread, uint64_t delay_us, const char **what);
int papi_open(papi_agent *a, const char *name, bool thread, uint64_t delay_us, const char *plugin,
              const char *params, const char **what);
int papi_close(papi_agent *a);

// papi_open_files creates the backend that reaches files.
int papi_open_files(papi_agent *a, const char *plugin, const char *params, const char **what);

// papi_plugin loads a plugin, writes the keys of its parameters, separated by blanks, and sets the bits of the kinds of
// memory that it reaches.
int papi_plugin(papi_agent *a, const char *plugin, char *keys, size_t size, unsigned *mems);

// The library's numbers of kinds of memory.
enum { PAPI_DRAM = 0, PAPI_VRAM = 1, PAPI_BLOCK = 2, PAPI_OBJECT = 3, PAPI_FILE = 4 };

// papi_register registers memory with the backend for peers, or with that for files.
int papi_register(papi_agent *a, bool files, int mem, uintptr_t addr, size_t len, uint64_t dev,
                  void **list);
// papi_register_objects registers count objects of len bytes, from object number first on, whose keys are the prefix,
// "-" and their number.
int papi_register_objects(papi_agent *a, uint64_t dev, uint64_t first, uint64_t count, size_t len,
                          const char *prefix, void **list);
int papi_deregister(papi_agent *a, bool files, void *list);

// papi_plugins writes the names of all plugins, separated by blanks.
void papi_plugins(papi_agent *a, char *text, size_t size);

// papi_fetch makes progress and puts the notifications that have arrived into mail: for each the length of the
// sender's name in 4 bytes of this machine's order, the name, the length of the message likewise, the message.
int papi_fetch(papi_agent *a);

// One piece of a buffer, as nixl.Desc.
typedef struct {
    int64_t off, len;
} papi_desc;

// One side of a transfer: a buffer and pieces of it. A file has its descriptor in dev. Where block is not 0, each block
// of so many bytes is an object, and dev the first one's number.
typedef struct {
    uintptr_t base;
    uint64_t dev;
    int mem;
    int64_t block;
} papi_side;

// papi_prepare makes a request, and adds the nanoseconds that took to *took.
int papi_prepare(papi_agent *a, int op, papi_side local, const papi_desc *local_descs,
                 papi_side remote, const papi_desc *remote_descs, size_t count, const char *name,
                 void **req, int64_t *took);
int papi_release(papi_agent *a, void *req);

// papi_prepare_list prepares descriptors of one side for papi_pick; name is "" for the agent's own memory.
int papi_prepare_list(papi_agent *a, const char *name, papi_side side, const papi_desc *descs,
                      size_t count, void **prepared, int64_t *took);
void papi_release_list(papi_agent *a, void *prepared);

// papi_pick is papi_prepare for descriptors of two prepared lists.
int papi_pick(papi_agent *a, int op, void *local, const int32_t *local_index, void *remote,
              const int32_t *remote_index, size_t count, void **req, int64_t *took);

// Requests that are posted together. order[0..left) are the numbers of those that were posted
// and are not complete. Times are CLOCK_MONOTONIC nanoseconds.
//
// Where the library has room for a part of them only, weight says how much of the room each
// takes, at most all of it. Those for which there is none when post returns, next and later
// ones, follow in order while the batch is polled.
typedef struct {
    papi_agent *agent;
    int64_t count, left, failed;
    void **reqs;
    uint32_t *order;
    int64_t *done;
    int64_t start, posted, end;
    uint32_t *weight; // NULL: there is room for all
    int64_t room, taken, next;
} papi_batch;

// papi_now is the time of CLOCK_MONOTONIC in nanoseconds.
int64_t papi_now(void);

// papi_batch_new makes room for count requests, all of which are posted at once if room is 0;
// else each has a weight, 0 at first. It returns NULL if there is no memory.
papi_batch *papi_batch_new(papi_agent *a, int64_t count, int64_t room);
void papi_batch_free(papi_batch *b);

// papi_post starts all requests, or those for which there is room. A negative status means that number failed was
// refused.
int papi_post(papi_batch *b);

// papi_poll looks once at each incomplete request, and posts further ones.
int papi_poll(papi_batch *b);

// papi_wait polls until all are complete, the deadline (0: none) has passed, or *abort (NULL: none)
// is not 0.
int papi_wait(papi_batch *b, int64_t deadline, const uint32_t *abort);

// papi_measured adds up the bytes that the library counted of the last run, which is complete. It returns 0, or a
// negative number where the library counts nothing.
int papi_measured(papi_batch *b, uint64_t *bytes);

// papi_run posts and waits n times. stamps, if not NULL, gets 3 + count numbers for each run:
// start, posted, end, and when each request was seen complete.
int papi_run(papi_batch *b, int64_t n, int64_t deadline, const uint32_t *abort, int64_t *stamps);

#endif
