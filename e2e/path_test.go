package e2e

import (
	"encoding/json"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"perigee/e2e/internal/harness"
	"perigee/internal/kit/fault"
	"perigee/internal/kit/must"
	"perigee/internal/result"
)

// exchange moves 64 KiB both ways between two ranks, 20 times.
const exchange = `return { about = "Exchanges.", ranks = 2, options = { options.string { "op", "WRITE", "operation" } },
  run = function(opt)
    local p = transfer.prepare { matrix = matrix.from { { 0, 65536 }, { 65536, 0 } }, op = opt.op, mem = "dram" }
    p:run { iterations = 20 }
    transfer.collect { p }
  end }
`

// exchanging runs exchange on NIXL, unless args say otherwise.
func exchanging(t *testing.T, dir string, env []string, args ...string) harness.Outcome {
	t.Helper()
	must.Do(t, os.WriteFile(filepath.Join(dir, "exchange.lua"), []byte(exchange), 0o644))
	args = append([]string{"run", "exchange.lua", "-n", "2", "--engine", "nixl", "--result", "r.json"}, args...)
	return harness.Start(t, harness.Command{Dir: dir, Env: env, Args: args}).Wait()
}

// What UCX counts is what was asked of it, over the transport that its settings leave.
func TestPath(t *testing.T) {
	harness.NeedNIXL(t)
	const emulated = "# WARNING: READ dram-dram inside a host is emulated: "
	for _, test := range []struct {
		name, op, tls string
		use           result.PathUse
		line, warning string
	}{
		{"cma", "WRITE", "", result.PathUse{Transport: "cma", Device: "memory", How: "zero-copy"}, "cma zero-copy 100 %", ""},
		{"cma", "READ", "", result.PathUse{Transport: "cma", Device: "memory", How: "zero-copy"}, "cma zero-copy 100 %", ""},
		{"tcp", "WRITE", "tcp", result.PathUse{Transport: "tcp", Device: "lo", How: "zero-copy"}, "tcp/lo zero-copy 100 %", ""},
		{"tcp", "READ", "tcp", result.PathUse{Transport: "tcp", Device: "lo", How: "software emulation"},
			"tcp/lo software emulation 100 %", emulated + "tcp/lo has no such operation"},
		{"posix", "READ", "^cma,sysv,tcp", result.PathUse{Transport: "posix", Device: "memory", How: "software emulation"},
			"posix software emulation 100 %", emulated + "posix has no such operation"},
	} {
		t.Run(test.name+" "+test.op, func(t *testing.T) {
			t.Parallel()
			dir := t.TempDir()
			o := exchanging(t, dir, []string{"UCX_TLS=" + test.tls}, "--op", test.op, "--threshold", `path == "`+test.name+`"`)
			if o.Code != 0 || strings.Contains(o.Stdout+o.Stderr, "UCX  ") {
				t.Errorf("exit code %d: %s\n%s", o.Code, o.Stderr, o.Stdout)
			}
			harness.Contains(t, "stdout", o.Stdout, "# path: "+test.op+" dram-dram "+test.line+"\n", test.name+" 100 %          1  ok\n")
			if strings.Contains(o.Stdout, "WARNING") != (test.warning != "") || !strings.Contains(o.Stdout, test.warning) {
				t.Errorf("want the warning %q in\n%s", test.warning, o.Stdout)
			}
			d, err := result.Read(filepath.Join(dir, "r.json"))
			must.Do(t, err)
			want := test.use
			want.Op, want.Local, want.Remote, want.Reach, want.Count, want.Ranks = test.op, "dram", "dram", "host", 2*20, 2
			if d.Paths == nil || len(d.Paths.Uses) != 1 || d.Paths.Uses[0] != want || !strings.HasPrefix(d.Paths.Source, "UCX 1.") {
				got, _ := json.Marshal(d.Paths)
				t.Errorf("got %s, want %+v", got, want)
			}
		})
	}
}

// A log that the user asks for is his, and complete: nothing of C's streams is lost, however the process ends. The
// path is unknown then, and a threshold on it is refused before anything runs. UCX warns of no variables of perigee's.
func TestOwnUCXLog(t *testing.T) {
	harness.NeedNIXL(t)
	t.Parallel()
	env := []string{"UCX_LOG_FILE=ucx.%p", "UCX_LOG_LEVEL=info", "UCX_PROTO_INFO=used"}
	for name, args := range map[string][]string{"well": nil, "refused": {"--threshold", `path == "cma"`}} {
		dir := t.TempDir()
		o := exchanging(t, dir, env, args...)
		if name == "refused" {
			harness.Contains(t, "stderr", o.Stderr, `threshold path == "cma" (--threshold): the path is not known: UCX's log is yours`)
		} else {
			harness.Contains(t, "stdout", o.Stdout, "# path: unknown: UCX's log is yours, as you have set UCX_LOG_")
		}
		if want := map[string]fault.Kind{"refused": fault.Usage}[name]; o.Code != int(want) {
			t.Errorf("%s: exit code %d, want %d: %s", name, o.Code, want, o.Stderr)
		}
		files, _ := filepath.Glob(filepath.Join(dir, "ucx.*"))
		if len(files) != 2 {
			t.Errorf("%s: logs %q, want those of 2 ranks", name, files)
		}
		for _, f := range files {
			text, _ := os.ReadFile(f)
			if name == "well" && !strings.Contains(string(text), "ucp_put") || !strings.HasSuffix(string(text), "\n") ||
				strings.Contains(string(text), "unused environment variables") {
				t.Errorf("%s: %s ends early, or warns of variables:\n%s", name, filepath.Base(f), text)
			}
		}
	}
}
