package doctor

import (
	"bytes"
	"encoding/json"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"perigee/internal/kit/cli"
	"perigee/internal/kit/must"
	"perigee/spmd/boot"
	"perigee/spmd/boot/pmix"
)

func write(t *testing.T, root, name, text string) {
	t.Helper()
	path := filepath.Join(root, name)
	must.Do(t, os.MkdirAll(filepath.Dir(path), 0o755))
	must.Do(t, os.WriteFile(path, []byte(text), 0o644))
}

// variable is an environment of one variable.
func variable(key, value string) boot.Environ {
	return func(k string) (string, bool) {
		if k != key {
			return "", false
		}
		return value, true
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
	}, nixlLib: filepath.Join(root, "nothing.so"), loads: loadsOnly()}
	findings := examine(m, "host7")
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
		"PMIx":                {Missing, "load libpmix.so.2: not there"},
	} {
		f := find(t, findings, what)
		if f.Host != "host7" {
			t.Errorf("%s: on host %q", what, f.Host)
		}
		if f.Verdict != want.verdict || !strings.Contains(f.Found, want.text) {
			t.Errorf("%s: got %s, %q; want %s, ...%s...", what, f.Verdict, f.Found, want.verdict, want.text)
		}
		if (f.Verdict == Poor || f.Verdict == Bad) && f.Remedy == "" {
			t.Errorf("%s: %s without a remedy", what, f.Verdict)
		}
	}
}

// What would end a command that starts ranks is a problem here, with the same words.
func TestUnservedLauncher(t *testing.T) {
	for vars, want := range map[string]Finding{
		"FLUX_TASK_RANK=1 FLUX_JOB_SIZE=4":                        {Verdict: Bad, Found: "of Flux, which perigee cannot serve", Remedy: "RANK=$FLUX_TASK_RANK"},
		"FLUX_TASK_RANK=1 FLUX_JOB_SIZE=4 PERIGEE_LAUNCHER=local": {Verdict: Good, Found: "none"},
		"FLUX_TASK_RANK=0 FLUX_JOB_SIZE=1":                        {Verdict: Good, Found: "none"},
		"JOB_COMPLETION_INDEX=0":                                  {Verdict: Poor, Found: "an indexed job of Kubernetes", Remedy: "-n N"},
	} {
		env := map[string]string{}
		for _, v := range strings.Fields(vars) {
			name, value, _ := strings.Cut(v, "=")
			env[name] = value
		}
		got := launcher(machine{env: func(key string) (string, bool) { v, ok := env[key]; return v, ok }})[0]
		if got.Verdict != want.Verdict || !strings.Contains(got.Found, want.Found) || !strings.Contains(got.Remedy, want.Remedy) {
			t.Errorf("%s: %+v", vars, got)
		}
	}
}

// A container's limit is shown, and what it means for ranks.
func TestCPUQuotaIsNamed(t *testing.T) {
	root := t.TempDir()
	write(t, root, "proc/meminfo", "MemTotal: 2097152 kB\nMemAvailable: 1048576 kB\n")
	write(t, root, "proc/self/cgroup", "0::/\n")
	for limit, want := range map[string]Finding{
		"50000 100000":     {What: "CPU quota", Verdict: Poor, Found: "0.5 CPUs", Remedy: "ranks beyond this number wait"},
		"900000000 100000": {What: "CPU quota", Verdict: Good, Found: "9000 CPUs"},
		"max 100000":       {What: "memory", Verdict: Good, Found: "CPUs"},
	} {
		write(t, root, "sys/fs/cgroup/cpu.max", limit+"\n")
		all := hostMemory(machine{root: root})
		f := all[len(all)-1]
		if f.What != want.What || f.Verdict != want.Verdict || !strings.HasSuffix(f.Found, want.Found) || !strings.HasPrefix(f.Remedy, want.Remedy) || (f.Remedy == "") != (want.Remedy == "") {
			t.Errorf("%s: %+v", limit, f)
		}
	}
}

// A device of another host in UCX_NET_DEVICES makes NIXL fail, or take another one.
func TestDeviceThatIsNotThere(t *testing.T) {
	root := t.TempDir()
	write(t, root, "sys/class/net/eth0/operstate", "up\n")
	write(t, root, "sys/class/infiniband/mlx5_0/ports/1/state", "4: ACTIVE\n")
	for value, found := range map[string]string{
		"":               "eth0",
		"mlx5_0:1,eth0":  "eth0",
		"mlx5_4:1, eth0": "UCX_NET_DEVICES names mlx5_4:1, which this host lacks; it has eth0, mlx5_0:1",
	} {
		f := interfaces(machine{root: root, env: variable("UCX_NET_DEVICES", value)})[0]
		if bad := found != "eth0"; f.Found != found || (f.Verdict == Poor) != bad || (f.Remedy != "") != bad {
			t.Errorf("%q: %+v", value, f)
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

// loadsOnly is a loader of PMIx libraries that knows some.
func loadsOnly(known ...string) func(string) error {
	return func(library string) error {
		if slices.Contains(known, library) {
			return nil
		}
		return &pmix.LoadError{Path: library, Why: "not there"}
	}
}

// What srun --mpi=pmix needs on a node beside the library that perigee loads.
func TestPMIxOfSlurm(t *testing.T) {
	const runtime, developers = "libpmix.so.2", "libpmix.so"
	for name, c := range map[string]struct {
		plugin  string // its text; "" if there is none
		slurm   bool
		known   []string
		verdict Verdict
		found   string
		remedy  string
	}{
		"no Slurm":             {"", false, []string{runtime}, Good, "libpmix.so.2 can be loaded", ""},
		"no library":           {"", true, nil, Missing, "load libpmix.so.2", "libpmix2"},
		"no plugin":            {"", true, []string{runtime}, Missing, "no plugin mpi_pmix.so", "--mpi=pmi2"},
		"22.05, libpmix2 only": {"\x00libpmix.so\x00", true, []string{runtime}, Poor, "opens libpmix.so, which is not there", "libpmix-dev"},
		"22.05":                {"\x00libpmix.so\x00", true, []string{runtime, developers}, Good, "opens libpmix.so", ""},
		"23.11":                {"\x00libpmix.so.2\x00", true, []string{runtime}, Good, "opens libpmix.so.2", ""},
	} {
		root := t.TempDir()
		if c.slurm {
			write(t, root, "usr/bin/srun", "")
		}
		if c.plugin != "" {
			write(t, root, "usr/lib/x86_64-linux-gnu/slurm-wlm/mpi_pmix.so", c.plugin)
		}
		none := variable("SLURM_CONF", filepath.Join(root, "no.conf"))
		f := pmixLibraries(machine{root: root, env: none, loads: loadsOnly(c.known...)})[0]
		if f.Verdict != c.verdict || !strings.Contains(f.Found, c.found) || !strings.Contains(f.Remedy, c.remedy) || (c.remedy == "") != (f.Remedy == "") {
			t.Errorf("%s: got %+v, want %s, %q, remedy %q", name, f, c.verdict, c.found, c.remedy)
		}
	}
}

// munge is looked for where a job asks it.
func TestMungeSocket(t *testing.T) {
	root := t.TempDir()
	write(t, root, "m.sock", "")
	write(t, root, "slurm.conf", "AuthInfo=socket="+filepath.Join(root, "m.sock")+"\n")
	for name, c := range map[string]struct {
		key, value string
		verdict    Verdict
	}{
		"of slurm.conf":    {"SLURM_CONF", filepath.Join(root, "slurm.conf"), Good},
		"of the user":      {"PERIGEE_MUNGE_SOCKET", filepath.Join(root, "m.sock"), Good},
		"lost by the user": {"PERIGEE_MUNGE_SOCKET", filepath.Join(root, "lost.sock"), Missing},
	} {
		if f := munge(machine{root: root, env: variable(c.key, c.value)})[0]; f.Verdict != c.verdict || !strings.Contains(f.Found, ".sock (") {
			t.Errorf("%s: %+v", name, f)
		}
	}
}

// --json is a shorter --format json.
func TestFormats(t *testing.T) {
	findings := []Finding{{Host: "a", What: "x", Verdict: Good, Found: "f"}, {Host: "b", What: "x", Verdict: Bad, Found: "g", Remedy: "r"}}
	var long, short, text bytes.Buffer
	for out, c := range map[*bytes.Buffer]Cmd{&long: {Format: "json"}, &short: {Format: "text", JSON: true}, &text: {Format: "text"}} {
		must.Do(t, c.print(cli.Streams{Out: out}, findings))
	}
	if long.String() != short.String() || !json.Valid(long.Bytes()) {
		t.Errorf("--format json:\n%s--json:\n%s", &long, &short)
	}
	for _, want := range []string{", on a, b\n", "# host a\n", "# host b\n", "x: r\n"} {
		if !strings.Contains(text.String(), want) {
			t.Errorf("the text has no %q:\n%s", want, &text)
		}
	}
	if err := problems(findings); err == nil || !strings.Contains(err.Error(), "x on b") {
		t.Errorf("problems: %v", err)
	}
}

// TestThisMachine checks that the doctor comes to an end here, and that what it
// prints is what it found.
func TestThisMachine(t *testing.T) {
	var out bytes.Buffer
	c := Cmd{JSON: true}
	err := c.Run(cli.Streams{Out: &out})
	var findings []Finding
	must.Do(t, json.Unmarshal(out.Bytes(), &findings))
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
	if f := find(t, examine(machine{root: "/", env: noVariables, loads: pmix.Check}, "here"), "launcher"); f.Verdict != Good {
		t.Errorf("launcher: %+v", f)
	}
}

// What UCX lets in is said, and what can be done about it.
func TestUCXListeners(t *testing.T) {
	for _, c := range []struct {
		tls, tight string
		verdict    Verdict
		found      string
		remedy     string
	}{
		{"^sysv,tcp", "", Good, "none between ranks of this host (UCX_TLS=^sysv,tcp)", ""},
		{"", "", Missing, "UCX_TLS is set", "without UCX_TLS"},
		{"^sysv,posix", "/dev/shm is full", Poor, "/dev/shm is full", "more room"},
		{"^sysv", "", Poor, "UCX_NET_DEVICES is set", "unset it"},
	} {
		f := ucxListeners(c.tls, c.tight)
		if f.Verdict != c.verdict || !strings.Contains(f.Found, c.found) || !strings.Contains(f.Remedy, c.remedy) || (c.remedy == "") != (f.Remedy == "") {
			t.Errorf("%+v: %+v", c, f)
		}
	}
}
