package kvbench

import (
	"io"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"perigee/lua"
	"perigee/scenarios"
)

// The scenario has the options that plans give it, with nixlbench's defaults.
func TestScenarioFlags(t *testing.T) {
	file, source, ok := scenarios.Source("kvbench")
	if !ok {
		t.Fatal("there is no scenario kvbench")
	}
	r, err := lua.Load(file, source, io.Discard)
	if err != nil {
		t.Fatal(err)
	}
	defer r.Close()
	options := map[string]lua.Option{}
	for _, o := range r.Options {
		options[strings.ReplaceAll(o.Name, "-", "_")] = o
	}
	for _, f := range presets {
		if !slices.Contains(scenarioFlags, f.name) {
			continue
		}
		o, ok := options[f.name]
		switch {
		case !ok:
			t.Errorf("the scenario has no --%s", f.name)
		case o.Default != nil && o.Default != f.value:
			t.Errorf("--%s is %v by default in the scenario and %v in nixlbench", f.name, o.Default, f.value)
		}
	}
	if o := options["max_batch_size"]; o.Max == nil || *o.Max != scenarioBatch {
		t.Errorf("the scenario takes %+v blocks, wanted at most %d", o, scenarioBatch)
	}
	if diff := cmp.Diff(options["backend"].Choices, scenarioBackends); diff != "" {
		t.Errorf("backends (-scenario +plan):\n%s", diff)
	}
	if o := options["target_seg_type"]; !slices.Contains(o.Choices, "FILE") {
		t.Errorf("%+v", o)
	}
}

// TestOtherBackends tells of each backend that the scenario does not have.
func TestOtherBackends(t *testing.T) {
	for _, b := range backends {
		_, warned, err := runLine(t, "plan", "--model", "qwen3-8b", "--model_config", "block-tp1-pp1", "--backend", b.name)
		if err != nil {
			t.Fatal(err)
		}
		want := ""
		switch {
		case slices.Contains(scenarioBackends, b.name):
		case b.storage:
			want = "perigee run kvbench knows no " + b.name + ": its command moves as much to or from local files"
		default:
			want = "perigee run kvbench knows no " + b.name + ": its command leaves the way to UCX"
		}
		if strings.Contains(warned, "knows no") != (want != "") || !strings.Contains(warned, want) {
			t.Errorf("%s: %q, wanted %q", b.name, warned, want)
		}
	}
}
