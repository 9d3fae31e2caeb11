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
	d := &Document{Line: l, Patterns: []Pattern{{Op: op}}, World: World{Size: 4, Hosts: []Host{{Ranks: []int{0, 1}}, {Ranks: []int{2, 3}}}}}
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
	alone := []series.RankRun{sent(0, 2, mb, 50)}                                              // 20 GB/s
	shared := []series.RankRun{sent(0, 2, mb, 100), sent(1, 3, mb, 100), sent(0, 1, mb, 1)}    // 10 GB/s each, and one inside
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
		"shared": {&nic, "WRITE", [][]series.RankRun{shared, shared},
			"p50 of messages between hosts 10.0 GB/s = 40 % of 25.0 GB/s (mlx5_0:1, 200 Gb/s), all of the busiest host 20.0 GB/s = 80 % of 25.0 GB/s"},
		"incast": {&nic, "READ", [][]series.RankRun{incast}, "p50 of messages between hosts 10.0 GB/s = 40 % of 25.0 GB/s (mlx5_0:1, 200 Gb/s), all of the busiest host 20.0 GB/s = 80 % of 25.0 GB/s"},
		"mixed":  {&nic, "WRITE", [][]series.RankRun{mixed}, "p50 of messages between hosts, 64.0 KiB to 977 KiB, 10.7 GB/s = 43 % of 25.0 GB/s (mlx5_0:1, 200 Gb/s)"},
		"ceiling": {&Line{Rate: 25e9, From: "x", Ceiling: ceiling}, "WRITE", [][]series.RankRun{alone},
			"p50 of messages between hosts 20.0 GB/s = 80 % of 25.0 GB/s (x); 83 % of the ceiling, 24.0 GB/s"},
		"ceiling alone": {&Line{From: "x", Ceiling: ceiling}, "WRITE", [][]series.RankRun{alone}, "p50 of messages between hosts 20.0 GB/s; 83 % of the ceiling, 24.0 GB/s"},
		"too fast": {&given, "WRITE", [][]series.RankRun{alone},
			"p50 of messages between hosts 20.0 GB/s = 400 % of 5.00 GB/s (--line 40Gbit); more than the line: the links are faster than --line says, or messages took another way"},
		"together too fast": {&Line{Rate: 12e9, Host: 12e9, From: "x"}, "WRITE", [][]series.RankRun{shared},
			"p50 of messages between hosts 10.0 GB/s = 83 % of 12.0 GB/s (x), all of the busiest host 20.0 GB/s = 167 % of 12.0 GB/s; more than the line: the links are not as the devices say (--line RATE), or messages took another way"},
	} {
		if got := lined(c.line, c.op, c.runs...).LineText(); got != c.want {
			t.Errorf("%s:\n got %q\nwant %q", name, got, c.want)
		}
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
	if d.Line = &given; !strings.HasPrefix(d.LineText(), "p50 of messages 20.0 GB/s = 400 %") {
		t.Errorf("one host with --line: %s", d.LineText())
	}
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
