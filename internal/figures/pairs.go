package figures

import (
	"cmp"
	"maps"
	"slices"

	"perigee/internal/figures/contention"
)

// sums adds up messages that belong together.
type sums struct {
	bytes    int64
	messages int

	// Of the messages measured in the workload, and of those measured isolated.
	togetherBytes, aloneBytes float64
	togetherNS, aloneNS       float64
	togetherCount, aloneCount int
	slowdowns                 contention.Slowdowns
}

// add takes what was measured of a message.
func (s *sums) add(bytes int64, c cellSums) {
	if c.together.n > 0 {
		s.togetherNS += c.together.value()
		s.togetherBytes += float64(bytes)
		s.togetherCount++
	}
	if c.alone.n > 0 {
		s.aloneNS += c.alone.value()
		s.aloneBytes += float64(bytes)
		s.aloneCount++
	}
}

// slowdown is the geometric mean of the messages' own: a ratio of sums would hide small messages behind large ones.
func (s *sums) slowdown() Num {
	return Num(s.slowdowns.Mean())
}

func (s *sums) latency() Num  { return ratio(s.togetherNS, float64(s.togetherCount)) }
func (s *sums) isolated() Num { return ratio(s.aloneNS, float64(s.aloneCount)) }

func (s *sums) bandwidth() Num         { return ratio(s.togetherBytes, s.togetherNS*1e-9) }
func (s *sums) isolatedBandwidth() Num { return ratio(s.aloneBytes, s.aloneNS*1e-9) }

// addPairs computes the figures of pairs, ranks and hosts.
func (b *builder) addPairs(f *Figures) {
	pairs, hosts := map[[2]int]*sums{}, map[[2]int]*sums{}
	senders, receivers := make([]sums, b.size), make([]sums, b.size)
	var all sums
	of := func(from, to int) [5]*sums {
		return [5]*sums{
			&all, &senders[from], &receivers[to], at(pairs, from, to), at(hosts, b.hostOf[from], b.hostOf[to]),
		}
	}
	patterns := make([]int, len(f.Document.Matrices)) // that have a matrix
	for _, p := range f.Document.Patterns {
		patterns[p.Matrix]++
	}
	for i, n := range patterns {
		if n == 0 {
			continue
		}
		for _, cell := range f.Document.Matrices[i].Cells {
			for _, s := range of(int(cell[0]), int(cell[1])) {
				s.bytes, s.messages = s.bytes+int64(n)*cell[2], s.messages+n
			}
		}
	}
	for i, p := range f.Document.Patterns {
		b.patterns[i].cells.each(func(k int, c cellSums) {
			cell := f.Document.Matrices[p.Matrix].Cells[k]
			for _, s := range of(int(cell[0]), int(cell[1])) {
				s.add(cell[2], c)
			}
		})
	}
	b.contention.Slowdowns(func(_, from, to int, one contention.Slowdowns) {
		for _, s := range of(from, to) {
			s.slowdowns.Add(one)
		}
	})
	f.Slowdown = all.slowdown()
	f.Pairs, f.HostPairs, f.Ranks = make([]Pair, 0, len(pairs)), make([]HostPair, 0, len(hosts)), make([]Rank, b.size)
	for _, k := range ordered(pairs) {
		s := pairs[k]
		f.Pairs = append(f.Pairs, Pair{
			From: k[0], To: k[1], Bytes: s.bytes, Messages: s.messages, LatencyNS: s.latency(),
			IsolatedNS: s.isolated(),
			Bandwidth:  s.bandwidth(), IsolatedBandwidth: s.isolatedBandwidth(), Slowdown: s.slowdown(),
			Contention: None,
		})
	}
	for _, k := range ordered(hosts) {
		s := hosts[k]
		f.HostPairs = append(f.HostPairs, HostPair{
			From: k[0], To: k[1], Bytes: s.bytes, Messages: s.messages, LatencyNS: s.latency(),
			Bandwidth: s.bandwidth(), Slowdown: s.slowdown(),
		})
	}
	for r := range f.Ranks {
		f.Ranks[r] = Rank{
			Rank: r, Host: b.hostOf[r], Sent: senders[r].bytes, Received: receivers[r].bytes,
			SendSlowdown: senders[r].slowdown(), RecvSlowdown: receivers[r].slowdown(),
		}
	}
}

func at(m map[[2]int]*sums, from, to int) *sums {
	s := m[[2]int{from, to}]
	if s == nil {
		s = &sums{}
		m[[2]int{from, to}] = s
	}
	return s
}

func ordered(m map[[2]int]*sums) [][2]int {
	return slices.SortedFunc(maps.Keys(m), func(a, b [2]int) int { return cmp.Or(a[0]-b[0], a[1]-b[1]) })
}
