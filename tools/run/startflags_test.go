package run

import (
	"strings"
	"testing"

	"perigee/internal/logs"
	"perigee/spmd/boot"
)

// What is needed at the start is read from the command line before it can be parsed, in
// either spelling, and counts more than variables.
func TestStartFlags(t *testing.T) {
	variables := map[string]string{logs.EnvLevel: "from a variable", boot.EnvIface: "eth0", "PATH": "/bin"}
	for _, c := range []struct{ args, key, want string }{
		{"pingpong --log-level debug", logs.EnvLevel, "debug"},
		{"--log_level=warn pingpong", logs.EnvLevel, "warn"},
		{"--log-level warn pingpong --log_level info", logs.EnvLevel, "info"},
		{"pingpong", logs.EnvLevel, "from a variable"},
		{"pingpong -- --log-level debug", logs.EnvLevel, "from a variable"},
		{"pingpong --log-level", logs.EnvLevel, "from a variable"},
		{"pingpong --log-levels debug", logs.EnvLevel, "from a variable"},
		{"--log-dir=a=b pingpong", logs.EnvDir, "a=b"},
		{"--log_dir a_b", logs.EnvDir, "a_b"},
		{"--log-dir=", logs.EnvDir, ""},
		{"--iface ib0", boot.EnvIface, "ib0"},
		{"--launcher slurm", boot.EnvLauncher, "slurm"},
		{"pingpong", boot.EnvLauncher, ""},
		{"--path x", "PATH", "/bin"},
	} {
		env := withFlags(func(k string) (string, bool) { v, ok := variables[k]; return v, ok }, strings.Fields(c.args))
		if got, _ := env(c.key); got != c.want {
			t.Errorf("perigee run %s: %s is %q, want %q", c.args, c.key, got, c.want)
		}
	}
}
