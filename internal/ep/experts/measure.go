package experts

import (
	"slices"

	"perigee/internal/kit/clock"
	"perigee/nixl/device"
	"perigee/spmd"
)

// Measure plays iterations that do not count and n that do, after the first dispatch. The figures are at rank 0;
// elsewhere it returns nil. With save, which all ranks have or none, iterations that take long are played in pieces,
// and after each but the last rank 0 calls it with the figures so far.
func (p *Plane) Measure(mode Mode, warmup, n int, entry Entry, save func(*PlaneFigures) error) (*PlaneFigures, error) {
	if _, err := p.Play(mode, warmup, entry, false); err != nil {
		return nil, err
	}
	return p.measure(mode, warmup, n, entry, p.pace, save)
}

// measure is Measure after the warm-up, where an iteration takes so many nanoseconds at least.
func (p *Plane) measure(
	mode Mode, warmup, n int, entry Entry, pace int64, save func(*PlaneFigures) error,
) (*PlaneFigures, error) {
	var m measured
	var saving int64 // the shortest time that saving a piece took: most of it does not depend on how long a piece is
	t := &tally{mode: mode, entry: entry}
	for {
		piece := n - m.n
		if save != nil {
			var err error
			if piece, err = p.piece(piece, entry, pace, saving); err != nil {
				return nil, err
			}
		}
		// A pause has made ranks set off together, and what saved has used their caches.
		if again := min(warmup, max(1, piece/spmd.SaveShare)); m.n > 0 && entry == Steady {
			if _, err := p.Play(mode, again, entry, false); err != nil {
				return nil, err
			}
		}
		if err := p.Meet(); err != nil {
			return nil, err
		}
		start, before := clock.Now(), counters(p.world)
		log, err := p.Play(mode, piece, entry, true)
		if err != nil {
			return nil, err
		}
		if err := p.Meet(); err != nil { // other ranks of the host
			return nil, err
		}
		end := clock.Now()
		without := 0 // iterations: the first of all, but not if it is the only one
		if m.n == 0 {
			without = min(1, piece-1)
		}
		m.add(log, since(before, counters(p.world)))
		f, err := p.gather(t, log, without, m.n)
		if err != nil || m.n == n {
			return f, err
		}
		if f != nil {
			f.Asked = n
			if err := save(f); err != nil {
				return nil, err
			}
		}
		pace = (end - start) / int64(piece)
		if took := clock.Now() - end; saving == 0 || took < saving {
			saving = took
		}
	}
}

// piece is how many of the iterations that are left all ranks play next: those of a second, or of fifty times as long
// as saving takes, at the pace of the slowest rank. A last piece that would be short belongs to the one before. Steady
// iterations are a few at least, so that warming up for them is worth while. The first piece, if there are more, is
// short: its pace is that of a few iterations before, and many may take far longer where ranks wait for a CPU.
func (p *Plane) piece(left int, entry Entry, pace, saving int64) (int, error) {
	longest, err := p.group.Latest([2]int64{pace, saving})
	pace, saving = max(longest[0], 1), longest[1]
	least := int64(2) // the first iteration is left out
	if entry == Steady {
		least = leastSteady
	}
	piece := max(least, max(int64(spmd.SaveEvery), spmd.SaveShare*saving)/pace)
	if int64(left) < piece+piece/2 {
		return left, err
	}
	if saving == 0 {
		piece = max(least, piece/16)
	}
	return int(piece), err
}

// leastSteady is how many steady iterations a piece has at least, before which one more warms up.
const leastSteady = 4

// measured are the iterations of a measurement so far at one rank, without their times.
type measured struct {
	n     int
	spans []span
	nics  device.Traffic
}

// span are iterations one after the other.
type span struct {
	from, n int
	waits   [kinds][]int64
}

// add makes the log of a piece, and what its host's NICs have moved, one of that piece's iterations but of the waits
// and bytes of all so far. Of the halves of all iterations each has the halves of pieces whose middle is in it.
func (m *measured) add(log *Log, nics device.Traffic) {
	if m.n == 0 {
		m.nics = nics
	} else {
		m.nics = sum(m.nics, nics)
	}
	log.NICs = m.nics
	for half := range halves {
		s := span{from: m.n, n: (len(log.Iterations) + halves - 1 - half) / halves}
		for kind := range kinds {
			s.waits[kind] = slices.Clone(log.Waits[kind][half])
			clear(log.Waits[kind][half])
		}
		m.spans = append(m.spans, s)
		m.n += s.n
	}
	for _, s := range m.spans {
		if s.n == 0 {
			continue // the second half of one iteration
		}
		half := (s.from + (s.n-1)/2) * halves / m.n
		for kind, waits := range s.waits {
			for source, ns := range waits {
				log.Waits[kind][half][source] += ns
			}
		}
	}
}
