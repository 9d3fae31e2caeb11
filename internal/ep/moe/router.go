package moe

import (
	"math"
	"slices"
	"sort"
	"strings"

	"perigee/internal/kit/fault"
	"perigee/internal/traffic/matrix"
)

// Families are the names of all routing families, the document's first.
func Families() []string {
	return []string{"uniform", "distinct", "keyed", "khot", "zipf", "lognormal", "imbalance", "loads", "matrix"}
}

// Routing says how experts are chosen. Fields of other families than Family are ignored.
type Routing struct {
	// Family is one of Families:
	//
	//	uniform    K independent draws: a token may name an expert twice
	//	distinct   K different experts, all sets equally likely
	//	keyed      CollectiveX's keyed BLAKE2b counter, modulo E; different experts
	// khot       a share Hot of the tokens chooses among the first HotExperts, the others among all; different
	// experts

	//	zipf       popularity of expert i proportional to (i+1)^-Exponent; different experts
	//	lognormal  popularity e^(Sigma*z), z standard normal; different experts
	//	imbalance  lognormal with the Sigma at which the busiest expert has Imbalance times the mean load
	//	loads      popularity as in Loads; different experts
	//	matrix     rank i's choices are spread over the ranks in the proportions of row i of Matrix
	Family string
	Seed   uint64

	Hot        float64        // 0 to 1
	HotExperts int            // K to E
	Exponent   float64        // 0 or more
	Sigma      float64        // 0 or more
	Imbalance  float64        // 1 to E/K
	Loads      []float64      // of E experts
	Matrix     *matrix.Matrix // of R ranks, in bytes; only proportions count

	// Masked is how many random positions of each rank's T x K table name no expert.
	Masked int
}

// Replacement says in words whether a token may name an expert twice.
func (r Routing) Replacement() string {
	switch r.Family {
	case "uniform":
		return "with replacement"
	case "matrix":
		return "without replacement as far as a rank has enough experts"
	}
	return "without replacement"
}

// None is the expert of a masked position.
const None = -1

// Selection is which experts the tokens of all ranks were sent to.
type Selection struct {
	Shape
	Expert  []int32   // of choice k of token t of rank r at (r*T+t)*K + k; None where masked
	Weights []float32 // likewise; the weights of a token sum to 1 before masking

	// Sigma is the parameter that the family imbalance found.
	Sigma float64
}

// Of returns the experts and weights of a token by its global number.
func (s *Selection) Of(token int) ([]int32, []float32) {
	from := token * s.TopK
	return s.Expert[from : from+s.TopK], s.Weights[from : from+s.TopK]
}

// Route chooses the experts of all tokens. Errors are of kind Usage.
func Route(shape Shape, r Routing) (*Selection, error) {
	if err := shape.Check(); err != nil {
		return nil, err
	}
	if err := r.check(shape); err != nil {
		return nil, err
	}
	s := &Selection{
		Shape: shape, Sigma: r.Sigma,
		Expert: make([]int32, shape.Assignments()), Weights: make([]float32, shape.Assignments()),
	}
	if err := s.choose(r); err != nil {
		return nil, err
	}
	s.weigh(r.counter())
	s.mask(r)
	return s, nil
}

func (r Routing) counter() counter {
	if r.Family == "keyed" {
		return newKeyed(r.Seed)
	}
	return mixed{r.Seed}
}

// check validates the parameters of a family; those of other families are not looked at. Comparisons are written so
// that NaN fails them.
func (r Routing) check(s Shape) error {
	usage := func(format string, args ...any) error {
		return fault.New(fault.Usage, "routing "+r.Family+": "+format, args...)
	}
	atLeast0 := func(name string, v float64) error {
		if !(v >= 0 && v <= 64) {
			return usage("%s is %v, want 0 to 64", name, v)
		}
		return nil
	}
	if r.Masked < 0 || r.Masked > s.Tokens*s.TopK {
		return fault.New(fault.Usage, "%d masked positions, want 0 to %d, tokens x topk", r.Masked, s.Tokens*s.TopK)
	}
	switch r.Family {
	case "uniform", "distinct", "keyed":
		return nil
	case "khot":
		if !(r.Hot >= 0 && r.Hot <= 1) {
			return usage("the share of hot tokens is %v, want 0 to 1", r.Hot)
		}
		if r.HotExperts < s.TopK || r.HotExperts > s.Experts {
			return usage("%d hot experts, want %d (topk) to %d (all)", r.HotExperts, s.TopK, s.Experts)
		}
		return nil
	case "zipf":
		return atLeast0("the exponent", r.Exponent)
	case "lognormal":
		return atLeast0("sigma", r.Sigma)
	case "imbalance":
		if most := float64(s.Experts) / float64(s.TopK); !(r.Imbalance >= 1 && r.Imbalance <= most) {
			return usage("the imbalance is %v, want 1 to %.4g: an expert has at most all tokens, experts/topk times the mean",
				r.Imbalance, most)
		}
		return nil
	case "loads":
		return r.checkLoads(s, usage)
	case "matrix":
		if r.Matrix == nil {
			return usage("wanted a matrix")
		}
		if r.Matrix.Size() != s.Ranks {
			return usage("the matrix has %d ranks, want %d", r.Matrix.Size(), s.Ranks)
		}
		return nil
	}
	return fault.New(fault.Usage, "unknown routing %q, want one of %s", r.Family, strings.Join(Families(), ", "))
}

// checkLoads wants a load for each expert, and enough above 0 that a token finds its topk different experts.
func (r Routing) checkLoads(s Shape, usage func(string, ...any) error) error {
	if len(r.Loads) != s.Experts {
		return usage("loads of %d experts, want %d", len(r.Loads), s.Experts)
	}
	positive := 0
	for i, load := range r.Loads {
		if !(load >= 0) || math.IsInf(load, 1) {
			return usage("the load of expert %d is %v, want a finite number of 0 or more", i, load)
		}
		if load > 0 {
			positive++
		}
	}
	if positive < s.TopK {
		return usage("%d experts have a load above 0, fewer than topk %d", positive, s.TopK)
	}
	return nil
}

// choose fills Experts.
func (s *Selection) choose(r Routing) error {
	c := r.counter()
	switch r.Family {
	case "uniform":
		for i := range s.Expert {
			s.Expert[i] = int32(below(c.at(uint64(i/s.TopK), uint64(i%s.TopK), 0, streamExperts), uint64(s.Experts)))
		}
	case "distinct":
		s.each(func(token int, into []int32) { distinct(c, token, s.Experts, below, into) })
	case "keyed":
		s.each(func(token int, into []int32) { distinct(c, token, s.Experts, modulo, into) })
	case "khot":
		s.each(func(token int, into []int32) {
			among := s.Experts
			if hotTokens(r.Hot, token+1) > hotTokens(r.Hot, token) {
				among = r.HotExperts
			}
			distinct(c, token, among, below, into)
		})
	case "zipf":
		s.byPopularity(c, popularity(s.Experts, func(i int) float64 { return -r.Exponent * logOf(float64(i+1)) }))
	case "lognormal":
		s.byPopularity(c, s.logNormal(c, r.Sigma))
	case "imbalance":
		return s.reach(c, r.Imbalance)
	case "loads":
		s.byPopularity(c, newPopularity(r.Loads))
	case "matrix":
		s.byMatrix(r.Matrix)
	}
	return nil
}

// hotTokens is how many of the first n tokens are hot: spread evenly, floor(share*n) of them.
func hotTokens(share float64, n int) int { return int(share * float64(n)) }

// each calls fill with the place of every token's choices.
func (s *Selection) each(fill func(token int, into []int32)) {
	for token := range s.WorldTokens() {
		fill(token, s.Expert[token*s.TopK:(token+1)*s.TopK])
	}
}

func modulo(random, n uint64) uint64 { return random % n }

// distinct draws different experts of 0 to among-1, all with equal probability.
// An expert that the token has already is drawn again with the next attempt.
func distinct(c counter, token, among int, reduce func(random, n uint64) uint64, into []int32) {
	for k := range into {
		for attempt := uint64(0); ; attempt++ {
			into[k] = int32(reduce(c.at(uint64(token), uint64(k), attempt, streamExperts), uint64(among)))
			if !slices.Contains(into[:k], into[k]) {
				break
			}
		}
	}
}

// table is the popularity of experts as cumulative whole numbers, so that a draw is exact.
type table struct{ upTo []uint64 }

// finest is the sum of a table's shares, about.
const finest = 1 << 52

// newPopularity makes a table of non-negative, finite numbers of which at least one is positive.
// None that is positive becomes 0.
func newPopularity(loads []float64) table {
	largest := slices.Max(loads)
	unit := finest / float64(len(loads))
	t := table{make([]uint64, len(loads))}
	sum := uint64(0)
	for i, load := range loads {
		if load > 0 {
			sum += max(1, uint64(load/largest*unit))
		}
		t.upTo[i] = sum
	}
	return t
}

// popularity makes a table of logarithms.
func popularity(n int, logarithm func(expert int) float64) table {
	logs := make([]float64, n)
	for i := range logs {
		logs[i] = logarithm(i)
	}
	largest := slices.Max(logs)
	for i := range logs {
		logs[i] = max(expOf(logs[i]-largest), math.SmallestNonzeroFloat64)
	}
	return newPopularity(logs)
}

func (s *Selection) logNormal(c counter, sigma float64) table {
	return popularity(s.Experts, func(i int) float64 { return float64(sigma * normal(c, uint64(i), streamPopularity)) })
}

func (t table) total() uint64 { return t.upTo[len(t.upTo)-1] }

func (t table) share(expert int) uint64 {
	if expert == 0 {
		return t.upTo[0]
	}
	return t.upTo[expert] - t.upTo[expert-1]
}

// pick returns the expert at a point of 0 to total-1.
func (t table) pick(point uint64) int {
	return sort.Search(len(t.upTo), func(i int) bool { return t.upTo[i] > point })
}

// manyAttempts is when rejected draws give way to one draw among the rest,
// which has the same distribution.
const manyAttempts = 16

// byPopularity draws different experts one after the other, each in proportion to its popularity among the rest.
func (s *Selection) byPopularity(c counter, t table) {
	s.each(func(token int, into []int32) {
		for k := range into {
			into[k] = t.draw(c, token, k, into[:k])
		}
	})
}

// draw chooses an expert by its share that is not among taken. It tries a few times, which is enough unless few
// experts have nearly all of the load; then it draws from the shares that are left, which always ends. Both give the
// same distribution.
func (t table) draw(c counter, token, slot int, taken []int32) int32 {
	for attempt := range uint64(manyAttempts) {
		expert := int32(t.pick(below(c.at(uint64(token), uint64(slot), attempt, streamExperts), t.total())))
		if !slices.Contains(taken, expert) {
			return expert
		}
	}
	left := t.total()
	for _, expert := range taken {
		left -= t.share(int(expert))
	}
	point := below(c.at(uint64(token), uint64(slot), manyAttempts, streamExperts), left)
	for _, expert := range slices.Sorted(slices.Values(taken)) { // the point moves past those in front of it
		if share := t.share(int(expert)); t.upTo[expert]-share <= point {
			point += share
		}
	}
	return int32(t.pick(point))
}

// The bisection of sigma ends after so many steps, or within this part of the target.
const (
	mostSigma = 16.0
	mostSteps = 40
	closeness = 0.005
)

// reach finds by bisection a sigma whose loads have the wanted maximum over mean, and keeps the
// closest. It fails where that is not within a tenth: loads are whole tokens, and
// few tokens are never balanced.
func (s *Selection) reach(c counter, want float64) error {
	best, bestOff, bestGot := []int32(nil), math.Inf(1), 0.0
	try := func(sigma float64) float64 {
		s.byPopularity(c, s.logNormal(c, sigma))
		got := s.hotspot()
		if off := math.Abs(got - want); off < bestOff {
			best, bestOff, bestGot, s.Sigma = slices.Clone(s.Expert), off, got, sigma
		}
		return got
	}
	low, high := 0.0, mostSigma
	if try(low) < want {
		for range mostSteps {
			if bestOff <= closeness*want {
				break
			}
			if middle := (low + high) / 2; try(middle) < want {
				low = middle
			} else {
				high = middle
			}
		}
	}
	copy(s.Expert, best)
	if bestOff > want/10 {
		return fault.New(fault.Usage, "routing imbalance: the busiest of %d experts cannot have %v times the mean load"+
			" with %d tokens; the closest is %.4g",
			s.Experts, want, s.WorldTokens(), bestGot).WithHint("more tokens, or another imbalance")
	}
	return nil
}

// hotspot returns the largest load of an expert over the mean.
func (s *Selection) hotspot() float64 {
	loads, all := s.ExpertLoads(), 0
	for _, n := range loads {
		all += int(n)
	}
	if all == 0 {
		return 1
	}
	return float64(slices.Max(loads)) * float64(len(loads)) / float64(all)
}

// ExpertLoads returns the assignments of each logical expert.
func (s *Selection) ExpertLoads() []int64 {
	loads := make([]int64, s.Experts)
	for _, expert := range s.Expert {
		if expert != None {
			loads[expert]++
		}
	}
	return loads
}

// weigh draws raw weights of 1 to 65535 and divides them by their sum over a token.
func (s *Selection) weigh(c counter) {
	raw := make([]float32, s.TopK)
	for token := range s.WorldTokens() {
		var sum float32
		for k := range raw {
			raw[k] = float32(1 + c.at(uint64(token), uint64(k), 0, streamWeights)%65535)
			sum += raw[k]
		}
		for k, v := range raw {
			s.Weights[token*s.TopK+k] = v / sum
		}
	}
}

// mask draws different positions of every rank, by Floyd's algorithm, and takes their experts away.
func (s *Selection) mask(r Routing) {
	if r.Masked == 0 {
		return
	}
	c, positions := mixed{r.Seed}, s.Tokens*s.TopK
	for rank := range s.Ranks {
		taken := make(map[int]bool, r.Masked)
		for j := positions - r.Masked; j < positions; j++ {
			position := int(below(c.at(uint64(rank), uint64(j), 0, streamMasks), uint64(j+1)))
			if taken[position] {
				position = j
			}
			taken[position] = true
			s.Expert[rank*positions+position] = None
		}
	}
}

// Without takes away all choices of experts whose slots lie on these ranks: what survivors do with the experts of
// ranks that have died.
func (s *Selection) Without(p *Placement, dead []int) *Selection {
	left := *s
	left.Expert = slices.Clone(s.Expert)
	for i, expert := range left.Expert {
		if expert != None && slices.Contains(dead, p.Owner(p.Slot(int(expert), i/s.TopK))) {
			left.Expert[i] = None
		}
	}
	return &left
}
