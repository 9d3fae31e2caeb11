package main

import (
	"io"
	"slices"
	"strings"
	"testing"

	"github.com/alecthomas/kong"

	"perigee/internal/kit/cli"
	"perigee/lua"
	"perigee/scenarios"
	"perigee/tools/kvbench"
)

// oldNames are names of options that help does not show, by the command that takes them, with the name that it shows.
// KVBench's own commands spell options as KVBench does.
var oldNames = map[string]map[string]string{
	"matgen generate":        {"results-dir": "output"},
	"sweep table":            {"scenario": "index"},
	"sweep plot":             {"scenario": "index"},
	"sweep report":           {"scenario": "index"},
	"ep routing":             {"routing-seed": "seed"},
	"disagg run":             {"model": "filter-model"},
	"disagg list":            {"model": "filter-model"},
	"kvbench plan":           {"kv_cache_dtype": "kv-cache-dtype", "num_iter": "num-iter"},
	"kvbench nixlbench":      {"num_iter": "num-iter", "op_type": "op-type"},
	"ct-perftest":            {"verify-buffers": "verify"},
	"sequential-ct-perftest": {"verify-buffers": "verify"},
	"kvbench":                {"iters": "num-iter"},
}

// unshown are options that work, or are taken without effect, and stand in no help.
var unshown = map[string][]string{
	"matgen generate": {"model-file"}, "disagg run": {"trust-output", "capture", "verbose"}, "ct-perftest": {"verify-every"},
	"kvbench nixlbench": {"config-file", "filenames", "gusli-client-name", "azure-blob-account-url"},
}

// TestOneName finds one name of each option in help, and the others taken for the same.
func TestOneName(t *testing.T) {
	k, err := cli.Parser(&commands{}, groups, kong.Vars{"version": ""}, kvbench.Quiet())
	if err != nil {
		t.Fatal(err)
	}
	flags := map[string][]*kong.Flag{}
	var walk func(path string, n *kong.Node)
	walk = func(path string, n *kong.Node) {
		flags[path] = n.Flags
		for _, group := range n.AllFlags(false) {
			flags[path] = append(flags[path], group...)
		}
		for _, child := range n.Children {
			walk(strings.TrimSpace(path+" "+child.Name), child)
		}
	}
	walk("", k.Model.Node)
	for _, name := range scenarios.Names() {
		path := strings.ReplaceAll(name, "_", "-")
		flags[path] = append(flags[path], scenarioFlags(t, name)...)
	}
	for path, names := range oldNames {
		for old, first := range names {
			i := slices.IndexFunc(flags[path], func(f *kong.Flag) bool { return f.Name == first })
			if i < 0 || flags[path][i].Hidden || !slices.Contains(flags[path][i].Aliases, old) {
				t.Errorf("%s: --%s is not another name of --%s", path, old, first)
			}
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
	for path, list := range flags {
		for _, f := range list {
			if !f.Hidden && (oldNames[path][f.Name] != "" || strings.Contains(f.Name, "_")) {
				t.Errorf("%s: help shows --%s", path, f.Name)
			}
		}
	}
	if i := slices.IndexFunc(k.Model.Children, func(n *kong.Node) bool { return n.Name == "simulate" }); !k.Model.Children[i].Hidden {
		t.Error("help shows simulate")
	}
}

func scenarioFlags(t *testing.T, name string) []*kong.Flag {
	file, source, _ := scenarios.Source(name)
	r, err := lua.Load(file, source, io.Discard)
	if err != nil {
		t.Fatal(err)
	}
	defer r.Close()
	k, err := cli.Parser(r.Options.Grammar())
	if err != nil {
		t.Fatal(err)
	}
	return k.Model.Flags
}
