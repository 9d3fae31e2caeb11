package main

import (
	"runtime/debug"
	"testing"
)

func TestBOM(t *testing.T) {
	b := bom(&debug.BuildInfo{
		GoVersion: "go1.2", Path: "x", Main: debug.Module{Path: "x", Version: "v1"},
		Deps: []*debug.Module{
			{Path: "a", Version: "v2"},
			{Path: "b", Version: "v3", Replace: &debug.Module{Path: "c", Version: "v4"}},
		},
	})
	var got []string
	for _, c := range *b.Components {
		got = append(got, c.PackageURL)
	}
	want := []string{"pkg:golang/std@go1.2", "pkg:golang/a@v2", "pkg:golang/c@v4"}
	if len(got) != len(want) || got[0] != want[0] || got[1] != want[1] || got[2] != want[2] {
		t.Errorf("got %v, want %v", got, want)
	}
	if m := b.Metadata.Component; m.Name != "x" || m.Version != "v1" {
		t.Errorf("metadata: %+v", m)
	}
}
