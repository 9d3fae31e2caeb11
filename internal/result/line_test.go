package result

import (
	"strings"
	"testing"

	"perigee/internal/traffic/series"
)

// sent is a message of an initiator from 0 to some microseconds.
func sent(rank, peer int, bytes, us int64) series.RankRun {
	return series.RankRun{Rank: rank, Bytes: bytes, EndNS: us * 1000,
		Peers: []series.PeerRun{{Peer: peer, Bytes: bytes, EndNS: us * 1000}}}
}

// lined is a result of runs of one pattern, on two hosts with two ranks each.
func lined(l *Line, op string, runs ...[]series.RankRun) *Document {
	d := &Document{Line: l, Patterns: []Pattern{{Op: op}}, World: World{Size: 4, Hosts: []Host{{Name: "a", Ranks: []int{0, 1}}, {Name: "b", Ranks: []int{2, 3}}}}}
	for _, r := range runs {
		d.Measurements = append(d.Measurements, Measurement{Phase: "workload", Run: series.Run{Ranks: r}})
	}
	return d
}

func TestLineText(t *testing.T) {
	const mb = 1_000_000
	nic := Line{Rate: 25e9, Host: 25e9, From: "mlx5_0:1, 200 Gb/s"}
	given := Line{Rate: 5e9, Host: 5e9, From: "--line 40Gbit", Given: true}
	ceiling := &Ceiling{Sender: 0, Receiver: 2, Op: "WRITE", Mem: "dram", Bytes: 64 << 20, Rate: 24e9}
	alone := []series.RankRun{sent(0, 2, mb, 50)}                                           // 20 GB/s
	shared := []series.RankRun{sent(0, 2, mb, 100), sent(1, 3, mb, 100), sent(0, 1, mb, 1)} // 10 GB/s each, and one inside
	later := []series.RankRun{sent(0, 2, mb, 100), sent(1, 3, mb, 100)}
	for i := range later {
		k := &later[i]
		k.StartNS, k.EndNS, k.Peers[0].EndNS = k.StartNS+2e5, k.EndNS+2e5, k.EndNS+2e5
	}
	incast := []series.RankRun{sent(0, 2, mb, 100), sent(2, 3, mb, 1), sent(1, 2, mb, 100)}    // to one host
	mixed := []series.RankRun{sent(0, 2, mb, 50), sent(2, 0, 64<<10, 50), sent(1, 1, 5*mb, 5)} // both ways, and to itself
	for name, c := range map[string]struct {
		line *Line
		op   string
		runs [][]series.RankRun
		want string
	}{
		"not looked for": {nil, "WRITE", [][]series.RankRun{alone}, ""},
		"unknown":        {&Line{From: "virtual"}, "WRITE", [][]series.RankRun{alone}, ""},
		"inside":         {&nic, "WRITE", [][]series.RankRun{{sent(0, 1, mb, 1)}}, ""},
		"alone":          {&nic, "WRITE", [][]series.RankRun{alone}, "p50 of messages between hosts 20.0 GB/s = 80 % of 25.0 GB/s (mlx5_0:1, 200 Gb/s)"},
		"shared": {&nic, "WRITE", [][]series.RankRun{shared, later},
			"p50 of messages between hosts 10.0 GB/s = 40 % of 25.0 GB/s (mlx5_0:1, 200 Gb/s), all of the busiest host: a sends 20.0 GB/s = 80 % of 25.0 GB/s"},
		"incast": {&nic, "READ", [][]series.RankRun{incast}, "p50 of messages between hosts 10.0 GB/s = 40 % of 25.0 GB/s (mlx5_0:1, 200 Gb/s), all of the busiest host: a receives 20.0 GB/s = 80 % of 25.0 GB/s"},
		"mixed":  {&nic, "WRITE", [][]series.RankRun{mixed}, "p50 of messages between hosts, 64.0 KiB to 977 KiB, 10.7 GB/s = 43 % of 25.0 GB/s (mlx5_0:1, 200 Gb/s)"},
		"ceiling": {&Line{Rate: 25e9, From: "x", Ceiling: ceiling}, "WRITE", [][]series.RankRun{alone},
			"p50 of messages between hosts 20.0 GB/s = 80 % of 25.0 GB/s (x); 83 % of the ceiling, 24.0 GB/s"},
		"no ceiling": {&Line{Rate: 25e9, From: "x", Ceiling: &Ceiling{Rate: 18e9}}, "WRITE", [][]series.RankRun{alone},
			"p50 of messages between hosts 20.0 GB/s = 80 % of 25.0 GB/s (x); 111 % of the ceiling, 18.0 GB/s, which was slower than messages of the run, so it is no ceiling for them"},
		"ceiling alone": {&Line{From: "x", Ceiling: ceiling}, "WRITE", [][]series.RankRun{alone}, "p50 of messages between hosts 20.0 GB/s; 83 % of the ceiling, 24.0 GB/s"},
		"too fast": {&given, "WRITE", [][]series.RankRun{alone},
			"p50 of messages between hosts 20.0 GB/s, above 5.00 GB/s (--line 40Gbit); more than the line: the links are faster than --line says, or messages took another way"},
		"together too fast": {&Line{Rate: 12e9, Host: 12e9, From: "x"}, "WRITE", [][]series.RankRun{shared},
			"p50 of messages between hosts 10.0 GB/s = 83 % of 12.0 GB/s (x), all of the busiest host: a sends 20.0 GB/s, above 12.0 GB/s; more than the line: the links are not as the devices say (--line RATE), or messages took another way"},
	} {
		if got := lined(c.line, c.op, c.runs...).LineText(); got != c.want {
			t.Errorf("%s:\n got %q\nwant %q", name, got, c.want)
		}
	}
	for name, c := range map[string]struct {
		line *Line
		runs [][]series.RankRun
		want string
	}{
		"within":            {&Line{Rate: 25e9, Host: 25e9}, [][]series.RankRun{alone}, ""},
		"a little above":    {&Line{Rate: 19.2e9, Host: 19.2e9}, [][]series.RankRun{alone}, ""},
		"above":             {&Line{Rate: 19e9, Host: 25e9}, [][]series.RankRun{alone}, "p50 of messages between hosts 20.0 GB/s, more than the line of 19.0 GB/s: they took another way"},
		"together above":    {&Line{Rate: 12e9, Host: 12e9}, [][]series.RankRun{shared}, "a sends 20.0 GB/s, more than its line of 12.0 GB/s: they took another way"},
		"no line":           {&Line{Ceiling: ceiling}, [][]series.RankRun{alone}, ""},
		"nothing was known": {nil, [][]series.RankRun{alone}, ""},
	} {
		if got := lined(c.line, "WRITE", c.runs...).AboveLine(); !strings.HasPrefix(got, c.want) || (got == "") != (c.want == "") {
			t.Errorf("%s: got %q, want %q", name, got, c.want)
		}
	}
	neighbours := lined(&given, "WRITE", alone)
	neighbours.Paths = &Paths{Uses: []PathUse{{Op: "WRITE", Local: "dram", Remote: "dram", Reach: "network", Transport: "cma", Count: 1}}}
	if got := neighbours.AboveLine(); !strings.HasSuffix(got, "the hosts share a kernel, and the bytes pass no network: UCX_TLS=tcp") {
		t.Error(got)
	}
	d := lined(&nic, "WRITE", alone, shared)
	d.Measurements[1].Phase = IsolatedPhase
	if got := d.LineText(); strings.Contains(got, "busiest") {
		t.Errorf("the run alone counts: %s", got)
	}
	d.World.Hosts = []Host{{Ranks: []int{0, 1, 2, 3}}}
	if d.Line = (&Line{From: "one host", Ceiling: ceiling}); d.LineText() != "" {
		t.Errorf("one host: %s", d.LineText())
	}
	if d.Line = &given; d.LineText() != "" {
		t.Errorf("one host with --line: %s", d.LineText())
	}
}

// Senders of which each goes on at once drift apart; patterns overlap. What counts is the time in which the host was at
// work: here 100 us without a gap, and 10 us later on.
func TestBusiest(t *testing.T) {
	message := func(rank, peer int, bytes, from, to int64) series.RankRun {
		return series.RankRun{Rank: rank, StartNS: from * 1000, EndNS: to * 1000, Peers: []series.PeerRun{{Peer: peer, Bytes: bytes, EndNS: to * 1000}}}
	}
	d := &Document{Line: &Line{Rate: 25e9, Host: 25e9, From: "x"}, Patterns: []Pattern{{Op: "WRITE"}, {Op: "READ"}},
		World: World{Hosts: []Host{{Name: "a", Ranks: []int{0}}, {Name: "b", Ranks: []int{1}}, {Name: "c", Ranks: []int{2, 3}}}}}
	run := func(pattern int, phase string, ranks ...series.RankRun) {
		d.Measurements = append(d.Measurements, Measurement{Pattern: pattern, Phase: phase, Run: series.Run{Ranks: ranks}})
	}
	check := func(name string, want Busiest, together bool) {
		t.Helper()
		if got, ok := d.Busiest(); got != want || ok != together {
			t.Errorf("%s: got %+v, %t, want %+v, %t", name, got, ok, want, together)
		}
	}
	check("nothing", Busiest{}, false)
	run(0, "isolated", message(0, 2, 1e6, 0, 1))
	check("alone", Busiest{0, true, 1e15 / 1e3}, false)
	run(0, "workload", message(0, 2, 500_000, 1000, 1030), message(1, 2, 500_000, 1000, 1050)) // runs 0 and 1 of both
	run(0, "workload", message(0, 2, 500_000, 1030, 1060), message(1, 2, 500_000, 1050, 1100)) // 2 MB from 1000 to 1100
	check("drift", Busiest{2, false, 20e9}, true)
	run(1, "workload", message(3, 0, 400_000, 1040, 1080)) // of another pattern, in the same time
	check("patterns", Busiest{2, false, 24e9}, true)
	run(0, "workload", message(1, 3, 20_000, 5000, 5020), message(0, 2, 20_000, 5010, 5020)) // 40 KB in 20 us, after a pause
	check("pause", Busiest{2, false, 2.44e6 / 120e-6}, true)
	if got := d.LineText(); !strings.Contains(got, ", all of the busiest host: c receives 20.3 GB/s = 81 % of 25.0 GB/s") {
		t.Error(got)
	}
	d.World.Hosts = []Host{{Ranks: []int{0, 1, 2, 3}}}
	check("one host", Busiest{}, false)
}

func TestLineTextOfBlocks(t *testing.T) {
	d := &Document{World: World{Size: 2, Hosts: []Host{{Ranks: []int{0}}, {Ranks: []int{1}}}}, Line: &Line{Rate: 25e9, Host: 25e9, From: "x"}}
	for i, rate := range []int64{5, 20, 15} {
		d.Lanes = append(d.Lanes, Lanes{Measurement: series.Measurement{Op: "WRITE", Local: "dram", Remote: "dram", BlockBytes: 4096 << i,
			Ranks: []series.RankPart{{Rank: 0, Bytes: rate * 1000, EndNS: 1000}, {Rank: 1}}}})
	}
	const want = "blocks of 8 KiB, the fastest, 20.0 GB/s = 80 % of 25.0 GB/s (x)"
	if got := d.LineText(); got != want {
		t.Errorf("got  %s\nwant %s", got, want)
	}
	for i := range d.Lanes {
		d.Lanes[i].Remote = "file"
	}
	if got := d.LineText(); got != "" {
		t.Errorf("files: %s", got)
	}
}

func TestCeilingText(t *testing.T) {
	d := &Document{Line: &Line{Rate: 25e9, Ceiling: &Ceiling{Sender: 0, Receiver: 8, Bytes: 64 << 20, Rate: 24.4e9}}}
	if got, want := d.CeilingText(), "24.4 GB/s, one message of 64 MiB from rank 0 to rank 8 (98 % of the line)"; got != want {
		t.Errorf("got %s, want %s", got, want)
	}
	if d.Line.Rate = 0; strings.Contains(d.CeilingText(), "line") {
		t.Errorf("got %s", d.CeilingText())
	}
	if got := new(Document).CeilingText(); got != "" {
		t.Errorf("got %s", got)
	}
}
