//go:build cgo

package device

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"testing"

	"perigee/internal/fault"
)

// driverText is a stand-in for the CUDA driver: two GPUs, whose memory is that of the host.
const driverText = `
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
static char contexts[2];
static _Thread_local void *current;
static int failing(void) { return getenv("DRIVER_FAILS") != NULL; }
static const char *shown(void) { return getenv("CUDA_VISIBLE_DEVICES"); }
int cuInit(unsigned flags) { (void)flags; return failing() ? 803 : shown() && !*shown() ? 100 : 0; }
int cuDeviceGetCount(int *n) { *n = shown() ? 1 : 2; return 0; }
int cuDeviceGet(int *device, int ordinal) { *device = ordinal; return ordinal < (shown() ? 1 : 2) ? 0 : 101; }
int cuDeviceGetUuid_v2(unsigned char *uuid, int device) { memset(uuid, 0x10 + device, 16); return 0; }
int cuDevicePrimaryCtxRetain(void **context, int device) { *context = &contexts[device]; return 0; }
int cuCtxSetCurrent(void *context) { current = context; return 0; }
int cuMemAlloc_v2(uint64_t *address, size_t size) {
	if (!current) return 201;
	*address = (uint64_t)malloc(size);
	return size > 1 << 20 ? 2 : 0;
}
int cuMemFree_v2(uint64_t address) { free((void *)address); return current ? 0 : 201; }
int cuMemcpyHtoD_v2(uint64_t to, const void *from, size_t size) { memcpy((void *)to, from, size); return current ? 0 : 201; }
int cuMemcpyDtoH_v2(void *to, uint64_t from, size_t size) { memcpy(to, (void *)from, size); return current ? 0 : 201; }
int cuGetErrorString(int code, const char **text) { *text = code == 2 ? "out of memory" : "a failure"; return 0; }
`

// TestDriver runs testDriver in processes with a stand-in for the driver, where there is no real one.
func TestDriver(t *testing.T) {
	if what := os.Getenv("DRIVER_TEST"); what != "" {
		testDriver(t, what)
		return
	}
	dir := t.TempDir()
	text := filepath.Join(dir, "cuda.c")
	if err := os.WriteFile(text, []byte(driverText), 0o600); err != nil {
		t.Fatal(err)
	}
	cc := os.Getenv("CC")
	if cc == "" {
		cc = "gcc"
	}
	out, err := exec.Command(cc, "-shared", "-fPIC", "-o", filepath.Join(dir, driverName), text).CombinedOutput()
	if err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
	for what, env := range map[string]string{"two": "A=1", "one": "CUDA_VISIBLE_DEVICES=1", "hidden": "CUDA_VISIBLE_DEVICES=",
		"failing": "DRIVER_FAILS=1"} {
		child := exec.Command("/proc/self/exe", "-test.run", "^TestDriver$")
		child.Env = append(os.Environ(), "LD_LIBRARY_PATH="+dir, "DRIVER_TEST="+what, env)
		if out, err := child.CombinedOutput(); err != nil {
			t.Errorf("%s: %v\n%s", what, err, out)
		}
	}
}

func testDriver(t *testing.T, what string) {
	const first, second = "GPU-10101010-1010-1010-1010-101010101010", "GPU-11111111-1111-1111-1111-111111111111"
	want := map[string]string{"two": fmt.Sprint([]string{first, second}), "one": fmt.Sprint([]string{first}),
		"hidden": "[]", "failing": "[]"}[what]
	gpus, err := Visible()
	if got := fmt.Sprint(gpus); got != want || (err != nil) != (what == "failing") {
		t.Errorf("GPUs: %s (%v), want %s", got, err, want)
	}
	if len(gpus) == 0 {
		if _, err := OpenCUDA(0); fault.KindOf(err) != fault.Resource || fault.HintOf(err) == "" {
			t.Errorf("got %v, want an error of kind %v with a hint", err, fault.Resource)
		}
		return
	}
	if _, err := OpenCUDA(len(gpus)); fault.KindOf(err) != fault.Resource {
		t.Errorf("a GPU that is not there: %v", err)
	}
	testMemory(t)
	c, err := OpenCUDA(len(gpus) - 1)
	if err != nil {
		t.Fatal(err)
	}
	if m, err := c.Memory(1 << 21); fault.KindOf(err) != fault.Resource {
		t.Errorf("memory that is not there: %v, %v", m, err)
	}
	m, err := c.Memory(1000)
	if err != nil {
		t.Fatal(err)
	}
	if m.Device() != uint64(len(gpus)-1) || m.Size() != 1000 || m.Address() == 0 {
		t.Errorf("memory of GPU %d: %d bytes at %#x", m.Device(), m.Size(), m.Address())
	}
	if n, err := m.WriteAt(make([]byte, 2), 999); n != 0 || err == nil {
		t.Errorf("2 bytes were written to the last (%v)", err)
	}
	for range 2 {
		if err := m.Free(); err != nil || m.Size() != 0 {
			t.Errorf("free: %v, %d bytes", err, m.Size())
		}
	}
}
