package simulate

import (
	"cmp"
	"crypto/sha256"
	"strconv"
	"sync"

	"perigee/internal/kit/conf"
	"perigee/internal/kit/fault"
	"perigee/internal/replay"
	"perigee/internal/traffic/load"
	"perigee/internal/traffic/matrix"
	"perigee/nixl"
)

// Who meets and sleeps before a pattern, and how its initiators start, as in sequential-ct-perftest.
const (
	meetInitiators, meetAll  = "initiators", "all"
	startBarrier, startClock = "barrier", "clock"
)

// Workload is a list of patterns and how it is played, or a replay.
type Workload struct {
	Patterns []PacedPattern
	Meet     string // meetInitiators or meetAll
	Start    string // startBarrier or startClock
	Replay   *replay.Schedule
}

// loads are what n ranks prepare, one for all of them.
func (w *Workload) loads(n int) ([]load.Load, error) {
	if w.Replay != nil {
		placed, err := w.Replay.Place()
		return []load.Load{placed}, err
	}
	loads := make([]load.Load, len(w.Patterns))
	for i, p := range w.Patterns {
		if err := p.Check(n); err != nil {
			return nil, err
		}
		p.Shards = 1 // descriptors stay at their rank: no message depends on them, and they filled the memory
		if loads[i] = (shared{p, sync.OnceValue(p.sum)}); w.Start == startClock {
			loads[i] = load.Clocked{Load: loads[i]}
		}
	}
	return loads, nil
}

// PacedPattern is a traffic pattern with the pauses around it, in seconds.
type PacedPattern struct {
	load.Pattern
	Before, After float64
	stores        map[int]bool // ranks that also use files
}

// Posts has a post of each rank that only uses files, so that it meets those that send. No file is touched.
func (p PacedPattern) Posts(list []load.Post, rank int, lane load.Lane) []load.Post {
	list = p.Pattern.Posts(list, rank, lane)
	if p.stores[rank] {
		list = append(list, load.Post{Peer: nixl.Self})
	}
	return list
}

// sum is a short digest of the pattern.
func (p PacedPattern) sum() []byte {
	sum := sha256.Sum256(p.Digest(nil))
	return sum[:]
}

// shared is a pattern that all simulated ranks hold. Its digest is worked out once: where each of N ranks went
// through N x N cells, a thousand ranks took minutes, and a copy of the matrix each.
type shared struct {
	PacedPattern
	sum func() []byte
}

// Digest is a hash of the pattern's own.
func (s shared) Digest(b []byte) []byte { return append(b, s.sum()...) }

// Start is when a pattern begins and ends in an iteration of a workload whose transfers take no time: what its pauses
// and meetings alone make of it. No run is faster.
type Start struct {
	Pattern int     `json:"pattern"`
	Name    string  `json:"name"`
	Ranks   int     `json:"ranks"` // that meet
	StartS  float64 `json:"start_s"`
	EndS    float64 `json:"end_s"` // with the pause after it
}

// timeline plays the pauses. who lists, for each pattern, the ranks that meet.
func timeline(w Workload, ranks int, who [][]int) []Start {
	free := make([]float64, ranks) // from when on a rank has nothing to do
	list := make([]Start, 0, len(w.Patterns))
	for i, p := range w.Patterns {
		s := Start{Pattern: i, Name: p.Name, Ranks: len(who[i])}
		for _, r := range who[i] {
			s.StartS = max(s.StartS, free[r])
		}
		s.StartS += p.Before
		s.EndS = s.StartS + p.After
		for _, r := range who[i] {
			free[r] = s.EndS
		}
		list = append(list, s)
	}
	return list
}

// mostPause bounds a pause, in seconds, so that a sum of pauses is a number.
var mostPause = 1e15

// patternKeys are the keys of a traffic pattern. Only those that say what is to be
// prepared matter here.
var patternKeys = []conf.Field{
	{Name: "matrix_file", Type: "path", Required: true},
	{Name: "shards", Type: "int", Default: 1},
	{Name: "mem_type", Type: "any"},
	{Name: "xfer_op", Type: "enum", Enum: []string{"WRITE", "READ"}, Default: "WRITE"},
	{Name: "sleep_before_launch_sec", Type: "float", Min: new(float64), Max: &mostPause, Default: 0.0},
	{Name: "sleep_after_launch_sec", Type: "float", Min: new(float64), Max: &mostPause, Default: 0.0},
	{Name: "storage_ops", Type: "map", Elem: &conf.Field{Type: "any"}},
	{Name: "class", Type: "any"}, {Name: "slo_ms", Type: "any"}, {Name: "weight", Type: "any"},
	{Name: "metadata", Type: "any"},
}

// configKeys are those of the configurations of ct-perftest and sequential-ct-perftest.
var configKeys = conf.Schema{
	{Name: "traffic_patterns", Type: "list", Elem: &conf.Field{Type: "map", Fields: patternKeys}},
	{Name: "traffic_pattern", Type: "map", Fields: patternKeys},
	{Name: "iters", Type: "any", Aliases: []string{"n_iters"}},
	{Name: "isolation_iters", Type: "any", Aliases: []string{"n_isolation_iters"}},
	{Name: "warmup_iters", Type: "any"},
	{Name: "meet", Type: "enum", Enum: []string{meetInitiators, meetAll}, Default: meetInitiators},
	{Name: "start", Type: "enum", Enum: []string{startBarrier, startClock}, Default: startBarrier},
	{Name: "isolation_gap", Type: "any"},
	{Name: "sleep_from", Type: "any"}, // transfers that take no time end when they are launched
	{Name: "generator", Type: "any"},
}

// looksAt is after how many further cells and ranks of all patterns the memory that they take is looked at while they
// are read.
const looksAt = 1 << 20

// loadWorkload reads a configuration file, as far as there is memory to simulate it.
func loadWorkload(path string, available func() (int64, error)) (*Workload, error) {
	doc, err := conf.Load(path)
	if err != nil {
		return nil, err
	}
	if doc, err = configKeys.Check(doc); err != nil {
		return nil, err
	}
	w := &Workload{Meet: doc.Get("meet").Text(), Start: doc.Get("start").Text()}
	items := doc.Get("traffic_patterns").List()
	if one := doc.Get("traffic_pattern"); one != nil {
		items = append(items, one)
	}
	if len(items) == 0 {
		return nil, fault.New(fault.Input, "%s has no traffic pattern", path).
			WithHint("wanted is a configuration of ct-perftest or sequential-ct-perftest")
	}
	matrices := map[string]*matrix.Matrix{} // each file is read once,
	alike := map[string]*matrix.Matrix{}    // and each matrix kept once, by its digest: a file may have copies
	kept, looked := 0, 0
	for _, item := range items {
		path := item.Get("matrix_file").Text()
		m := matrices[path]
		if m == nil {
			if m, err = matrix.Load(path); err != nil {
				return nil, err
			}
			digest := m.Digest()
			m = cmp.Or(alike[digest], m)
			matrices[path], alike[digest] = m, m
		}
		if first := w.Patterns; len(first) > 0 && first[0].Matrix.Size() != m.Size() {
			return nil, item.Get("matrix_file").Errorf("the matrix is for %d ranks, the first one for %d", m.Size(),
				first[0].Matrix.Size())
		}
		op, err := nixl.ParseOp(item.Get("xfer_op").Text())
		if err != nil {
			return nil, err
		}
		p := PacedPattern{
			Pattern: load.Pattern{Name: item.Path(), Matrix: m, Op: op, Shards: int(item.Get("shards").Int())},
			Before:  item.Get("sleep_before_launch_sec").Float(), After: item.Get("sleep_after_launch_sec").Float(),
			stores: map[int]bool{},
		}
		for _, key := range item.Get("storage_ops").Keys() {
			rank, err := strconv.Atoi(key)
			if err != nil || rank < 0 || rank >= m.Size() {
				return nil, item.Get("storage_ops").Errorf("the key %q is no rank of %d", key, m.Size())
			}
			p.stores[rank] = true
		}
		w.Patterns = append(w.Patterns, p)
		if kept += m.Cells() + m.Size(); kept-looked < looksAt { // a sparse text of no messages has many ranks, too
			continue
		}
		if err := checkMemory([]int{m.Size()}, []*Workload{w}, available); err != nil {
			return nil, err
		}
		looked = kept
	}
	return w, nil
}

const (
	fanOut  = 4       // decode ranks to which a prefill rank sends
	cellLen = 8 << 20 // bytes of each message
)

// synthetic is a KV cache on its way: the ranks of the first half, which prefill,
// send to a few of the second half, which decode.
func synthetic(n int) (*Workload, error) {
	m := matrix.New(n)
	half := max(n/2, 1)
	for from := range half {
		for k := range min(fanOut, n-half) {
			if err := m.Set(from, half+(from+k)%(n-half), cellLen); err != nil {
				return nil, err
			}
		}
	}
	p := PacedPattern{Pattern: load.Pattern{Name: "synthetic", Matrix: m, Shards: 1}}
	return &Workload{Patterns: []PacedPattern{p}, Meet: meetInitiators, Start: startBarrier}, nil
}
