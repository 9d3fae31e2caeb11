package figures

import (
	"fmt"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"perigee/internal/kit/must"
	"perigee/internal/result"
	"perigee/internal/traffic/series"
)

// toAndFro has patterns 0 -> 1 and 1 -> 0 of each size, so many runs of each, which take 100 ns + a nanosecond for each
// 10 bytes + 0, 1, 2 ... ns.
func toAndFro(runs int, sizes ...int64) *result.Document {
	d := &result.Document{
		Schema: result.Schema, Status: result.Complete, Scenario: result.Scenario{Name: "x.lua"},
		World: result.World{Size: 2, Hosts: []result.Host{{Name: "a", Ranks: []int{0, 1}, CPUs: 2}}, Clocks: []result.Clock{{}}},
	}
	for _, n := range sizes {
		for from := range int64(2) {
			d.Matrices = append(d.Matrices, result.Matrix{Ranks: 2, Bytes: n, Cells: [][3]int64{{from, 1 - from, n}}})
			d.Patterns = append(d.Patterns, result.Pattern{Name: fmt.Sprint("p", len(d.Patterns)), Matrix: len(d.Matrices) - 1,
				Op: "WRITE", Mem: "dram", Senders: 1})
			for i := range runs {
				end := 100 + n/10 + int64(i)
				d.AddRuns(len(d.Patterns)-1, "start", i, []series.Run{{EndNS: end, Ranks: []series.RankRun{
					{Rank: int(from), EndNS: end, Bytes: n, Peers: []series.PeerRun{{Peer: int(1 - from), Bytes: n, EndNS: end}}},
				}}})
			}
		}
	}
	return d
}

func answer(t *testing.T, d *result.Document) Answer {
	t.Helper()
	f, err := Of(d)
	must.Do(t, err)
	return f.Answer
}

// show writes a series shortly: its name, then X:Y(low..high) of each point.
func show(s Series) string {
	text := s.Name
	for _, p := range s.Points {
		text += fmt.Sprintf(" %v:%.4g", p.X, float64(p.Y))
		if p.Low.Known() {
			text += fmt.Sprintf("(%.4g..%.4g)", float64(p.Low), float64(p.High))
		}
	}
	return text
}

func TestSizes(t *testing.T) {
	d := toAndFro(11, 1024, 65536)
	d.World.Hosts[0].Memcpy = []result.Copy{{Bytes: 512, Rate: 1e9}, {Bytes: 2048, Rate: 3e9}, {Bytes: 65536, Rate: 4e9}}
	a := answer(t, d)
	// 100 + 102 + 5 and 100 + 6553 + 5 ns; 65536 bytes / 6658 ns.
	want := "0 \u2192 1: 207 ns for 1 KiB, 6.66 \u00b5s for 64 KiB, up to 9.84 GB/s; 1 \u2192 0: 207 ns for 1 KiB, 6.66 \u00b5s for 64 KiB, up to 9.84 GB/s."
	if a.Sentence != want || !strings.HasPrefix(a.Why, "Time is from the post of a message") || len(a.Judged) != 0 {
		t.Errorf("%s\nwant %s\n%s %v", a.Sentence, want, a.Why, a.Judged)
	}
	rate, time := a.Charts[0], a.Charts[1]
	got := []string{show(rate.Series[1]), show(time.Series[0]), show(Series{Points: rate.Limits[0].Points})}
	if diff := cmp.Diff([]string{
		"1 \u2192 0 1024:4.947e+09(4.853e+09..5.044e+09) 65536:9.843e+09(9.837e+09..9.849e+09)",
		"0 \u2192 1 1024:207(203..211) 65536:6658(6654..6662)",
		" 1024:2e+09 2048:3e+09 65536:4e+09", // 1024 lies halfway on a logarithmic axis
	}, got); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
	if rate.X.Label != "Bytes of a message" || !rate.X.Log || len(rate.X.Words) != 0 {
		t.Errorf("%+v", rate.X)
	}
	for name, change := range map[string]func(){
		"GPU memory": func() { d.Patterns[0].Mem = "vram" },
		"two hosts": func() {
			d.Patterns[0].Mem = "dram"
			d.World.Hosts = append(d.World.Hosts[:1:1], result.Host{Name: "b", Ranks: []int{1}})
			d.World.Hosts[0].Ranks, d.World.Clocks = []int{0}, make([]result.Clock, 2)
		},
	} {
		change()
		if c := answer(t, d).Charts[0]; len(c.Limits) != 0 {
			t.Errorf("%s: limits %v", name, c.Limits)
		}
	}
}

// One size has bars, a copy's limit outside the measured sizes none, and few runs no spread. More ranks than CPUs come
// first in the reason.
func TestOneSize(t *testing.T) {
	d := toAndFro(10, 1000)
	d.World.Hosts[0].CPUs, d.World.Hosts[0].Memcpy = 1, []result.Copy{{Bytes: 2048, Rate: 3e9}}
	a := answer(t, d)
	const want = "0 \u2192 1: 204 ns for 1000 B, 8 of 10 of its 10 runs within 201 ns to 208 ns (4.89 GB/s); 1 \u2192 0: 204 ns for 1000 B, 8 of 10 of its 10 runs within 201 ns to 208 ns (4.89 GB/s)."
	if a.Sentence != want || !strings.HasPrefix(a.Why, "a has 1 CPU for 2 ranks: waits for a CPU are in these figures.") {
		t.Errorf("%s\nwant %s\n%s", a.Sentence, want, a.Why)
	}
	c := a.Charts[0]
	if got := strings.Join(c.X.Words, " ") + show(c.Series[0]); len(c.Limits) != 0 || c.X.Label != "messages of 1000 B" ||
		got != "p0 p1patterns 0:4.89e+09(4.805e+09..4.978e+09) 1:4.89e+09(4.805e+09..4.978e+09)" {
		t.Errorf("%s %+v", got, c)
	}
	if s := answer(t, toAndFro(3, 1000)).Sentence; strings.Contains(s, "8 of 10") {
		t.Error(s)
	}
	d.Matrices[0] = result.Matrix{Ranks: 2, Bytes: 1500, Cells: [][3]int64{{0, 0, 500}, {0, 1, 1000}}}
	d.Matrices[1] = result.Matrix{Ranks: 2, Bytes: 1500, Cells: [][3]int64{{1, 0, 1000}, {1, 1, 500}}}
	if a := answer(t, d); a.Charts[0].X.Label != "1.50 kB in all" || !strings.HasPrefix(a.Sentence, "2 patterns: 204 ns") {
		t.Errorf("unequal messages: %s %+v", a.Sentence, a.Charts[0].X)
	}
	d.Measurements[0].Ranks[0].Peers[0].Overlap = &series.Overlap{Share: 1, Messages: 1, Shared: "receiver"}
	d.Overlaps = true
	if j := answer(t, d).Judged; len(j) == 0 || !strings.HasPrefix(j[0].Text, "1 of 20 messages overlapped with other patterns. None ran alone") {
		t.Errorf("%v", j)
	}
}

// Patterns of one size are named, and of several sizes told apart by how many messages they have.
func TestNamedPatterns(t *testing.T) {
	d := toAndFro(10, 1000, 1000)
	d.Patterns[1].Name, d.Patterns[2].Name, d.Patterns[3].Name = "", "fast", "slow"
	d.Matrices[3] = result.Matrix{Ranks: 2, Bytes: 2000, Cells: [][3]int64{{1, 0, 1000}, {1, 1, 1000}}}
	for i := range d.Measurements {
		m := &d.Measurements[i]
		m.LatencyNS += []int64{0, 0, -50, 50}[m.Pattern]
	}
	a := answer(t, d)
	if a.Sentence != "4 patterns: 154 ns (fast) to 254 ns (slow), up to 7.86 GB/s." || strings.Join(a.Charts[0].X.Words, ",") != "p0,pattern 1,fast,slow" ||
		a.Charts[0].X.Label != "messages of 1000 B" {
		t.Errorf("%s %+v", a.Sentence, a.Charts[0].X)
	}
	d.Matrices[0] = result.Matrix{Ranks: 2, Bytes: 500, Cells: [][3]int64{{0, 1, 500}}}
	for i := range d.Measurements {
		if d.Measurements[i].Pattern == 0 {
			d.Measurements[i].Ranks[0].Peers[0].Bytes = 500
		}
	}
	if a = answer(t, d); show(a.Charts[1].Series[2]) != "1 sender, 2 receivers, 2 messages 1000:254.5(250.9..258.1)" {
		t.Errorf("%s", show(a.Charts[1].Series[2]))
	}
}

// Two initiators that do not meet drift apart: 10 runs of 100 and 200 ns take 2 us, however long the last one is.
func TestDrift(t *testing.T) {
	d := &result.Document{
		Schema: result.Schema, Status: result.Complete, Scenario: result.Scenario{Name: "x.lua"},
		World:    result.World{Size: 3, Hosts: []result.Host{{Name: "a", Ranks: []int{0, 1, 2}, CPUs: 4}}, Clocks: []result.Clock{{}}},
		Matrices: []result.Matrix{{Ranks: 3, Bytes: 2000, Cells: [][3]int64{{0, 2, 1000}, {1, 2, 1000}}}},
		Patterns: []result.Pattern{{Name: "p", Op: "WRITE", Mem: "dram", Senders: 2}},
	}
	for i := range int64(10) {
		run := series.Run{StartNS: i * 100, EndNS: (i + 1) * 200}
		for rank := range int64(2) {
			start, end := i*100*(rank+1), (i+1)*100*(rank+1)
			run.Ranks = append(run.Ranks, series.RankRun{Rank: int(rank), StartNS: start, EndNS: end, Bytes: 1000,
				Peers: []series.PeerRun{{Peer: 2, Bytes: 1000, EndNS: end}}})
		}
		d.AddRuns(0, "start", int(i), []series.Run{run})
	}
	a := answer(t, d)
	const want = "2 senders, 1 receiver: 200 ns for 2.00 kB per iteration, over 10 iterations (10.0 GB/s)."
	if a.Sentence != want || !strings.Contains(a.Why, "they drift apart") {
		t.Errorf("%s\nwant %s\n%s", a.Sentence, want, a.Why)
	}
	if len(a.Judged) != 1 || a.Judged[0].Text != "The initiators of pattern 0 do not meet between its runs: they start a run up to 900 ns apart." {
		t.Errorf("%+v", a.Judged)
	}
	if got := show(a.Charts[1].Series[0]); got != "patterns 0:200" {
		t.Error(got)
	}
}
