package experts

import (
	"reflect"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp/cmpopts"

	"perigee/internal/ep/moe"
	"perigee/internal/kit/conf"
	"perigee/internal/kit/fault"
	"perigee/internal/kit/fuzztest"
	"perigee/internal/kit/must"
	"perigee/internal/traffic/traffictest"
	"perigee/nixl"
	"perigee/spmd"
)

// patience is long enough for a rank that waits for a CPU among many.
const patience = 3 * time.Second

// playPlan plays a plan at its ranks in this process, and returns the outcome of each phase.
func playPlan(t *testing.T, text string) (outcomes []PhaseOutcome) {
	t.Helper()
	plan, err := ParsePlan(text)
	must.Do(t, err)
	n := PlanRanks(plan)
	e := Elastic{
		Plan: plan, Warmup: 1, Iterations: 4, Patience: patience,
		Spec: spec(t, moe.Shape{Ranks: n, Tokens: 8, Hidden: 128, Experts: 2, TopK: min(4, 2*n)}, moe.FP8, moe.Routing{Family: "distinct", Seed: 1}, 0),
	}
	engine := &traffictest.Engine{}
	var each []PhaseOutcome // as they come
	e.Each = func(o PhaseOutcome) error { each = append(each, o); return nil }
	defer func() {
		if len(each) != len(outcomes) {
			t.Errorf("%d of %d phases were handed on when they were over", len(each), len(outcomes))
		}
	}()
	must.Do(t, traffictest.Worlds(t, n, func(w *spmd.World) error {
		w.SetTimeout(5 * time.Minute)
		list, err := e.Play(w, engine, nixl.AgentConfig{Progress: "auto"})
		if w.Rank() == 0 {
			outcomes = list
		}
		return err
	})...)
	return outcomes
}

// Survivors mask the dead and go on, with every byte checked.
func TestDeaths(t *testing.T) {
	outcomes := playPlan(t, "deaths")
	if len(outcomes) != 4 {
		t.Fatalf("%d phases", len(outcomes))
	}
	for i, want := range [][]int{{1}, {1, 3}, {1, 3, 5}, {1, 3, 5}} {
		o := outcomes[i]
		if !slices.Equal(o.Masked, want) || i < 3 && !slices.Equal(o.Killed, want[i:]) {
			t.Errorf("phase %d: masked %v, killed %v; want %v", i+1, o.Masked, o.Killed, want)
		}
		for rank, episode := range o.Episodes {
			survives := slices.Contains(o.Present, rank) && !slices.Contains(o.Killed, rank)
			if survives != (episode.Messages > 0 && episode.MeanUS > 0) || episode.Silent != slices.Contains(o.Killed, rank) {
				t.Errorf("phase %d, rank %d: %+v", i+1, rank, episode)
			}
			if survives && len(o.Killed) > 0 && (episode.DetectedMS < 0.8*float64(patience.Milliseconds()) || episode.DetectedMS > 20000) {
				t.Errorf("phase %d, rank %d knew after %v ms", i+1, rank, episode.DetectedMS)
			}
		}
	}
}

func TestPlans(t *testing.T) {
	played := map[string][]PhaseOutcome{}
	for _, name := range []string{"static", "grow", "steps", "replace", "shrink", "single"} {
		played[name] = playPlan(t, name)
		for i, o := range played[name] {
			for _, rank := range o.Present {
				if e := o.Episodes[rank]; !e.Silent && (e.MeanUS <= 0 || e.Messages == 0) {
					t.Errorf("%s, phase %d, rank %d: %+v", name, i+1, rank, e)
				}
			}
		}
	}
	// Only ranks that are new are connected.
	steps := played["steps"]
	for i, joined := range []int{3, 2, 2} {
		if got := steps[i].Episodes[0].Joined; got != joined {
			t.Errorf("phase %d: rank 0 connected to %d ranks, want %d", i+1, got, joined)
		}
	}
	if shrink := played["shrink"]; shrink[3].Episodes[0].Left != 1 || shrink[3].Episodes[3].Left != 1 {
		t.Errorf("%+v", shrink[3])
	}
}

func TestParsePlan(t *testing.T) {
	plan, err := ParsePlan("0-2; 1,-3@combine,5-6")
	if err != nil || PlanRanks(plan) != 7 || !slices.Equal(plan[1].Ranks, []int{1, 3, 5, 6}) || plan[1].Killed[3] != InCombine || len(plan[1].Killed) != 1 {
		t.Errorf("%+v, %v", plan, err)
	}
	for text, want := range map[string]string{
		"": "wanted a rank", "0;": "phase 2", "0,0": "there twice", "3-1": "empty", "-1": "no rank survives", "0,-1@lunch": `unknown stage "lunch"`,
		"0-9999999": "wanted a rank of 0 to 4095", "x": "wanted a rank",
	} {
		if _, err := ParsePlan(text); fault.KindOf(err) != fault.Usage || !strings.Contains(err.Error(), want) {
			t.Errorf("%q: got %v, want %s", text, err, want)
		}
	}
}

// Plan files of the shapes that NIXL's elastic test has are the plans that they say, and a mistake is named by its line.
func TestPlanText(t *testing.T) {
	for document, want := range map[string]string{
		`[[0, 1, 2, 3]]`: "0-3", `[[0]]`: "0", "[\n  [0, 1],\n  [0, 1, 2, 3]\n]": "0-1; 0-3", `[[0, 1], [0, 1, 2], [0, 1, 2, 3]]`: "0-1; 0-2; 0-3",
		`[[0, 1, 2, 3], [0, 1, 2, 3, 4, 5, 6, 7], [0, 1, 2, 3, 4, -6, 7], [0, 1, 2, 3, 4, 5, 6, 7]]`: "replace",
		`[[0, 1], [0, 1, 2, 3], [0, 1, -2, 3], [0, 3]]`:                                              "shrink",
		`[[7, 6, 5, 4, 3, 2, 1, 0], [0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15]]`:         "large",
		`[[-0, 1]]`: "0,1", // Python reads 0
	} {
		got, err := planFile(document)
		expected, wrong := ParsePlan(want)
		if err != nil || wrong != nil || !reflect.DeepEqual(got, expected) {
			t.Errorf("%s: %+v, %v; want %+v", document, got, err, expected)
		}
	}
	for document, want := range map[string]string{
		`{"phases": [[0]]}`: "plan.json:1: wanted a list of phases such as [[0, 1], [0, 1, 2, 3]], got a map", `[]`: "got an empty one",
		"[[0],\n[]]": "plan.json:2: [1]: phase 2: wanted a list of ranks such as [0, 1, -2], got an empty one", `[0, 1]`: "got a whole number",
		"[[0],\n[0, \"1\"]]": "plan.json:2: [1][1]: phase 2: wanted a rank such as 4, or -4 for one that is killed, got text", `[[0, 1.5]]`: "got a number",
		"[[0, 1],\n[0, 0]]": "plan.json:2: [1]: phase 2: rank 0 is there twice", `[[-1]]`: "phase 1: no rank survives", `[[0, 4096]]`: "wanted a rank of 0 to 4095",
		`[[0, -0]]`: "there twice", `[[0, [1]]]`: "got a list", `[[0, null]]`: "got nothing",
	} {
		if _, err := planFile(document); fault.KindOf(err) != fault.Input || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: %v, want %s", document, err, want)
		}
	}
}

func planFile(document string) ([]PlanPhase, error) {
	v, err := conf.Parse("plan.json", []byte(document))
	if err != nil {
		return nil, err
	}
	text, err := PlanText(v)
	if err != nil {
		return nil, err
	}
	return ParsePlan(text)
}

// GB/s are the bytes of the rank's choices over the mean time: 7,585,792 and 14,680,064 bytes for 1024 choices of 7168
// channels in FP8, the published sizes. The first iteration is left out.
func TestEpisodeFigures(t *testing.T) {
	shape := moe.Shape{Ranks: 1, Tokens: 128, Hidden: 7168, Experts: 16, TopK: 8}
	s := spec(t, shape, moe.FP8, moe.Routing{Family: "distinct"}, 0)
	p := &Plane{spec: s, Layout: moe.NewLayout(s.Selection, s.Placement), hidden: 7168}
	log := &Log{}
	for _, us := range []int64{5000, 300, 500} {
		log.Iterations = append(log.Iterations, Iteration{Parts: [kinds]Part{{Send: us * 400, Recv: us * 100}, {Recv: us * 500}}})
	}
	var got Episode
	got.sumUp(log, p)
	want := Episode{MeanUS: 400, MinUS: 300, MaxUS: 500, DispatchUS: 200, CombineUS: 200,
		Bandwidth: 22265856 / 400e3, DispatchBandwidth: 7585792 / 200e3, CombineBandwidth: 14680064 / 200e3}
	must.Equal(t, want, got, cmpopts.EquateApprox(1e-12, 0))
}

func FuzzParsePlan(f *testing.F) {
	f.Add("deaths")
	f.Add("0-3; 0,-1@combine,2")
	fuzztest.Run(f, []string{"0-3; ", "-1@combine,", "-2,", "0", "1", "3", "7", "-", ",", ";", "@", "combine", "dispatch", "cleanup", " ", "deaths", "12"}, func(t *testing.T, text string) {
		plan, err := ParsePlan(text)
		if err != nil {
			if fault.KindOf(err) != fault.Usage {
				t.Errorf("%v is not of kind usage", err)
			}
			return
		}
		for _, phase := range plan {
			if len(phase.Ranks) <= len(phase.Killed) || !slices.IsSorted(phase.Ranks) {
				t.Errorf("%+v", phase)
			}
		}
	})
}
