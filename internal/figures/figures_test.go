package figures

import (
	"encoding/json"
	"fmt"
	"math"
	"math/rand/v2"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"pgregory.net/rapid"

	"perigee/internal/figures/contention"
	"perigee/internal/kit/fault"
	"perigee/internal/kit/fuzztest"
	"perigee/internal/kit/must"
	"perigee/internal/kit/stats"
	"perigee/internal/result"
	"perigee/internal/traffic/series"
)

// handMade is a result of four ranks on two hosts whose figures can be worked out
// on paper. Pattern 0: rank 0 sends 1000 bytes to rank 2 and 500 to 3, rank 1 sends
// 2000 to 3. Pattern 1, a READ: rank 2 reads 400 bytes from rank 0.
func handMade() *result.Document {
	d := &result.Document{
		Schema: result.Schema, Status: result.Complete,
		World: result.World{Size: 4, Launcher: "local", Hosts: []result.Host{{Name: "a", Ranks: []int{0, 1}, CPUs: 2}, {Name: "b", Ranks: []int{2, 3}, CPUs: 2}},
			Clocks: []result.Clock{{}, {OffsetNS: -5000, UncertaintyNS: 20}}},
		Matrices: []result.Matrix{
			{Ranks: 4, Bytes: 3500, Cells: [][3]int64{{0, 2, 1000}, {0, 3, 500}, {1, 3, 2000}}},
			{Ranks: 4, Bytes: 400, Cells: [][3]int64{{0, 2, 400}}},
			{Ranks: 4, Cells: [][3]int64{}},
		},
		Patterns: []result.Pattern{
			{Name: "p0", Matrix: 0, Op: "WRITE", Mem: "dram", Senders: 2, SleepBefore: 0.5},
			{Name: "p1", Matrix: 1, Op: "READ", Mem: "dram", Senders: 1},
			{Name: "silent", Matrix: 2, Op: "WRITE", Mem: "dram"},
		},
	}
	// run of pattern 0; times of the messages in the order 0->2, 0->3, 1->3.
	p0 := func(start, skew, a, b, c int64) series.Run {
		end0, end1 := start+max(a, b), start+skew+c
		return series.Run{StartNS: start, EndNS: max(end0, end1), UncertaintyNS: 7, Ranks: []series.RankRun{
			{Rank: 0, StartNS: start, PostNS: start, EndNS: end0, Bytes: 1500, Peers: []series.PeerRun{{Peer: 2, Bytes: 1000, EndNS: start + a}, {Peer: 3, Bytes: 500, EndNS: start + b}}},
			{Rank: 1, StartNS: start + skew, PostNS: start + skew, EndNS: end1, Bytes: 2000, Peers: []series.PeerRun{{Peer: 3, Bytes: 2000, EndNS: end1}}},
		}}
	}
	p1 := func(start, took int64) series.Run {
		return series.Run{StartNS: start, EndNS: start + took, Ranks: []series.RankRun{
			{Rank: 2, StartNS: start, PostNS: start, EndNS: start + took, Bytes: 400, Peers: []series.PeerRun{{Peer: 0, Bytes: 400, EndNS: start + took}}},
		}}
	}
	d.AddRuns(0, "isolated", 0, []series.Run{p0(100, 0, 10, 20, 40), p0(200, 0, 30, 20, 60)}) // means 20, 20, 50
	d.AddRuns(1, "isolated", 0, []series.Run{p1(400, 100)})
	d.AddRuns(0, "workload", 0, []series.Run{p0(1000, 5, 40, 20, 100), p0(3000, 15, 80, 20, 100), p0(5000, 50, 60, 20, 100)}) // means 60, 20, 100
	d.AddRuns(1, "workload", 0, []series.Run{p1(1010, 150), p1(3010, 50)})                                                    // mean 100
	return d
}

func TestHandMade(t *testing.T) {
	f, err := Of(handMade())
	must.Do(t, err)
	type row map[string]any
	p0 := f.Patterns[0]
	got := row{
		"runs": f.Runs, "messages": f.Messages, "bytes": f.Bytes, "slowdown": f.Slowdown,
		"isolated": p0.IsolatedNS, "latency": p0.LatencyNS, "fastest": p0.FastestNS, "slowest": p0.SlowestNS, "pattern slowdown": p0.Slowdown,
		"skew": p0.StartSkewNS, "receivers": p0.Receivers, "pattern messages": p0.Messages, "sleep": p0.SleepBeforeNS, "uncertainty": p0.UncertaintyNS,
		"read isolated": f.Patterns[1].IsolatedNS, "read latency": f.Patterns[1].LatencyNS, "silent": f.Patterns[2].LatencyNS.Known() || f.Patterns[2].IsolatedNS.Known(),
	}
	want := row{
		"runs": 8, "messages": int64(3*5 + 3), "bytes": int64(3*3500 + 2*400), "slowdown": Num(math.Pow(18*1*8, 1./11)), // see the pairs
		// Initiator 0 alone: (20+30)/2; initiator 1: (40+60)/2. In the workload 105, 115, 150.
		"isolated": Num(50), "latency": Num(115), "fastest": Num(105), "slowest": Num(150), "pattern slowdown": Num(115.0 / 50),
		"skew": Num(15), "receivers": 2, "pattern messages": 3, "sleep": Num(5e8), "uncertainty": int64(7),
		"read isolated": Num(100), "read latency": Num(100), "silent": false,
	}
	close := cmp.Comparer(func(a, b Num) bool {
		return a == b || !a.Known() && !b.Known() || math.Abs(float64(a-b)) <= 1e-12*math.Abs(float64(b))
	})
	if diff := cmp.Diff(want, got, close); diff != "" {
		t.Errorf("figures (-want +got):\n%s", diff)
	}
	// A message of 20 ns that takes 2, 4 and 3 times as long is not hidden by one of 100 ns that takes 1.5 times and half
	// as long as alone.
	pairs := []Pair{
		{From: 0, To: 2, Bytes: 1400, Messages: 2, LatencyNS: 80, IsolatedNS: 60, Bandwidth: 1400 / 160e-9, IsolatedBandwidth: 1400 / 120e-9, Slowdown: Num(math.Pow(2*4*3*1.5*0.5, 1./5)), Contention: None},
		{From: 0, To: 3, Bytes: 500, Messages: 1, LatencyNS: 20, IsolatedNS: 20, Bandwidth: 500 / 20e-9, IsolatedBandwidth: 500 / 20e-9, Slowdown: 1, Contention: None},
		{From: 1, To: 3, Bytes: 2000, Messages: 1, LatencyNS: 100, IsolatedNS: 50, Bandwidth: 2000 / 100e-9, IsolatedBandwidth: 2000 / 50e-9, Slowdown: 2, Contention: None},
	}
	if diff := cmp.Diff(pairs, f.Pairs, close); diff != "" {
		t.Errorf("pairs (-want +got):\n%s", diff)
	}
	if worst := f.Worst(); worst[0].From != 1 || worst[2].To != 3 || worst[2].Slowdown != 1 {
		t.Errorf("worst pairs %+v", worst)
	}
	if diff := cmp.Diff([]HostPair{{From: 0, To: 1, Bytes: 3900, Messages: 4, LatencyNS: 280.0 / 4, Bandwidth: 3900 / 280e-9, Slowdown: f.Slowdown}}, f.HostPairs, close); diff != "" {
		t.Errorf("hosts (-want +got):\n%s", diff)
	}
	if r := f.Ranks[3]; r.Host != 1 || r.Received != 2500 || r.Sent != 0 || math.Abs(float64(r.RecvSlowdown)-math.Sqrt2) > 1e-12 || r.SendSlowdown.Known() {
		t.Errorf("rank 3: %+v", r)
	}
}

func TestTimelineOfHandMade(t *testing.T) {
	f, err := Of(handMade())
	must.Do(t, err)
	if len(f.Timeline.Spans) != 3*4+2*2 || f.Timeline.OriginNS != 1000 || f.Timeline.Dropped != 0 {
		t.Fatalf("%d spans from %d", len(f.Timeline.Spans), f.Timeline.OriginNS)
	}
	want := []Span{
		{Rank: 0, StartNS: 0, EndNS: 40, Bytes: 1500}, {Rank: 1, StartNS: 5, EndNS: 105, Bytes: 2000},
		{Rank: 2, Target: true, StartNS: 0, EndNS: 40, Bytes: 1000}, {Rank: 3, Target: true, StartNS: 0, EndNS: 105, Bytes: 2500},
	}
	must.Equal(t, want, f.Timeline.Spans[:4])
}

func TestDistributions(t *testing.T) {
	f, err := Of(handMade())
	must.Do(t, err)
	var names []string
	for _, l := range f.Latencies {
		names = append(names, strings.TrimSpace(l.Of+" "+l.Phase))
	}
	must.Equal(t, []string{"pattern isolated", "pattern workload", "message isolated", "message workload", "slowdown"}, names)
	// Messages of the workload: 20 x 3, 40, 50, 60, 80, 100 x 3, 150.
	l := f.Latencies[3]
	if l.Count != 11 || l.Min != 20 || l.P50 != 60 || l.P90 != 100 || l.Max != 150 || l.P95.Known() || l.P999.Known() {
		t.Errorf("%+v", l)
	}
	last := l.Curve[len(l.Curve)-1]
	if last != [2]Num{150, 1} || l.Curve[0][0] != 20 {
		t.Errorf("curve %v", l.Curve)
	}
	// The geometric means of 2, 4, 3; of 1, 1, 1; of 2, 2, 2; and of 1.5, 0.5.
	if s := f.Latencies[4]; s.Count != 4 || math.Abs(float64(s.Min)-math.Sqrt(0.75)) > 1e-12 || s.P50 != 1.5 || math.Abs(float64(s.Max)-math.Cbrt(24)) > 1e-12 {
		t.Errorf("slowdown %+v", s)
	}
}

func TestFindings(t *testing.T) {
	words := func(d *result.Document) string {
		f, err := Of(d)
		must.Do(t, err)
		var list []string
		for _, x := range f.Findings {
			list = append(list, x.Level+": "+x.Text)
		}
		return strings.Join(list, "\n")
	}
	want := "note: This result does not hold which messages overlapped, so nothing can be said of contention: measure again with this version."
	if got := words(handMade()); got != want {
		t.Errorf("an old result: got %s", got)
	}
	cut := handMade()
	cut.Status = result.Partial
	if got := words(cut); got != "note: The run ended before it was known which messages overlapped, so nothing can be said of contention." {
		t.Errorf("a run that was killed: got %s", got)
	}
	overlaps := handMade()
	overlaps.Overlaps = true
	want = "good: No contention between these patterns: none of their messages overlapped. No message of the workload used a sender, receiver or host at the same time as one of another pattern."
	if got := words(overlaps); got != want {
		t.Errorf("no overlap: got %s", got)
	}
	slow := handMade()
	slow.Overlaps = true
	for i := range 40 { // pattern 0: 30 runs alone, 10 that take twice as long
		m := slow.Measurements[0]
		m.Phase, m.Iteration, m.LatencyNS = result.IsolatedPhase, 100+i, 10e6+int64(i)
		if i >= 30 {
			m.Phase, m.LatencyNS = "workload", 2*m.LatencyNS
		}
		m.Ranks = slices.Clone(m.Ranks)
		for r := range m.Ranks {
			m.Ranks[r].EndNS = m.Ranks[r].StartNS + m.LatencyNS
			m.Ranks[r].Peers = slices.Clone(m.Ranks[r].Peers)
			for k := range m.Ranks[r].Peers {
				m.Ranks[r].Peers[k].EndNS = m.Ranks[r].StartNS + m.LatencyNS
			}
		}
		slow.Measurements = append(slow.Measurements, m)
	}
	longer := "bad: 1 of 3 patterns takes longer than alone, beyond chance, where no message overlapped with others: in the phase \"workload\" of pattern 0 " +
		"10 of 13 runs are longer than each of 32 alone, and take 2.00 times as long (20.0 ms, alone 10.0 ms). "
	if got := words(slow); !strings.Contains(got, longer) || strings.Contains(got, "no contention") {
		t.Errorf("slower than alone: got %s", got)
	}
	slow.Measurements[3].Ranks[0].Peers[0].Overlap = &series.Overlap{Share: 0.25, Messages: 1, Shared: "receiver"}
	if got := words(slow); !strings.Contains(got, strings.Replace(longer, "13", "12", 1)) || !strings.Contains(got, "messages overlapped with other patterns") {
		t.Errorf("slower than alone, beside one that overlapped: got %s", got)
	}
	overlaps.Measurements[3].Ranks[0].Peers[0].Overlap = &series.Overlap{Share: 0.25, Messages: 1, Shared: "receiver"}
	const met = " 1 of 11 messages overlapped with other patterns, for 25 % of their time on average (most shared the receiver)."
	want = "note: What overlapping costs is not known: 1 run is too few, it takes 5 (--iters, --isolation-iters)." + met
	if got := words(overlaps); got != want {
		t.Errorf("too few runs: got %s\nwant %s", got, want)
	}
	overlaps.Measurements[3].Ranks[0].Peers[0].Overlap.FirstNS = 30
	want = "note: What overlapping costs is not known: other patterns came only after the time that a message takes alone." + met
	if got := words(overlaps); got != want {
		t.Errorf("a late message: got %s\nwant %s", got, want)
	}
	d := handMade()
	d.Measurements = nil
	if got := words(d); got != "note: Nothing was measured." {
		t.Errorf("nothing measured: %s", got)
	}
	d.Metrics = []result.Metric{{MetricDef: result.MetricDef{Name: "own_us"}}}
	if got := words(d); got != "note: Nothing was measured." {
		t.Errorf("a metric without samples: %s", got)
	}
	d.Metrics[0].Values = []float64{3}
	if got := words(d); got != "note: own_us: 3." {
		t.Errorf("own metrics only: %s", got)
	}
	d = handMade()
	d.Measurements = d.Measurements[3:]
	if got := words(d); !strings.HasPrefix(got, "note: 2 senders, 2 receivers, 3 messages, WRITE: 115 ns for 3.50 kB (30.4 GB/s); 0 \u2192 2, READ: 100 ns for 400 B (4.00 GB/s).") {
		t.Errorf("workload only: %s", got)
	}
}

// incast has 20 runs in which ranks 0 and 1 send to rank 2 from different patterns, at the same time in every other
// run. They take cost times as long then, and vary by a few percent.
func incast(cost float64) *result.Document {
	d := &result.Document{
		Schema: result.Schema, Overlaps: true, Matrices: []result.Matrix{
			{Ranks: 4, Bytes: 10, Cells: [][3]int64{{0, 2, 10}}}, {Ranks: 4, Bytes: 10, Cells: [][3]int64{{1, 2, 10}}},
		},
		World:    result.World{Size: 4, Hosts: []result.Host{{Name: "n", CPUs: 4, Ranks: []int{0, 1, 2, 3}}}},
		Patterns: []result.Pattern{{Op: "WRITE"}, {Op: "WRITE", Matrix: 1}},
	}
	rng := rand.New(rand.NewPCG(1, 2))
	run := func(rank int, took float64, o *series.Overlap) []series.Run {
		end := int64(took * (1 + 0.04*rng.Float64()))
		return []series.Run{{EndNS: end, Ranks: []series.RankRun{
			{Rank: rank, EndNS: end, Bytes: 10, Peers: []series.PeerRun{{Peer: 2, Bytes: 10, EndNS: end, Overlap: o}}},
		}}}
	}
	for i := range 20 {
		for rank := range 2 {
			d.AddRuns(rank, "isolated", i, run(rank, 1000, nil))
		}
	}
	for i := range 20 {
		for rank := range 2 {
			if i%2 == 0 {
				d.AddRuns(rank, "workload", i, run(rank, 1000*cost, &series.Overlap{Share: 1, Messages: 1, Shared: "receiver"}))
			} else {
				d.AddRuns(rank, "workload", i, run(rank, 1000, nil))
			}
		}
	}
	return d
}

func TestFindingsOfContention(t *testing.T) {
	const why = " 20 of 40 messages overlapped with other patterns, for 100 % of their time on average (all on one host, 20 of them at the same sender or receiver)."
	for cost, want := range map[float64][]string{
		2: {
			"bad: Contention: messages that overlap take 2.01 times as long as those of the same phase that did not overlap (99 % interval 1.98 to 2.04)." + why,
			"bad: Of 2 pairs that overlapped, these are slower beyond chance, corrected for their number: ",
		},
		1:   {"good: Overlapping costs little, if anything: messages take 1.00 times as long as those of the same phase that did not overlap (99 % interval 0.99 to 1.02)." + why},
		0.5: {"good: Overlapping costs little, if anything: messages take 0.50 times as long as "},
	} {
		f, err := Of(incast(cost))
		must.Do(t, err)
		if len(f.Findings) != len(want) {
			t.Errorf("cost %v: got %v, want %d findings", cost, f.Findings, len(want))
			continue
		}
		for i, x := range f.Findings {
			if !strings.HasPrefix(x.Level+": "+x.Text, want[i]) {
				t.Errorf("cost %v: got %s: %s\nwant %s", cost, x.Level, x.Text, want[i])
			}
		}
		if a := f.Answer; f.Findings[0].Text != a.Sentence+why || a.Why != why[1:] || len(a.Judged) != len(want)-1 {
			t.Errorf("cost %v: %+v", cost, a)
		}
	}
}

// Where a host has less than a CPU for each rank, repetitions say the same, whatever they measured, and mark no pair.
func TestRanksWaitForCPUs(t *testing.T) {
	for want, host := range map[string]result.Host{"3 CPUs": {CPUs: 3}, "a CPU quota of 1.5": {CPUs: 4, CPUQuota: 1.5}} {
		for _, cost := range []float64{0.9, 1.05, 1.2, 2} {
			d := incast(cost)
			host.Name, host.Ranks = "n", []int{0, 1, 2, 3}
			d.World.Hosts[0] = host
			f, err := Of(d)
			must.Do(t, err)
			says := "Ranks wait for CPUs: n has " + want + " for 4 ranks, so these times do not show what traffic costs."
			if a := f.Answer; a.Sentence != says || a.Level != "note" || !strings.HasPrefix(a.Why, "20 of 40 messages overlapped") {
				t.Errorf("cost %v: %+v", cost, a)
			}
			if f.Contention.Verdict != Waits || len(f.Contention.Pairs) > 0 || slices.ContainsFunc(f.Pairs, func(p Pair) bool { return p.Contention.Known() }) {
				t.Errorf("cost %v: %+v", cost, f.Contention)
			}
		}
	}
}

// wait lets the threads that move bytes wait for a part of each message, alone and in the workload.
func wait(d *result.Document, alone, workload float64) {
	for _, m := range d.Measurements {
		part := workload
		if m.Phase == result.IsolatedPhase {
			part = alone
		}
		for i := range m.Ranks[0].Peers {
			p := &m.Ranks[0].Peers[i]
			ns, polls := int64(part*float64(p.EndNS)), int64(0.9*float64(p.EndNS))
			p.CPUWaitNS, p.PollWaitNS = &ns, &polls
		}
	}
}

// What the threads that move the bytes waited for decides, and not how many CPUs there are.
func TestThreadsWaitForCPUs(t *testing.T) {
	const contends = "Contention: messages that overlap take 2.01 times as long as those of the same phase that did not overlap (99 % interval 1.98 to 2.04)."
	for _, c := range []struct {
		alone, workload float64
		cost            float64
		verdict         contention.Verdict
		says            string
	}{
		{0.05, 0.1, 2, contention.Costs, contends},
		{0.1, 0.6, 2, Waits, "The threads that move the bytes wait for a CPU for 60 % of the time, which is 100 % of the slowdown: these times do not show what traffic costs."},
		{0.5, 0.5, 1, Waits, "The threads that move the bytes wait for a CPU for 50 % of the time, alone for 50 %: these times do not show what traffic costs."},
		{0.1, 0.25, 2, Partly, "No verdict: the threads that move the bytes wait for a CPU for 25 % of the time, which is 40 % of the slowdown."},
		{0.3, 0.3, 1, contention.Small, "Overlapping costs little, if anything: "},
	} {
		for _, cpus := range []int{2, 8} {
			d := incast(c.cost)
			d.World.Hosts[0] = result.Host{Name: "n", Ranks: []int{0, 1, 2, 3}, CPUs: cpus}
			wait(d, c.alone, c.workload)
			f, err := Of(d)
			must.Do(t, err)
			marked := slices.ContainsFunc(f.Pairs, func(p Pair) bool { return p.Contention.Known() })
			if f.Contention.Verdict != c.verdict || !strings.HasPrefix(f.Answer.Sentence, c.says) || marked != (c.verdict == contention.Costs) {
				t.Errorf("%v, %d CPUs: %s, %v, %q", c, cpus, f.Contention.Verdict, marked, f.Answer.Sentence)
			}
			remark := slices.ContainsFunc(f.Findings, func(x Finding) bool {
				return x.Text == "Ranks outnumber CPUs (n has 2 CPUs for 4 ranks), but the threads that move the bytes wait for a CPU for 10 % of the time, which is 15 % of the slowdown."
			})
			if want := c.verdict == contention.Costs && cpus == 2; remark != want {
				t.Errorf("%v, %d CPUs: %v", c, cpus, f.Findings)
			}
		}
	}
}

// A link that is full is the answer, whatever waits for a CPU; one that is not stands beside shares that leave it open,
// and what the runs alone used of it beside what they are compared with.
func TestLink(t *testing.T) {
	document := func(line float64, alone, workload float64) *result.Document {
		d := incast(2)
		d.World.Hosts = []result.Host{{Name: "n", Ranks: []int{0, 1}, CPUs: 2}, {Name: "m", Ranks: []int{2, 3}, CPUs: 2}}
		d.Line = &result.Line{Rate: line, Host: line, Given: true}
		wait(d, alone, workload)
		return d
	}
	d := document(1e9, 0.05, 0.1)
	var flows result.Flows
	for i := range d.Measurements {
		flows.Add(d, &d.Measurements[i])
	}
	b, ok := flows.Busiest(d)
	if !ok {
		t.Fatal("no host had two messages at a time")
	}
	says := func(line, alone, workload float64) (Answer, *Figures) {
		f, err := Of(document(line, alone, workload))
		must.Do(t, err)
		return f.Answer, f
	}
	full := fmt.Sprintf("The link is full (%s 95 %% of ", b.Text(d))
	for _, waits := range []float64{0.1, 0.25, 0.6} {
		if a, f := says(b.Rate/0.95, 0.05, waits); !strings.HasPrefix(a.Sentence, full) || f.Contention.Verdict != contention.Costs ||
			!strings.HasSuffix(a.Sentence, ": messages that overlap take 2.01 times as long as those of the same phase that did not overlap (99 % interval 1.98 to 2.04).") {
			t.Errorf("%v: %q", waits, a.Sentence)
		}
	}
	if a, _ := says(b.Rate/0.8, 0.1, 0.25); !strings.Contains(a.Sentence, fmt.Sprintf("slowdown; %s 80 %% of ", b.Text(d))) {
		t.Errorf("%q", a.Sentence)
	}
	if a, _ := says(b.Rate/1.2, 0.1, 0.25); strings.Contains(a.Sentence, "full") {
		t.Errorf("above the line: %q", a.Sentence)
	}
	for _, c := range []struct {
		link Link
		want string
	}{
		{Link{Text: "x", Alone: 0.7}, "Alone, messages used 70 % of the line; with all of it they would have been faster, and take 2.04 times as long as that."},
		{Link{Text: "x", Alone: 0.02}, "Alone, messages used 2 % of the line."},
		{Link{Text: "x", Alone: 0.95}, ""}, {Link{Alone: 0.02}, "Alone, messages used 2 % of the ceiling."},
		{Link{Alone: None, Larger: 0.2}, "Alone, messages used 20 % of what larger messages reached."}, {Link{Text: "x", Alone: None}, ""},
	} {
		if got := c.link.alone(Cost{Ratio: 1.43, Low: 1.41}); got != c.want {
			t.Errorf("%+v: %q", c.link, got)
		}
	}
}

// A pair that takes no longer in the workload than alone is not marked, and neither is the whole then said to be slower.
func TestNoLongerThanAlone(t *testing.T) {
	d := incast(1.2)
	for i := range d.Measurements {
		m := &d.Measurements[i]
		if m.Phase == result.IsolatedPhase { // all are faster in the workload
			m.LatencyNS, m.Ranks[0].EndNS, m.Ranks[0].Peers[0].EndNS = 2*m.LatencyNS, 2*m.Ranks[0].EndNS, 2*m.Ranks[0].EndNS
		}
	}
	f, err := Of(d)
	must.Do(t, err)
	if c := f.Contention; c.Verdict != contention.Open || len(c.Pairs) > 0 || f.Pairs[0].Contention.Known() || c.Low < contention.Little ||
		!strings.HasSuffix(f.Answer.Sentence, ", but no longer than alone.") {
		t.Errorf("%+v: %+v", f.Answer, c)
	}
}

func TestBadDocuments(t *testing.T) {
	for want, change := range map[string]func(*result.Document){
		"world: its size is 1000000000":                        func(d *result.Document) { d.World.Size = 1e9 },
		"world: its size is 3, its hosts have 0":               func(d *result.Document) { d.World = result.World{Size: 3} },
		"world: rank 1 on host b is there twice":               func(d *result.Document) { d.World.Hosts[1].Ranks = []int{2, 1} },
		"world: rank -4 on host b":                             func(d *result.Document) { d.World.Hosts[1].Ranks = []int{2, -4} },
		"matrices[1]: it has 3 rows for 4 ranks":               func(d *result.Document) { d.Matrices[1].Ranks = 3 },
		"matrices[0]: cell [0 9 1] is not in a matrix":         func(d *result.Document) { d.Matrices[0].Cells[1] = [3]int64{0, 9, 1} },
		"matrices[0]: cell [0 2 1] does not stand in order":    func(d *result.Document) { d.Matrices[0].Cells[1] = [3]int64{0, 2, 1} },
		"there is no rank 4":                                   func(d *result.Document) { d.Measurements[0].Ranks[1].Rank = 4 },
		"a message from rank 0 to rank 1 is not in the matrix": func(d *result.Document) { d.Measurements[0].Ranks[0].Peers[0].Peer = 1 },
		"a message from rank 3 to rank 2 is not in the matrix": func(d *result.Document) { d.Measurements[2].Ranks[0].Peers[0].Peer = 3 },
	} {
		d := handMade()
		change(d)
		if _, err := Of(d); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("got %v, want %s", err, want)
		}
		path := filepath.Join(t.TempDir(), "r.json")
		must.Do(t, d.Write(path))
		if _, err := Read(path); fault.KindOf(err) != fault.Input || !strings.Contains(err.Error(), want) {
			t.Errorf("from a file: got %v, want %s", err, want)
		}
	}
}

func TestFromAFileIsTheSame(t *testing.T) {
	d := handMade()
	path := filepath.Join(t.TempDir(), "r.json.zst")
	must.Do(t, d.Write(path))
	text := func(f *Figures, err error) string {
		must.Do(t, err)
		b, err := json.Marshal(f)
		must.Do(t, err)
		return string(b)
	}
	if diff := cmp.Diff(text(Of(d)), text(Read(path))); diff != "" {
		t.Errorf("(-memory +file):\n%s", diff)
	}
}

// Percentiles are those of the sorted values, as everywhere.
func TestTailsAgreeWithSorting(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		values := rapid.SliceOfN(rapid.Int64Range(0, 1e15), 1, 300).Draw(t, "values")
		var kinds tails
		for _, v := range values {
			kinds.add("x", "y", float64(v))
		}
		l := kinds.kinds[0].latency()
		sorted := make([]float64, len(values))
		for i, v := range values {
			sorted[i] = float64(v)
		}
		slices.Sort(sorted)
		if m := stats.Median(sorted); float64(l.P50) != m {
			t.Fatalf("P50 is %v, the median %v", l.P50, m)
		}
		if p90 := stats.Quantile(sorted, 0.9); l.P90.Known() && float64(l.P90) != p90 {
			t.Fatalf("P90 is %v, want %v", l.P90, p90)
		}
		if !(l.Min <= l.P50 && l.P50 <= l.Max) || l.Count != int64(len(values)) {
			t.Fatalf("%+v", l)
		}
		for i := 1; i < len(l.Curve); i++ {
			if !(l.Curve[i][0] > l.Curve[i-1][0] && l.Curve[i][1] > l.Curve[i-1][1]) {
				t.Fatalf("the curve falls at %d: %v", i, l.Curve)
			}
		}
	})
}

func TestWords(t *testing.T) {
	for got, want := range map[string]string{
		Duration(None): "-", Duration(0): "0 ns", Duration(999): "999 ns", Duration(999.9): "1.00 µs", Duration(12_345): "12.3 µs",
		Duration(1.5e6): "1.50 ms", Duration(2e12): "2000 s",
	} {
		if got != want {
			t.Errorf("got %q, want %q", got, want)
		}
	}
}

func TestNumGoesThroughJSON(t *testing.T) {
	for _, n := range []Num{None, 0, 1.5, Num(math.Inf(1)), 1e300, -3} {
		b, err := json.Marshal(n)
		must.Do(t, err)
		var back Num
		if err := json.Unmarshal(b, &back); err != nil || back.Known() != n.Known() || n.Known() && back != n {
			t.Errorf("%v became %s and %v, %v", n, b, back, err)
		}
	}
}

// together has runs of a pattern that ranks 0 and 1 start apart, by so many nanoseconds each.
func together(apart ...int64) *result.Document {
	d := &result.Document{
		Schema: result.Schema, Overlaps: true, Patterns: []result.Pattern{{Op: "WRITE"}},
		Matrices: []result.Matrix{{Ranks: 3, Bytes: 20, Cells: [][3]int64{{0, 2, 10}, {1, 2, 10}}}},
		World:    result.World{Size: 3, Hosts: []result.Host{{Name: "n", CPUs: 3, Ranks: []int{0, 1, 2}}}},
	}
	runs := func(apart ...int64) (list []series.Run) {
		for _, skew := range apart {
			var r series.Run
			for rank, start := range []int64{0, skew} {
				r.Add(series.RankRun{Rank: rank, StartNS: start, EndNS: start + 1000, Bytes: 10, Peers: []series.PeerRun{{Peer: 2, Bytes: 10, EndNS: start + 1000}}})
			}
			r.Complete(0, nil)
			list = append(list, r)
		}
		return list
	}
	d.AddRuns(0, "isolated", 0, runs(0, 0))
	d.AddRuns(0, "workload", 0, runs(apart...))
	return d
}

// Initiators that start apart are named: as a rule, in single runs, and late ones that had agreed on an instant.
func TestFindingsOfStarts(t *testing.T) {
	late := together(0, 0, 0)
	agreed := int64(1)
	for i := range late.Measurements {
		late.Measurements[i].AgreedNS = &agreed
	}
	late.Measurements[4].Ranks[1].LateNS = 1500
	hidden := together(500, 600, 700) // by one that takes longer
	for i := range hidden.Measurements {
		m := &hidden.Measurements[i]
		m.Ranks[0].EndNS = m.Ranks[0].StartNS + m.LatencyNS
	}
	for _, c := range []struct {
		doc  *result.Document
		want string
	}{
		{together(5, 0, 7), ""},
		{together(500, 600, 700), "note: The initiators of pattern 0 start 600 ns apart, which adds 600 ns to its latency of 1.60 µs: that is no contention."},
		{hidden, ""},
		{together(1, 2, 50_000_000, 3, 2), "note: In 1 of 5 runs of pattern 0 the initiators start up to 50.0 ms apart, where 2.00 ns are usual: " +
			"a rank was late there, by a wait for a CPU for instance; that is no contention."},
		{together(500, 510, 50_000_000, 490, 480), "note: The initiators of pattern 0 start 500 ns apart, which adds 500 ns to its latency of 1.50 µs: that is no contention." +
			"note: In 1 of 5 runs of pattern 0 the initiators start up to 50.0 ms apart, where 500 ns are usual: a rank was late there, by a wait for a CPU for instance; that is no contention."},
		{late, "note: 1 of 10 starts by the clock were late, by up to 1.50 µs."},
	} {
		f, err := Of(c.doc)
		must.Do(t, err)
		got := ""
		for _, x := range f.Findings[1:] {
			got += x.Level + ": " + x.Text
		}
		if got != c.want {
			t.Errorf("got %q\nwant %q", got, c.want)
		}
	}
}

// What the clocks of the hosts leave open is said to be open.
func TestFindingsOfUncertainClocks(t *testing.T) {
	unsure := func(d *result.Document, some bool) {
		d.World.Clocks = []result.Clock{{}, {UncertaintyNS: 1500}, {UncertaintyNS: 2500}, {UncertaintyNS: 1000}}
		for i := range d.Measurements {
			m := &d.Measurements[i]
			for k := range m.Ranks {
				for j := range m.Ranks[k].Peers {
					if p := &m.Ranks[k].Peers[j]; m.Phase == "workload" && (p.Overlap == nil || !some) {
						p.Overlap, p.MayMeetNS = nil, new(int64)
					}
				}
			}
		}
	}
	skewed := together(500, 600, 700)
	for i := range skewed.Measurements {
		skewed.Measurements[i].UncertaintyNS = 400
	}
	some, none := incast(2), incast(2)
	unsure(some, true)
	unsure(none, false)
	for _, c := range []struct {
		doc  *result.Document
		want []string
	}{
		{some, []string{"detail: Of 20 messages it is not known whether they overlapped: the clocks of the hosts are uncertain by up to 4.00 µs."}},
		{none, []string{"note: What overlapping costs is not known: it is open whether messages overlapped. 40 of 40 messages may have used a sender, receiver or host at the same time as one of another pattern: the clocks of the hosts are uncertain by up to 4.00 µs."}},
		{skewed, []string{
			"note: The initiators of pattern 0 start 600 ns apart (± 400 ns, by the clocks of the hosts), which adds 600 ns to its latency of 1.60 µs: that is no contention.",
			"note: The clocks of the hosts are uncertain by 400 ns, of a latency of 1.60 µs of pattern 0: its latency and the skew of its starts may be off by as much.",
		}},
	} {
		f, err := Of(c.doc)
		must.Do(t, err)
		var got []string
		for _, x := range f.Findings {
			got = append(got, x.Level+": "+x.Text)
			if c.doc == none && x.Level == "good" {
				t.Errorf("%s", x.Text)
			}
		}
		for _, want := range c.want {
			if !slices.Contains(got, want) {
				t.Errorf("got %q\nwant %q", got, want)
			}
		}
	}
}

// Pairs whose contention is shown come first, though others have a larger slowdown.
func TestPairsRankByContention(t *testing.T) {
	d := incast(1.5)
	d.Patterns = append(d.Patterns, result.Pattern{Op: "WRITE", Matrix: 2})
	d.Matrices = append(d.Matrices, result.Matrix{Ranks: 4, Bytes: 10, Cells: [][3]int64{{3, 2, 10}}})
	for i, took := range []int64{100, 900} { // alone, and then in the workload
		d.AddRuns(2, []string{"isolated", "workload"}[i], 0, []series.Run{{EndNS: took, Ranks: []series.RankRun{
			{Rank: 3, EndNS: took, Bytes: 10, Peers: []series.PeerRun{{Peer: 2, Bytes: 10, EndNS: took}}},
		}}})
	}
	f, err := Of(d)
	must.Do(t, err)
	worst := f.Worst()
	if len(worst) != 3 || worst[0].From == 3 || worst[2].From != 3 || worst[2].Contention.Known() || worst[2].Slowdown < 8 || math.Abs(float64(worst[1].Contention)-1.5) > 0.1 {
		t.Errorf("got %+v", worst)
	}
}

// What was shared is listed one by one where messages share several.
func TestFindingsByResource(t *testing.T) {
	d := incast(2)
	for i := range d.Measurements {
		if o := d.Measurements[i].Ranks[0].Peers[0].Overlap; o != nil {
			o.Shared = "receiver, receiving host"
			o.By = []series.OverlapBy{{Resource: "receiver", Share: 0.5, Messages: 1}, {Resource: "receiving host", Share: 1, Messages: 3}}
		}
	}
	d.World.Hosts = []result.Host{{Name: "n", CPUs: 2, Ranks: []int{0, 1}}, {Name: "m", CPUs: 2, Ranks: []int{2, 3}}}
	f, err := Of(d)
	must.Do(t, err)
	if !strings.HasSuffix(f.Answer.Why, "(most shared the receiver, receiving host).") {
		t.Errorf("%+v", f.Answer)
	}
	want := "By what was shared: 20 messages the receiver, for 50 % of their time, with 1.0 others on average; " +
		"20 messages the receiving host, for 100 % of their time, with 3.0 others on average."
	if got := f.Findings[1].Text; got != want {
		t.Errorf("got %s\nwant %s", got, want)
	}
}

// A report has the distributions of a thousand phases, and says so; more phases take no more time each.
func TestManyPhases(t *testing.T) {
	make := func(n int) *result.Document {
		d := handMade()
		m := d.Measurements[0]
		for i := range n {
			m.Phase = fmt.Sprint("p", i)
			d.Measurements = append(d.Measurements, m)
		}
		return d
	}
	fuzztest.Linear(t, "phases", 2000, func(n int) func() {
		d := make(n)
		return func() {
			if _, err := Of(d); err != nil {
				t.Error(err)
			}
		}
	})
	f, err := Of(make(1500))
	if err != nil || len(f.Latencies) > 2*MostPhases+1 || !slices.Contains(f.LeftOut, "the distributions of latencies are those of the first 1000 of 1502 phases") {
		t.Errorf("%v, %d distributions, left out: %q", err, len(f.Latencies), f.LeftOut)
	}
}
