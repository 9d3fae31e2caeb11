package lua

import (
	"bytes"
	"io"
	"maps"
	"slices"
	"strings"
	"testing"

	glua "github.com/yuin/gopher-lua"

	"perigee/internal/experiment"
	"perigee/internal/result"
	"perigee/internal/result/resulttest"
	"perigee/internal/traffic/traffictest"
	"perigee/lua/option"
	"perigee/nixl"
	"perigee/spmd"
)

// played is what a scenario has left behind.
type played struct {
	out  []string // by rank
	errs []error
	doc  *result.Document
}

// failed is the first error of any rank.
func (p played) failed() error {
	for _, err := range p.errs {
		if err != nil {
			return err
		}
	}
	return nil
}

// play runs a scenario on n ranks of this process. What it leaves goes with the schema
// of results.
func playScript(t testing.TB, n int, source string, options map[string]any) played {
	t.Helper()
	return playWith(t, n, source, options, func(*Env) {})
}

// playWith is play with changes to what the ranks are given.
func playWith(t testing.TB, n int, source string, options map[string]any, change func(env *Env)) played {
	t.Helper()
	return playAs(t, n, source, Access{Named: options}, change)
}

// playAs is playWith with access to files. Its options are those that it names.
func playAs(t testing.TB, n int, source string, access Access, change func(env *Env)) played {
	t.Helper()
	access.Folder = "/"
	p := played{out: make([]string, n)}
	runtimes := make([]*Runtime, n)
	p.errs = traffictest.Worlds(t, n, func(w *spmd.World) error {
		var out bytes.Buffer
		defer func() { p.out[w.Rank()] = out.String() }()
		r, err := Load("test.lua", source, io.Discard)
		if err != nil {
			return err
		}
		runtimes[w.Rank()] = r
		c := testConfig(w, &out)
		c.Metrics, c.Thresholds = r.Metrics, r.Thresholds
		env := Env{Experiment: experiment.Begin(c)}
		if w.Rank() == 0 {
			p.doc = env.Doc
		}
		change(&env)
		r.Permit(access)
		r.Begin(env)
		mine := map[string]any{}
		for _, o := range r.Options {
			if o.Default != nil {
				mine[option.Key(o.Name)] = o.Default
			}
		}
		maps.Copy(mine, access.Named)
		if err := r.Run(mine); err != nil {
			return err
		}
		return w.All().Barrier()
	})
	for _, r := range runtimes {
		if r == nil {
			continue
		}
		if err := r.Close(); err != nil {
			t.Errorf("close: %v", err)
		}
	}
	if p.doc != nil {
		if err := resulttest.ValidateDocument(p.doc); err != nil {
			t.Errorf("the result does not go with the schema: %v", err)
		}
	}
	return p
}

func testEnv(w *spmd.World, out io.Writer) Env {
	return Env{Experiment: experiment.Begin(testConfig(w, out))}
}

func testConfig(w *spmd.World, out io.Writer) experiment.Config {
	return experiment.Config{
		World: w, Out: out, Seed: 5, Command: []string{"perigee", "test"},
		Scenario: result.Scenario{Name: "test.lua", SHA256: strings.Repeat("0", 64), Options: map[string]any{}},
		Open:     func() (nixl.Engine, string, error) { return new(traffictest.Engine), "", nil },
		GPUs:     func() ([]string, error) { return nil, nil },
	}
}

// state is the Lua state of a scenario.
func state(r *Runtime) *glua.LState { return r.host.vm.L }

// moduleNames are the names of all modules, sorted.
func moduleNames() (names []string) {
	for _, m := range all {
		names = append(names, m.name)
	}
	slices.Sort(names)
	return names
}

// methodsOf are the methods of objects of a type.
func methodsOf(r *Runtime, typeName string) *glua.LTable {
	return state(r).GetTypeMetatable(typeName).(*glua.LTable).RawGetString("methods").(*glua.LTable)
}

// keysOf are the keys of a table, sorted.
func keysOf(t *glua.LTable) (keys []string) {
	t.ForEach(func(k, _ glua.LValue) { keys = append(keys, k.String()) })
	slices.Sort(keys)
	return keys
}

// body wraps statements into a scenario.
func body(statements string) string { return "return { run = function(opt) " + statements + "\nend }" }

// mustPlay is play for what must not fail.
func mustPlay(t testing.TB, n int, source string) played {
	t.Helper()
	p := playScript(t, n, source, nil)
	for r, err := range p.errs {
		if err != nil {
			t.Fatalf("rank %d: %v", r, err)
		}
	}
	return p
}
