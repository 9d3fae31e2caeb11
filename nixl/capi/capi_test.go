//go:build cgo

package capi

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"runtime"
	"strings"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"perigee/internal/kit/fault"
	"perigee/internal/kit/must"
	"perigee/nixl"
	"perigee/nixl/device"
	"perigee/nixl/device/devicetest"
	"perigee/nixl/nixltest"
)

// open finds the library as the product does. Its absence is an error, and no reason to
// skip: `make test` provides it.
func open() (nixl.Engine, error) {
	path, err := Find("")
	if err != nil {
		return nil, err
	}
	e, err := Load(path)
	if err != nil {
		return nil, err
	}
	return e, nil
}

func TestMain(m *testing.M) { nixltest.Main(m, open) }

// TestConformance runs as the ranks of a host do, with and without a progress thread, and as ranks of
// several hosts do.
func TestConformance(t *testing.T) {
	tests := []struct {
		name string
		cfg  nixl.AgentConfig
	}{
		{"OneHost", nixl.AgentConfig{OneHost: true, Progress: "auto"}},
		{"Hosts", nixl.AgentConfig{Progress: "auto"}},
		{"OneHostThread", nixl.AgentConfig{OneHost: true, Progress: "thread"}},
	}
	for i, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			if i > 0 && testing.Short() {
				t.Skip("takes seconds")
			}
			lives := 60 // a round takes NIXL 30 ms
			if i > 0 {
				lives = 10
			}
			nixltest.Run(t, nixltest.Setup{Open: open, Config: test.cfg, Brief: i > 0, Lives: lives})
		})
	}
}

// TestGPU runs the suite on GPU memory alone, and on host memory beside it: a target that sleeps must be reached in both.
// Where there is no GPU, it runs on a stand-in, and there on GPU memory alone.
func TestGPU(t *testing.T) {
	gpus, err := device.Visible()
	must.Do(t, err)
	if len(gpus) == 0 && !devicetest.Again(t, "STANDIN_GPU_BYTES=1073741824") {
		return
	}
	for name, mem := range map[string]func(agent, buffer int) nixl.Mem{
		"Alone":      func(int, int) nixl.Mem { return nixl.VRAM },
		"BesideHost": func(agent, _ int) nixl.Mem { return nixl.Mem(agent % 2) },
		"FromHost":   func(agent, _ int) nixl.Mem { return nixl.Mem((agent + 1) % 2) },
	} {
		t.Run(name, func(t *testing.T) {
			if devicetest.Inside(t) && name != "Alone" {
				t.Skip("the memory of the stand-in's GPUs is the host's")
			}
			nixltest.Run(t, nixltest.Setup{Open: open, Brief: true, Mem: mem,
				Config: nixl.AgentConfig{OneHost: true, VRAM: true, Progress: "auto"}})
		})
	}
}

// library compiles C text to a shared object.
func library(t *testing.T, name, source string) string {
	t.Helper()
	dir := t.TempDir()
	text, path := filepath.Join(dir, name+".c"), filepath.Join(dir, name+".so")
	must.Do(t, os.WriteFile(text, []byte(source), 0o600))
	cc := os.Getenv("CC")
	if cc == "" {
		cc = "gcc"
	}
	if out, err := exec.Command(cc, "-w", "-shared", "-fPIC", "-o", path, text).CombinedOutput(); err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
	return path
}

// wanted matches a line of the table of functions in papi.h.
var wanted = regexp.MustCompile(`(?m)^    X\(\w+, (\w+), `)

// imitation has all functions that perigee wants. Each returns 0 but those whose text is given.
func imitation(t *testing.T, name string, functions map[string]string) string {
	t.Helper()
	header := must.Read(t, "papi.h")
	table := wanted.FindAllStringSubmatch(string(header), -1)
	if len(table) == 0 {
		t.Fatal("no functions found in papi.h")
	}
	source := "#include <stddef.h>\n"
	for _, match := range table {
		word := "nixl_capi_" + match[1]
		if body, ok := functions[word]; ok {
			source += body + "\n"
		} else {
			source += fmt.Sprintf("int %s() { return 0; }\n", word)
		}
	}
	return library(t, name, source)
}

func wantFault(t *testing.T, err error, kind fault.Kind, words ...string) {
	t.Helper()
	if err == nil {
		t.Fatal("no error")
	}
	if fault.KindOf(err) != kind || fault.HintOf(err) == "" {
		t.Errorf("%v: kind %v, hint %q; want kind %v and a hint", err, fault.KindOf(err), fault.HintOf(err), kind)
	}
	for _, w := range words {
		if !strings.Contains(err.Error(), w) {
			t.Errorf("%q: want %q in it", err, w)
		}
	}
}

func TestLoadRefuses(t *testing.T) {
	text := filepath.Join(t.TempDir(), "text.so")
	must.Do(t, os.WriteFile(text, []byte("no library"), 0o600))
	tests := map[string]struct {
		path  string
		words []string
	}{
		"missing": {filepath.Join(t.TempDir(), "none.so"), []string{"does not load", "none.so"}},
		"text":    {text, []string{"does not load"}},
		"empty":   {library(t, "empty", "int nothing;"), []string{"too old or too new", "nixl_capi_is_stub", "more"}},
		"stub": {imitation(t, "stub",
			map[string]string{"nixl_capi_is_stub": "_Bool nixl_capi_is_stub() { return 1; }"}), []string{"stub"}},
		"one away": {imitation(t, "old", map[string]string{"nixl_capi_gen_notif": ""}),
			[]string{"too old or too new: it lacks nixl_capi_gen_notif"}},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			_, err := Load(test.path)
			wantFault(t, err, fault.Engine, append(test.words, "")...)
		})
	}
}

// TestNoAgent has libraries that load and then fail.
func TestNoAgent(t *testing.T) {
	creates := `int nixl_capi_create_configured_agent(const char *n, void *c, void **a) { *a = "agent"; return 0; }`
	tests := map[string]struct {
		functions map[string]string
		words     []string
	}{
		"no agent": {map[string]string{
			"nixl_capi_create_configured_agent": "int nixl_capi_create_configured_agent() { return -4; }",
		}, []string{"create an agent", "exception"}},
		"no UCX": {map[string]string{
			"nixl_capi_create_configured_agent": creates,
			"nixl_capi_create_backend":          "int nixl_capi_create_backend() { return -6; }",
			"nixl_capi_string_list_size": "int nixl_capi_string_list_size(void *l, size_t *n) " +
				"{ *n = 2; return 0; }",
			"nixl_capi_string_list_get": `int nixl_capi_string_list_get(void *l, size_t i, char **s)` +
				`{ *s = i ? "GDS" : "POSIX"; return 0; }`,
		}, []string{"no UCX plugin", "plugins", "POSIX GDS"}},
		"UCX fails": {map[string]string{
			"nixl_capi_create_configured_agent": creates,
			"nixl_capi_create_backend":          "int nixl_capi_create_backend() { return -2; }",
			"nixl_capi_string_list_size": "int nixl_capi_string_list_size(void *l, size_t *n) " +
				"{ *n = 1; return 0; }",
			"nixl_capi_string_list_get": `int nixl_capi_string_list_get(void *l, size_t i, char **s)` +
				`{ *s = "UCX"; return 0; }`,
		}, []string{"create the UCX backend", "the backend failed"}},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			e, err := Load(imitation(t, "imitation", test.functions))
			must.Do(t, err)
			_, err = e.NewAgent(nixl.AgentConfig{Name: "a", OneHost: true})
			wantFault(t, err, fault.Engine, test.words...)
		})
	}
}

// A library that does not end its agent, as NIXL behaves when a peer was killed as it sent, does not hold its user.
func TestCloseIsBounded(t *testing.T) {
	const forever = "int nixl_capi_destroy_agent(void *a) { for (;;) sleep(1000); }"
	e, err := Load(imitation(t, "lasting", map[string]string{
		"nixl_capi_create_configured_agent": `int nixl_capi_create_configured_agent(const char *n, void *c, void **a)` +
			`{ *a = "agent"; return 0; }`,
		"nixl_capi_destroy_agent": forever,
	}))
	must.Do(t, err)
	a, err := e.NewAgent(nixl.AgentConfig{Name: "a", OneHost: true})
	must.Do(t, err)
	within := closeWithin
	t.Cleanup(func() { closeWithin = within })
	closeWithin = 10 * time.Millisecond
	wantFault(t, a.Close(), fault.Engine, "not closed after 10ms")
	if err := a.Close(); err != nil {
		t.Errorf("closed again: %v", err)
	}
}

// agents makes an agent of the real library.
func newAgent(t *testing.T, cfg nixl.AgentConfig) nixl.Agent {
	t.Helper()
	e, err := open()
	if err != nil {
		t.Fatalf("%v\n%s", err, fault.HintOf(err))
	}
	a, err := e.NewAgent(cfg)
	must.Do(t, err)
	t.Cleanup(func() { a.Close() })
	return a
}

func TestInfo(t *testing.T) {
	i := newAgent(t, nixl.AgentConfig{Name: "info", OneHost: true}).Info()
	if i.Name != "nixl" || i.Backend != "UCX" || i.Library != libraryName || i.Version == "" {
		t.Errorf("%+v", i)
	}
	if i.Params["progress"] != "poll (one host)" || i.Params["ucx_error_handling_mode"] != "none" {
		t.Errorf("one host: %v", i.Params)
	}
	i = newAgent(t, nixl.AgentConfig{Name: "info"}).Info()
	if i.Params["progress"] != "thread (several hosts)" || i.Params["ucx_error_handling_mode"] != "peer" {
		t.Errorf("several hosts: %v", i.Params)
	}
}

func TestNames(t *testing.T) {
	e, err := open()
	must.Do(t, err)
	for _, name := range []string{"", "a\x00b", "line\n", strings.Repeat("x", 256)} {
		if a, err := e.NewAgent(nixl.AgentConfig{Name: name}); err == nil {
			a.Close()
			t.Errorf("%q: no error", name)
		}
	}
	if a, err := e.NewAgent(nixl.AgentConfig{Name: "a", Progress: "magic"}); err == nil {
		a.Close()
		t.Error("progress magic: no error")
	}
}

// TestVRAM tests the error message where there is no GPU.
func TestVRAM(t *testing.T) {
	a := newAgent(t, nixl.AgentConfig{Name: "vram", OneHost: true})
	if _, err := os.Stat("/dev/nvidiactl"); err != nil {
		_, err := a.Alloc(nixl.VRAM, 4096)
		wantFault(t, err, fault.Resource, "GPU")
		return
	}
	testVRAM(t, a)
}

// testVRAM sends bytes from the host to the GPU and back.
func testVRAM(t *testing.T, a nixl.Agent) {
	const size = 1 << 20
	host, err := a.Alloc(nixl.DRAM, size)
	must.Do(t, err)
	gpu, err := a.Alloc(nixl.VRAM, size)
	must.Do(t, err)
	want, got := strings.Repeat("perigee ", size/8), make([]byte, size)
	if _, err := host.WriteAt([]byte(want), 0); err != nil {
		t.Fatal(err)
	}
	card, err := a.Card()
	must.Do(t, err)
	must.Do(t, a.AddPeer(0, card))
	d := []nixl.Desc{{Len: size}}
	b, err := a.NewBatch([]nixl.Transfer{{Op: nixl.Write, LocalBuffer: host.ID(), RemoteBuffer: gpu.ID(), Local: d,
		Remote: d}})
	must.Do(t, err)
	must.Do(t, b.Run(nixl.Control{}, 1, nil))
	if _, err := gpu.ReadAt(got, 0); err != nil || string(got) != want {
		t.Errorf("the GPU has other bytes (%v)", err)
	}
}

// TestSignals proves that the library leaves the signals to Go.
func TestSignals(t *testing.T) {
	caught := func() string {
		text := must.Read(t, "/proc/self/status")
		_, rest, _ := strings.Cut(string(text), "SigCgt:")
		line, _, _ := strings.Cut(rest, "\n")
		return strings.TrimSpace(line)
	}
	before := caught()
	newAgent(t, nixl.AgentConfig{Name: "signals", OneHost: true})
	if after := caught(); after != before {
		t.Errorf("caught signals: %s before, %s after", before, after)
	}
	defer func() {
		if recover() == nil {
			t.Error("no panic")
		}
	}()
	var p *int
	*p = 1 // a fault that must still become a panic
}

func TestChooseMode(t *testing.T) {
	tests := []struct {
		cfg    nixl.AgentConfig
		tls    string
		attach bool
		thread bool
		errors string
	}{
		{nixl.AgentConfig{OneHost: true}, "", true, false, "none"},
		{nixl.AgentConfig{OneHost: true, Progress: "auto"}, "", true, false, "none"},
		{nixl.AgentConfig{OneHost: true}, "", false, true, "none"},
		{nixl.AgentConfig{OneHost: true, VRAM: true}, "", true, true, "none"},
		{nixl.AgentConfig{OneHost: true}, "tcp", true, true, "none"},
		{nixl.AgentConfig{OneHost: true}, "tcp,cma,self", true, true, "none"},
		{nixl.AgentConfig{OneHost: true}, "posix,cma,tcp,self", true, false, "none"},
		{nixl.AgentConfig{OneHost: true}, "^posix", true, false, "none"},
		{nixl.AgentConfig{OneHost: true}, "^posix,sysv", true, true, "none"},
		{nixl.AgentConfig{OneHost: true}, "rc, SM", true, false, "none"},
		{nixl.AgentConfig{OneHost: true}, "^tcp", true, false, "none"},
		{nixl.AgentConfig{OneHost: true}, "^cma,tcp", true, true, "none"},
		{nixl.AgentConfig{OneHost: true}, "all", true, false, "none"},
		{nixl.AgentConfig{OneHost: true, Progress: "thread"}, "", true, true, "none"},
		{nixl.AgentConfig{OneHost: true, Progress: "poll"}, "tcp", false, false, "none"},
		{nixl.AgentConfig{}, "", true, true, "peer"},
		{nixl.AgentConfig{Progress: "poll"}, "", true, false, "peer"},
	}
	for _, test := range tests {
		m, err := chooseMode(test.cfg, test.tls, "", test.attach, false)
		if err != nil || m.thread != test.thread || m.errors != test.errors || m.why == "" {
			t.Errorf("%+v UCX_TLS=%q attach %v: got %+v, %v; want thread %v, errors %s", test.cfg, test.tls,
				test.attach, m, err, test.thread, test.errors)
		}
	}
	for _, c := range []struct {
		oneHost, tight bool
		tls, devices   string // of the user
		wantTLS        string
		wantDevice     string
		thread         bool
	}{
		{true, false, "", "", "^sysv,tcp", "lo", false},
		{true, true, "", "", "^sysv,posix", "lo", true},
		{true, false, "", "eth0", "^sysv", "", false},
		{true, true, "", "eth0", "^sysv,posix", "", true},
		{true, false, "^cma", "", "", "lo", true},
		{true, true, "posix,cma", "", "", "lo", false},
		{false, false, "", "", "^sysv", "", true},
		{false, true, "", "", "^sysv,posix", "", true},
	} {
		m, err := chooseMode(nixl.AgentConfig{OneHost: c.oneHost}, c.tls, c.devices, true, c.tight)
		if err != nil || m.tls != c.wantTLS || m.device != c.wantDevice || m.thread != c.thread {
			t.Errorf("%+v: got %+v, %v", c, m, err)
		}
		// Over a network UCX should not take copies for cheaper than they are.
		config := ""
		if m.device != "" {
			config = "NET_DEVICES=lo"
		}
		if m.tls == "^sysv,tcp" {
			config += ",BCOPY_BW=50000MBs"
		}
		if got := m.config(); got != config {
			t.Errorf("%+v: settings %q, want %q", c, got, config)
		}
	}
	if _, err := chooseMode(nixl.AgentConfig{Progress: "magic"}, "", "", true, false); fault.KindOf(err) != fault.Usage {
		t.Errorf("progress magic: got %v", err)
	}
}

func TestStatusWords(t *testing.T) {
	seen := map[string]bool{}
	for status := -7; status < 0; status++ {
		words := describeStatus(status)
		if words == "" || seen[words] {
			t.Errorf("status %d: %q", status, words)
		}
		seen[words] = true
	}
}

func BenchmarkEngine(b *testing.B) {
	nixltest.Bench(b, nixltest.Setup{Open: open, Config: nixl.AgentConfig{OneHost: true}})
}

// A home that may not be entered is told from one without settings.
func TestSettingsOutOfReach(t *testing.T) {
	home := t.TempDir()
	if err := settingsOutOfReach(home); err != nil {
		t.Error(err)
	}
	must.Do(t, os.Chmod(home, 0o600))
	// Root may enter any folder, but not as another user.
	done := make(chan error)
	go func() {
		runtime.LockOSThread() // and the thread ends with this goroutine
		if os.Getuid() == 0 {
			if err := unix.Setfsuid(65534); err != nil {
				done <- err
				return
			}
		}
		done <- settingsOutOfReach(home)
	}()
	if err := <-done; !errors.Is(err, fs.ErrPermission) {
		t.Errorf("got %v", err)
	}
}

// The loader finds libraries of the system, and does not confuse one that is missing with one that does not load.
func TestLoaderPath(t *testing.T) {
	if path, err := loaderPath("libc.so.6"); err != nil || !filepath.IsAbs(path) {
		t.Errorf("libc.so.6: got %q, %v", path, err)
	}
	if path, err := loaderPath("libnonesuch.so"); err != nil || path != "" {
		t.Errorf("libnonesuch.so: got %q, %v", path, err)
	}
	broken := library(t, "broken", "void none(void); void (*needed)(void) = none;")
	if path, err := loaderPath(broken); err == nil || path != "" || !strings.Contains(err.Error(), "none") {
		t.Errorf("%s: got %q, %v; want an error that names the symbol", broken, path, err)
	}
}
