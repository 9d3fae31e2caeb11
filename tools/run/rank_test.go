package run

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"path/filepath"
	"runtime"
	"strings"
	"syscall"
	"testing"
	"time"

	"perigee/internal/experiment"
	"perigee/internal/kit/cli"
	"perigee/internal/kit/fault"
	"perigee/internal/kit/must"
	"perigee/internal/result"
	"perigee/internal/traffic/traffictest"
	"perigee/lua"
	"perigee/spmd"
)

// What a script may do to files is not taken from a result.
func TestRepeatAsksForIO(t *testing.T) {
	path := filepath.Join(t.TempDir(), "r$(id).json")
	d := result.New([]string{}, result.Scenario{}, 0, result.World{Size: 1})
	text := script{Name: "x.lua", Source: "return { run = print }"}
	d.Scenario = result.Scenario{Name: text.Name, Source: text.Source, SHA256: text.digest()}
	d.Job = &result.Invocation{Engine: "auto", AllowIO: true}
	must.Do(t, d.Write(path))
	_, err := Job{Repeats: path}.read(1)
	if f, ok := errors.AsType[*fault.Error](err); !ok || f.Kind != fault.Usage || !strings.Contains(f.Hint, "-r '"+path+"' .scenario.source") {
		t.Errorf("got %v", err)
	}
	o, err := Job{Repeats: path, Flags: Flags{AllowIO: true}}.read(1)
	if err != nil || !o.Flags.AllowIO {
		t.Errorf("allowed: %v, %+v", err, o.Flags)
	}
}

// The case of a batch is no scenario.
func TestRepeatOfADisaggCase(t *testing.T) {
	path := filepath.Join(t.TempDir(), "r.json")
	must.Do(t, result.New([]string{"perigee", "disagg", "run", "a.yaml"}, result.Scenario{Name: "disagg"}, 0, result.World{Size: 1}).Write(path))
	if _, err := (Job{Repeats: path}).read(1); fault.KindOf(err) != fault.Input || !strings.Contains(err.Error(), "is that of a case of perigee disagg") {
		t.Errorf("got %v", err)
	}
}

// A result of a cluster, or of a stranger, starts no thousands of processes here unless the user says so.
func TestRepeatOfManyRanks(t *testing.T) {
	path := filepath.Join(t.TempDir(), "r.json")
	most := max(64, 8*runtime.NumCPU())
	write := func(n int) {
		world := result.World{Size: n, Launcher: "slurm"}
		for h := range 2 {
			world.Hosts = append(world.Hosts, result.Host{Name: string(rune('a' + h)), Ranks: []int{}, CPUs: 2})
		}
		for r := range n {
			h := &world.Hosts[r%2]
			h.Ranks = append(h.Ranks, r)
		}
		d := result.New([]string{}, result.Scenario{}, 0, world)
		text := script{Name: "x.lua", Source: "return { run = print }"}
		d.Scenario = result.Scenario{Name: text.Name, Source: text.Source, SHA256: text.digest()}
		must.Do(t, d.Write(path))
	}
	prepared := func(n *int) (int, error) {
		j := Job{Repeats: path, Flags: Flags{Engine: Same, Ranks: n}}
		_, ranks, err := j.prepare(cli.Streams{Out: io.Discard})
		return ranks, err
	}
	write(most)
	if n, err := prepared(nil); err != nil || n != most {
		t.Errorf("%d ranks: %d, %v", most, n, err)
	}
	write(most + 1)
	_, err := prepared(nil)
	if fault.KindOf(err) != fault.Usage || !strings.Contains(err.Error(), fmt.Sprintf("had %d ranks on 2 hosts", most+1)) ||
		!strings.HasPrefix(fault.HintOf(err), fmt.Sprintf("-n %d starts as many here", most+1)) {
		t.Errorf("got %v, hint %q", err, fault.HintOf(err))
	}
	for _, n := range []int{2, most + 1} {
		if got, err := prepared(&n); err != nil || got != n {
			t.Errorf("-n %d: %d, %v", n, got, err)
		}
	}
}

// A result that is a pipe is refused before any of it is read: rank 0 would find nothing left.
func TestRepeatOfAPipe(t *testing.T) {
	path := filepath.Join(t.TempDir(), "r.json")
	must.Do(t, syscall.Mkfifo(path, 0o600))
	_, _, err := (&Job{Repeats: path}).prepare(cli.Streams{Out: io.Discard})
	if fault.KindOf(err) != fault.Input || !strings.Contains(err.Error(), path+": wanted a regular file, got a device, a pipe") ||
		!strings.HasPrefix(fault.HintOf(err), "it is read several times") {
		t.Errorf("got %v, hint %q", err, fault.HintOf(err))
	}
	for _, name := range []string{"/dev/stdin", "/dev/./fd/0", "/proc/self/fd/0"} { // whatever that is
		if err := CheckRepeatable(name); fault.KindOf(err) != fault.Input {
			t.Errorf("%s: %v", name, err)
		}
	}
	if err := CheckRepeatable(path + ".none"); err != nil {
		t.Errorf("a file that is not there: %v", err)
	}
}

// Where a launcher has started another number of ranks the error says who wanted which, and what to do.
func TestOtherSize(t *testing.T) {
	two := 2
	for _, c := range []struct {
		job        Job
		text, hint string
	}{
		{Job{Flags: Flags{Ranks: &two}}, "--ranks is 2, but the pmix launcher has started 3 ranks", "leave --ranks to the launcher"},
		{Job{Repeats: "r.json", Flags: Flags{Ranks: &two}}, "--ranks is 2, but the pmix launcher has started 3 ranks", "leave --ranks to the launcher"},
		{Job{Repeats: "r.json"}, "the run of r.json had 2 ranks, but the pmix launcher has started 3 ranks", "let it start 2; or say -n 3"},
	} {
		err := c.job.otherSize(2, 3, "pmix")
		if fault.KindOf(err) != fault.Usage || err.Error() != c.text || !strings.HasPrefix(fault.HintOf(err), c.hint) {
			t.Errorf("got %v (%s)", err, fault.HintOf(err))
		}
	}
}

// The name of a scenario that is repeated is a stranger's, and the first that is printed.
func TestHeaderOfAStranger(t *testing.T) {
	worlds, _ := spmd.NewInMemory(1)
	defer worlds[0].Close()
	var out bytes.Buffer
	k := &rank{world: worlds[0], streams: cli.Streams{Out: &out}, exp: &experiment.Experiment{Doc: &result.Document{Notes: []string{"x\x1b[2J\ny"}}}}
	k.header(script{Name: "a\x1b]0;b\a\n# note: forged\u202e.lua"})
	if got := out.String(); strings.ContainsAny(got, "\x1b\a\u202e") || strings.Count(got, "\n") != 2 || !strings.Contains(got, `a\x1b]0;b\a\n# note: forged\u202e, 1 rank`) {
		t.Errorf("got %q", got)
	}
}

// Where rank 0 reads no scenario within --timeout, from a disk that hangs for instance, the others do not wait for ever.
func TestRankZeroThatReadsNothing(t *testing.T) {
	over := make(chan struct{})
	traffictest.Worlds(t, 2, func(w *spmd.World) error {
		if w.Rank() == 0 {
			<-over
			return nil
		}
		defer close(over)
		k := &rank{job: Job{Flags: Flags{Timeout: Duration(100 * time.Millisecond)}}, world: w}
		if err := k.play(); fault.KindOf(faultOf(err)) != fault.Timeout {
			t.Errorf("got %v", err)
		}
		return nil
	})
}

// What a stranger has told a rank reaches the terminal in letters only.
func TestNoteOfAStranger(t *testing.T) {
	var out strings.Builder
	(&reporter{err: &out}).note("rank 1 still looks for rank 0 at \x1b]0;owned\a\nperigee: all is well")
	if want := "perigee: rank 1 still looks for rank 0 at \\x1b]0;owned\\a\\nperigee: all is well\n"; out.String() != want {
		t.Errorf("%q, want %q", out.String(), want)
	}
}

// Files that only the script names, as defaults, are not written, and so not looked at, unless --allow-io is given.
func TestDefaultsAreNotWritten(t *testing.T) {
	sc := lua.Scenario{Name: "x.lua", Options: []lua.Option{{Name: "out", Type: "output", Default: t.TempDir() + "/none/file"}}}
	for _, c := range []struct {
		words   []string
		allowed bool
		want    fault.Kind
	}{{nil, false, 0}, {nil, true, fault.Output}, {[]string{"--out", sc.Options[0].Default.(string)}, false, fault.Output}} {
		own, err := parseOptions("perigee run x.lua", sc, c.words, cli.Streams{Out: io.Discard, Err: io.Discard})
		if err == nil {
			err = Job{}.checkOutputs(Flags{AllowIO: c.allowed}, sc, own)
		}
		if err == nil && c.want != 0 || err != nil && fault.KindOf(err) != c.want {
			t.Errorf("%v, --allow-io %v: %v, want kind %d", c.words, c.allowed, err, c.want)
		}
	}
}
