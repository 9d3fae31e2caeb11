package transfer

import (
	"maps"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"perigee/internal/experiment"
	"perigee/internal/kit/must"
	"perigee/internal/result"
	"perigee/lua/modules"
	"perigee/spmd"
)

// noted is a host that has nothing but an experiment to note things in.
type noted struct {
	modules.Host
	env *modules.Env
}

func (n noted) Env() *modules.Env { return n.env }

// More ranks than CPUs cannot start at once: a note says so, once.
func TestStartByTheClockNeedsCPUs(t *testing.T) {
	doc := &result.Document{}
	var out strings.Builder
	r := &instance{Host: noted{env: &modules.Env{Experiment: &experiment.Experiment{Doc: doc, Config: experiment.Config{Out: &out}}}}}
	for range 2 {
		r.warnOfFewCPUs([]spmd.Host{{Name: "a", CPUs: 2, Ranks: []int{0, 1}}, {Name: "b", CPUs: 1, Ranks: []int{2, 3}}})
	}
	if len(doc.Notes) != 1 || !strings.Contains(doc.Notes[0], "b has 1 CPU for 2 ranks") {
		t.Errorf("notes: %q", doc.Notes)
	}
}

// The stubs describe the fields of plans, and no others.
func TestStubsOfPlanFields(t *testing.T) {
	text := must.Read(t, "../../meta/transfer.lua")
	_, class, _ := strings.Cut(string(text), "---@class Plan\n")
	class, _, _ = strings.Cut(class, "\n\n")
	var got []string
	for _, m := range regexp.MustCompile(`(?m)^---@field (\w+)`).FindAllStringSubmatch(class, -1) {
		got = append(got, m[1])
	}
	slices.Sort(got)
	if d := cmp.Diff(slices.Sorted(maps.Keys(planFields)), got); d != "" {
		t.Errorf("(-Go +stub):\n%s", d)
	}
}
