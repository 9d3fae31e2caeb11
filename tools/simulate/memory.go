package simulate

import (
	"os"
	"runtime/debug"
	"strconv"
	"strings"

	"perigee/internal/kit/fault"
	"perigee/internal/kit/memory"
	"perigee/internal/kit/size"
	"perigee/internal/traffic/matrix"
)

// What a simulation takes at its peak, in bytes, rounded up. Measured on two cores, with 8 ranks per host: 71 MiB,
// 129 MiB, 625 MiB and 4.9 GiB for 512, 1024, 4096 and 16384 ranks (711 MiB for 4096 with one per host); with a dense
// matrix 67 MiB, 148 MiB, 524 MiB and 1.6 GiB for 256, 512, 1024 and 2048; with 4 patterns of that of 512 ranks
// 260 MiB; with 400 patterns of one cell 78 MiB and 249 MiB for 256 and 1024 ranks.
const (
	anyBytes     = 64 << 20
	rankBytes    = 128 << 10
	gatherBytes  = 16 // of each rank at each other, while all have what all have given
	pairBytes    = 250
	cellBytes    = 200 // of each pattern
	patternBytes = 400 // at each rank
	partBytes    = 100 // of a replay: where a part lies, and what its pair of ranks sends
	binBytes     = 26  // of a replay, for each 0.1 s of its span: what falls due and moves in it, and at one rank
)

// estimate returns the bytes that a simulation of n ranks may take. Pairs of ranks count once, however many patterns
// have them.
func (w *Workload) estimate(n int) int64 {
	ranks, patterns := int64(n), int64(len(w.Patterns))
	var cells, pairs, parts, bins int64
	if s := w.Replay; s != nil {
		bins = s.SpanNS / 1e8
		peers := int64(max(s.Prefill.TP, s.Decode.TP)) // pairs of ranks of a request
		pairs, parts = peers*int64(min(len(s.Requests), s.Prefill.N*s.Decode.N)), peers*int64(len(s.Transfers))
	}
	seen := map[*matrix.Matrix]bool{}
	for _, p := range w.Patterns {
		k := int64(p.Matrix.Cells())
		if cells += k; !seen[p.Matrix] {
			seen[p.Matrix] = true
			pairs += k
		}
	}
	return anyBytes + rankBytes*ranks + gatherBytes*ranks*ranks + pairBytes*min(pairs, ranks*ranks) + cellBytes*cells +
		patternBytes*patterns*ranks + partBytes*parts + binBytes*bins
}

// checkMemory refuses simulations that this machine has no room for: the kernel would end them, or others.
func checkMemory(sizes []int, works []*Workload, available func() (int64, error)) error {
	there, err := available()
	if err != nil {
		return nil // the kernel does not say
	}
	for i, n := range sizes {
		if want := works[i].estimate(n); want > memory.Usable(there) {
			err := fault.New(fault.Resource, "a simulation of %d ranks needs about %s of memory, and it may have 80 %% of %s that are available",
				n, size.Decimal(want), size.Decimal(there))
			if works[i].Replay != nil {
				return err.WithHint("replay a part of the trace (--from, --to), faster (--speed-up), or by fewer workers; or free memory, where a limit of a cgroup counts, too")
			}
			return err.WithHint("simulate a smaller world (perigee simulate %d), or matrices with fewer cells; or free memory, where a limit of a cgroup counts, too",
				max(n/4, MinRanks))
		}
	}
	return nil
}

// resetPeak makes the kernel forget how much memory this process has used.
func resetPeak() {
	debug.FreeOSMemory()
	os.WriteFile("/proc/self/clear_refs", []byte("5"), 0) // where it cannot, the peak is that of all simulations
}

// peakMemory is the most resident memory that this process has used since
// resetPeak, in bytes, 0 if the kernel does not report it.
func peakMemory() int64 {
	status, err := os.ReadFile("/proc/self/status")
	if err != nil {
		return 0
	}
	for line := range strings.Lines(string(status)) {
		if rest, ok := strings.CutPrefix(line, "VmHWM:"); ok {
			kib, _ := strconv.ParseInt(strings.TrimSpace(strings.TrimSuffix(strings.TrimSpace(rest), "kB")), 10, 64)
			return kib << 10
		}
	}
	return 0
}
