package experiment

import (
	"fmt"
	"slices"
	"strings"
	"testing"

	"perigee/spmd"
)

// The ranks that stood still are named with their host, how long and in which phase, the longest first.
func TestStoodStill(t *testing.T) {
	name := func(at int) string { return fmt.Sprintf("rank %d on host%d", at, at/2) }
	if notes := stoodStill(make([][]spmd.Standstill, 3), name); notes != nil {
		t.Errorf("none stood still: %q", notes)
	}
	const s = 1_000_000_000
	notes := stoodStill([][]spmd.Standstill{nil, {{Phase: "warmup", NS: 3 * s}}, {{Phase: "workload", NS: 20_120_000_000}}}, name)
	want := []string{
		"rank 2 on host1 stood still for 20.1s in phase workload: it was stopped, or its host was; the figures of that time have it in them",
		"rank 1 on host0 stood still for 3s in phase warmup: it was stopped, or its host was; the figures of that time have it in them",
	}
	if !slices.Equal(notes, want) {
		t.Errorf("got %q\nwant %q", notes, want)
	}
	many := stoodStill(slices.Repeat([][]spmd.Standstill{{{Phase: "start", NS: 4 * s}}}, 64), name)
	if len(many) != notedStandstills+1 || !strings.HasPrefix(many[notedStandstills], "60 more standstills of ranks") {
		t.Errorf("of 64: %q", many)
	}
}
