#define _GNU_SOURCE
#include "papi.h"

#include <dlfcn.h>
#include <link.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

static void append(char *text, size_t size, const char *word) {
    size_t used = strlen(text);
    if (used < size) snprintf(text + used, size - used, "%s%s", used ? " " : "", word);
}

static void leave(int status, void *unused) {
    (void)unused;
    fflush(NULL);
    _exit(status);
}

// skip_destructors makes C's exit leave before it comes to the destructors of everything that has
// been loaded so far. The library's crash; Go's race detector, for one, calls exit.
static void skip_destructors(void) {
#ifdef __GLIBC__
    on_exit(leave, NULL);
#endif
}

int papi_load(const char *path, papi *out, char *text, size_t size) {
    text[0] = 0;
    void *library = dlopen(path, RTLD_NOW | RTLD_LOCAL);
    if (!library) {
        append(text, size, dlerror());
        return -1;
    }
    int missing = 0;
#define PAPI_RESOLVE(type, name, parameters)                                                       \
    *(void **)&out->name = dlsym(library, "nixl_capi_" #name);                                     \
    if (!out->name) {                                                                              \
        missing++;                                                                                 \
        append(text, size, "nixl_capi_" #name);                                                    \
    }
    PAPI_FUNCTIONS(PAPI_RESOLVE)
#undef PAPI_RESOLVE
    *(void **)&out->get_xfer_telemetry = dlsym(library, "nixl_capi_get_xfer_telemetry");
    if (missing)
        dlclose(library);
    else
        skip_destructors();
    return missing;
}

int papi_where(const char *name, char *text, size_t size) {
    void *library = dlopen(name, RTLD_LAZY | RTLD_LOCAL);
    if (!library) {
        append(text, size, dlerror());
        return -1;
    }
    struct link_map *map = NULL;
    int status = dlinfo(library, RTLD_DI_LINKMAP, &map);
    if (status == 0) snprintf(text, size, "%s", map->l_name);
    dlclose(library);
    return status;
}

// STEP runs a call and leaves open_agent with its status if it fails.
#define STEP(words, call)                                                                          \
    do {                                                                                           \
        *what = words;                                                                             \
        int status = (call);                                                                       \
        if (status < 0) return status;                                                             \
    } while (0)

// create_backend creates a backend of a plugin with parameters as papi_open has them.
static int create_backend(papi_agent *a, const char *plugin, const char *params, void **backend,
                          const char **what) {
    void *list = NULL;
    STEP("create parameters", a->api->create_params(&list));
    *what = NULL;
    int status = 0;
    while (*params && status >= 0) {
        const char *value = params + strlen(params) + 1;
        status = a->api->params_add(list, params, value);
        params = value + strlen(value) + 1;
    }
    if (status >= 0) status = a->api->create_backend(a->agent, plugin, list, backend);
    a->api->destroy_params(list);
    return status;
}

// create_args makes arguments that choose a backend.
static int create_args(papi_agent *a, void *backend, void **args, const char **what) {
    STEP("create arguments", a->api->create_opt_args(args));
    STEP("choose the backend", a->api->opt_args_add_backend(*args, backend));
    STEP("keep descriptors apart", a->api->opt_args_set_skip_desc_merge(*args, true));
    return 0;
}

int papi_flush(void) { return fflush(NULL); }

int papi_start(papi_agent *a, const char *name, bool thread, uint64_t delay_us, const char **what) {
    papi_config settings = {.progress_thread = thread, .progress_delay_us = delay_us, .workers = 1};
    STEP("create an agent", a->api->create_configured_agent(name, &settings, &a->agent));
    return 0;
}

int papi_open(papi_agent *a, const char *name, bool thread, uint64_t delay_us, const char *plugin,
              const char *params, const char **what) {
    static int plugins_loaded;
    int status = papi_start(a, name, thread, delay_us, what);
    if (status >= 0) status = create_backend(a, plugin, params, &a->backend, what);
    if (status >= 0) status = create_args(a, a->backend, &a->args, what);
    if (status < 0) return status;
    STEP("create a notification map", a->api->create_notif_map(&a->map));
    if (!__atomic_exchange_n(&plugins_loaded, 1, __ATOMIC_RELAXED)) skip_destructors();
    return 0;
}

// destroy runs a destructor on a handle, if there is one.
static int destroy(int (*f)(void *), void **handle) {
    if (!*handle) return 0;
    int status = f(*handle);
    *handle = NULL;
    return status;
}

int papi_open_files(papi_agent *a, const char *plugin, const char *params, const char **what) {
    papi_enter(a);
    int status = create_backend(a, plugin, params, &a->file_backend, what);
    return status < 0 ? status : create_args(a, a->file_backend, &a->file_args, what);
}

int papi_close(papi_agent *a) {
    papi_enter(a);
    free(a->mail);
    a->mail = NULL;
    a->mailed = a->mail_room = 0;
    int status[] = {
        destroy(a->api->destroy_notif_map, &a->map),
        destroy(a->api->destroy_opt_args, &a->file_args),
        destroy(a->api->destroy_backend, &a->file_backend),
        destroy(a->api->destroy_opt_args, &a->args),
        destroy(a->api->destroy_backend, &a->backend),
        destroy(a->api->destroy_agent, &a->agent),
    };
    for (size_t i = 0; i < sizeof status / sizeof *status; i++)
        if (status[i] < 0) return status[i];
    return 0;
}

void papi_plugins(papi_agent *a, char *text, size_t size) {
    void *list = NULL;
    size_t count = 0;
    text[0] = 0;
    if (!a->agent || a->api->get_available_plugins(a->agent, &list) < 0) return;
    a->api->string_list_size(list, &count);
    for (size_t i = 0; i < count; i++) {
        const char *name = NULL;
        if (a->api->string_list_get(list, i, &name) >= 0 && name) append(text, size, name);
    }
    a->api->destroy_string_list(list);
}

int papi_plugin(papi_agent *a, const char *plugin, char *keys, size_t size, unsigned *mems) {
    const papi *api = a->api;
    void *list = NULL, *params = NULL, *iterator = NULL;
    keys[0] = 0;
    *mems = 0;
    int status = api->get_plugin_params(a->agent, plugin, &list, &params);
    if (status < 0) return status;
    size_t count = 0;
    api->mem_list_size(list, &count);
    for (size_t i = 0; i < count; i++) {
        int mem = 0;
        if (api->mem_list_get(list, i, &mem) >= 0 && mem >= 0 && mem < 32) *mems |= 1u << mem;
    }
    bool more = api->params_create_iterator(params, &iterator) >= 0;
    while (more) {
        const char *key = NULL, *value = NULL;
        if (api->params_iterator_next(iterator, &key, &value, &more) < 0 || !key) break;
        append(keys, size, key);
    }
    destroy(api->params_destroy_iterator, &iterator);
    destroy(api->destroy_params, &params);
    destroy(api->destroy_mem_list, &list);
    return 0;
}

int papi_register(papi_agent *a, bool files, int mem, uintptr_t addr, size_t len, uint64_t dev,
                  void **list) {
    papi_enter(a);
    int status = a->api->create_reg_dlist(mem, list);
    if (status < 0) return status;
    status = a->api->reg_dlist_add_desc(*list, addr, len, dev, NULL, 0);
    if (status >= 0) status = a->api->register_mem(a->agent, *list, files ? a->file_args : a->args);
    if (status < 0) destroy(a->api->destroy_reg_dlist, list);
    return status;
}

int papi_register_objects(papi_agent *a, uint64_t dev, uint64_t first, uint64_t count, size_t len,
                          const char *prefix, void **list) {
    char key[4096];
    int status = a->api->create_reg_dlist(PAPI_OBJECT, list);
    if (status < 0) return status;
    for (uint64_t i = first; status >= 0 && i < first + count; i++) {
        int n = snprintf(key, sizeof key, "%s-%llu", prefix, (unsigned long long)i);
        status = n < 0 || (size_t)n >= sizeof key
                     ? -1
                     : a->api->reg_dlist_add_desc(*list, 0, len, dev + i, key, n);
    }
    if (status >= 0) status = a->api->register_mem(a->agent, *list, a->file_args);
    if (status < 0) destroy(a->api->destroy_reg_dlist, list);
    return status;
}

int papi_deregister(papi_agent *a, bool files, void *list) {
    papi_enter(a);
    int status = a->api->deregister_mem(a->agent, list, files ? a->file_args : a->args);
    a->api->destroy_reg_dlist(list);
    return status;
}

// field adds a length and that many bytes to the mail. It returns 0, or -1 if there is no memory.
static int field(papi_agent *a, const void *data, size_t len) {
    uint32_t length = len;
    size_t end = a->mailed + sizeof length + len;
    if (end > a->mail_room) {
        size_t room = end + end / 2 + 1024;
        unsigned char *more = realloc(a->mail, room);
        if (!more) return -1;
        a->mail = more;
        a->mail_room = room;
    }
    memcpy(a->mail + a->mailed, &length, sizeof length);
    memcpy(a->mail + a->mailed + sizeof length, data, len);
    a->mailed = end;
    return 0;
}

// walk adds all notifications of the map to the mail.
static int walk(papi_agent *a) {
    const papi *api = a->api;
    size_t senders = 0;
    int status = api->notif_map_size(a->map, &senders);
    for (size_t i = 0; status >= 0 && i < senders; i++) {
        const char *name = NULL;
        size_t count = 0;
        status = api->notif_map_get_agent_at(a->map, i, &name);
        if (status >= 0) status = api->notif_map_get_notifs_size(a->map, name, &count);
        for (size_t k = 0; status >= 0 && k < count; k++) {
            const void *data = NULL;
            size_t len = 0;
            status = api->notif_map_get_notif(a->map, name, k, &data, &len);
            if (status >= 0) status = field(a, name, strlen(name));
            if (status >= 0) status = field(a, data, len);
        }
    }
    return status;
}

int papi_fetch(papi_agent *a) {
    papi_enter(a);
    a->mailed = 0;
    int status = a->api->get_notifs(a->agent, a->map, NULL);
    if (status < 0) return status;
    status = walk(a);
    if (status < 0 || a->mailed) a->api->notif_map_clear(a->map);
    return status;
}

static int describe(const papi *api, papi_side side, const papi_desc *descs, size_t count,
                    void **list) {
    int status = api->create_xfer_dlist(side.mem, list);
    for (size_t i = 0; status >= 0 && i < count; i++)
        status = side.block ? api->xfer_dlist_add_desc(*list, 0, descs[i].len,
                                                       side.dev + descs[i].off / side.block)
                            : api->xfer_dlist_add_desc(*list, side.base + descs[i].off,
                                                       descs[i].len, side.dev);
    return status;
}

int papi_prepare(papi_agent *a, int op, papi_side local, const papi_desc *local_descs,
                 papi_side remote, const papi_desc *remote_descs, size_t count, const char *name,
                 void **req, int64_t *took) {
    void *here = NULL, *there = NULL;
    void *args = remote.mem >= PAPI_BLOCK ? a->file_args : a->args;
    papi_enter(a);
    int64_t start = papi_now();
    int status = describe(a->api, local, local_descs, count, &here);
    if (status >= 0) status = describe(a->api, remote, remote_descs, count, &there);
    if (status >= 0) status = a->api->create_xfer_req(a->agent, op, here, there, name, req, args);
    destroy(a->api->destroy_xfer_dlist, &here);
    destroy(a->api->destroy_xfer_dlist, &there);
    *took += papi_now() - start;
    return status;
}

int papi_release(papi_agent *a, void *req) {
    papi_enter(a);
    int status = a->api->release_xfer_req(a->agent, req);
    if (status < 0) return status; // still in use by the library: better lost than freed
    return a->api->destroy_xfer_req(req);
}

int papi_measured(papi_batch *b, uint64_t *bytes) {
    const papi *api = b->agent->api;
    *bytes = 0;
    if (!api->get_xfer_telemetry) return -1;
    for (int64_t i = 0; i < b->count; i++) {
        papi_telemetry t = {0};
        int status = api->get_xfer_telemetry(b->agent->agent, b->reqs[i], &t);
        if (status != 0) return -1;
        *bytes += t.bytes;
    }
    return 0;
}

int papi_prepare_list(papi_agent *a, const char *name, papi_side side, const papi_desc *descs,
                      size_t count, void **prepared, int64_t *took) {
    void *list = NULL;
    papi_enter(a);
    int64_t start = papi_now();
    int status = describe(a->api, side, descs, count, &list);
    if (status >= 0) status = a->api->prep_xfer_dlist(a->agent, name, list, prepared, a->args);
    destroy(a->api->destroy_xfer_dlist, &list);
    *took += papi_now() - start;
    return status;
}

void papi_release_list(papi_agent *a, void *prepared) {
    papi_enter(a);
    a->api->release_xfer_dlist_handle(a->agent, prepared);
}

int papi_pick(papi_agent *a, int op, void *local, const int32_t *local_index, void *remote,
              const int32_t *remote_index, size_t count, void **req, int64_t *took) {
    papi_enter(a);
    int64_t start = papi_now();
    int status = a->api->make_xfer_req(a->agent, op, local, local_index, count, remote, remote_index,
                                       count, req, a->args);
    *took += papi_now() - start;
    return status;
}
