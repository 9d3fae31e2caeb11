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
	for _, f := range DefaultBench().flags() {
		if !f.scenario {
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
	for name, most := range map[string]float64{"max_batch_size": scenarioBatch, "num_threads": scenarioThreads, "num_files": scenarioFiles} {
		if o := options[name]; o.Max == nil || *o.Max != most {
			t.Errorf("the scenario's %s is %+v, wanted at most %v", name, o, most)
		}
	}
	if diff := cmp.Diff(options["backend"].Choices, scenarioBackends); diff != "" {
		t.Errorf("backends (-scenario +plan):\n%s", diff)
	}
	if o := options["target_seg_type"]; !slices.Contains(o.Choices, "FILE") {
		t.Errorf("%+v", o)
	}
}

// TestOtherBackends checks the warning of each backend that the scenario does not have.
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

// TestBeyondScenario checks the warnings of what the scenario refuses, and only of that.
func TestBeyondScenario(t *testing.T) {
	for line, want := range map[string]string{
		"--num_threads 1024":                                   "",
		"--num_threads 1025":                                   "runs at most 1024 threads, and --num_threads is 1025",
		"--backend POSIX --num_files 2000":                     "uses at most 1024 files for each thread, and --num_files is 2000",
		"--scheme tp --num_initiator_dev 4 --num_target_dev 2": "",
		"--scheme tp --num_initiator_dev 2 --num_target_dev 3": "a multiple of the smaller, and they are 2 and 3",
	} {
		words := append([]string{"plan", "--model", "qwen3-8b", "--model_config", "block-tp1-pp1"}, strings.Fields(line)...)
		_, warned, err := runLine(t, words...)
		if err != nil {
			t.Fatalf("%s: %v", line, err)
		}
		if strings.Contains(warned, "perigee run kvbench") != (want != "") || !strings.Contains(warned, want) {
			t.Errorf("%s: %q, wanted %q", line, warned, want)
		}
	}
}
