package figures

import (
	"cmp"
	"fmt"
	"slices"
	"strings"

	"perigee/internal/kit/size"
	"perigee/internal/result"
)

// Block is one measurement of block transfers (perigee run kvbench).
type Block struct {
	Series     string `json:"series"` // what distinguishes it from others except the size on the axis
	Op         string `json:"op"`
	Local      string `json:"local_mem"`
	Remote     string `json:"remote_mem"`
	BlockBytes int64  `json:"block_bytes"`
	Batch      int64  `json:"batch"`
	Threads    int    `json:"threads"`
	Iterations int    `json:"iterations"`
	Asked      int    `json:"asked_iterations,omitempty"` // where not all of these were measured
	Bandwidth  Num    `json:"bandwidth"`
	MeanNS     Num    `json:"mean_ns"` // of an iteration of a lane
	P50NS      Num    `json:"p50_ns"`
	P99NS      Num    `json:"p99_ns"`
	P999NS     Num    `json:"p999_ns"`
	CPUSeconds Num    `json:"cpu_seconds"`
	// Uncertainty is by which part the time of the bandwidth may be off because of the hosts' clocks.
	Uncertainty Num `json:"uncertainty"`
}

// Measured says of a measurement that has not come to its end how many iterations it has; "" of others.
func (b Block) Measured() string {
	if b.Asked == 0 {
		return ""
	}
	return fmt.Sprintf("%d of %d iterations", b.Iterations, b.Asked)
}

// Blocks are the measurements of block transfers. They lie on an axis of block
// sizes, or of batch sizes where all blocks have one size.
type Blocks struct {
	Axis string  `json:"axis"` // block_bytes or batch
	List []Block `json:"list"`
	// Files is how files were read or written, such as "POSIX AIO, new files, page cache"; empty without files.
	Files string `json:"files,omitempty"`
}

// at is the place of a measurement on the axis.
func (b Blocks) at(x Block) int64 {
	if b.Axis == "batch" {
		return x.Batch
	}
	return x.BlockBytes
}

// OfFiles says that files were moved, and how; empty without files.
func (b Blocks) OfFiles() string {
	if b.Files == "" {
		return ""
	}
	return " of files (" + b.Files + ")"
}

// blocksOf takes the measurements of block transfers out of a result.
func blocksOf(d *result.Document) Blocks {
	b := Blocks{Axis: "block_bytes", List: []Block{}}
	if slices.ContainsFunc(d.Lanes, func(l result.Lanes) bool { return l.Local == "file" || l.Remote == "file" }) {
		b.Files = "how they were accessed is not said"
	}
	for _, note := range d.Notes {
		if how, ok := strings.CutPrefix(note, "files: "); ok && b.Files != "" {
			b.Files = how
		}
	}
	// Only words in which the measurements differ stand in the name of a series.
	differ := func(of func(result.Lanes) any) bool {
		return slices.ContainsFunc(d.Lanes, func(l result.Lanes) bool { return of(l) != of(d.Lanes[0]) })
	}
	if len(d.Lanes) > 1 && !differ(func(l result.Lanes) any { return l.BlockBytes }) {
		b.Axis = "batch"
	}
	memories := differ(func(l result.Lanes) any { return l.Local + l.Remote })
	threads := differ(func(l result.Lanes) any { return l.Threads })
	for _, l := range d.Lanes {
		words := []string{l.Op}
		if memories {
			words = append(words, l.Local+" - "+l.Remote)
		}
		if b.Axis == "batch" {
			words = append(words, "blocks of "+size.Binary(l.BlockBytes))
		} else {
			words = append(words, fmt.Sprintf("batch %d", l.Batch))
		}
		if threads {
			words = append(words, fmt.Sprintf("threads %d", l.Threads))
		}
		if l.Recreate {
			words = append(words, "prepared anew")
		}
		b.List = append(b.List, Block{
			Series: strings.Join(words, ", "), Op: l.Op, Local: l.Local, Remote: l.Remote, BlockBytes: l.BlockBytes,
			Batch:   l.Batch,
			Threads: l.Threads, Iterations: l.Iterations, Asked: l.Asked,
			Bandwidth: Num(l.Bandwidth), CPUSeconds: Num(l.CPUSeconds),
			MeanNS: Num(l.Latency.Mean), P50NS: Num(l.Latency.P50), P99NS: Num(l.Latency.P99),
			P999NS:      Num(l.Latency.P999),
			Uncertainty: Num(float64(l.UncertaintyNS) / float64(max(l.EndNS-l.StartNS, 1))),
		})
	}
	return b
}

// nearly is the share of the best bandwidth that counts as reaching it.
const nearly = 0.9

// sayBlocks names the best bandwidth, and from where on it is nearly reached.
func sayBlocks(b Blocks, say sayer) {
	if len(b.List) == 0 {
		return
	}
	best := slices.MaxFunc(b.List, func(x, y Block) int { return cmp.Compare(x.Bandwidth, y.Bandwidth) })
	which := "The bandwidth"
	if n := len(b.List); n > 1 {
		which = fmt.Sprintf("The best of %d measurements", n)
	}
	say("note", "%s is %s: %s%s with blocks of %s, batch %d.", which, size.Rate(best.Bandwidth), best.Op,
		b.OfFiles(), size.Binary(best.BlockBytes), best.Batch)
	if best.Uncertainty > vague {
		say("note", "The clocks of the hosts are uncertain by %.0f %% of the time over which that was measured: more iterations would help (--iters).",
			100*float64(best.Uncertainty))
	}
	// The smallest size of the same series that nearly reaches the best one.
	first := best
	for _, x := range b.List {
		if x.Series == best.Series && x.Bandwidth >= nearly*best.Bandwidth && b.at(x) < b.at(first) {
			first = x
		}
	}
	if b.at(first) == b.at(best) {
		return
	}
	if b.Axis == "batch" {
		say("note", "A batch of %d already reaches %.0f %% of it.", first.Batch,
			100*float64(first.Bandwidth/best.Bandwidth))
		return
	}
	say("note", "Blocks of %s already reach %.0f %% of it.", size.Binary(first.BlockBytes),
		100*float64(first.Bandwidth/best.Bandwidth))
}

// BlockSize is the size of a block in words.
func (b Block) BlockSize() string { return size.Binary(b.BlockBytes) }

// blocksCharts draws block transfers: bandwidth and latency over the size of blocks, or of batches.
func blocksCharts(f *Figures) []Chart {
	b := f.Blocks
	if len(b.List) == 0 {
		return nil
	}
	axis := Axis{Label: "Block size", Unit: "bytes", Log: true}
	if b.Axis == "batch" {
		axis = Axis{Label: "Batch size", Log: true}
	}
	rate := Chart{Title: "Bandwidth", X: axis, Y: Axis{Label: "bytes of all lanes / time", Unit: "bytes/s"}}
	time := Chart{Title: "Latency", X: axis, Y: Axis{Label: "of a batch: P50, line to P99", Unit: "ns", Log: true}}
	host, least, most := true, b.List[0].BlockBytes, b.List[0].BlockBytes
	for _, x := range b.List {
		at := Num(b.at(x))
		rate.add(x.Series, Point{X: at, Y: x.Bandwidth, Low: None, High: None})
		time.add(x.Series, Point{X: at, Y: x.P50NS, Low: x.P50NS, High: x.P99NS})
		least, most = min(least, x.BlockBytes), max(most, x.BlockBytes)
		host = host && x.Local == "dram" && x.Remote == "dram"
	}
	if host && b.Axis != "batch" {
		rate.Limits = copyLimits(f.Document, least, most)
	}
	if b.Files == "" && f.Document.World.Size == 2 { // else several ranks share it
		rate.Limits = append(rate.Limits, lineLimits(f.Document)...)
	}
	for _, c := range []Chart{rate, time} {
		c.sort()
	}
	return []Chart{rate, time}
}
