package run

import (
	"strings"
	"testing"
	"time"

	"perigee/internal/kit/cli"
	"perigee/internal/result"
	"perigee/lua"
	"perigee/spmd/boot"
)

// What is needed at the start is taken out of a command line whose scenario is not known yet, in
// either spelling, and counts more than variables.
func TestStartFlags(t *testing.T) {
	variables := map[string]string{EnvLogLevel: "warn", boot.EnvIface: "eth0", boot.EnvLauncher: "pmix", "PATH": "/bin"}
	for _, c := range []struct{ args, key, want string }{
		{"pingpong --log-level debug", EnvLogLevel, "debug"},
		{"--log_level=error pingpong", EnvLogLevel, "error"},
		{"--log-level error pingpong --log_level info", EnvLogLevel, "info"},
		{"pingpong", EnvLogLevel, "warn"},
		{"pingpong -- --log-level debug", EnvLogLevel, "warn"},
		{"pingpong --log-levels debug", EnvLogLevel, "warn"},
		{"--log-dir=a=b pingpong", EnvLogDir, "a=b"},
		{"--log_dir a_b", EnvLogDir, "a_b"},
		{"--log-dir=", EnvLogDir, ""},
		{"--iface ib0", boot.EnvIface, "ib0"},
		{"--launcher slurm", boot.EnvLauncher, "slurm"},
		{"--launcher auto", boot.EnvLauncher, "auto"},
		{"pingpong", boot.EnvLauncher, "pmix"},
		{"--path x", "PATH", "/bin"},
	} {
		var f Flags
		if _, err := f.take("perigee run", strings.Fields(c.args)); err != nil {
			t.Fatalf("%s: %v", c.args, err)
		}
		env := f.Over(func(k string) (string, bool) { v, ok := variables[k]; return v, ok })
		if got, _ := env(c.key); got != c.want {
			t.Errorf("perigee run %s: %s is %q, want %q", c.args, c.key, got, c.want)
		}
	}
}

// A time without a unit is in seconds.
func TestDuration(t *testing.T) {
	for text, want := range map[string]time.Duration{"90": 90 * time.Second, "1.5": 1500 * time.Millisecond, "1m30s": 90 * time.Second, "-1": -time.Second} {
		var f Flags
		if _, err := f.take("perigee run", []string{"--timeout=" + text}); err != nil || time.Duration(f.Timeout) != want {
			t.Errorf("%s: %v, %v", text, f.Timeout, err)
		}
		if words, err := cli.Words(&f); err != nil || len(words) != 1 || words[0] != "--timeout="+want.String() {
			t.Errorf("%s: %q, %v", text, words, err)
		}
	}
	var f Flags
	if _, err := f.take("perigee run", []string{"--timeout=never"}); err == nil || !strings.Contains(err.Error(), `--timeout: wanted a time such as 90s, got "never"`) {
		t.Error(err)
	}
}

// A rate of the line is refused before anything runs, unless a scenario has an option of that name.
func TestLineFlag(t *testing.T) {
	for rate, want := range map[string]string{"200Gbit": "", "25GB/s": "", "25": "--line: wanted a rate such as 200Gbit or 25GB/s", "": ""} {
		f := Flags{Engine: "auto", Yielding: Yielding{Line: rate}}
		if err := f.Check(); want == "" && err != nil || want != "" && (err == nil || !strings.Contains(err.Error(), want)) {
			t.Errorf("%q: %v", rate, err)
		}
	}
	sc := lua.Scenario{Options: []lua.Option{{Name: "line", Type: "string"}, {Name: "ceiling", Type: "bool"}}}
	var y Yielding
	rest, err := y.take("perigee run x", sc, []string{"--line=abc", "--ceiling", "--title=t"})
	if err != nil || len(rest) != 2 || y.Line != "" || y.Ceiling || y.Title != "t" {
		t.Errorf("left %q of %+v, %v", rest, y, err)
	}
	if rest, err = y.take("perigee run x", lua.Scenario{}, []string{"--line=1GB/s", "--ceiling"}); err != nil || len(rest) != 0 || y.Line != "1GB/s" || !y.Ceiling {
		t.Errorf("left %q of %+v, %v", rest, y, err)
	}
}

// A repetition has the line and the ceiling that the run had.
func TestLineIsRepeated(t *testing.T) {
	var f Flags
	f.asIn(&result.Document{Job: &result.Invocation{Line: "200Gbit", Ceiling: true}}, 1)
	if f.Yielding.Line != "200Gbit" || !f.Yielding.Ceiling {
		t.Errorf("%+v", f.Yielding)
	}
	old := &result.Document{Job: &result.Invocation{Line: "200Gbit"}, World: result.World{Hosts: make([]result.Host, 2)}}
	for hosts, want := range map[int]string{1: "", 2: "200Gbit"} { // the line is that between hosts
		var f Flags
		if f.asIn(old, hosts); f.Yielding.Line != want {
			t.Errorf("%d hosts: %q", hosts, f.Yielding.Line)
		}
	}
}
