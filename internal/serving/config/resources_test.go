package config

import (
	"slices"
	"strings"
	"testing"
)

func job(resources string) string {
	return "benchmark: {concurrency_list: 1}\njob: {client: a}\nresources: " + resources + "\n"
}

// S2: the resources of srtctl's recipes.
func TestResources(t *testing.T) {
	for _, c := range []struct {
		text                   string
		prefill, decode, nodes int
	}{
		{"{gpus_per_node: 4, prefill_nodes: 2, prefill_workers: 4, decode_nodes: 4, decode_workers: 4}", 2, 4, 6},
		{"{gpus_per_node: 4, prefill_nodes: 2, prefill_workers: 4, decode_nodes: 0, decode_workers: 2}", 2, 2, 2},
		{"{gpus_per_node: 4, prefill_nodes: 2, prefill_workers: 4, gpus_per_prefill: 1, decode_nodes: 4, decode_workers: 4}", 1, 4, 6},
	} {
		got := load(t, job(c.text), Options{})[0]
		if !got.Valid() {
			t.Errorf("%s: %s", c.text, problems(got))
			continue
		}
		if r := got.Resources; r.Prefill.GPUsPerWorker != c.prefill || r.Decode.GPUsPerWorker != c.decode || r.Nodes() != c.nodes || got.Job.Nodes != c.nodes {
			t.Errorf("%s: %+v, %d nodes", c.text, r, got.Job.Nodes)
		}
	}
	for text, want := range map[string]string{
		"{gpus_per_node: 4, prefill_nodes: 1, decode_nodes: 1, agg_nodes: 1}":       "wanted agg, or prefill and decode, got both",
		"{gpus_per_node: 4, prefill_nodes: 1}":                                      "prefill and decode go together",
		"{prefill_nodes: 1, decode_nodes: 1}":                                       "missing resources.gpus_per_node",
		"{gpus_per_nod: 4, agg_nodes: 1, gpus_per_agg: 1}":                          `did you mean "gpus_per_node"?`,
		"{prefill: {tp: 8, dcp: 3}, decode: {tp: 8}}":                               "dcp 3 does not divide tp 8",
		"{prefill: {tp: 8, hardware: h200}, decode: {tp: 8}}":                       "hardware of one role without the other's",
		"{tp: 4, prefill: {tp: 8}, decode: {num_worker: 1}}":                        "is given here and as resources.tp",
		"{prefill: {tp: many}, decode: {tp: 1}}":                                    "wanted a whole number from 0",
		"{gpus_per_node: 4, prefill_nodes: 1, prefill_workers: 0, decode_nodes: 1}": "wanted at least 1, got 0",
	} {
		if got := problems(load(t, job(text), Options{})[0]); !strings.Contains(got, want) {
			t.Errorf("%s: got %s", text, got)
		}
	}
}

// S3: InferenceX's ranges and pools.
func TestPools(t *testing.T) {
	c := load(t, "benchmark: {concurrency_start: 4, concurrency_end: 128}\njob: {client: a}\nresources: {gpus_per_node: 8, prefill: {num_worker: 2, tp: 8, pp: 1, pcp: 2, dcp: 4}, decode: {tp: 8}}\n", Options{})[0]
	if !c.Valid() || !slices.Equal(c.Benchmark.Levels, []int{4, 8, 16, 32, 64, 128}) {
		t.Errorf("%v %s", c.Benchmark.Levels, problems(c))
	}
	if r := c.Resources; r.Prefill.GPUs() != 32 || r.Decode.GPUs() != 8 || r.Nodes() != 5 {
		t.Errorf("%+v", r)
	}
	// S2: prompts and the share of the lengths where the config does not say.
	if c.Benchmark.MultiRound != 10 || c.Benchmark.Ratio != .8 {
		t.Errorf("%+v", c.Benchmark)
	}
	if c := load(t, "benchmark: {concurrency_list: 4 8 4}\njob: {client: a}\n", Options{})[0]; !strings.Contains(problems(c), "concurrency 4 is there twice") {
		t.Errorf("a level twice: %s", problems(c))
	}
	if got := load(t, "benchmark: {concurrency_list: 16x32x64}\njob: {client: a}\n", Options{})[0].Benchmark.Levels; !slices.Equal(got, []int{16, 32, 64}) {
		t.Errorf("%v", got)
	}
	for text, want := range map[string]string{
		"{concurrency_start: 8, concurrency_end: 4}":                       "the first at most the second, got 8 and 4",
		"{concurrency_start: 8}":                                           "got 8 and 0",
		"{concurrency_list: 1, concurrency_start: 8, concurrency_end: 16}": "concurrency_list has the levels already",
	} {
		if got := problems(load(t, "benchmark: "+text+"\njob: {client: a}\n", Options{})[0]); !strings.Contains(got, want) {
			t.Errorf("%s: got %s", text, got)
		}
	}
}

// S5: a reference as ReFrame has it.
func TestReference(t *testing.T) {
	c := load(t, swap(t, "metadata:", "metadata:\n  references: {SERVER_MEAN_TTFT: [50000, -0.1, 0.3], 'SERVER_P99_ITL@8': [10, null, 0]}"), Options{})[0]
	if !c.Valid() || len(c.References) != 2 || c.References[1].Concurrency != 8 {
		t.Fatalf("%+v %s", c.References, problems(c))
	}
	for value, want := range map[float64]bool{44999: false, 45000: true, 65000: true, 65001: false} {
		if ok, bounds := c.References[0].Judge(value); ok != want || bounds != "45000 to 65000" {
			t.Errorf("%g: %v, %s", value, ok, bounds)
		}
	}
	if ok, _ := c.References[1].Judge(-1e9); !ok {
		t.Error("a missing bound fails")
	}
	for text, want := range map[string]string{
		"{SERVER_MEAN_TTFT: 1}": "[target, lower, upper]", "{SERVER_MEAN_TTFT: [a, 0, 0]}": "wanted [target, lower, upper]",
		"{'SERVER_MEAN_TTFT@a': [1, 0, 0]}": "METRIC or METRIC@CONCURRENCY", "{SERVER_MEAN_TTFT: [1, b, 0]}": "wanted a share or null",
		"{SERVER_MEAN_TTFF: [1, 0, 0]}": "there is no metric SERVER_MEAN_TTFF", "{'SERVER_MEAN_TTFT@3': [1, 0, 0]}": "the benchmark has no concurrency 3",
		"{SERVER_MEAN_TTFT: [100, 0.05, -0.05]}": "no figure is within 105 to 95", "{'SERVER_MEAN_TTFT@8x': [1, 0, 0]}": "METRIC or METRIC@CONCURRENCY",
	} {
		if c := load(t, swap(t, "metadata:", "metadata:\n  references: "+text), Options{})[0]; !strings.Contains(problems(c), want) {
			t.Errorf("%s: got %s, want %s", text, problems(c), want)
		}
	}
}

// The id that a file holds counts more than its place.
func TestID(t *testing.T) {
	c := load(t, swap(t, "metadata:", "metadata:\n  id: wideep/perf/x"), Options{})[0]
	if c.Ident != (Ident{"wideep", "perf", "x"}) {
		t.Errorf("%+v %s", c.Ident, problems(c))
	}
	list := load(t, swap(t, "metadata:", "sweep: {benchmark.input_length: [8, 16]}\nmetadata:\n  id: wideep/perf/x"), Options{})
	if len(list) != 2 || list[0].Stem != "x_input_length8" || list[1].Stem != "x_input_length16" {
		t.Errorf("of a sweep: %+v, %+v", list[0].Ident, list[len(list)-1].Ident)
	}
	for text, want := range map[string]string{
		"wideep/perf": "wanted TYPE/CATEGORY/NAME", "disagg/perf/a/../b": "wanted TYPE/CATEGORY/NAME", "disagg/perf/": "wanted TYPE/CATEGORY/NAME",
		"disagg/perf/..": "wanted TYPE/CATEGORY/NAME", "disagg/perf/" + strings.Repeat("x", 200): "wanted TYPE/CATEGORY/NAME", "other/perf/x": "there are no metrics for other/perf",
	} {
		if c := load(t, swap(t, "metadata:", "metadata:\n  id: "+text), Options{})[0]; !strings.Contains(problems(c), want) {
			t.Errorf("%s: got %s, want %s", text, problems(c), want)
		}
	}
}
