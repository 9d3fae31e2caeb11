package result_test

import (
	"fmt"
	"log"
	"os"
	"path/filepath"

	"perigee/internal/result"
	"perigee/internal/traffic/matrix"
	"perigee/internal/traffic/series"
)

// A result is begun, filled and written by the program that measures, and read by any other.
func Example() {
	world := result.World{Size: 2, Launcher: "local", Hosts: []result.Host{{Name: "node1", Ranks: []int{0, 1}, CPUs: 2}}}
	d := result.New([]string{"perigee", "run", "x.lua"}, result.Scenario{Name: "x.lua"}, 0, world)
	m, err := matrix.FromRows([][]int64{{0, 1000}, {0, 0}}) // bytes: rank 0 sends 1000 to rank 1
	if err != nil {
		log.Fatal(err)
	}
	d.Patterns = []result.Pattern{{Name: "pair", Matrix: d.AddMatrix(m, ""), Mem: "dram", Op: "WRITE", Shards: 1, Senders: 1}}
	for phase, ns := range map[string]int64{result.IsolatedPhase: 2e6, "workload": 3e6} {
		d.AddRuns(0, phase, 0, []series.Run{{StartNS: 0, EndNS: ns}})
	}
	d.DeclareMetrics([]result.MetricDef{{Name: "bw_gb_per_s", Better: "higher"}})
	if err := d.AddLabelled("bw_gb_per_s", result.Labels{"size": "1000"}, 0.5, 1e6); err != nil {
		log.Fatal(err)
	}
	d.Finish(nil)
	dir, err := os.MkdirTemp("", "")
	if err != nil {
		log.Fatal(err)
	}
	defer os.RemoveAll(dir)
	path := filepath.Join(dir, "r.json.zst")
	if err := d.Write(path); err != nil {
		log.Fatal(err)
	}

	read, err := result.Read(path)
	if err != nil {
		log.Fatal(err)
	}
	f := read.Patterns[0].PatternFigures
	fmt.Printf("%s: %g ms alone, %g ms in the workload, slowdown %g\n", read.Status, *f.IsolatedLatencyMS, *f.LatencyMS, *f.Slowdown)
	for _, g := range read.Metrics[0].Groups() {
		fmt.Println(g.Labels, g.Values)
	}
	// Output:
	// complete: 2 ms alone, 3 ms in the workload, slowdown 1.5
	// {size=1000} [0.5]
}

// Latencies define isolated latency and slowdown, in nanoseconds.
func ExampleLatencies() {
	var l result.Latencies
	for _, m := range []result.Measurement{
		{Phase: result.IsolatedPhase, LatencyNS: 1000}, {Phase: result.IsolatedPhase, LatencyNS: 3000},
		{Phase: "workload", LatencyNS: 5000},
	} {
		l.Add(&m)
	}
	fmt.Println(l.Isolated(), l.Latency(), l.Slowdown())
	// Output: 2000 5000 2.5
}
