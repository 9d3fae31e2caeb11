//go:build cgo

package device

/*
#cgo LDFLAGS: -ldl
#include <dlfcn.h>
#include <stddef.h>
#include <stdint.h>

// The few functions of the CUDA driver that are needed. Results are 0 or an error code.
typedef struct {
	int (*init)(unsigned);
	int (*count)(int *);
	int (*device_get)(int *, int);
	int (*uuid)(void *, int);
	int (*retain)(void **, int);
	int (*set_current)(void *);
	int (*alloc)(uint64_t *, size_t);
	int (*free)(uint64_t);
	int (*to_device)(uint64_t, const void *, size_t);
	int (*to_host)(void *, uint64_t, size_t);
	int (*room)(size_t *, size_t *);
	int (*synchronize)(void *);
	int (*error_string)(int, const char **);
} cuda;

// cuda_load returns NULL, or what is missing.
static const char *cuda_load(cuda *c) {
	void *library = dlopen("libcuda.so.1", RTLD_NOW | RTLD_LOCAL);
	if (!library) return "libcuda.so.1";
	struct { void **f; const char *name; } all[] = {
		{(void **)&c->init, "cuInit"},
		{(void **)&c->count, "cuDeviceGetCount"},
		{(void **)&c->device_get, "cuDeviceGet"},
		{(void **)&c->uuid, "cuDeviceGetUuid_v2"},
		{(void **)&c->retain, "cuDevicePrimaryCtxRetain"},
		{(void **)&c->set_current, "cuCtxSetCurrent"},
		{(void **)&c->alloc, "cuMemAlloc_v2"},
		{(void **)&c->free, "cuMemFree_v2"},
		{(void **)&c->to_device, "cuMemcpyHtoD_v2"},
		{(void **)&c->to_host, "cuMemcpyDtoH_v2"},
		{(void **)&c->room, "cuMemGetInfo_v2"},
		{(void **)&c->synchronize, "cuStreamSynchronize"},
		{(void **)&c->error_string, "cuGetErrorString"},
	};
	for (size_t i = 0; i < sizeof all / sizeof *all; i++)
		if (!(*all[i].f = dlsym(library, all[i].name))) return all[i].name;
	return NULL;
}

static const char *cuda_error(cuda *c, int code) {
	const char *text = NULL;
	return c->error_string(code, &text) == 0 && text ? text : "unknown error";
}

// A Go routine may come from any thread, so each call makes the context current first.
static int cuda_open(cuda *c, int ordinal, int *device, void **context) {
	int code = c->init(0);
	if (!code) code = c->device_get(device, ordinal);
	if (!code) code = c->retain(context, *device);
	return code;
}
static int cuda_count(cuda *c, int *count) {
	int code = c->init(0);
	return code ? code : c->count(count);
}
static int cuda_uuid(cuda *c, int ordinal, void *uuid) {
	int device;
	int code = c->device_get(&device, ordinal);
	return code ? code : c->uuid(uuid, device);
}
static int cuda_alloc(cuda *c, void *context, uint64_t *address, size_t size) {
	int code = c->set_current(context);
	return code ? code : c->alloc(address, size);
}
static int cuda_free(cuda *c, void *context, uint64_t address) {
	int code = c->set_current(context);
	return code ? code : c->free(address);
}
static int cuda_room(cuda *c, void *context, size_t *left) {
	size_t total;
	int code = c->set_current(context);
	return code ? code : c->room(left, &total);
}
// A copy from pageable memory returns when it is staged: its bytes may come to the GPU after those of a peer, which
// knows nothing of the stream.
static int cuda_in(cuda *c, void *context, uint64_t to, const void *from, size_t size) {
	int code = c->set_current(context);
	if (!code) code = c->to_device(to, from, size);
	return code ? code : c->synchronize(NULL);
}
static int cuda_out(cuda *c, void *context, void *to, uint64_t from, size_t size) {
	int code = c->set_current(context);
	return code ? code : c->to_host(to, from, size);
}
static void *cuda_hook(cuda *c) { return (void *)c->set_current; }
*/
import "C"

import (
	"fmt"
	"sync"
	"unsafe"

	"perigee/internal/kit/fault"
)

// CUDA is the primary context of one GPU.
type CUDA struct {
	ordinal int
	device  C.int
	context unsafe.Pointer
}

// driverName names the file that loadDriver reports as missing where there is no driver.
const driverName = "libcuda.so.1"

// driver is loaded once and kept.
var driver struct {
	once    sync.Once
	calls   C.cuda
	missing string
}

func loadDriver() {
	driver.once.Do(func() {
		if text := C.cuda_load(&driver.calls); text != nil {
			driver.missing = C.GoString(text)
		}
	})
}

// noDevice is CUDA_ERROR_NO_DEVICE.
const noDevice = 100

// Visible lists the UUIDs of the GPUs that CUDA lets this process use, by ordinal: CUDA_VISIBLE_DEVICES hides others
// that GPUs lists, and orders them. No driver, or no GPU, is an empty list.
var Visible = sync.OnceValues(func() ([]string, error) {
	loadDriver()
	if driver.missing == driverName {
		return nil, nil
	}
	if driver.missing != "" {
		return nil, fault.New(fault.Resource, "the CUDA driver lacks %s", driver.missing)
	}
	var count C.int
	switch code := C.cuda_count(&driver.calls, &count); code {
	case 0:
	case noDevice:
		return nil, nil
	default:
		return nil, fault.New(fault.Resource, "CUDA: %s (error %d)", C.GoString(C.cuda_error(&driver.calls, code)),
			int(code))
	}
	uuids := make([]string, count)
	for i := range uuids {
		var b [16]byte
		if code := C.cuda_uuid(&driver.calls, C.int(i), unsafe.Pointer(&b)); code != 0 {
			return nil, (&CUDA{ordinal: i}).fail("identifying it", code)
		}
		uuids[i] = fmt.Sprintf("GPU-%x-%x-%x-%x-%x", b[:4], b[4:6], b[6:8], b[8:10], b[10:])
	}
	return uuids, nil
})

// opened has the contexts of this process, by ordinal.
var opened struct {
	sync.Mutex
	gpus map[int]*CUDA
}

// OpenCUDA returns the primary context of the GPU with this ordinal. It stays until the process ends: UCX crashes on a
// thread whose current context has ended, and Go's threads keep theirs. A machine without a GPU or a driver is an error
// of kind Resource.
func OpenCUDA(ordinal int) (*CUDA, error) {
	opened.Lock()
	defer opened.Unlock()
	if c := opened.gpus[ordinal]; c != nil {
		return c, nil
	}
	c, err := openCUDA(ordinal)
	if err != nil {
		return nil, err
	}
	if opened.gpus == nil {
		opened.gpus = map[int]*CUDA{}
	}
	opened.gpus[ordinal] = c
	return c, nil
}

// openCUDA takes the primary context of a GPU, which all libraries of the process share.
func openCUDA(ordinal int) (*CUDA, error) {
	loadDriver()
	const hint = "use memory type dram (mem_type: dram, or --mem-type dram), or run where there is a GPU"
	switch driver.missing {
	case "":
	case driverName:
		return nil, fault.New(fault.Resource, "no GPU memory: there is no CUDA driver (%s)", driverName).WithHint(hint)
	default:
		return nil, fault.New(fault.Resource, "no GPU memory: the CUDA driver lacks %s", driver.missing).WithHint(hint)
	}
	c := &CUDA{ordinal: ordinal}
	if code := C.cuda_open(&driver.calls, C.int(ordinal), &c.device, &c.context); code != 0 {
		return nil, c.fail("opening", code).WithHint(hint)
	}
	return c, nil
}

func (c *CUDA) fail(doing string, code C.int) *fault.Error {
	return fault.New(fault.Resource, "GPU %d: %s: %s (CUDA error %d)", c.ordinal, doing,
		C.GoString(C.cuda_error(&driver.calls, code)), int(code))
}

// Alloc returns the address of size > 0 bytes of the GPU's memory. A lack of memory is an error of the kind Resource.
func (c *CUDA) Alloc(size int64) (uintptr, error) {
	var address C.uint64_t
	if code := C.cuda_alloc(&driver.calls, c.context, &address, C.size_t(size)); code != 0 {
		return 0, c.fail("allocating memory", code).WithHint("use smaller matrices or fewer ranks on this GPU")
	}
	return uintptr(address), nil
}

// Free gives back what Alloc returned.
func (c *CUDA) Free(address uintptr) error {
	if code := C.cuda_free(&driver.calls, c.context, C.uint64_t(address)); code != 0 {
		return c.fail("freeing memory", code)
	}
	return nil
}

// Left is how many bytes of the GPU's memory no process has taken.
func (c *CUDA) Left() (int64, error) {
	var left C.size_t
	if code := C.cuda_room(&driver.calls, c.context, &left); code != 0 {
		return 0, c.fail("asking for the memory that is left", code)
	}
	return int64(left), nil
}

// CopyIn copies host memory to the GPU and waits until it is there.
func (c *CUDA) CopyIn(to uintptr, from []byte) error {
	if len(from) == 0 {
		return nil
	}
	if code := C.cuda_in(&driver.calls, c.context, C.uint64_t(to), unsafe.Pointer(&from[0]),
		C.size_t(len(from))); code != 0 {
		return c.fail("copying to its memory", code)
	}
	return nil
}

// CopyOut copies GPU memory to the host and waits for the end.
func (c *CUDA) CopyOut(to []byte, from uintptr) error {
	if len(to) == 0 {
		return nil
	}
	if code := C.cuda_out(&driver.calls, c.context, unsafe.Pointer(&to[0]), C.uint64_t(from),
		C.size_t(len(to))); code != 0 {
		return c.fail("copying from its memory", code)
	}
	return nil
}

// Ordinal is the GPU's number for the driver.
func (c *CUDA) Ordinal() int { return c.ordinal }

// Hook returns the C function int set(void *context) that makes the context current on the
// calling thread, and its argument.
func (c *CUDA) Hook() (set, context unsafe.Pointer) {
	return C.cuda_hook(&driver.calls), c.context
}
