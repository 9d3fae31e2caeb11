// Package resulttest invents results, of any size, for tests and benchmarks of what reads them.
package resulttest

import (
	"bufio"
	"encoding/json"
	"errors"
	"fmt"
	"math/rand/v2"
	"os"
	"strings"
	"time"

	"github.com/klauspost/compress/zstd"

	"perigee/internal/kit/version"
	"perigee/internal/result"
	"perigee/internal/traffic/series"
)

// Synthetic says what result to invent: each pattern has so many senders with so many peers each, and
// is run so often alone, and then in the workload.
type Synthetic struct {
	Ranks, Hosts, Patterns int
	Senders, Peers         int
	Isolated, Iterations   int
}

// Document invents all but the measurements: prefill workers of the first half of the
// ranks send to decode workers of the second.
func (s Synthetic) Document() *result.Document {
	started := time.Date(2026, 3, 4, 5, 6, 7, 0, time.UTC)
	finished := started.Add(90 * time.Second)
	d := &result.Document{
		Schema: result.Schema, Status: result.Complete, Perigee: version.Build{Version: "0.1.0", Go: "go1.26"},
		Started: started, Finished: &finished,
		Command: []string{"perigee", "sequential-ct-perftest", "my workload/metadata.yaml"},
		Scenario: result.Scenario{Name: "sequential_ct_perftest.lua", SHA256: strings.Repeat("0a", 32),
			Source: "return {} -- <b>", Options: map[string]any{"verify_buffers": true}},
		World: result.World{Size: s.Ranks, Launcher: "slurm"},
		Engine: &result.Engine{Name: "nixl", Version: "1.5.1", Backend: "UCX", Library: "libnixl_capi.so",
			Params: map[string]string{"progress": "poll"}},
		Phases: []result.Phase{{Name: "prepare", StartNS: 1e9}, {Name: "isolated", StartNS: 2e9},
			{Name: "workload", StartNS: 5e9}},
	}
	per := s.Ranks / s.Hosts
	for h := range s.Hosts {
		host := result.Host{Name: fmt.Sprintf("node%02d", h), CPUs: 64}
		for r := range per {
			host.Ranks = append(host.Ranks, h*per+r)
		}
		d.World.Hosts = append(d.World.Hosts, host)
		d.World.Clocks = append(d.World.Clocks, result.Clock{OffsetNS: int64(h) * 123456, UncertaintyNS: int64(h) * 150,
			DriftPPM: 0.5, Samples: 64})
	}
	half := s.Ranks / 2
	for p := range s.Patterns {
		m := result.Matrix{SHA256: fmt.Sprintf("%064x", p), Ranks: s.Ranks, Cells: [][3]int64{}}
		first := p * s.Senders % max(half-s.Senders+1, 1)
		for i := range s.Senders {
			to := half + (p*7+i*s.Peers)%max(s.Ranks-half-s.Peers+1, 1)
			for k := range s.Peers {
				bytes := int64(1+p%5) << 20
				m.Cells = append(m.Cells, [3]int64{int64(first + i), int64(to + k), bytes})
				m.Bytes += bytes
			}
		}
		d.Matrices = append(d.Matrices, m)
		d.Patterns = append(d.Patterns, result.Pattern{
			Name: fmt.Sprintf("pattern %d (matrix_%d.txt)", p, p), Matrix: p, Mem: "dram", Op: "WRITE", Shards: 1,
			Senders: s.Senders, SleepBefore: 0.004,
		})
	}
	return d
}

// Each invents the measurements, one after the other.
func (s Synthetic) Each(d *result.Document, give func(*result.Measurement)) {
	random := rand.New(rand.NewPCG(1, 2))
	now := int64(5e9)
	play := func(p int, phase string, iteration int, slow float64) {
		m := d.Matrices[d.Patterns[p].Matrix]
		run := series.Run{UncertaintyNS: 300}
		for c := 0; c < len(m.Cells); {
			r := series.RankRun{Rank: int(m.Cells[c][0]), StartNS: now + random.Int64N(20_000)}
			r.PostNS, r.EndNS = r.StartNS+500, r.StartNS
			for ; c < len(m.Cells) && int(m.Cells[c][0]) == r.Rank; c++ {
				took := int64(float64(m.Cells[c][2]) / 10 * slow * (1 + random.Float64()))
				if r.Rank == 1 { // one rank is slower
					took *= int64(slow + 1)
				}
				r.Peers = append(r.Peers, series.PeerRun{Peer: int(m.Cells[c][1]), Bytes: m.Cells[c][2],
					EndNS: r.StartNS + took})
				r.Bytes, r.EndNS = r.Bytes+m.Cells[c][2], max(r.EndNS, r.StartNS+took)
			}
			if len(run.Ranks) == 0 {
				run.StartNS = r.StartNS
			}
			run.StartNS, run.EndNS = min(run.StartNS, r.StartNS), max(run.EndNS, r.EndNS)
			run.Ranks = append(run.Ranks, r)
		}
		give(&result.Measurement{Pattern: p, Phase: phase, Iteration: iteration, Run: run, LatencyNS: run.LatencyNS(),
			MeanBandwidth: run.MeanBandwidth()})
	}
	for p := range d.Patterns {
		for i := range s.Isolated {
			play(p, "isolated", i, 1)
			now += 1e6
		}
	}
	for i := range s.Iterations {
		for p := range d.Patterns {
			play(p, "workload", i, 1.5+random.Float64())
			now += 300_000 + random.Int64N(200_000)
		}
		now += 2e6
	}
}

// Write stores the invented result in a file, compressed with zstd, measurement by
// measurement, so that a big one does not have to fit into memory. It returns the size of its
// JSON text in bytes.
func (s Synthetic) Write(path string) (bytes int64, err error) {
	f, err := os.Create(path)
	if err != nil {
		return 0, err
	}
	defer f.Close()
	z, err := zstd.NewWriter(f, zstd.WithEncoderLevel(zstd.SpeedFastest))
	if err != nil {
		return 0, err
	}
	text := &counter{w: bufio.NewWriterSize(z, 1<<20)}
	d := s.Document()
	head, err := json.Marshal(d)
	if err != nil {
		return 0, err
	}
	text.write(head[:len(head)-1])
	separator := `,"measurements":[`
	s.Each(d, func(m *result.Measurement) {
		one, failed := json.Marshal(m)
		err = errors.Join(err, failed)
		text.write([]byte(separator))
		text.write(one)
		separator = ","
	})
	text.write([]byte("]}"))
	return text.n, errors.Join(err, text.w.Flush(), z.Close(), f.Close())
}

// counter counts what it writes. Its writer keeps the first error until Flush.
type counter struct {
	w *bufio.Writer
	n int64
}

func (c *counter) write(b []byte) {
	n, _ := c.w.Write(b)
	c.n += int64(n)
}
