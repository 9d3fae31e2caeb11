package experts

import (
	"slices"
	"strconv"
	"strings"

	"perigee/internal/kit/conf"
	"perigee/internal/kit/fault"
	"perigee/internal/kit/plaintext"
)

// Stage is where a rank that is killed falls silent.
type Stage string

// The stages of a phase.
const (
	InDispatch Stage = "dispatch"
	InCombine  Stage = "combine"
	InCleanup  Stage = "cleanup"
)

// PlanPhase is who takes part in a phase of an elastic plan, and who is killed in it. Both lists ascend; who is
// killed takes part.
type PlanPhase struct {
	Ranks  []int
	Killed map[int]Stage
}

// plans are the named plans, those of NIXL EP's elastic test.
var plans = map[string]string{
	"static":  "0-3",
	"grow":    "0-3; 0-7",
	"steps":   "0-3; 0-5; 0-7",
	"replace": "0-3; 0-7; 0-4,-6,7; 0-7",
	"shrink":  "0-1; 0-3; 0-1,-2,3; 0,3",
	"large":   "0-7; 0-15",
	"single":  "0",
	"deaths":  "0,-1@dispatch,2-7; 0,2,-3@combine,4-7; 0,2,4,-5@cleanup,6-7; 0,2,4,6-7",
}

// Plans lists the names that --plan takes, in the order of the help.
func Plans() []string {
	return []string{"static", "grow", "steps", "replace", "shrink", "large", "single", "deaths"}
}

// The limits of a plan.
const (
	mostPhases    = 1 << 10
	mostPlanRanks = 1 << 12
)

// ParsePlan reads a plan: the name of one, or phases separated by semicolons. A phase is a list of ranks and ranges
// (0-3) with commas; -5 is a rank that is killed, -5@combine one that is killed there (dispatch if it is not said).
// Errors are of kind Usage.
func ParsePlan(text string) ([]PlanPhase, error) {
	if named, ok := plans[strings.TrimSpace(text)]; ok {
		text = named
	}
	var list []PlanPhase
	for i, words := range strings.Split(text, ";") {
		if i == mostPhases {
			return nil, fault.New(fault.Usage, "a plan of more than %d phases", mostPhases)
		}
		phase, err := parsePhase(words)
		if err != nil {
			return nil, fault.New(fault.Usage, "phase %d of the plan: %w", i+1, err).
				WithHint("a plan is one of %s; or phases such as 0-3; 0-7; 0-5,-6,7; or a JSON file that ends in .json",
					strings.Join(Plans(), ", "))
		}
		list = append(list, phase)
	}
	return list, nil
}

func parsePhase(words string) (PlanPhase, error) {
	phase := PlanPhase{Killed: map[int]Stage{}}
	for word := range strings.SplitSeq(words, ",") {
		if err := phase.add(strings.TrimSpace(word)); err != nil {
			return phase, err
		}
	}
	slices.Sort(phase.Ranks)
	if len(phase.Ranks) == len(phase.Killed) {
		return phase, fault.New(fault.Usage, "no rank survives")
	}
	return phase, nil
}

// PlanText turns a plan file of NIXL EP's elastic test into what [ParsePlan] reads. The document is a list of phases,
// each a list of ranks; a negative rank is killed in the dispatch of that phase. Errors are of kind Input and name the
// line.
func PlanText(v *conf.Value) (string, error) {
	if v.Len() == 0 || v.Kind != conf.List {
		return "", v.Errorf("wanted a list of phases such as [[0, 1], [0, 1, 2, 3]], got %s", amount(v))
	}
	var phases []string
	for i, phase := range v.List() {
		if phase.Len() == 0 || phase.Kind != conf.List {
			return "", phase.Errorf("phase %d: wanted a list of ranks such as [0, 1, -2], got %s", i+1, amount(phase))
		}
		var ranks []string
		for _, rank := range phase.List() {
			if rank.Kind != conf.Int {
				return "", rank.Errorf("phase %d: wanted a rank such as 4, or -4 for one that is killed, got %s", i+1, rank.Kind)
			}
			ranks = append(ranks, strconv.FormatInt(rank.Int(), 10))
		}
		text := strings.Join(ranks, ",")
		if _, err := parsePhase(text); err != nil {
			return "", phase.Errorf("phase %d: %w", i+1, err)
		}
		phases = append(phases, text)
	}
	return strings.Join(phases, "; "), nil
}

// amount names what a document has where a list was wanted.
func amount(v *conf.Value) string {
	if v.Kind == conf.List {
		return "an empty one"
	}
	return v.Kind.String()
}

// add takes a rank or a range into the phase.
func (p *PlanPhase) add(word string) error {
	first, last, stage := 0, 0, Stage("")
	var err error
	// A rank that is killed is written -3, or -3@combine with the stage at which it dies; others are 3 or 0-3.
	if dead, killed := strings.CutPrefix(word, "-"); killed {
		number, at, given := strings.Cut(dead, "@")
		stage = InDispatch
		if given {
			stage = Stage(at)
		}
		if !slices.Contains([]Stage{InDispatch, InCombine, InCleanup}, stage) {
			return fault.New(fault.Usage, "unknown stage %q, want dispatch, combine or cleanup", at)
		}
		first, err = planRank(number)
		last = first
	} else {
		from, to, isRange := strings.Cut(word, "-")
		if first, err = planRank(from); err == nil && isRange {
			last, err = planRank(to)
		} else {
			last = first
		}
	}
	if err != nil {
		return err
	}
	for rank := first; rank <= last; rank++ {
		if slices.Contains(p.Ranks, rank) {
			return fault.New(fault.Usage, "rank %d is there twice", rank)
		}
		p.Ranks = append(p.Ranks, rank)
		if stage != "" {
			p.Killed[rank] = stage
		}
	}
	if last < first {
		return fault.New(fault.Usage, "the range %s is empty", word)
	}
	return nil
}

func planRank(word string) (int, error) {
	n, err := strconv.Atoi(strings.TrimSpace(word))
	if err != nil || n < 0 || n >= mostPlanRanks {
		return 0, fault.New(fault.Usage, "wanted a rank of 0 to %d, got %q", mostPlanRanks-1, plaintext.Cut(word, 40))
	}
	return n, nil
}

// PlanRanks returns how many ranks a plan needs.
func PlanRanks(plan []PlanPhase) (n int) {
	for _, phase := range plan {
		n = max(n, phase.Ranks[len(phase.Ranks)-1]+1)
	}
	return n
}
