package figures

import (
	"fmt"
	"math"
	"strings"
	"testing"
	"time"

	"pgregory.net/rapid"

	"perigee/internal/kit/fault"
	"perigee/internal/kit/must"
	"perigee/internal/trace"
)

// second is the line on which 1000 tokens of llama3.1-8b in bf16, 131,072 bytes each, take a second.
const second = "1048.576Mbit"

// fitOf puts a trace of "time tokens" on a line.
func fitOf(t *testing.T, line string, nics int, bound string, requests ...string) *Fit {
	t.Helper()
	link, err := ParseLink(line, nics, bound)
	must.Do(t, err)
	text := "timestamp_s,input_length\n" + strings.ReplaceAll(strings.Join(requests, "\n"), " ", ",") + "\n"
	return of(t, read(t, text, 0), Options{Cache: cache(t, "llama3.1-8b"), Move: alone, Link: link}).Load.Fit
}

// The answers are made by hand: the first transfer takes 2 s, the second waits for it.
func TestFit(t *testing.T) {
	requests := []string{"0 2000", "1 1000", "3 1000", "10 1000"}
	f := fitOf(t, second, 1, "max<1s", requests...)
	equal(t, f, &Fit{Line: second, NICs: 1, Rate: 131072000, Asked: 0.4, Waiting: 1, WaitS: 1, Queues: 1, QueueS: 1,
		Longest: Stretch{1, 1}, BehindS: 1, MeanS: 1.5, P50S: 1, P99S: 2, MaxS: 2,
		Windows: []Full{{0.1, 20, 4, 101}, {1, 2, 1, 11}, {10, 0.4, 0, 2}},
		SLO:     &SLO{Bound: "max<=1s", IsS: 2, Rate: f.SLO.Rate, NICs: 2}})
	if math.Abs(f.SLO.Rate/262144000-1) > 1e-6 { // the first one within a second
		t.Errorf("needs %v", f.SLO.Rate)
	}
	if f := fitOf(t, second, 4, "P50<=250ms", requests...); f.Waiting != 0 || f.Asked != 0.1 || f.MaxS != 0.5 || !f.SLO.Kept || f.SLO.NICs != 4 {
		t.Errorf("%+v %+v", f, f.SLO)
	}
	// Each second comes what takes two: nothing is ever made good.
	var twice []string
	for i := range 10 {
		twice = append(twice, fmt.Sprint(i, " 2000"))
	}
	f = fitOf(t, second, 1, "P90<=11s", twice...)
	if f.Asked != 2 || f.BehindS != 11 || f.Waiting != 9 || f.QueueS != 17 || f.Longest != (Stretch{1, 17}) || !f.SLO.Kept || f.SLO.IsS != 10 {
		t.Errorf("%+v %+v", f, f.SLO)
	}
	// All at once: one after the other.
	if f := fitOf(t, second, 1, "mean<=2s", "5 1000", "5 1000", "5 2000"); f.Asked != 0 || f.BehindS != 4 || f.MeanS != (1+2+4)/3.0 || f.Windows != nil ||
		math.Abs(f.SLO.Rate/(131072000*7/6.0)-1) > 1e-6 {
		t.Errorf("%+v %+v", f, f.SLO)
	}
}

// The rate that a bound needs keeps it, and a little less does not.
func TestNeededRate(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		var sized []trace.Request
		at := time.Duration(0)
		for range rapid.IntRange(1, 50).Draw(t, "requests") {
			sized = append(sized, trace.Request{At: at, Input: rapid.Int64Range(1e6, 1e9).Draw(t, "bytes")})
			at += time.Duration(rapid.IntRange(0, 100).Draw(t, "ms")) * time.Millisecond
		}
		b, err := parseBound(rapid.SampledFrom([]string{"P50<=10ms", "P99<=50ms", "mean<=20ms", "1s"}).Draw(t, "bound"))
		must.Do(t, err)
		rate := needed(sized, b, rapid.Float64Range(1e6, 1e12).Draw(t, "rate"))
		for factor, keeps := range map[float64]bool{1: true, 1.5: true, 0.999: false} {
			if is := b.of((&Fit{Rate: rate * factor}).queue(sized)); is <= b.limit.Seconds() != keeps {
				t.Errorf("%v x %v: %v, of %v", factor, rate, is, b.limit)
			}
		}
	})
}

func TestParseLink(t *testing.T) {
	for _, c := range [][2]string{{"p99 < 50ms", "P99<=50ms"}, {"P99.9<=1s", "P99.9<=1s"}, {"2s", "max<=2s"}, {"Mean<=20ms", "mean<=20ms"}} {
		if l, err := ParseLink("400Gbit", 8, c[0]); err != nil || l.Bound.Text != c[1] || l.NIC != 50e9 {
			t.Errorf("%v: %+v, %v", c, l, err)
		}
	}
	for _, c := range []struct {
		line  string
		nics  int
		bound string
	}{{"400", 1, ""}, {"1Gbit", 1, "P0<=1s"}, {"1Gbit", 1, "P101<=1s"}, {"1Gbit", 1, "TTFT<=1s"}, {"1Gbit", 1, "P99<=50"}, {"1Gbit", 1, "P99<=-1s"}} {
		if _, err := ParseLink(c.line, c.nics, c.bound); fault.KindOf(err) != fault.Usage {
			t.Errorf("%+v: %v", c, err)
		}
	}
}
