package main

import (
	"io"
	"reflect"
	"slices"
	"strings"
	"testing"

	"github.com/alecthomas/kong"

	"perigee/internal/kit/cli"
	"perigee/internal/kit/must"
	"perigee/lua"
	"perigee/scenarios"
	"perigee/tools/kvbench"
)

// oldNames are names of options that help does not show, with a value, by the command that takes them and the name that
// it shows. What stands in front of them is the least that the command needs.
var oldNames = []struct{ command, first, old string }{
	{"matgen generate", "output=w", "results-dir=w"},
	{"kvbench models", "output=p.html", "html=p.html"},
	{"kvbench models", "output=p.svg", "plot=p.svg"},
	{"kvbench models", "kv-cache-dtype=fp8", "kv_cache_dtype=fp8"},
	{"kvbench plan --model m --model-config c", "kv-cache-dtype=fp8", "kv_cache_dtype=fp8"},
	{"kvbench plan --model m --model-config c", "iters=7", "num_iter=7"},
	{"kvbench profile --model m", "iters=7", "num_iter=7"},
	{"kvbench profile --model m", "iters=7", "num-iter=7"},
	{"kvbench nixlbench", "iters=7", "num_iter=7"},
	{"kvbench nixlbench", "op-type=READ", "op_type=READ"},
	{"trace show t", "output=p.html", "html=p.html"},
	{"sweep table d", "index=2", "scenario=2"},
	{"sweep plot d -o p.svg", "index=2", "scenario=2"},
	{"sweep report d", "index=2", "scenario=2"},
	{"ep routing", "seed=5", "routing-seed=5"},
	{"disagg run d", "filter-model=m", "model=m"},
	{"disagg list d", "filter-model=m", "model=m"},
	{"run ct-perftest c", "verify", "verify-buffers"},
	{"run ct-perftest c", "verify=every", "verify-buffers=every"},
	{"run ct-perftest c", "json-output-path=o", "json_output_path=o"},
	{"run sequential-ct-perftest c", "verify", "verify-buffers"},
	{"run kvbench", "iters=7", "num-iter=7"},
	{"run kvbench", "iters=7", "num_iter=7"},
	{"run kvbench", "op-type=READ", "op_type=READ"},
	{"run replay t", "mem-type=dram", "mem_type=dram"},
}

// unshown are options that work, or are taken without effect, and stand in no help.
var unshown = map[string][]string{
	"matgen generate": {"model-file"}, "disagg run": {"trust-output", "capture", "verbose"}, "run ct-perftest": {"verify-every"},
	"run sequential-ct-perftest": {"verify-every"}, "run ep-data-plane": {"routing-seed"}, "run ep-kv": {"routing-seed"},
	"kvbench nixlbench": {"config-file", "filenames", "gusli-client-name", "azure-blob-account-url"},
}

// originals are options that have the names of other tools, which are the last in help.
var originals = map[string]string{
	"matgen generate":   "num-prefill-nodes num-decode-nodes ppn prefill-tp decode-tp",
	"kvbench plan":      "check-consistency warmup-iter num-threads",
	"kvbench nixlbench": "start-block-size max-batch-size initiator-seg-type",
	"run ct-perftest":   "json-output-path", "run sequential-ct-perftest": "json-output-path",
	"run ep-data-plane": "num-processes nvlink-backend use-etcd", "run ep-control-plane": "num-processes", "run ep-elastic": "num-processes kineto",
	"run kvbench": "warmup-iter num-threads",
}

// everywhere are options of all shipped scenarios, but for those that have another name for them, or none.
var everywhere = map[string]string{"mem-type": "run kvbench", "duration": "run ep-elastic", "iters": "run ep-control-plane run replay"}

// TestOneName finds one name of each option in help, and the others taken for the same.
func TestOneName(t *testing.T) {
	k, _ := parserOf(t, "")
	flags := map[string][]*kong.Flag{}
	var walk func(path string, n *kong.Node)
	walk = func(path string, n *kong.Node) {
		flags[path] = []*kong.Flag{}
		for _, group := range n.AllFlags(false) {
			flags[path] = append(flags[path], group...)
		}
		for _, child := range n.Children {
			walk(strings.TrimSpace(path+" "+child.Name), child)
		}
	}
	walk("", k.Model.Node)
	shown := func(path, name string) bool {
		return slices.ContainsFunc(flags[path], func(f *kong.Flag) bool { return f.Name == name && !f.Hidden })
	}
	for _, name := range scenarios.Names() {
		path := "run " + strings.ReplaceAll(name, "_", "-")
		k, _ := parserOf(t, path)
		flags[path] = k.Model.Flags
		for name, not := range everywhere {
			if shown(path, name) == strings.Contains(" "+not+" ", " "+path+" ") {
				t.Errorf("%s and --%s", path, name)
			}
		}
	}
	for _, n := range oldNames {
		path := n.command // without what the command needs
		for flags[path] == nil {
			path = path[:strings.LastIndexByte(path, ' ')]
		}
		if first, old := strings.Split(n.first, "=")[0], strings.Split(n.old, "=")[0]; !shown(path, first) || shown(path, old) {
			t.Errorf("%s: help is to have --%s and not --%s", path, first, old)
		}
		var got [2]any
		for i, option := range []string{n.first, n.old} {
			k, result := parserOf(t, n.command)
			words := strings.Fields(strings.TrimPrefix(n.command, "run "))
			if strings.HasPrefix(n.command, "run ") {
				words = words[1:]
			}
			_, err := k.Parse(append(words, "--"+option))
			must.Do(t, err)
			got[i] = result()
		}
		if !reflect.DeepEqual(got[0], got[1]) {
			t.Errorf("%s: --%s is not as --%s: %v and %v", n.command, n.old, n.first, got[0], got[1])
		}
	}
	for path, names := range unshown {
		for _, name := range names {
			i := slices.IndexFunc(flags[path], func(f *kong.Flag) bool { return f.Name == name })
			if i < 0 || !flags[path][i].Hidden {
				t.Errorf("%s: --%s is not there, or shown", path, name)
			}
		}
	}
	for path, names := range originals {
		last := slices.IndexFunc(flags[path], func(f *kong.Flag) bool { return f.Group != nil && f.Group.Key == cli.Originals })
		for _, name := range strings.Fields(names) {
			i := slices.IndexFunc(flags[path], func(f *kong.Flag) bool { return f.Name == name })
			if isScenario := strings.HasPrefix(path, "run "); i < last || last < 0 || !isScenario && slices.ContainsFunc(flags[path][i:], func(f *kong.Flag) bool { return f.Group == nil || f.Group.Key != cli.Originals }) {
				t.Errorf("%s: --%s is not in the last group", path, name)
			}
		}
	}
	for path, list := range flags {
		for _, f := range list {
			if !f.Hidden && strings.Contains(f.Name, "_") {
				t.Errorf("%s: help shows --%s", path, f.Name)
			}
		}
	}
	if i := slices.IndexFunc(k.Model.Children, func(n *kong.Node) bool { return n.Name == "simulate" }); !k.Model.Children[i].Hidden {
		t.Error("help shows simulate")
	}
}

// parserOf returns the parser of a command line, and what it has read: "run NAME" is the options of a shipped scenario.
func parserOf(t *testing.T, command string) (k *kong.Kong, result func() any) {
	name, isScenario := strings.CutPrefix(command, "run ")
	if !isScenario {
		all := &commands{}
		k, err := cli.Parser(all, groups, kong.Vars{"version": ""}, kvbench.Quiet())
		must.Do(t, err)
		return k, func() any { return all }
	}
	file, source, _ := scenarios.Source(strings.Fields(name)[0])
	r, err := lua.Load(file, source, io.Discard)
	must.Do(t, err)
	defer r.Close()
	options := r.Options
	grammar := options.Grammar()
	k, err = cli.Parser(grammar)
	must.Do(t, err)
	return k, func() any {
		values, _, err := options.Values(grammar)
		must.Do(t, err)
		return values
	}
}
