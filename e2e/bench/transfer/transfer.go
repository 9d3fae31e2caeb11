// Package transfer measures perigee's transfer engines against the least that one can do in C on the same machine, in
// turns, so that both see the same weather.
//
// baseline.go builds and starts a program in C (folder c): memory.c for shm, and for nixl a loop around the calls of
// the library that perigee uses. pair.go runs an engine on both sides of a pair, the second in its own process, as
// ranks are. Compare (transfer.go) lets both move the same bytes equally often.
//
// A ratio is the median, over the turns, of our time over theirs in one turn; the quartiles are those of the same
// ratios. A time is the median of the turns' medians, in nanoseconds.
package transfer

import (
	"cmp"
	"fmt"
	"io"
	"slices"
	"strings"
	"time"

	"perigee/nixl"
	"perigee/nixl/device"
)

// turns is how often the two sides alternate, if a Case does not say otherwise.
const turns = 15

// Case is one comparison.
type Case struct {
	Name   string
	Bytes  int
	Count  int     // runs in a turn
	Turns  int     // 0 is 15
	Target float64 // 0 is none
	Ours   func(bytes, count int) (time.Duration, error)
	Theirs func(bytes, count int) (time.Duration, error)
}

// Result holds the figures of a Case.
type Result struct {
	Ours, Theirs time.Duration
	Ratio        float64 // ours over theirs
	Low, High    float64 // its quartiles
}

// Compare alternates both sides of a case.
func Compare(c Case) (Result, error) {
	var ours, theirs []time.Duration
	var ratios []float64
	for range cmp.Or(c.Turns, turns) {
		a, err := c.Ours(c.Bytes, c.Count)
		if err != nil {
			return Result{}, err
		}
		b, err := c.Theirs(c.Bytes, c.Count)
		if err != nil {
			return Result{}, err
		}
		ours, theirs = append(ours, a), append(theirs, b)
		ratios = append(ratios, float64(a)/float64(b))
	}
	r := Result{Ours: Median(ours), Theirs: Median(theirs)}
	r.Low, r.Ratio, r.High = Quartiles(ratios)
	return r, nil
}

// Quartiles returns what a quarter, a half and three quarters of a list are below. It sorts the list.
func Quartiles(list []float64) (low, middle, high float64) {
	middle = Median(list)
	return list[len(list)/4], middle, list[len(list)*3/4]
}

// Median returns the middle of a list, which it sorts.
func Median[T int64 | float64 | time.Duration](list []T) T {
	slices.Sort(list)
	return list[len(list)/2]
}

// Report runs cases and prints a table.
func Report(w io.Writer, cases []Case) error {
	fmt.Fprintf(w, "%-28s %10s %10s %7s %13s %7s %10s\n", "# case", "ours us", "C us", "ratio", "quartiles", "target",
		"ours GB/s")
	for _, c := range cases {
		r, err := Compare(c)
		if err != nil {
			return fmt.Errorf("%s: %w", c.Name, err)
		}
		verdict := "ok"
		switch {
		case c.Target == 0:
			verdict = "no target"
		case r.Ratio > c.Target:
			verdict = "MISSED"
		}
		us := func(d time.Duration) float64 { return float64(d) / 1e3 }
		fmt.Fprintf(w, "%-28s %10.2f %10.2f %7.3f %6.3f-%6.3f %7.2f %10.2f  %s\n",
			c.Name, us(r.Ours), us(r.Theirs), r.Ratio, r.Low, r.High, c.Target, float64(c.Bytes)/float64(r.Ours),
			verdict)
	}
	return nil
}

// NIXL compares the nixl engine with a bare C loop over the same library: WRITE and READ of one
// message to a sleeping process of this host. Targets: at most 1.05 of its time from
// 64 KiB on, 1.2 below.
func NIXL(w io.Writer) error {
	return onNIXL(w, nixl.DRAM, func(pair *Pair, bare *Baseline) error {
		return Report(w, cases(pair, bare, "", 0, sizes))
	})
}

// GPU does so in the memory of GPU 0, and then compares the engine with a copy inside one process, by CUDA's driver:
// for information, since between processes CUDA has more to do. Without a GPU it says so, and that is all.
func GPU(w io.Writer) error { return onGPU(w, gpuSizes, 7) }

func onGPU(w io.Writer, sizes []size, turns int) error {
	gpus, err := device.Visible()
	if err != nil {
		return err
	}
	if len(gpus) == 0 {
		_, err := fmt.Fprintln(w, "# skipped: CUDA shows no GPU on this machine")
		return err
	}
	return onNIXL(w, nixl.VRAM, func(pair *Pair, bare *Baseline) error {
		if err := Report(w, cases(pair, bare, "", turns, sizes)); err != nil {
			return err
		}
		fmt.Fprintln(w, "# the same against a copy inside one process (cuMemcpyDtoD)")
		return Report(w, cases(pair, bare, "copy", turns, sizes))
	})
}

// onNIXL starts the two sides of comparisons in a kind of memory.
func onNIXL(w io.Writer, mem nixl.Mem, compare func(pair *Pair, bare *Baseline) error) error {
	bare, err := StartLoop(mem)
	if err != nil {
		return err
	}
	defer bare.Close()
	pair, err := StartPair("nixl", mem)
	if err != nil {
		return err
	}
	defer pair.Close()
	fmt.Fprintf(w, "# nixl %s against a C loop over the same library, one host, %s, %v\n", pair.Engine.Version, mem,
		pair.Engine.Params)
	return compare(pair, bare)
}

// size is a message's, how often it is moved in a turn, and the target.
type size struct {
	bytes, count int
	name         string
	target       float64
}

var sizes = []size{{4 << 10, 2000, "4 KiB", 1.2}, {64 << 10, 1000, "64 KiB", 1.05}, {1 << 20, 60, "1 MiB", 1.05},
	{64 << 20, 5, "64 MiB", 1.05}}

// gpuSizes move little where READ is slow: 0.35 GB/s between the processes of an H100.
var gpuSizes = []size{{4 << 10, 500, "4 KiB", 1.2}, {64 << 10, 500, "64 KiB", 1.05}, {1 << 20, 100, "1 MiB", 1.05},
	{16 << 20, 11, "16 MiB", 1.05}, {64 << 20, 5, "64 MiB", 1.05}, {256 << 20, 3, "256 MiB", 1.05}}

// cases move messages with perigee and as the C loop does: by its word for it, or if that is empty by the operation.
// What has a word is no peer of perigee's, and no target.
func cases(pair *Pair, bare *Baseline, word string, turns int, sizes []size) (list []Case) {
	for _, op := range []nixl.Op{nixl.Write, nixl.Read} {
		for _, s := range sizes {
			c := Case{
				Name: fmt.Sprintf("%s %s", op, s.name), Bytes: s.bytes, Count: s.count, Turns: turns, Target: s.target,
				Ours: func(bytes, count int) (time.Duration, error) { return pair.Measure(op, bytes, count) },
			}
			what := strings.ToLower(op.String())
			if word != "" {
				what, c.Target = word, 0
			}
			c.Theirs = func(bytes, count int) (time.Duration, error) { return bare.Measure(what, bytes, count) }
			list = append(list, c)
		}
	}
	return list
}

// SHM compares the shm engine with memcpy inside one process (target: 0.95 of its bandwidth for 64 MiB,
// so 1/0.95 of its time) and with process_vm_writev (target: half its time for 4 KiB).
func SHM(w io.Writer) error {
	memory, err := StartBaseline("memory")
	if err != nil {
		return err
	}
	defer memory.Close()
	pair, err := StartPair("shm", nixl.DRAM)
	if err != nil {
		return err
	}
	defer pair.Close()
	fmt.Fprintln(w, "# shm against memcpy in one process and process_vm_writev")
	ours := func(op nixl.Op) func(int, int) (time.Duration, error) {
		return func(bytes, count int) (time.Duration, error) { return pair.Measure(op, bytes, count) }
	}
	theirs := func(what string) func(int, int) (time.Duration, error) {
		return func(bytes, count int) (time.Duration, error) { return memory.Measure(what, bytes, count) }
	}
	return Report(w, []Case{
		{Name: "WRITE 64 MiB / memcpy", Bytes: 64 << 20, Count: 7, Target: 1 / 0.95, Ours: ours(nixl.Write),
			Theirs: theirs("copy")},
		{Name: "READ 64 MiB / memcpy", Bytes: 64 << 20, Count: 7, Target: 1 / 0.95, Ours: ours(nixl.Read),
			Theirs: theirs("copy")},
		{Name: "WRITE 4 KiB / vm_writev", Bytes: 4 << 10, Count: 5000, Target: 0.5, Ours: ours(nixl.Write),
			Theirs: theirs("attach")},
		{Name: "READ 4 KiB / vm_writev", Bytes: 4 << 10, Count: 5000, Target: 0.5, Ours: ours(nixl.Read),
			Theirs: theirs("attach")},
	})
}
