package plot

import (
	"bytes"
	"encoding/xml"
	"errors"
	"fmt"
	"io"
	"math"
	"math/rand/v2"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"
	"unicode/utf8"

	"github.com/google/go-cmp/cmp"
	"gonum.org/v1/plot/vg"
	"pgregory.net/rapid"

	"perigee/internal/kit/must"
	"perigee/internal/serving/runs"
)

func find(t testing.TB, name string) *runs.Column {
	t.Helper()
	c, err := runs.Find(name)
	must.Do(t, err)
	return c
}

func options(t testing.TB) Options {
	return Options{
		X: find(t, "Thpt_per_User"), Y: find(t, "Thpt_per_GPU"), Label: find(t, "Concurrency"), SegByDir: true, ShowPD: true, ShowSA: true, Front: true,
		Width: 1200, Height: 800,
	}
}

// swept is a scenario with n runs.
func swept(n int) runs.Scenario {
	sc := runs.Scenario{Key: (&runs.Record{Model: "m", ISL: 1000, OSL: 100}).Key()}
	for i := range n {
		r := runs.New(fmt.Sprintf("f%05d", i))
		r.Directory = fmt.Sprint("/d/", i%3)
		r.Concurrency = float64(int(1) << (i % 10))
		r.OutputRate = r.Concurrency * 90 / (1 + r.Concurrency/100) * (0.7 + 0.3*rand.New(rand.NewPCG(1, uint64(i))).Float64())
		tp := float64(int(1) << (i / 10 % 4))
		r.Hosts = []runs.Host{{Role: runs.Role(i / 10 % 3), GPU: "g", TP: tp, DP: 1, PP: 1, EP: 1, GPUs: tp}}
		sc.Runs = append(sc.Runs, r)
	}
	return sc
}

// Labels never cover each other or a dot.
func TestLabelsKeepApart(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		area := vg.Rectangle{Max: vg.Point{X: 300, Y: 200}}
		var spots []spot
		for range rapid.IntRange(0, 120).Draw(t, "dots") {
			at := vg.Point{X: vg.Length(rapid.Float64Range(0, 300).Draw(t, "x")), Y: vg.Length(rapid.Float64Range(0, 200).Draw(t, "y"))}
			spots = append(spots, spot{at: at, text: strconv.Itoa(rapid.IntRange(1, 9999).Draw(t, "text")), first: rapid.Bool().Draw(t, "first")})
		}
		labels := layout(area, spots, style(9, ink).Width)
		overlap := func(a, b vg.Rectangle) bool {
			const slack = 0.01
			return a.Min.X+slack < b.Max.X && b.Min.X+slack < a.Max.X && a.Min.Y+slack < b.Max.Y && b.Min.Y+slack < a.Max.Y
		}
		for i, a := range labels {
			for _, b := range labels[:i] {
				if overlap(a.box, b.box) {
					t.Fatalf("two labels overlap: %+v and %+v", a, b)
				}
			}
			for _, s := range spots {
				if overlap(a.box, around(s.at, 2.4)) {
					t.Fatalf("%+v covers the dot at %v", a, s.at)
				}
			}
			if a.box.Min.X < 0 || a.box.Min.Y < 0 || a.box.Max.X > 300 || a.box.Max.Y > 200 {
				t.Fatalf("%+v is outside", a)
			}
		}
		if len(spots) == 1 && len(labels) == 0 {
			t.Fatal("a lone dot has no label")
		}
	})
}

func TestStairs(t *testing.T) {
	for _, c := range []struct {
		x, y string
		want [][2]float64
	}{
		{"Thpt_per_User", "Thpt_per_GPU", [][2]float64{{1, 5}, {1, 4}, {2, 4}, {2, 1}, {3, 1}}},
		{"Mean_TTFT_ms", "Mean_E2EL_ms", [][2]float64{{1, 5}, {2, 5}, {2, 4}, {3, 4}, {3, 1}}},
	} {
		o := options(t)
		o.X, o.Y = find(t, c.x), find(t, c.y)
		p := picture{&Data{Series: []Series{{Points: []Point{{X: 2, Y: 4, Front: true}, {X: 3, Y: 1, Front: true}, {X: 9, Y: 9}, {X: 1, Y: 5, Front: true}, {X: 2, Y: 4, Front: true}}}}}, o}
		if diff := cmp.Diff(c.want, p.stairs()); diff != "" {
			t.Errorf("%s, %s (-want +got):\n%s", c.x, c.y, diff)
		}
	}
}

func TestTicks(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		lo := rapid.Float64Range(-1e6, 1e6).Draw(t, "lo")
		hi := lo + math.Exp(rapid.Float64Range(-5, 20).Draw(t, "width"))
		list := linear(lo, hi)
		if len(list) < 3 || len(list) > 12 || !slices.IsSorted(list) {
			t.Fatalf("%v to %v: %v", lo, hi, list)
		}
		low := math.Exp(rapid.Float64Range(-10, 10).Draw(t, "low"))
		high := low * math.Exp(rapid.Float64Range(0.4, 20).Draw(t, "factor"))
		if list := logarithmic(low, high); len(list) < 2 || list[0] < low*0.999 || list[len(list)-1] > high*1.001 {
			t.Fatalf("%v to %v: %v", low, high, list)
		}
	})
	var labels []string
	for _, tick := range (ticks{}).Ticks(0, 1) {
		labels = append(labels, tick.Label)
	}
	must.Equal(t, []string{"0", "0.1", "0.2", "0.3", "0.4", "0.5", "0.6", "0.7", "0.8", "0.9", "1"}, labels)
}

// A legend that is too long counts the rest instead of running out of the picture.
func TestLongLegend(t *testing.T) {
	sc := swept(600)
	o := options(t)
	o.Height = 400
	d, err := Select(sc, o)
	if err != nil || len(d.Series) != 36 {
		t.Fatal(err, len(d.Series))
	}
	var out bytes.Buffer
	must.Do(t, d.WriteSVG(&out, o))
	m := regexp.MustCompile(`and (\d+) more configurations`).FindSubmatch(out.Bytes())
	if m == nil {
		t.Fatal("nothing says that configurations are left out")
	}
	named := regexp.MustCompile(`>\d[RPD] TP\d+ in \d<`).FindAll(out.Bytes(), -1)
	if more, _ := strconv.Atoi(string(m[1])); more+len(named) != 36 {
		t.Errorf("%d configurations and %d more, of 36", len(named), more)
	}
	if !bytes.Contains(out.Bytes(), []byte(">Pareto front<")) {
		t.Error("the front is not explained")
	}
}

// BenchmarkPlot5000 draws 5,000 dots. Target: below 2 s, reading not counted.
// Words of any length are cut with few measurements, to what fits.
func TestShorten(t *testing.T) {
	calls := 0
	width := func(s string) vg.Length { calls++; return vg.Length(utf8.RuneCountInString(s)) }
	for _, c := range []struct {
		words string
		room  vg.Length
		want  string
	}{
		{"abcdef", 6, "abcdef"}, {"abcdef", 5, "abcd…"}, {"abcdef", 2, "a…"}, {"abcdef", 0, "a…"}, {"a", 0, "a"}, {"", 0, ""},
		{strings.Repeat("ä", 1<<20), 4, "äää…"}, {"a\nb\x1b", 99, `a\nb\x1b`},
	} {
		calls = 0
		if got := shorten(width, c.words, c.room); got != c.want || calls > 30 {
			t.Errorf("%.20q in %v: %q, %d measurements", c.words, c.room, got, calls)
		}
	}
}

// Figures at the end of what numbers can be have no place on an axis, which would not end; names of reports cannot
// break the picture.
func TestHostileReports(t *testing.T) {
	for _, x := range []float64{1.7e308, 5e-324, 1e300, 1e-300} {
		for _, log := range []bool{false, true} {
			sc := swept(3)
			for _, r := range sc.Runs {
				r.Model, r.Hosts[0].GPU, r.Directory = "<b>\n\x00\x1b", "<b>\n\x00\x1b", "/d/<b>\n\x00\x1b"+r.File
			}
			sc.Key = sc.Runs[0].Key()
			sc.Runs[0].OutputRate, sc.Runs[0].Concurrency = x, 1
			o := options(t)
			o.Width, o.Height, o.LogX, o.LogY, o.Label = 400, 300, log, log, find(t, "Directory")
			d, err := Select(sc, o)
			must.Do(t, err)
			if out := x > 1e300 || log && x < 1e-300; (d.Missing == 1) != out {
				t.Errorf("%g, log %v: %d runs are left out", x, log, d.Missing)
			}
			var svg, png bytes.Buffer
			must.Do(t, errors.Join(d.WriteSVG(&svg, o), d.WritePNG(&png, o)))
			for decoder := xml.NewDecoder(&svg); ; {
				if _, err := decoder.Token(); errors.Is(err, io.EOF) {
					break
				} else if err != nil {
					t.Fatal(err)
				}
			}
		}
	}
}

func BenchmarkPlot5000(b *testing.B) {
	sc := swept(5000)
	o := options(b)
	for name, write := range map[string]func(*Data, *bytes.Buffer) error{
		"png": func(d *Data, w *bytes.Buffer) error { return d.WritePNG(w, o) },
		"svg": func(d *Data, w *bytes.Buffer) error { return d.WriteSVG(w, o) },
	} {
		b.Run(name, func(b *testing.B) {
			for b.Loop() {
				d, err := Select(sc, o)
				must.Do(b, err)
				var out bytes.Buffer
				must.Do(b, write(d, &out))
			}
		})
	}
}
