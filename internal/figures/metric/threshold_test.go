package metric

import (
	"math"
	"math/rand/v2"
	"reflect"
	"slices"
	"strconv"
	"strings"
	"testing"

	"perigee/internal/kit/fault"
	"perigee/internal/kit/fuzztest"
	"perigee/internal/kit/must"
	"perigee/internal/result"
	"perigee/internal/traffic/series"
)

// What a threshold is written as: labels and counts in their plain form.
func TestParse(t *testing.T) {
	for in, want := range map[string]string{
		"latency_ms.p99 < 40":         "latency_ms.p99 < 40",
		"a.p99.9<=4e1":                "a.p99.9 <= 40",
		" a . max >= -1.5E-3 abort":   "a.max >= -0.0015 abort",
		"a{}.count==3 abort after 20": "a.count == 3 abort after 20",
		`a{phase="work load", pattern="x,}", rank=2,peer=0}.median != +7`: `a{phase="work load", pattern="x,}", rank=2, peer=0}.median != 7`,
		"a{pattern=3}.stddev > 0.0":                                       "a{pattern=3}.stddev > 0",
		"a{block=4294967296, batch=8}.min > 1":                            "a{block=4294967296, batch=8}.min > 1",
		`bw{size=64K, dir='"up"', b=0.50}.p50 > 10`:                       `bw{size=65536, dir='"up"', b=0.5}.p50 > 10`,
		"a.p0 < 1":                                     "a.p0 < 1",
		"a.p100 < 1abort":                              "a.p100 < 1 abort",
		"latency_ms.max < 1.5s":                        "latency_ms.max < 1500",
		"batch_p99_us.max < 2ms":                       "batch_p99_us.max < 2000",
		"latency_ms.p99 < 10 ms":                       "latency_ms.p99 < 10",
		"latency_ms.p99 < 2  s abort after 3":          "latency_ms.p99 < 2000 abort after 3",
		"mean_bw_gb_per_s.min>500 MB/s":                "mean_bw_gb_per_s.min > 0.5",
		"rank_bw_gb_per_s.min > 1GiB/s abort":          "rank_bw_gb_per_s.min > 1.073741824 abort",
		"size_gb.max < 2 TB":                           "size_gb.max < 2000",
		"a{block <= 64 K, rank=3}.max < 1":             "a{block <= 65536, rank=3}.max < 1",
		"a{rank>=2&&(peer!=0||!(phase==\"x\"))}.max<1": `a{rank >= 2 && (peer != 0 || !(phase == "x"))}.max < 1`,
		`a{block/batch>-(4+rank), size!=null}.max<1`:   `a{block / batch > -(4 + rank), size != null}.max < 1`,
		`a{pattern =~ '^r', block <= 1M}.max < 1`:      `a{pattern =~ "^r", block <= 1048576}.max < 1`,
	} {
		got, err := Parse(in)
		if err != nil || got.String() != want {
			t.Errorf("%s: got %v, %v, want %s", in, got, err, want)
		}
	}
}

func TestParseRefuses(t *testing.T) {
	for in, want := range map[string]string{
		"":                                 `wanted the name of a metric at character 1, got the end`,
		"  ":                               `wanted the name of a metric at character 3, got the end`,
		"9a.max < 1":                       `wanted the name of a metric at character 1, got "9a.max < 1"`,
		"latency_ms < 40":                  `wanted a dot and an aggregate, as in latency_ms.p99 < 40 at character 12, got "< 40"`,
		"a.p99 <":                          `wanted a number at character 8, got the end`,
		"a.p99 40":                         `wanted <, <=, >, >=, == or != at character 7, got "40"`,
		"a.p99 = 40":                       `wanted <, <=, >, >=, == or !=`,
		"a.p99 => 40":                      `wanted <, <=, >, >=, == or !=`,
		"a.p101 < 1":                       `wanted an aggregate (`,
		"a.p < 1":                          `wanted an aggregate (`,
		"a.p9x < 1":                        `wanted an aggregate (`,
		"a.p99. < 1":                       `got ". < 1"`,
		"a.medain < 1":                     `did you mean "median"?`,
		"a. < 1":                           `wanted an aggregate: min, max`,
		"a.max < forty":                    `wanted a number at character 9, got "forty"`,
		"a.max < nan":                      `wanted a number`,
		"latency_ms.max < 1e308h":          `wanted a number that is not too large with its unit`,
		"latency_ms.max < -1e308h":         `wanted a number that is not too large with its unit`,
		"a.max < 1e999":                    `wanted a number that is not too large`,
		"a.max < 4 0":                      `wanted the end, or abort at character 11, got "0"`,
		"a.max < 40ms":                     `wanted a number without a unit at character 9, got "40ms"`,
		"latency_ms.p99 < 10 GB/s":         `wanted a number, or a time such as 1.5ms at character 18, got "10 GB/s"`,
		"mean_bw_gb_per_s.min > 5 ms":      `wanted a number, or one with a unit such as 1.5 GB/s, at character 24, got "5 ms"`,
		"mean_bw_gb_per_s.min > 5 GB":      `or one with a unit such as 1.5 GB/s`,
		"mean_bw_gb_per_s.min > 5 Gb/s":    `or one with a unit such as 1.5 GB/s`, // bits
		"size_gb.max < 5 GB/s":             `or one with a unit such as 1.5 GB, at`,
		"latency_ms.p99 < 10 furlongs":     `wanted the end, or abort at character 21, got "furlongs"`,
		"latency_ms.avg < 1":               `did you mean "mean"?`,
		"a.max < 1 abort after":            `wanted a whole number`,
		"a.max < 1 abort after 0":          `wanted at least 1 sample`,
		"a.max < 1 abort after 5 x":        `wanted the end at character 25, got "x"`,
		"a.max < 1 abort later":            `wanted the end, or after and a number of samples`,
		"a.max < 1 abort after 9999999999": `wanted a whole number up to 2147483647`,
		`a{phase="x}.max < 1`:              `wanted the closing "`,
		`a{phase=x}.max < 1`:               `wanted a text in double quotes`,
		`latency_ms{fase="x"}.max < 1`:     `did you mean "phase"?`,
		`a{rank=1,rank=2}.max < 1`:         `wanted each name once at character 10`,
		`a{rank=-1}.max < 1`:               `wanted a whole number`,
		`latency_ms{blok=1}.max < 1`:       `did you mean "block"?`,
		`a{batch="x"}.max < 1`:             `compares a number with text`,
		`a{size=}.max < 1`:                 `wanted a column such as phase, pattern or rank at character 8`,
		`a{size=4Q}.max < 1`:               `wanted a text in double quotes, a number or a size such as 64K`,
		`a{size}.max < 1`:                  `wanted something that is true or false, such as rank = 2, got a number or text`,
		`a{size=1,size=2}.max < 1`:         `wanted each name once`,
		`latency_ms.max < 2K`:              `got "2K"`,
		`latency_ms.count < 2ms`:           `got "2ms"`,
		`a{size=5 + 2K}.max < 1`:           `wanted a number without a unit`,
		`a{rank < 1.5}.max < 1`:            `wanted a whole number, 0 or more, at character 10`,
		`a{rank=1 peer=2}.max < 1`:         `wanted a comma or }`,
		`a{rank=1,}.max < 1`:               `wanted a column such as phase, pattern or rank`,
		"a.max < 1\x00":                    `wanted the end, or abort`,
		"\xff.max < 1":                     `is not text`,
		strings.Repeat("a", 10001):         `wanted at most 10000`,
	} {
		_, err := Parse(in)
		must.Fail(t, err, fault.Usage, want)
	}
}

func FuzzParse(f *testing.F) {
	for _, s := range []string{
		"latency_ms.p99 < 40", `a{phase="x", pattern=1, rank=0, peer=3}.p99.95 >= -1.5e-3 abort after 20`, "a.max<1", "a{", "a.p", `a{size=64K,dir="x"}.max<1`, `a{pattern="` + "\x7f" + `"}`,
		"a.max < 1e", "a.max < 1 abort after", "\xff",
	} {
		f.Add(s)
	}
	fuzztest.Run(f, []string{"latency_ms", ".p99", ".max", ".p", "{", "}", "phase=", "pattern=", "rank=", "peer=", "block<=", "size!=", "64K", "ms", "!", "(", ")", "&&", "||", "/", "\"x\"", "3", ",", " ", "<", "<=", ">", ">=", "-", "1.5", "e-3", " abort", " after ", "20"}, func(t *testing.T, s string) {
		got, err := Parse(s)
		if err != nil {
			if fault.KindOf(err) != fault.Usage || !reflect.DeepEqual(got, Threshold{}) {
				t.Fatalf("%v of kind %v, and %+v", err, fault.KindOf(err), got)
			}
			return
		}
		// What it is written as means the same.
		if again, err := Parse(got.String()); err != nil || again.String() != got.String() {
			t.Fatalf("%q was read, and written as %q: %v, %v", s, got, again, err)
		}
		if math.IsNaN(got.Limit) || math.IsInf(got.Limit, 0) || got.quantile < 0 || got.quantile > 1 {
			t.Fatalf("%+v", got)
		}
		want := map[string]float64{"max": 1, "median": 0.5}[got.Aggregate]
		if digits, ok := strings.CutPrefix(got.Aggregate, "p"); ok {
			want, _ = strconv.ParseFloat(digits, 64)
			want /= 100
		}
		if got.quantile != want {
			t.Fatalf("%q is the quantile %v, want %v", got.Aggregate, got.quantile, want)
		}
	})
}

// grown is a result with one pattern of two initiators that has run with these latencies
// in a phase.
func grown(d *result.Document, phase string, ms ...int64) *result.Document {
	if d == nil {
		d = &result.Document{
			Matrices: []result.Matrix{{Ranks: 3, Bytes: 3e6}},
			Patterns: []result.Pattern{{Name: "p", Senders: 2}},
			Metrics:  []result.Metric{{MetricDef: result.MetricDef{Name: "own"}}},
		}
	}
	for i, v := range ms {
		start := int64(len(d.Measurements)) * 1e9
		d.AddRuns(0, phase, i, []series.Run{{
			StartNS: start, EndNS: start + v*1e6,
			Ranks: []series.RankRun{
				{Rank: 0, StartNS: start, PostNS: start + 1e3, EndNS: start + v*1e6, Bytes: 2e6, Peers: []series.PeerRun{{Peer: 1, Bytes: 2e6, EndNS: start + v*1e6}}},
				{Rank: 2, StartNS: start, PostNS: start + 3e3, EndNS: start + v*1e6/2, Bytes: 1e6, Peers: []series.PeerRun{{Peer: 1, Bytes: 1e6, EndNS: start + v*1e6/2}}},
			},
		}})
	}
	return d
}

// The figures are worked out by hand: isolated runs of 10 and 20 ms, workload runs
// of 30, 60 and 90 ms.
func TestJudge(t *testing.T) {
	d := grown(grown(nil, "isolated", 10, 20), "workload", 30, 60, 90)
	d.AddSample("own", 5, 1)
	for in, want := range map[string]float64{
		"latency_ms.max < 0":                                 90,
		"latency_ms.min < 0":                                 30,
		"latency_ms.median < 0":                              60,
		"latency_ms.p25 < 0":                                 45,
		"latency_ms.mean < 0":                                60,
		"latency_ms.stddev < 0":                              30,
		"latency_ms.count < 0":                               3,
		"latency_ms.rate < 0":                                3 / 2.09,
		`latency_ms{phase="isolated"}.count < 0`:             2,
		`latency_ms{pattern="p"}.count < 0`:                  3,
		`latency_ms{pattern=0}.count < 0`:                    3,
		`latency_ms{pattern=1}.count < 0`:                    0,
		"isolated_latency_ms.max < 0":                        15,
		"slowdown.max < 0":                                   6,
		"slowdown.count < 0":                                 3,
		"mean_bw_gb_per_s.max < 0":                           2e6 / 30e-3 / 1e9,
		"total_time_s.max < 0":                               2.09,
		"avg_latency_s.max < 0":                              2.09 / 3,
		"algorithm_bw_gb_per_s.max < 0":                      9e6 / 1e9 / 2.09,
		"size_gb.max < 0":                                    0.003,
		"num_senders.max < 0":                                2,
		"rank_latency_ms.count < 0":                          6,
		"rank_latency_ms{rank=2}.max < 0":                    45,
		"rank_post_us{rank=2}.max < 0":                       3,
		"rank_bw_gb_per_s{rank=0}.max < 0":                   2e6 / 30e-3 / 1e9,
		"pair_latency_ms{rank=2, peer=1}.max < 0":            45,
		"pair_bw_gb_per_s{rank=2}.max < 0":                   1e6 / 15e-3 / 1e9,
		`rank_latency_ms{phase="isolated", rank=0}.mean < 0`: 15,
		"own.max < 0":                                        5,
	} {
		th, err := Parse(in)
		must.Do(t, err)
		o := th.Judge(d)
		if math.Abs(o.Value-want) > 1e-12*math.Abs(want) {
			t.Errorf("%s: got %v, want %v", in, o.Value, want)
		}
		if o.Passed {
			t.Errorf("%s has passed with %v", in, o.Value)
		}
	}
	for in, want := range map[string]bool{
		"latency_ms.max < 90": false, "latency_ms.max <= 90": true, "latency_ms.max > 90": false, "latency_ms.max >= 90": true,
		"latency_ms.max == 90": true, "latency_ms.max != 90": false, "latency_ms.max != 91": true, "latency_ms.max < 91": true, "latency_ms.max > 89": true,
	} {
		th, _ := Parse(in)
		if o := th.Judge(d); o.Passed != want {
			t.Errorf("%s: passed %v", in, o.Passed)
		}
	}
	// What is not known does not pass.
	for _, in := range []string{"latency_ms{rank=0}.max < 1e9", "own.rate > 0", "own.stddev < 1", `slowdown{phase="x"}.max != 0`} {
		th, _ := Parse(in)
		if o := th.Judge(d); o.Passed || !math.IsNaN(o.Value) || strings.Contains(o.String(), "NaN") {
			t.Errorf("%s: %+v", in, o)
		}
	}
}

func TestWatch(t *testing.T) {
	var list []Threshold
	for _, s := range []string{"latency_ms.max < 1", "latency_ms.p50 < 25 abort after 3", "latency_ms.max > 1000 abort", "latency_ms.count >= 99 abort", "latency_ms.rate > 99 abort"} {
		th, err := Parse(s)
		must.Do(t, err)
		list = append(list, th)
	}
	d := grown(nil, "isolated", 500, 500, 500, 500) // not looked at
	w := NewThresholdWatch(d, list)
	for _, step := range []struct {
		ms   int64
		want bool
	}{{40, false}, {40, false}, {10, true}} {
		grown(d, "workload", step.ms)
		if o, got := w.Violated(true); got != step.want {
			t.Errorf("after %d ms: %v, %v", step.ms, got, o)
		}
	}
	grown(d, "workload", 11, 12)
	if o, violated := w.Violated(true); violated {
		t.Errorf("the median of 10, 11, 12, 40, 40 is 12: %v", o)
	}
}

// What overlaps is not judged before all runs are there that may have been at the same time.
func TestWatchWaitsForOverlaps(t *testing.T) {
	th, err := Parse("overlap.p50 > 0.5 abort")
	must.Do(t, err)
	d := grown(nil, "workload", 10, 10, 10)
	d.Overlaps = true
	w := NewThresholdWatch(d, []Threshold{th})
	if o, violated := w.Violated(false); violated {
		t.Errorf("violated by what is not known: %v", o)
	}
	for i := range d.Measurements {
		for k := range d.Measurements[i].Ranks {
			peers := d.Measurements[i].Ranks[k].Peers
			for j := range peers {
				peers[j].Overlap = &series.Overlap{Share: 1}
			}
		}
	}
	if o, violated := w.Violated(true); violated {
		t.Errorf("all of them overlap: %v", o)
	}
	grown(d, "workload", 10, 10, 10, 10) // which do not
	if o, violated := w.Violated(true); !violated {
		t.Errorf("violated is %v: %v", violated, o)
	}
}

// A long run is not spent on looking at thresholds, and a violation is not seen much later.
func TestWatchLooksSeldom(t *testing.T) {
	th, err := Parse("own.p50 < 1e9 abort")
	must.Do(t, err)
	d := grown(nil, "x")
	w := NewThresholdWatch(d, []Threshold{th})
	looks, before := 0, 0
	for n := 1; n <= 20000; n++ {
		d.AddSample("own", float64(n*7919%20011), int64(n))
		if o, violated := w.Violated(true); violated {
			t.Fatal(o)
		}
		switch seen := w.watched[0].last.Samples; {
		case seen > before:
			looks, before = looks+1, seen
		case n-seen > n/seldom:
			t.Fatalf("%d of %d samples were looked at", seen, n)
		}
	}
	if looks > 2000 {
		t.Errorf("%d looks at 20000 samples", looks)
	}
	d.AddSample("own", 5, 20001)
	v := &w.watched[0]
	v.take(d)
	if v.look(d); len(v.samples.sorted) != 20001 || !slices.IsSorted(v.samples.sorted) {
		t.Error("not sorted")
	}
}

// While a result grows piece by piece, a watch sees what Judge sees in the whole of it.
func TestWatchAgreesWithJudge(t *testing.T) {
	rng := rand.New(rand.NewPCG(7, 8))
	for _, s := range []string{
		"latency_ms.p90 < -1 abort", "slowdown.mean < -1 abort", "pair_latency_ms{rank=2}.median < -1 abort", "total_time_s.max < -1 abort",
		"isolated_latency_ms.max < -1 abort", "own.stddev < -1 abort after 2",
	} {
		th, err := Parse(s)
		must.Do(t, err)
		d := grown(nil, "isolated", 7)
		w := NewThresholdWatch(d, []Threshold{th})
		for range 50 {
			for range rng.IntN(4) {
				grown(d, []string{"isolated", "workload"}[min(rng.IntN(4), 1)], 1+rng.Int64N(50))
				d.AddSample("own", rng.NormFloat64(), int64(len(d.Measurements)))
			}
			got, violated := w.Violated(true)
			want := th.Judge(d)
			n := len(d.Measurements)
			waits := strings.HasPrefix(s, "slowdown") && d.Measurements[n-1].Phase == "isolated" // for the last run alone
			if violated != (!math.IsNaN(want.Value) && !waits) {
				t.Fatalf("%s: violated %v, judged %v", s, violated, want)
			}
			// An isolated run that comes later changes the slowdown of those before it only at the end.
			if violated && !strings.HasPrefix(s, "slowdown") && (math.Abs(got.Value-want.Value) > 1e-9 || got.Samples != want.Samples) {
				t.Fatalf("%s: watched %v, judged %v", s, got, want)
			}
			if !slices.IsSorted(w.watched[0].samples.sorted) {
				t.Fatalf("%s: not sorted", s)
			}
		}
	}
}

// A violated threshold of contention has a note where ranks wait for CPUs.
func TestContentionBesideWaits(t *testing.T) {
	d := &result.Document{Overlaps: true, Matrices: []result.Matrix{{Bytes: 5}}, Patterns: []result.Pattern{{}},
		World: result.World{Size: 3, Hosts: []result.Host{{Name: "h", Ranks: []int{0, 1, 2}, CPUs: 3}}}}
	for i := range 40 {
		for _, phase := range []string{"isolated", "workload"} {
			peer := series.PeerRun{Peer: 1, Bytes: 5, EndNS: 1e6 + int64(i*7919%13)*1000}
			if phase == "workload" && i%2 == 0 {
				peer.EndNS *= 3
				peer.Overlap = &series.Overlap{Share: 1, Messages: 1, Shared: "receiver"}
			}
			d.AddRuns(0, phase, i, []series.Run{{EndNS: peer.EndNS, Ranks: []series.RankRun{{EndNS: peer.EndNS, Bytes: 5, Peers: []series.PeerRun{peer}}}}})
		}
	}
	for cpus, note := range map[int]string{3: "", 2: "ranks wait for CPUs, which may be all of it: h has 2 CPUs for 3 ranks"} {
		d.World.Hosts[0].CPUs = cpus
		if o := judge(t, d, "contention.max < 2"); o.Passed || o.Samples != 1 || o.Note != note {
			t.Errorf("%d CPUs: %+v", cpus, o)
		}
	}
}

// Where nothing overlapped a run counts as slowed down from 1 ms on, and as not slowed down below. A threshold of contention
// holds, unless the clocks of the hosts leave open whether something overlapped.
func TestWithoutOverlap(t *testing.T) {
	made := func(alone, workload int64, runs int) *result.Document {
		d := &result.Document{Overlaps: true, Matrices: []result.Matrix{{Bytes: 5}}, Patterns: []result.Pattern{{}}}
		for i := range runs {
			for _, phase := range []string{"isolated", "workload"} {
				took := 1000 * (map[string]int64{"isolated": alone, "workload": workload}[phase] + int64(i*7919%13))
				d.AddRuns(0, phase, i, []series.Run{{EndNS: took, Ranks: []series.RankRun{{EndNS: took, Bytes: 5, Peers: []series.PeerRun{{Peer: 1, Bytes: 5, EndNS: took}}}}}})
			}
		}
		return d
	}
	for _, c := range []struct {
		alone, workload int64 // us
		runs            int
		slowdown        bool // is below 2
	}{
		{1000, 1000, 10, true}, {1000, 900, 10, true}, {1000, 3000, 10, false}, {1000, 3000, 1, false}, {1000, 1000, 1, true}, {100, 300, 10, true},
	} {
		d := made(c.alone, c.workload, c.runs)
		if o := judge(t, d, "slowdown.max < 2"); o.Passed != c.slowdown || o.Samples != c.runs || o.Note != "" {
			t.Errorf("%+v: slowdown: %+v", c, o)
		}
		if o := judge(t, d, "slowdown.count == 0"); o.Passed || o.Note != "" {
			t.Errorf("%+v: slowdown: %+v", c, o)
		}
		if o := judge(t, d, "contention.max < 2"); !o.Passed || o.Note == "" {
			t.Errorf("%+v: contention: %+v", c, o)
		}
		for i := range d.Measurements {
			if m := &d.Measurements[i]; m.Phase == "workload" {
				m.Ranks[0].Peers[0].MayMeetNS = new(int64)
			}
		}
		if o := judge(t, d, "slowdown.max < 2"); o.Passed != (c.workload < 2*c.alone) || o.Samples != c.runs {
			t.Errorf("%+v: slowdown with uncertain clocks: %+v", c, o)
		}
		if o := judge(t, d, "contention.max < 2"); o.Passed || o.Note != "" {
			t.Errorf("%+v: contention with uncertain clocks: %+v", c, o)
		}
	}
	d := made(1000, 3000, 10) // 3000 us are within what the clocks are uncertain
	for i := range d.Measurements {
		d.Measurements[i].UncertaintyNS = 5e6
	}
	if o := judge(t, d, "slowdown.max < 2"); !o.Passed || o.Value != 1 {
		t.Errorf("with uncertain clocks: %+v", o)
	}
}

func judge(t *testing.T, d *result.Document, text string) Outcome {
	th, err := Parse(text)
	must.Do(t, err)
	return th.Judge(d)
}

// A run that is slow counts wherever others overlap and in whatever phase, and what the runs alone say of a violation
// stands beside it.
func TestSlowdownOfEachRun(t *testing.T) {
	d := grown(grown(grown(nil, "isolated", 10, 10, 10, 30), "quiet", 10, 11, 10, 9, 10), "busy", 88, 10)
	d.Overlaps = true
	d.Measurements[4].Ranks[0].Peers[0].Overlap = &series.Overlap{Share: 1}
	for text, want := range map[string]Outcome{
		"slowdown.max < 2":                     {Value: 8.8, Samples: 7, Note: "the runs alone do not keep it either: of 4 runs it is 3"},
		"slowdown.max < 4":                     {Value: 8.8, Samples: 7},
		"slowdown.median < 2":                  {Value: 1, Samples: 7, Passed: true},
		`slowdown{phase="busy"}.max < 2`:       {Value: 8.8, Samples: 2},
		`slowdown{phase="quiet"}.max < 2`:      {Value: 1.1, Samples: 5, Passed: true},
		`slowdown{phase="isolated"}.max < 2`:   {Value: 3, Samples: 4},
		`slowdown{pattern="p"}.max < 2`:        {Value: 8.8, Samples: 7, Note: "the runs alone do not keep it either: of 4 runs it is 3"},
		"slowdown.count < 2":                   {Value: 7, Samples: 7},
		`slowdown{pattern="absent"}.max < 100`: {Value: math.NaN()},
	} {
		got := judge(t, d, text)
		if got.Value != want.Value && got.Value == got.Value || got.Samples != want.Samples || got.Passed != want.Passed || got.Note != want.Note {
			t.Errorf("%s:\n got %+v\nwant %+v", text, got, want)
		}
	}
	th, err := Parse("slowdown.max < 2 abort")
	must.Do(t, err)
	if o, violated := NewThresholdWatch(d, []Threshold{th}).Violated(true); !violated || o.Note != "the runs alone do not keep it either: of 4 runs it is 3" {
		t.Errorf("with abort: %+v", o)
	}
	never := grown(nil, "workload", 10)
	if o := judge(t, never, "slowdown.max < 2"); o.Passed || o.String() != "slowdown.max < 2: there are no samples: no pattern of the workload was also run alone, in the phase isolated" {
		t.Errorf("never alone: %s", o)
	}
}

// A metric that does not exist is named before what else is wrong, and the nearest one with it.
func TestReadThreshold(t *testing.T) {
	own := []result.MetricDef{{Name: "answer_ms"}}
	for in, want := range map[string]string{
		"latency.p99 < 10 ms":  `threshold "latency.p99 < 10 ms": there is no metric "latency"; did you mean "latency_ms"?`,
		"latency < 40":         `there is no metric "latency"; did you mean "latency_ms"?`,
		"mean_bw.min > 1":      `did you mean "mean_bw_gb_per_s"?`,
		"answer.max < 1":       `did you mean "answer_ms"?`,
		"answer_ms.max < 1 s":  `wanted a number without a unit`,
		"answer_ms.max < 1 ab": `wanted the end, or abort`,
	} {
		got, err := ReadThreshold(in, own)
		if fault.KindOf(err) != fault.Usage || !strings.Contains(err.Error(), want) || got.Metric != "" {
			t.Errorf("%q: got %v, %v, want %s", in, got, err, want)
		}
	}
	if got, err := ReadThreshold("answer_ms.max < 1", own); err != nil || got.Limit != 1 {
		t.Error(got, err)
	}
}
