//go:build cgo

package device

import (
	"fmt"
	"os"
	"os/exec"
	"testing"
	"unsafe"

	"perigee/internal/kit/fault"
	"perigee/internal/kit/must"
	"perigee/nixl/device/devicetest"
)

// TestDriver runs testDriver in processes with a stand-in for the driver, where there is no real one.
func TestDriver(t *testing.T) {
	if what := os.Getenv("DRIVER_TEST"); what != "" {
		testDriver(t, what)
		return
	}
	folder := devicetest.Driver(t)
	for what, env := range map[string]string{"two": "A=1", "one": "CUDA_VISIBLE_DEVICES=1", "swapped": "CUDA_VISIBLE_DEVICES=1,0",
		"hidden": "CUDA_VISIBLE_DEVICES=", "failing": "STANDIN_FAILS=1"} {
		child := exec.Command("/proc/self/exe", "-test.run", "^TestDriver$")
		child.Env = devicetest.Environ(folder, "STANDIN_GPU_BYTES=1048576", "DRIVER_TEST="+what, env)
		if out, err := child.CombinedOutput(); err != nil {
			t.Errorf("%s: %v\n%s", what, err, out)
		}
	}
}

func testDriver(t *testing.T, what string) {
	const first, second = "GPU-10101010-1010-1010-1010-101010101010", "GPU-11111111-1111-1111-1111-111111111111"
	want := map[string]string{"two": fmt.Sprint([]string{first, second}), "one": fmt.Sprint([]string{second}),
		"swapped": fmt.Sprint([]string{second, first}), "hidden": "[]", "failing": "[]"}[what]
	gpus, err := Visible()
	if got := fmt.Sprint(gpus); got != want || (err != nil) != (what == "failing") {
		t.Errorf("GPUs: %s (%v), want %s", got, err, want)
	}
	listed := fmt.Sprint([]GPU{{0, "Stand-in GPU", 1 << 20, first, "00000000:1B:00.0"}, {1, "Stand-in GPU", 1 << 20, second, "00000000:5B:00.0"}})
	if list, err := GPUs(); fmt.Sprint(list) != listed || err != nil {
		t.Errorf("NVML: %v (%v), want %s", list, err, listed)
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
	must.Do(t, err)
	if m, err := c.Memory(1 << 21); fault.KindOf(err) != fault.Resource {
		t.Errorf("memory that is not there: %v, %v", m, err)
	}
	m, err := c.Memory(1000)
	must.Do(t, err)
	if m.Device() != uint64(len(gpus)-1) || m.Size() != 1000 || m.Address() == 0 {
		t.Errorf("memory of GPU %d: %d bytes at %#x", m.Device(), m.Size(), m.Address())
	}
	if left, err := c.Left(); left != 1<<20-1000 || err != nil {
		t.Errorf("%d bytes are left (%v), want all but 1000", left, err)
	}
	// The bytes are in the GPU as WriteAt returns, where a peer may overwrite them next.
	if _, err := m.WriteAt([]byte{1, 2, 3}, 997); err != nil {
		t.Error(err)
	} else if got := unsafe.Slice((*byte)(unsafe.Add(unsafe.Pointer(nil), m.Address())), 1000); got[999] != 3 {
		t.Errorf("the last byte that was written is %d, want 3", got[999])
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
