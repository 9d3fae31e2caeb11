// Package devicetest has GPUs for tests: a stand-in for CUDA's driver and for NVML (driver/cuda.c), whose GPU memory is
// host memory that only the driver's calls are meant to touch. Driver compiles it; a process that has its folder first
// in LD_LIBRARY_PATH has GPUs, also perigee as a whole. package device loads both libraries once in a process, so a
// test runs its body in another one (Again).
//
// These variables of the process describe the machine:
//
//	STANDIN_GPUS          how many GPUs there are, 2 by default, at most 16
//	STANDIN_GPU_BYTES     memory of each, for each process; 64 MiB by default
//	STANDIN_FAILS         if set, CUDA does not start (error 803)
//	CUDA_VISIBLE_DEVICES  ordinals that CUDA shows, and their order, as with the real driver
//
// GPU k has the UUID that repeats the byte 0x10+k, and the PCI address 00000000:XX:00.0 with XX = 0x1B+0x40*k.
// NIXL with UCX moves such memory between the ranks of a host, as it moves host memory: without its own CUDA code,
// which needs more of the driver (UCX_MODULES), and with the stand-in's answer that it is a GPU's (LD_PRELOAD). So
// perigee runs as a whole with --mem-type vram where there is no GPU, and every byte can be verified; times mean
// nothing.
package devicetest

import (
	_ "embed"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
)

//go:embed driver/cuda.c
var source []byte

// Driver compiles the stand-in and returns the folder that has libcuda.so.1 and libnvidia-ml.so.1. A machine without a
// C compiler (CC, gcc) fails the test.
func Driver(t testing.TB) (folder string) {
	t.Helper()
	folder = t.TempDir()
	text := filepath.Join(folder, "cuda.c")
	if err := os.WriteFile(text, source, 0o600); err != nil {
		t.Fatal(err)
	}
	cc := os.Getenv("CC")
	if cc == "" {
		cc = "gcc"
	}
	library := filepath.Join(folder, "libcuda.so.1")
	out, err := exec.Command(cc, "-O1", "-Wall", "-shared", "-fPIC", "-Wl,-soname,libcuda.so.1", "-o", library, text,
		"-lpthread", "-ldl").CombinedOutput()
	if err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
	if err := os.Symlink("libcuda.so.1", filepath.Join(folder, "libnvidia-ml.so.1")); err != nil {
		t.Fatal(err)
	}
	return folder
}

// Variables set up a process, as NAME=VALUE: the stand-in of a folder, and further ones.
func Variables(folder string, more ...string) []string {
	path := folder
	if before := os.Getenv("LD_LIBRARY_PATH"); before != "" {
		path += ":" + before
	}
	return append([]string{"LD_LIBRARY_PATH=" + path, "LD_PRELOAD=" + filepath.Join(folder, "libcuda.so.1"),
		"UCX_MODULES=^cuda,gda,gdp"}, more...)
}

// Environ is the environment of this process, with Variables.
func Environ(folder string, more ...string) []string {
	return append(os.Environ(), Variables(folder, more...)...)
}

// again names the variable that a process has which Again has started.
const again = "STANDIN_TEST"

// Again runs the test that calls it once more, in a process that has the stand-in, and reports whether this is that
// process: the test then goes on with its body, and otherwise returns.
//
//	if !devicetest.Again(t) {
//		return
//	}
func Again(t *testing.T, variables ...string) bool {
	t.Helper()
	if Inside(t) {
		return true
	}
	child := exec.Command("/proc/self/exe", "-test.run", "^"+t.Name()+"$", "-test.v")
	child.Env = Environ(Driver(t), append(variables, again+"="+t.Name())...)
	if out, err := child.CombinedOutput(); err != nil {
		t.Errorf("with the stand-in for CUDA: %v\n%s", err, out)
	}
	return false
}

// Inside reports whether this is the process of Again for a test, or for the test that it is part of.
func Inside(t *testing.T) bool {
	name, _, _ := strings.Cut(t.Name(), "/")
	return os.Getenv(again) == name
}
