package e2e

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"perigee/e2e/internal/harness"
	"perigee/internal/kit/fault"
	"perigee/internal/kit/must"
)

// --junit has a test for each threshold and one for the run, also of a run that fails, and of one that is stuck when
// another rank does.
func TestJUnit(t *testing.T) {
	dir := harness.Files(t, map[string]string{
		"s.lua": `return { ranks = 2, metrics = { { 'x', 'anything' } }, options = { options.string { "how", "", "end" } }, run = function(opt)
  result.sample('x', 3)
  if opt.how ~= "" and world.rank == 1 then error("broken on purpose") end
  while opt.how == "stuck" do end
end }`,
	})
	for how, c := range map[string]struct {
		args []string
		code fault.Kind
		want []string
	}{
		"passes":   {[]string{"--threshold", "x.max < 4"}, 0, []string{`tests="2" failures="0" errors="0"`, `name="x.max &lt; 4"`}},
		"violates": {[]string{"--threshold", "x.max < 2"}, fault.Threshold, []string{`tests="2" failures="1" errors="0"`, `x.max &lt; 2 is violated: it is 3 over 1 sample"`}},
		"breaks":   {[]string{"--threshold", "x.max < 2", "--how", "break"}, fault.Script, []string{`failures="0" errors="1"`, "broken on purpose", `<skipped message="not judged`}},
		"is stuck": {[]string{"--threshold", "x.max < 2", "--how", "stuck"}, fault.Script, []string{`failures="0" errors="1"`, "broken on purpose", `<skipped message="not judged`}},
	} {
		path := filepath.Join(dir, "j.xml")
		must.Do(t, os.WriteFile(path, []byte("of an earlier job"), 0o600))
		o := harness.Run(t, dir, append([]string{"run", "s.lua", "--engine", "shm", "--junit", "j.xml"}, c.args...)...)
		text, err := os.ReadFile(path)
		if o.Code != int(c.code) || err != nil {
			t.Errorf("%s: exit code %d, %v\n%s", how, o.Code, err, o.Stderr)
		}
		for _, want := range c.want {
			if !strings.Contains(string(text), want) {
				t.Errorf("%s: lacks %s\n%s", how, want, text)
			}
		}
	}
	o := harness.Run(t, dir, "run", "s.lua", "--engine", "shm", "--junit", "none/j.xml")
	if o.Code != int(fault.Output) || !strings.Contains(o.Stderr, "--junit: cannot write none/j.xml") {
		t.Errorf("exit code %d\n%s", o.Code, o.Stderr)
	}
}
