package moe

import (
	"perigee/internal/kit/fault"
)

// Options describe the choices of users for a routing of a family and of a placement. They are declared
// here alone: commands embed them, and scenarios take them from moe.options(). What is nil or empty was not given.
type Options struct {
	Hot        *float64 `name:"hot" placeholder:"SHARE" group:"Routing" help:"khot: share of the tokens that choose hot experts only (default: 0.9)."`
	HotExperts *int     `name:"hot-experts" min:"1" placeholder:"N" group:"Routing" help:"khot: the first N experts are hot (default: 32)."`
	Exponent   *float64 `name:"exponent" placeholder:"S" group:"Routing" help:"zipf: popularity of expert i is (i+1)^-S (default: 1)."`
	Sigma      *float64 `name:"sigma" placeholder:"S" group:"Routing" help:"lognormal: standard deviation of the logarithm of the popularity (default: 1)."`
	Imbalance  *float64 `name:"imbalance" placeholder:"F" group:"Routing" help:"imbalance: load of the busiest expert over the mean (default: 2)."`
	Loads      string   `name:"loads" placeholder:"FILE" group:"Routing" help:"loads, and eplb: a row of loads of all experts for each layer."`
	Layer      *int     `name:"layer" min:"0" placeholder:"N" group:"Routing" help:"The row of --loads, from 0 (default: 0)."`
	Matrix     string   `name:"matrix" placeholder:"FILE" group:"Routing" help:"matrix: bytes from each rank to each rank, as nccl-tests reads them."`
	Spread     *float64 `name:"spread" placeholder:"F" group:"Routing" help:"matrix without --matrix: how much the bytes grow with the distance, 0 to 1 (default: 1)."`
	Masked     int      `name:"masked" min:"0" default:"0" placeholder:"N" group:"Routing" help:"Random positions of each rank's tokens x topk table that name no expert."`

	Placement string `name:"placement" enum:"contiguous,eplb" default:"contiguous" group:"Placement" help:"contiguous: expert x on rank x / experts per rank; eplb: balanced replicas."`
	Redundant *int   `name:"redundant" min:"0" placeholder:"N" group:"Placement" help:"eplb: slots of each rank beyond experts per rank (default: 1)."`
	Groups    *int   `name:"groups" min:"1" placeholder:"N" group:"Placement" help:"eplb: groups of experts, kept on one node (default: 1)."`
	Nodes     *int   `name:"nodes" min:"1" placeholder:"N" group:"Placement" help:"eplb: nodes that the ranks are divided among (default: 1)."`
}

// DefaultRouting has the parameters of all families where none is given.
var DefaultRouting = Routing{Family: "uniform", Hot: 0.9, HotExperts: 32, Exponent: 1, Sigma: 1, Imbalance: 2}

// DefaultSpread is how much the bytes of a matrix grow with the distance where none is given.
const DefaultSpread = 1

// Check refuses options that the family of routing and the placement do not look at. Its errors are of the kind Usage.
func (o *Options) Check(family string) error {
	eplb := o.Placement == "eplb"
	for _, option := range []struct {
		given, heeded bool
		flag, wants   string
	}{
		{o.Hot != nil, family == "khot", "--hot", "--routing khot"},
		{o.HotExperts != nil, family == "khot", "--hot-experts", "--routing khot"},
		{o.Exponent != nil, family == "zipf", "--exponent", "--routing zipf"},
		{o.Sigma != nil, family == "lognormal", "--sigma", "--routing lognormal"},
		{o.Imbalance != nil, family == "imbalance", "--imbalance", "--routing imbalance"},
		{o.Loads != "", family == "loads" || eplb, "--loads", "--routing loads or --placement eplb"},
		{o.Layer != nil, o.Loads != "", "--layer", "--loads"},
		{o.Matrix != "", family == "matrix", "--matrix", "--routing matrix"},
		{o.Spread != nil, family == "matrix" && o.Matrix == "", "--spread", "--routing matrix"},
		{o.Redundant != nil, eplb, "--redundant", "--placement eplb"},
		{o.Groups != nil, eplb, "--groups", "--placement eplb"},
		{o.Nodes != nil, eplb, "--nodes", "--placement eplb"},
	} {
		if option.given && !option.heeded {
			return fault.New(fault.Usage, "%s has no effect without %s", option.flag, option.wants)
		}
	}
	if family == "loads" && o.Loads == "" {
		return fault.New(fault.Usage, "--routing loads needs --loads FILE")
	}
	return nil
}

// Balance places the experts of a selection and replicas of them, with redundant slots more on each rank than it has
// experts, by the given loads of all experts, or by those of the tokens themselves.
func (s *Selection) Balance(loads []float64, redundant, groups, nodes int) (*Placement, error) {
	if loads == nil {
		for _, n := range s.ExpertLoads() {
			loads = append(loads, float64(n))
		}
	}
	switch {
	case len(loads) != s.Experts:
		return nil, fault.New(fault.Usage, "loads of %d experts, want %d", len(loads), s.Experts)
	case redundant < 0 || redundant > MaxExperts:
		return nil, fault.New(fault.Usage, "redundant is %d, want 0 to %d", redundant, MaxExperts)
	}
	perRank := s.ExpertsPerRank() + redundant
	b, err := Balance(loads, Balancing{Replicas: perRank * s.Ranks, Groups: groups, Nodes: nodes, GPUs: s.Ranks})
	if err != nil {
		return nil, err
	}
	return NewPlacement(b.Logical, s.Experts, perRank), nil
}
