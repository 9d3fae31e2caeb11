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

// Where nothing can be said, the agent says so before anything runs.
func TestNoPath(t *testing.T) {
	a := &agent{engine: &Engine{backend: nixl.Backend{Name: "LIBFABRIC"}}}
	if p := a.Path(); p.Source != "LIBFABRIC" || !strings.Contains(p.Unknown, "LIBFABRIC does not say") {
		t.Errorf("%+v", p)
	}
	saved := accountFile.file
	defer func() { accountFile.file, accountFile.why = saved, "" }()
	accountFile.file, accountFile.why = nil, "a reason"
	a.engine = &Engine{}
	if p := a.Path(); p.Source != "UCX" || p.Unknown != "a reason" {
		t.Errorf("%+v", p)
	}
}
