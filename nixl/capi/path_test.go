//go:build cgo

package capi

import (
	"bytes"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"golang.org/x/sys/unix"

	"perigee/internal/kit/must"
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
		must.Do(t, os.WriteFile(conf, []byte(test.conf), 0o644))
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
	reset := func() { accountFile.parser, accountFile.done = nil, 0 }
	reset()
	defer reset()
	for prefix, want := range map[string]int{"perigee-0-": 1, "perigee-1-": 2, "perigee-": 3, "perigee-10-": 0} {
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

// What UCX writes into memory is read as it grows, and does not stay there: a table may be written in two parts, and
// what thousands of agents say is added up.
func TestAccountIsCut(t *testing.T) {
	fd, err := unix.MemfdCreate("test", unix.MFD_CLOEXEC)
	must.Do(t, err)
	f := os.NewFile(uintptr(fd), "log")
	defer f.Close()
	table := must.Read(t, "testdata/cma.txt")
	var a account
	const rounds = 2000
	var most int64
	half := len(table) / 2
	for i := range rounds {
		text := bytes.ReplaceAll(table, []byte("lane0-1"), fmt.Appendf(nil, "lane0-%d", i+1))
		for _, part := range [][]byte{text[:half], text[half:]} {
			if _, err := f.Write(part); err != nil {
				t.Fatal(err)
			}
			a.trim(f)
		}
		var s unix.Stat_t
		must.Do(t, unix.Fstat(fd, &s))
		most = max(most, s.Blocks*512)
	}
	log, err := a.read(f)
	must.Do(t, err)
	if p := log.agents["perigee-1-"]; len(log.agents) != 1 || len(p.Uses) != 1 || p.Uses[0].Count != rounds*1010 {
		t.Errorf("%d agents, %+v", len(log.agents), p)
	}
	if info, err := f.Stat(); err != nil || most > 1<<20 || info.Size() < 3<<20 {
		t.Errorf("the log took up to %d bytes of memory, of %d written, %v", most, info.Size(), err)
	}
}
