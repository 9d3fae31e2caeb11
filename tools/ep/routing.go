package ep

import (
	"fmt"
	"io"
	"strings"

	"perigee/internal/ep/moe"
	"perigee/internal/kit/cli"
	"perigee/internal/kit/fault"
	"perigee/internal/kit/sheet"
	"perigee/internal/model"
	"perigee/internal/traffic/matrix"
)

// Routing are the options that say how experts are chosen and placed.
type Routing struct {
	Routing string `name:"routing" default:"uniform" placeholder:"FAMILY" group:"Routing" help:"uniform, distinct, keyed, khot, zipf, lognormal, imbalance, loads or matrix."`
	Seed    uint64 `name:"seed" aliases:"routing-seed" default:"0" placeholder:"N" group:"Routing" help:"Seed of the routing; the same seed gives the same table on every machine."`
	moe.Options
}

// options turns the flags into a routing, and reads its files.
func (r Routing) options(shape moe.Shape) (moe.Routing, error) {
	o := moe.DefaultRouting
	o.Family, o.Seed, o.Masked = r.Routing, r.Seed, r.Masked
	o.Hot, o.HotExperts = cli.Given(r.Hot, o.Hot), cli.Given(r.HotExperts, o.HotExperts)
	o.Exponent, o.Sigma = cli.Given(r.Exponent, o.Exponent), cli.Given(r.Sigma, o.Sigma)
	o.Imbalance = cli.Given(r.Imbalance, o.Imbalance)
	if err := r.Check(r.Routing); err != nil {
		return o, err
	}
	var err error
	switch {
	case r.Routing == "loads":
		o.Loads, err = readLayer(r.Loads, cli.Given(r.Layer, 0))
	case r.Routing == "matrix" && r.Matrix != "":
		o.Matrix, err = readMatrix(r.Matrix, shape.Ranks)
	case r.Routing == "matrix":
		o.Matrix, err = moe.DistanceMatrix(shape.Ranks, 1<<30, cli.Given(r.Spread, moe.DefaultSpread))
	}
	return o, err
}

func readLoads(name string) ([][]float64, error) {
	f, err := open(name)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	return moe.ReadLoads(name, f)
}

func readLayer(name string, layer int) ([]float64, error) {
	layers, err := readLoads(name)
	if err != nil {
		return nil, err
	}
	if layer < 0 || layer >= len(layers) {
		return nil, fault.New(fault.Usage, "--layer is %d, want 0 to %d: %s has %s", layer, len(layers)-1, name,
			cli.Count(len(layers), "row"))
	}
	return layers[layer], nil
}

// readMatrix reads the first n rows and columns of a matrix.
func readMatrix(name string, n int) (*matrix.Matrix, error) {
	f, err := open(name)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	m, err := matrix.ReadText(name, f)
	if err != nil {
		return nil, err
	}
	if m, err = moe.FirstRanks(m, n); err != nil {
		return nil, fault.New(fault.Input, "%s: %w", name, err)
	}
	return m, nil
}

// place places the experts: by the loads of --loads, or else by those of the tokens themselves.
func (r Routing) place(s *moe.Selection) (*moe.Placement, error) {
	if r.Placement == "contiguous" {
		return moe.Contiguous(s.Shape), nil
	}
	var loads []float64
	if r.Loads != "" {
		var err error
		if loads, err = readLayer(r.Loads, cli.Given(r.Layer, 0)); err != nil {
			return nil, err
		}
		if len(loads) != s.Experts {
			return nil, fault.New(fault.Input, "%s: loads of %d experts, want %d", r.Loads, len(loads), s.Experts)
		}
	}
	p, err := s.Balance(loads, cli.Given(r.Redundant, 1), cli.Given(r.Groups, 1), cli.Given(r.Nodes, 1))
	if err != nil {
		return nil, fault.Wrap(err, "--placement eplb")
	}
	return p, nil
}

// RoutingCmd is `perigee ep routing`.
type RoutingCmd struct {
	Ranks   int    `name:"ranks" short:"n" default:"8" placeholder:"N" help:"Ranks."`
	Tokens  int    `name:"tokens" type:"tokens" default:"128" placeholder:"N" help:"Tokens of each rank."`
	TopK    *int   `name:"topk" placeholder:"N" help:"Experts for each token (default: 8)."`
	Experts *int   `name:"experts" placeholder:"N" help:"Experts of the world, a multiple of the ranks (default: 256)."`
	Hidden  *int   `name:"hidden" placeholder:"N" help:"Channels of a token, a multiple of 128 (default: 7168)."`
	Model   string `name:"model" completes:"models" placeholder:"NAME|FILE" help:"Take these three from a model: its name, such as deepseek-ai/DeepSeek-V3 (perigee kvbench models lists them), its config.json, or a file of your own."`
	Payload string `name:"payload" enum:"bf16,fp8" default:"bf16" help:"bf16: 2 bytes for each channel; fp8: 1 byte, and 4 for each 128 channels."`
	Routing
	cli.Format `set:"formats=text,json" set:"formats_help=text or json"`
}

// Help adds to the flags in perigee ep routing --help.
func (RoutingCmd) Help() string {
	return "Example: perigee ep routing --routing keyed --seed 67 --ranks 8 --tokens 128\n\nSee docs/ep.md."
}

// Census is the JSON of `perigee ep routing --format json`: counts of the whole world.
type Census struct {
	Assignments int64      `json:"assignments"`
	RankCopies  int64      `json:"rank_copies"`
	LocalCopies int64      `json:"local_copies"`
	ExpertLoad  moe.Spread `json:"expert_load"`
	Fanout      moe.Spread `json:"fanout"`
	RankLoad    moe.Spread `json:"rank_load"`
	Bytes       moe.Bytes  `json:"bytes"`
	Payload     string     `json:"payload"`
	Replacement string     `json:"replacement"`
	Placement   string     `json:"placement"`
	Expected    *float64   `json:"expected_fanout,omitempty"` // where experts are equally likely and none is masked
	Sigma       *float64   `json:"sigma,omitempty"`           // that the family imbalance found

	// Contiguous is the census of the same tokens without replicas, beside one with them.
	Contiguous *Census `json:"contiguous,omitempty"`
}

// shape returns the sizes, which are the model's, where there is one.
func (c *RoutingCmd) shape() (moe.Shape, error) {
	shape := moe.Shape{Ranks: c.Ranks, Tokens: c.Tokens, Hidden: cli.Given(c.Hidden, 7168),
		Experts: cli.Given(c.Experts, 256), TopK: cli.Given(c.TopK, 8)}
	if c.Model == "" {
		return shape, shape.Check()
	}
	for _, f := range []struct {
		name  string
		given *int
	}{{"hidden", c.Hidden}, {"experts", c.Experts}, {"topk", c.TopK}} {
		if f.given != nil {
			return shape, fault.New(fault.Usage, "--%s: --model %s says that", f.name, c.Model)
		}
	}
	m, err := model.Load(c.Model)
	if err == nil {
		err = m.CheckExperts(c.Model)
	}
	if err != nil {
		return shape, err
	}
	shape.Hidden, shape.Experts, shape.TopK = int(m.Hidden), int(m.Experts), int(m.TopK)
	if c.Ranks > 0 && shape.Experts%c.Ranks != 0 {
		return shape, fault.New(fault.Usage, "--model %s: %s cannot be spread evenly over %s", c.Model,
			cli.Count(shape.Experts, "expert"), cli.Count(c.Ranks, "rank"))
	}
	return shape, shape.Check()
}

// Run prints the census.
func (c *RoutingCmd) Run(streams cli.Streams) error {
	shape, err := c.shape()
	if err != nil {
		return err
	}
	routing, err := c.Routing.options(shape)
	if err != nil {
		return err
	}
	selection, err := moe.Route(shape, routing)
	if err != nil {
		return err
	}
	placement, err := c.Routing.place(selection)
	if err != nil {
		return err
	}
	census := c.census(selection, routing, placement)
	if c.Placement == "eplb" {
		contiguous := c.census(selection, routing, moe.Contiguous(shape))
		contiguous.Placement = "contiguous"
		census.Contiguous = &contiguous
	}
	if c.Format.Format == "json" {
		return cli.WriteJSON(streams.Out, census)
	}
	return c.writeText(streams.Out, shape, census)
}

// census counts a routing under a placement. Where the routing is drawn evenly, the expected fan-out is known by a
// formula and stands beside it.
func (c *RoutingCmd) census(s *moe.Selection, r moe.Routing, p *moe.Placement) Census {
	counted := moe.Count(s, p)
	payload := moe.BF16
	if c.Payload == "fp8" {
		payload = moe.FP8
	}
	census := Census{
		Assignments: counted.Assignments, RankCopies: counted.RankCopies, LocalCopies: counted.LocalCopies,
		ExpertLoad: counted.ExpertLoad, Fanout: counted.Fanout, RankLoad: counted.RankLoad,
		Bytes: counted.Bytes(payload.TokenBytes(s.Hidden)), Payload: payload.String(),
		Replacement: r.Replacement(), Placement: c.Placement,
	}
	switch {
	case r.Family == "imbalance":
		census.Sigma = &s.Sigma
	case r.Masked == 0 && c.Placement == "contiguous" && (r.Family == "uniform" || r.Family == "distinct" ||
		r.Family == "keyed"):
		expected := s.MeanFanout(r.Family == "uniform")
		census.Expected = &expected
	}
	return census
}

// writeText prints the census, below that of the default placement if another was asked for.
func (c *RoutingCmd) writeText(w io.Writer, s moe.Shape, census Census) error {
	notes := []string{fmt.Sprintf("# routing %s, %s, seed %d, %d masked for each rank", c.Routing.Routing,
		census.Replacement, c.Seed, c.Masked),
		fmt.Sprintf("# %d ranks x %d tokens x topk %d, %d experts, hidden %d, %s", s.Ranks, s.Tokens, s.TopK, s.Experts,
			s.Hidden, c.Payload)}
	if census.Expected != nil {
		notes = append(notes, fmt.Sprintf("# expected mean fan-out %.5f", *census.Expected))
	}
	if census.Sigma != nil {
		notes = append(notes, fmt.Sprintf("# sigma %.4f gives the imbalance", *census.Sigma))
	}
	if _, err := fmt.Fprintln(w, strings.Join(notes, "\n")); err != nil {
		return err
	}
	t := sheet.New("", "", "|Placement", "Assignments", "Rank copies", "Local", "Fan-out mean %.4f",
		"Expert load max", "max/mean %.3f", "Rank load max", "rank max/mean %.3f", "Assignment (MB) %.3f",
		"Rank (MB) %.3f", "Remote (MB) %.3f")
	rows := []Census{census}
	if census.Contiguous != nil {
		rows = []Census{*census.Contiguous, census}
	}
	for _, r := range rows {
		t.AddRow(r.Placement, r.Assignments, r.RankCopies, r.LocalCopies, r.Fanout.Mean, r.ExpertLoad.Max,
			r.ExpertLoad.MaxOverMean(),
			r.RankLoad.Max, r.RankLoad.MaxOverMean(), megabytes(r.Bytes.Assignment), megabytes(r.Bytes.Rank),
			megabytes(r.Bytes.Remote))
	}
	return t.WriteText(w)
}

func megabytes(n int64) float64 { return float64(n) / 1e6 }
