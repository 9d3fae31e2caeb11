package kvbench

import (
	"io"
	"slices"
	"strings"
	"testing"

	"perigee/internal/kit/cli"
	"perigee/internal/kit/fault"
	"perigee/internal/kit/must"
	"perigee/lua"
	"perigee/lua/option"
	"perigee/scenarios"
)

// The scenario has the options that plans give it, with nixlbench's defaults.
func TestScenarioFlags(t *testing.T) {
	file, source, ok := scenarios.Source("kvbench")
	if !ok {
		t.Fatal("there is no scenario kvbench")
	}
	r, err := lua.Load(file, source, io.Discard)
	must.Do(t, err)
	defer r.Close()
	options := map[string]lua.Option{}
	for _, o := range r.Options {
		for _, name := range append([]string{o.Name}, o.Aliases...) {
			options[option.Key(name)] = o
		}
	}
	for _, f := range DefaultBench().flags() {
		if !f.scenario || f.name == "backend" { // which is an option of the job
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
	if o := options["target_seg_type"]; !slices.Contains(o.Choices, "FILE") {
		t.Errorf("%+v", o)
	}
}

// TestEveryBackend checks that the printed command of perigee names the backend, with the parameters that options of
// nixlbench are to it. Secrets are not on it.
func TestEveryBackend(t *testing.T) {
	for _, b := range backends {
		words := []string{"plan", "--model", "qwen3-8b", "--model_config", "block-tp1-pp1", "--backend", strings.ToLower(b.name),
			"--obj_bucket_name", "b", "--obj_secret_key", "hidden"}
		out, _, err := runLine(t, words...)
		must.Do(t, err)
		_, ours, _ := strings.Cut(out, "perigee run kvbench")
		if strings.Contains(ours, "--backend "+b.name+" ") != (b.name != "UCX") {
			t.Errorf("%s: %s", b.name, ours)
		}
		if strings.Contains(ours, "--backend-param bucket=b ") != (b.name == "OBJ") || strings.Contains(ours, "hidden") {
			t.Errorf("%s: %s", b.name, ours)
		}
	}
	_, variables := (Bench{Backend: "OBJ", ObjSecretKey: "k"}).forBackend()
	if len(variables) != 1 || variables["AWS_SECRET_ACCESS_KEY"] != "k" {
		t.Errorf("variables: %v", variables)
	}
	if got := strings.Join(mergeParams([]string{"a=1", "b=2"}, []string{"b=3", "c=4"}), " "); got != "a=1 b=3 c=4" {
		t.Errorf("merged: %s", got)
	}
}

// A job's --backend-param stands beside nixlbench's options, and over what they set.
func TestBackendParamOfCommands(t *testing.T) {
	words := []string{"--backend-param", "bucket=c", "--backend", "OBJ", "--obj_bucket_name", "b", "--backend-param", "k=v"}
	var bench NixlbenchCmd
	rest, err := cli.Take(&bench, words)
	if err != nil || len(rest) > 0 {
		t.Fatal(rest, err)
	}
	bench.Flags.Yielding.BackendParam = bench.BackendParam
	got := bench.Bench.job(bench.Flags, nil, "").Flags.Yielding
	if got.Backend != "OBJ" || slices.Contains(got.BackendParam, "bucket=b") || !slices.Contains(got.BackendParam, "bucket=c") ||
		!slices.Contains(got.BackendParam, "k=v") || !slices.Contains(got.BackendParam, "scheme=http") {
		t.Errorf("%+v", got)
	}
	if err := (&NixlbenchCmd{Bench: Bench{NumThreads: 1, LargeBlkIterFtr: 1}, backendOption: backendOption{BackendParam: []string{"k"}}}).Run(cli.Streams{}); fault.KindOf(err) != fault.Usage {
		t.Error(err)
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
