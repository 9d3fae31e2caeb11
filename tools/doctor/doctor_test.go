package doctor

import (
	"bytes"
	"encoding/json"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"perigee/internal/cli"
)

func write(t *testing.T, root, name, text string) {
	t.Helper()
	path := filepath.Join(root, name)
	if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(path, []byte(text), 0o644); err != nil {
		t.Fatal(err)
	}
}

func noVariables(string) (string, bool) { return "", false }

func find(t *testing.T, findings []Finding, what string) Finding {
	t.Helper()
	for _, f := range findings {
		if f.What == what {
			return f
		}
	}
	t.Fatalf("nothing said about %s in %v", what, findings)
	return Finding{}
}

// TestMadeUpMachine gives the doctor a machine on which nearly everything is wrong.
func TestMadeUpMachine(t *testing.T) {
	root := t.TempDir()
	write(t, root, "proc/meminfo", "MemTotal: 2097152 kB\nMemAvailable: 1048576 kB\n")
	write(t, root, "proc/sys/kernel/yama/ptrace_scope", "3\n")
	write(t, root, "sys/kernel/mm/transparent_hugepage/enabled", "always madvise [never]\n")
	m := machine{root: root, env: func(key string) (string, bool) {
		if key == "WORLD_SIZE" {
			return "4", true
		}
		return "", false
	}, nixlLib: filepath.Join(root, "nothing.so")}
	findings := examine(m)
	for what, want := range map[string]struct {
		verdict Verdict
		text    string
	}{
		"launcher":            {Bad, "half set"},
		"network":             {Missing, "loopback"},
		"shared memory":       {Good, "memory files"},
		"memory":              {Poor, "1.0 GiB available"},
		"cross-memory attach": {Poor, "ptrace_scope = 3"},
		"NIXL":                {Missing, "nothing.so"},
		"RDMA adapters":       {Missing, "TCP"},
		"munge":               {Missing, "no daemon"},
	} {
		f := find(t, findings, what)
		if f.Verdict != want.verdict || !strings.Contains(f.Found, want.text) {
			t.Errorf("%s: got %s, %q; want %s, ...%s...", what, f.Verdict, f.Found, want.verdict, want.text)
		}
		if (f.Verdict == Poor || f.Verdict == Bad) && f.Remedy == "" {
			t.Errorf("%s: %s without a remedy", what, f.Verdict)
		}
	}
}

func TestInactiveAdapterIsNamed(t *testing.T) {
	root := t.TempDir()
	for name, text := range map[string]string{"state": "1: DOWN\n", "rate": "400 Gb/sec (4X NDR)\n", "link_layer": "InfiniBand\n"} {
		write(t, root, "sys/class/infiniband/mlx5_0/ports/1/"+name, text)
	}
	f := find(t, adapters(machine{root: root}), "RDMA mlx5_0:1")
	if f.Verdict != Poor || !strings.Contains(f.Found, "400 Gbit/s") {
		t.Errorf("got %+v", f)
	}
}

// TestThisMachine checks that the doctor comes to an end here, and that what it
// prints is what it found.
func TestThisMachine(t *testing.T) {
	var out bytes.Buffer
	c := Cmd{JSON: true}
	err := c.Run(cli.Streams{Out: &out})
	var findings []Finding
	if err := json.Unmarshal(out.Bytes(), &findings); err != nil {
		t.Fatal(err)
	}
	bad := 0
	for _, f := range findings {
		if f.Verdict == Bad {
			bad++
		}
	}
	if (err != nil) != (bad > 0) {
		t.Errorf("%d problems, but the command says %v", bad, err)
	}
	if f := find(t, findings, "NIXL"); f.Verdict != Good {
		t.Errorf("NIXL: %+v; make test installs it and sets NIXL_LIBRARY or VIRTUAL_ENV", f)
	}
	if f := find(t, examine(machine{root: "/", env: noVariables}), "launcher"); f.Verdict != Good {
		t.Errorf("launcher: %+v", f)
	}
}
