package e2e

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"perigee/e2e/internal/harness"
	"perigee/internal/kit/fault"
	"perigee/internal/kit/must"
	"perigee/internal/result"
	"perigee/nixl/device/devicetest"
)

// withGPUs starts perigee on a machine with two GPUs, which a stand-in for CUDA's driver has.
func withGPUs(t *testing.T, dir, driver string, env []string, args ...string) harness.Outcome {
	t.Helper()
	harness.NeedNIXL(t)
	return harness.Start(t, harness.Command{Dir: dir, Args: args, Env: devicetest.Variables(driver, env...)}).Wait()
}

// gpuFolder has a configuration of two patterns for two ranks.
func gpuFolder(t *testing.T) string {
	t.Helper()
	dir := t.TempDir()
	for name, text := range map[string]string{
		"config.yaml": "traffic_patterns:\n- matrix_file: both.txt\n- matrix_file: one.txt\n", "both.txt": "0 1M\n300K 0\n", "one.txt": "0 5M\n0 0\n",
	} {
		must.Do(t, os.WriteFile(filepath.Join(dir, name), []byte(text), 0o600))
	}
	return dir
}

// Every byte is verified in GPU memory, in the workload too; the header and the result say which GPU each rank has, and
// speak of host memory only where it is used.
func TestGPUMemory(t *testing.T) {
	dir, driver := gpuFolder(t), devicetest.Driver(t)
	sequential := strings.Fields("sequential-ct-perftest config.yaml -n 2 --iters 2 --isolation-iters 2 --warmup-iters 1 --engine nixl --verify-buffers")
	const gpus, pages = "# GPUs: rank 0: 1 (0000:5b:00.0), rank 1: 0 (0000:1b:00.0)\n", "anonymous, huge pages advised"
	for _, op := range []string{"WRITE", "READ"} {
		o := withGPUs(t, dir, driver, nil, append(sequential, "--op", op, "--gpu-map", "1,0", "--result", op+".json")...)
		harness.Contains(t, op, o.Stdout, gpus, "# note: memory type not given, using vram: 2 of 2 ranks have a GPU\n",
			"# note: verified: every byte of 2 of 2 patterns in one more iteration of the workload")
		d, err := result.Read(filepath.Join(dir, op+".json"))
		if err != nil {
			t.Fatalf("exit code %d: %v\n%s", o.Code, err, o.Stderr)
		}
		devices := d.World.Devices
		if len(devices) != 2 || *devices[0].GPU != 1 || *devices[1].GPU != 0 || d.Engine.Params["dram"] != "" || strings.Contains(o.Stdout, pages) {
			t.Errorf("%s: devices %+v, params %v\n%s", op, devices, d.Engine.Params, o.Stdout)
		}
	}
	o := withGPUs(t, dir, driver, nil, append(sequential, "--mem-type", "dram", "--gpu-map", "1,0", "--result", "dram.json")...)
	harness.Contains(t, "dram", o.Stdout, "# host memory: "+pages+"\n", "# WARNING: --gpu-map has no effect: no memory of a GPU was used\n")
	if d, err := result.Read(filepath.Join(dir, "dram.json")); err != nil || d.World.Devices != nil || d.Engine.Params["dram"] != pages {
		t.Errorf("dram: %v, %v", d, err)
	}
	o = withGPUs(t, dir, driver, []string{"STANDIN_GPU_BYTES=12000000"}, append(sequential, "--mem-type", "vram")...)
	harness.Contains(t, "small GPUs", o.Stdout, "the workload was not verified: its patterns share memory, and apart from each other they take more than a host or a GPU has left")
	o = withGPUs(t, dir, driver, []string{"STANDIN_GPUS=1"}, append(sequential, "--mem-type", "vram")...)
	harness.Contains(t, "one GPU", o.Stdout, "# note: 2 ranks on "+harness.Hostname(t)+" share a GPU, which serves them in turn", "nvidia-cuda-mps-control -d")
	for _, args := range []string{"ct-perftest one.yaml -n 2 --verify-buffers=every --iters 3", "run kvbench -n 2 --initiator-seg-type VRAM --target-seg-type VRAM --check-consistency --total-buffer-size 8M --max-block-size 1M --num-iter 32 --warmup-iter 1"} {
		must.Do(t, os.WriteFile(filepath.Join(dir, "one.yaml"), []byte("traffic_pattern:\n  matrix_file: both.txt\n"), 0o600))
		if o := withGPUs(t, dir, driver, nil, append(strings.Fields(args), "--engine", "nixl")...); o.Code != 0 {
			t.Errorf("%s: exit code %d\n%s", args, o.Code, o.Stderr)
		}
	}
}

// What a host lacks is named with the host and with what there is.
func TestMapsOfDevices(t *testing.T) {
	dir, driver := gpuFolder(t), devicetest.Driver(t)
	host := harness.Hostname(t)
	for _, c := range []struct{ args, env, want string }{
		{"--gpu-map 0,2", "A=1", fmt.Sprintf("--gpu-map gives local rank 1 on %s GPU 2, and CUDA shows 2 GPUs there", host)},
		{"--gpu-map 1", "CUDA_VISIBLE_DEVICES=1", fmt.Sprintf("on %s GPU 1, and CUDA shows 1 GPU there", host)},
		{"--nic-map 1=lo+none0", "A=1", fmt.Sprintf("local rank 1 on %s: --nic-map names none0, which this host lacks; it has ", host)},
		{"--nic-map lo", "UCX_NET_DEVICES=lo", fmt.Sprintf(" on %s lo, and its UCX_NET_DEVICES is lo", host)},
	} {
		o := withGPUs(t, dir, driver, []string{c.env}, strings.Fields("sequential-ct-perftest config.yaml -n 2 --engine nixl "+c.args)...)
		if o.Code != int(fault.Usage) || !strings.Contains(o.Stderr, c.want) {
			t.Errorf("%s: exit code %d, want %d with %q\n%s", c.args, o.Code, fault.Usage, c.want, o.Stderr)
		}
	}
	o := withGPUs(t, dir, driver, nil, strings.Fields("sequential-ct-perftest config.yaml -n 2 --engine nixl --mem-type vram --iters 2 --verify-buffers --nic-map lo,0=x --isolation-iters 2")...)
	harness.Contains(t, "a mixed map", o.Stderr, "some entries name a local rank, and some do not")
	o = withGPUs(t, dir, driver, nil, strings.Fields("sequential-ct-perftest config.yaml -n 2 --engine nixl --mem-type vram --iters 2 --verify-buffers --nic-map lo --isolation-iters 2")...)
	harness.Contains(t, "one device for all", o.Stdout, ", nic_map lo, ", "# note: verified: every byte of 2 of 2 patterns")
}
