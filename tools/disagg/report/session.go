package report

import (
	"cmp"
	"context"
	"encoding/csv"
	"encoding/json"
	"io"
	"net"
	"os"
	"os/exec"
	"os/user"
	"path/filepath"
	"runtime"
	"strconv"
	"strings"
	"time"

	"perigee/internal/kit/file"
)

// SessionName is the file of an output folder that says where a run was started.
const SessionName = "session_properties.csv"

// WriteSession writes the properties of the machine a run was started on, one
// row. What is not there, such as a GPU, is "unknown" or 0 and no error.
func WriteSession(dir string, began, ended time.Time) error {
	driver, count, gpus := graphics()
	properties := [][2]string{
		{"username", username()}, {"start_timestamp", began.Format(stampLayout)}, {"hostname", known(os.Hostname())},
		{"ip", address()},
		{"nvidia_driver_version", driver}, {"nvidia_device_count", strconv.Itoa(count)},
		{"os_properties", object(system())},
		{"cpu_properties", object(processor())}, {"gpu_properties", object(gpus)}, {"trt_change_id", "unknown"},
		{"trt_branch", "unknown"},
		{"commit_timestamp", "unknown"}, {"cuda_version", cuda()}, {"cublas_version", "unknown"},
		{"cudnn_version", "unknown"},
		{"end_timestamp", ended.Format(stampLayout)},
	}
	return file.Write(filepath.Join(dir, SessionName), func(w io.Writer) error {
		c := csv.NewWriter(w)
		for column := range 2 {
			var row []string
			for _, p := range properties {
				row = append(row, p[column])
			}
			if err := c.Write(row); err != nil {
				return err
			}
		}
		c.Flush()
		return c.Error()
	})
}

const unknown = "unknown"

// object writes a value as JSON.
func object(v any) string {
	text, err := json.Marshal(v)
	return known(string(text), err)
}

// known is a text, or unknown where there is an error or the text is empty.
func known(text string, err error) string {
	if err != nil {
		return unknown
	}
	return cmp.Or(strings.TrimSpace(text), unknown)
}

func username() string {
	u, err := user.Current()
	if err != nil {
		return unknown
	}
	return u.Username
}

// address is the first address that is not a loopback's.
func address() string {
	list, err := net.InterfaceAddrs()
	if err != nil {
		return unknown
	}
	for _, a := range list {
		if ip, ok := a.(*net.IPNet); ok && !ip.IP.IsLoopback() && !ip.IP.IsLinkLocalUnicast() {
			return ip.IP.String()
		}
	}
	return "127.0.0.1"
}

func system() map[string]string {
	kernel, err := os.ReadFile("/proc/sys/kernel/osrelease")
	m := map[string]string{"os": runtime.GOOS, "arch": runtime.GOARCH, "kernel": known(string(kernel), err)}
	if name := fileFields("/etc/os-release", "=")["PRETTY_NAME"]; name != "" {
		m["name"] = strings.Trim(name, `"`)
	}
	return m
}

func processor() map[string]any {
	m := map[string]any{"cpus": runtime.NumCPU()}
	fields := fileFields("/proc/cpuinfo", ":")
	if model := cmp.Or(fields["model name"], fields["CPU part"]); model != "" {
		m["model"] = model
	}
	return m
}

// fileFields reads lines of a key, a separator and a value; the first of a key
// counts.
func fileFields(path, separator string) map[string]string {
	m := map[string]string{}
	text, _ := os.ReadFile(path) // what is not there is unknown
	for line := range strings.Lines(string(text)) {
		key, value, ok := strings.Cut(line, separator)
		if key = strings.TrimSpace(key); ok && m[key] == "" {
			m[key] = strings.TrimSpace(value)
		}
	}
	return m
}

// ask runs a short command; its output is empty where it fails.
func ask(name string, args ...string) string {
	ctx, cancel := context.WithTimeout(context.Background(), 10*time.Second)
	defer cancel()
	out, err := exec.CommandContext(ctx, name, args...).Output()
	if err != nil {
		return ""
	}
	return string(out)
}

// graphics asks nvidia-smi for the driver and the GPUs.
func graphics() (driver string, count int, gpus map[string]any) {
	out := strings.TrimSpace(ask("nvidia-smi", "--query-gpu=driver_version,name,pci.device_id",
		"--format=csv,noheader"))
	if out == "" {
		return unknown, 0, map[string]any{"name": unknown, "device_id": 0}
	}
	lines := strings.Split(out, "\n")
	fields := strings.Split(lines[0]+",,", ",")
	id, _ := strconv.ParseUint(strings.TrimPrefix(strings.TrimSpace(fields[2]), "0x"), 16, 64)
	return strings.TrimSpace(fields[0]), len(lines), map[string]any{"name": strings.TrimSpace(fields[1]),
		"device_id": id}
}

// cuda is the version that nvcc or else nvidia-smi prints.
func cuda() string {
	for _, c := range []struct{ command, mark string }{{"nvcc --version", "release "},
		{"nvidia-smi", "CUDA Version: "}} {
		words := strings.Fields(c.command)
		if _, rest, ok := strings.Cut(ask(words[0], words[1:]...), c.mark); ok {
			return strings.FieldsFunc(rest, func(r rune) bool { return r == ',' || r == ' ' || r == '\n' })[0]
		}
	}
	return unknown
}
