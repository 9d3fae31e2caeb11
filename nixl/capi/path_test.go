//go:build cgo

package capi

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"perigee/nixl"
)

func TestOwnLog(t *testing.T) {
	dir, other := t.TempDir(), t.TempDir()
	conf := filepath.Join(dir, "ucx.conf")
	for _, test := range []struct {
		environ, conf, want string
	}{
		{"UCX_TLS=all UCX_LOGS=1 XUCX_LOG_LEVEL=info", "UCX_TLS=tcp\n# UCX_LOG_FILE=x\n[UCX_LOG_FILE]\n", ""},
		{"UCX_TLS=all UCX_LOG_LEVEL=", "", "UCX_LOG_LEVEL"},
		{"UCX_PROTO_INFO_DIR=/tmp", "", "UCX_PROTO_INFO_DIR"},
		{"", "UCX_TLS=tcp\n  UCX_LOG_FILE = x", "UCX_LOG_FILE in " + conf},
	} {
		if err := os.WriteFile(conf, []byte(test.conf), 0o644); err != nil {
			t.Fatal(err)
		}
		if got := ownLog(strings.Fields(test.environ), "", other, dir); got != test.want {
			t.Errorf("%+v: got %q", test, got)
		}
	}
}

func TestMayUseTCP(t *testing.T) {
	for tls, want := range map[string]bool{
		"": true, "all": true, "tcp": true, "self,tcp": true, "rc, TCP": true, "^sysv": true, "^sysv,posix": true,
		"^sysv,tcp": false, "^tcp": false, "posix,cma": false,
	} {
		if mayUseTCP(tls) != want {
			t.Errorf("%q: want %v", tls, want)
		}
	}
}

// Where nothing can be said, the engine says so before anything runs.
func TestNoPath(t *testing.T) {
	e := &Engine{backend: nixl.Backend{Name: "LIBFABRIC"}}
	if p := e.Path("a"); p.Source != "LIBFABRIC" || !strings.Contains(p.Unknown, "LIBFABRIC does not say") {
		t.Errorf("%+v", p)
	}
	saved := accountFile.file
	defer func() { accountFile.file, accountFile.why = saved, "" }()
	accountFile.file, accountFile.why = nil, "a reason"
	if p := (&Engine{}).Path("a"); p.Source != "UCX" || p.Unknown != "a reason" {
		t.Errorf("%+v", p)
	}
}

// The agents of a rank are added up, those of others in the process are not. While one is open not all is known.
func TestPathOfAgents(t *testing.T) {
	saved := accountFile.file
	defer func() { accountFile.file = saved }()
	var err error
	if accountFile.file, err = os.Open("testdata/gpu.txt"); err != nil {
		t.Fatal(err)
	}
	defer accountFile.file.Close()
	for prefix, want := range map[string]int{"perigee-0-": 2, "perigee-1-": 2, "perigee-": 4, "perigee-10-": 0} {
		if p := (&Engine{}).Path(prefix); len(p.Uses) != want || p.Unknown != "" {
			t.Errorf("%s: %+v, want %d uses", prefix, p, want)
		}
	}
	alive.Store("perigee-1-x", true)
	defer alive.Delete("perigee-1-x")
	for prefix, want := range map[string]bool{"perigee-1-": true, "perigee-0-": false} {
		if p := (&Engine{}).Path(prefix); strings.Contains(p.Unknown, "open still") != want {
			t.Errorf("%s: %+v", prefix, p)
		}
	}
}
