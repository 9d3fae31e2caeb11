package engines

import (
	"errors"
	"path/filepath"
	"strings"
	"testing"

	"perigee/internal/kit/fault"
	"perigee/internal/kit/must"
	"perigee/nixl"
	"perigee/nixl/capi"
	"perigee/nixl/shm"
)

// fake stands for a loaded library.
type fake struct{ nixl.Engine }

func (fake) Info() nixl.Info { return nixl.Info{Name: "nixl"} }

func TestOpen(t *testing.T) {
	t.Setenv("NIXL_PLUGIN_DIR", "")
	present := func(string) (nixl.Engine, error) { return fake{}, nil }
	absent := func(string) (nixl.Engine, error) {
		return nil, fault.New(fault.Engine, "%w, no library anywhere", capi.ErrNone).WithHint("install it")
	}
	broken := func(string) (nixl.Engine, error) {
		return nil, fault.New(fault.Engine, "it does not load").WithHint("install it")
	}
	tests := []struct {
		name, choice, library string
		oneHost               bool
		load                  func(string) (nixl.Engine, error)
		want, note, err       string
		kind                  fault.Kind
	}{
		{name: "auto takes nixl", choice: "auto", oneHost: true, load: present, want: "nixl"},
		{name: "auto between hosts", choice: "auto", load: present, want: "nixl"},
		{name: "no choice is auto", load: present, want: "nixl"},
		{name: "auto falls back", choice: "auto", oneHost: true, load: absent, want: "shm",
			note: "shm instead of nixl: no libnixl_capi.so found, no library anywhere"},
		{name: "auto falls back from a library", choice: "auto", oneHost: true, load: broken, want: "shm",
			note: "WARNING: shm instead of nixl: it does not load"},
		{name: "auto cannot fall back between hosts", choice: "auto", load: absent, err: "no library anywhere",
			kind: fault.Engine},
		{name: "auto keeps to a named library", choice: "auto", library: "x", oneHost: true, load: absent,
			err: "no library anywhere", kind: fault.Engine},
		{name: "nixl", choice: "nixl", oneHost: true, load: present, want: "nixl"},
		{name: "nixl is missing", choice: "nixl", oneHost: true, load: absent, err: "no library anywhere",
			kind: fault.Engine},
		{name: "shm", choice: "shm", oneHost: true, load: present, want: "shm"},
		{name: "shm between hosts", choice: "shm", load: present, err: "one host", kind: fault.Engine},
		{name: "unknown", choice: "mpi", oneHost: true, load: present, err: `"mpi"`, kind: fault.Usage},
	}
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			e, note, err := open(test.choice, test.library, test.oneHost, "", test.load)
			if test.err != "" {
				if err == nil || !strings.Contains(err.Error(), test.err) || fault.KindOf(err) != test.kind ||
					e != nil {
					t.Fatalf("got %v, %v; want an error of kind %v with %q", e, err, test.kind, test.err)
				}
				if test.kind == fault.Engine && fault.HintOf(err) == "" {
					t.Error("no hint")
				}
				return
			}
			if err != nil || e.Info().Name != test.want {
				t.Fatalf("got %v, %v; want %s", e, err, test.want)
			}
			if note != test.note {
				t.Errorf("note %q: want %q", note, test.note)
			}
		})
	}
}

// The variables of NIXL are a sign that the user expects it.
func TestWarningOfPlugins(t *testing.T) {
	t.Setenv("NIXL_PLUGIN_DIR", t.TempDir())
	absent := func(string) (nixl.Engine, error) { return nil, fault.New(fault.Engine, "%w", capi.ErrNone) }
	if _, note, err := open(Auto, "", true, "", absent); err != nil || !strings.HasPrefix(note, Warning) {
		t.Errorf("got note %q, %v; want a warning", note, err)
	}
}

// TestWithoutLibrary is the real thing, on a file that is no library.
func TestWithoutLibrary(t *testing.T) {
	t.Setenv("NIXL_LIBRARY", filepath.Join(t.TempDir(), "missing.so"))
	e, note, err := Open(Auto, "", true, "", nixl.Backend{})
	if _, ok := e.(*shm.Engine); err != nil || !ok || !strings.HasPrefix(note, Warning) || !strings.Contains(note, "missing.so") {
		t.Errorf("got %T, note %q, %v; want the shm engine and a warning with the file's name", e, note, err)
	}
	if e, _, err := Open(NIXL, "", true, "", nixl.Backend{}); err == nil || e != nil {
		t.Errorf("nixl: got %v, %v; want an error and a nil engine", e, err)
	}
	if _, _, err := Open(Auto, "", false, "", nixl.Backend{}); !errors.As(err, new(*fault.Error)) {
		t.Errorf("auto between hosts: got %v", err)
	}
}

// A backend that shm has not is refused there, and for files alone it is that of every agent's files.
func TestBackends(t *testing.T) {
	params := map[string]string{"a": "b"}
	for _, c := range []struct {
		choice string
		want   nixl.Backend
		err    string
	}{
		{SHM, nixl.Backend{}, ""},
		{SHM, nixl.Backend{Name: "posix"}, ""},
		{SHM, nixl.Backend{Name: "UCX"}, "--backend UCX has no effect on --engine shm"},
		{SHM, nixl.Backend{Params: params}, "--backend-param has no effect on --engine shm"},
		{NIXL, nixl.Backend{Name: "UCX", Params: params}, ""},
		{Auto, nixl.Backend{Name: "LIBFABRIC"}, ""},
	} {
		err := CheckBackend(c.choice, c.want)
		if (err == nil) != (c.err == "") || err != nil && (fault.KindOf(err) != fault.Usage || !strings.Contains(err.Error(), c.err)) {
			t.Errorf("%+v: %v", c, err)
		}
	}
	t.Setenv("NIXL_LIBRARY", filepath.Join(t.TempDir(), "missing.so"))
	if _, _, err := Open(Auto, "", true, "", nixl.Backend{Name: "LIBFABRIC"}); fault.KindOf(err) != fault.Engine || !strings.Contains(err.Error(), "missing.so") {
		t.Errorf("LIBFABRIC without NIXL: %v", err)
	}
	e, _, err := Open(Auto, "", true, "", nixl.Backend{Name: "posix"})
	must.Do(t, err)
	if f, ok := e.(nixl.FilesOnly); !ok || f.FilesOnly().Name != "POSIX" {
		t.Errorf("%T is not for files alone", e)
	}
	var last nixl.AgentConfig
	made := forFiles{recorder{fake{}, &last}, nixl.Backend{Name: "GDS", Params: params}, false}
	agent, err := made.NewAgent(nixl.AgentConfig{})
	must.Do(t, err)
	must.Fail(t, agent.AddPeer(1, nil), fault.Usage, "--backend GDS")
	if last.FileBackend != "GDS" || last.FileParams["a"] != "b" {
		t.Errorf("%+v", last)
	}
	if made.NewAgent(nixl.AgentConfig{FileBackend: "POSIX"}); last.FileBackend != "POSIX" || last.FileParams != nil {
		t.Errorf("the script's own backend: %+v", last)
	}
}

// recorder keeps the last configuration.
type recorder struct {
	nixl.Engine
	last *nixl.AgentConfig
}

func (r recorder) NewAgent(cfg nixl.AgentConfig) (nixl.Agent, error) {
	*r.last = cfg
	return nil, nil
}
