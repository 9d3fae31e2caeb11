package plot

import (
	"math"
	"strings"

	"perigee/internal/kit/cli"
	"perigee/internal/kit/expr"
	"perigee/internal/kit/fault"
	"perigee/internal/kit/plaintext"
	"perigee/internal/kit/stats"
	"perigee/internal/serving/runs"
)

// Options say what is drawn and how.
type Options struct {
	X, Y, Label *runs.Column   // Label is written at the dots; nil for none
	SegByDir    bool           // keep directories apart
	SplitBy     []*runs.Column // make a configuration beside the engines
	ShowPD      bool           // configurations with prefill and decode apart
	ShowSA      bool           // standalone configurations
	Front       bool
	SLOs        []runs.SLO
	LogX, LogY  bool
	Width       int // of the picture in pixels
	Height      int
}

// Point is a run in the picture.
type Point struct {
	Run   *runs.Record
	X, Y  float64
	Label string
	Meets bool   // all SLOs
	Off   string // why it is kept off the front; "" if it is not
	Front bool   // on the Pareto front of those that meet the SLOs
}

// Series is a configuration in the picture.
type Series struct {
	Title  string
	PD     bool
	Points []Point
}

// Data holds the points and lines of a picture.
type Data struct {
	Key     runs.Key
	Series  []Series
	Missing int // runs without one of the coordinates
	NoFront string
}

// Select works out what to draw. It fails, with the kind Input, if nothing is
// left to draw.
func Select(sc runs.Scenario, o Options) (*Data, error) {
	d := &Data{Key: sc.Key, NoFront: noFront(o)}
	var all []*Point
	configurations := runs.Configurations(sc.Runs, o.SegByDir, o.SplitBy...)
	short := runs.ShortNames(runs.Directories(sc.Runs))
	for _, c := range configurations {
		if c.PD && !o.ShowPD || !c.PD && !o.ShowSA {
			continue
		}
		if c.Directory != "" {
			c.Directory = short[c.Directory]
		}
		s := Series{Title: c.Title(), PD: c.PD}
		for _, r := range c.Runs {
			p := Point{Run: r, X: o.X.Of(r).Value(), Y: o.Y.Of(r).Value(), Meets: runs.Meets(r, o.SLOs),
				Off: strings.Join(r.OffFront, "; ")}
			if !drawable(p.X, o.LogX) || !drawable(p.Y, o.LogY) {
				d.Missing++
				continue
			}
			if o.Label != nil {
				p.Label = plaintext.Escape(runs.Short(o.Label.Of(r)).String())
			}
			s.Points = append(s.Points, p)
		}
		if len(s.Points) > 0 {
			d.Series = append(d.Series, s)
		}
	}
	for i := range d.Series {
		for k := range d.Series[i].Points {
			all = append(all, &d.Series[i].Points[k])
		}
	}
	if len(all) == 0 {
		return nil, fault.New(fault.Input, "nothing to draw: of %s, none that is asked for has both %s and %s",
			cli.Count(len(sc.Runs), "run"), o.X.Name, o.Y.Name).
			WithHint("perigee sweep table --index %d --columns Name,%s,%s shows what is there", sc.Index, o.X.Name,
				o.Y.Name)
	}
	if d.NoFront == "" {
		markFront(all, o)
	}
	return d, nil
}

// drawable reports whether a coordinate has a place on its axis, which goes somewhat further and has to end.
func drawable(x float64, log bool) bool {
	const most = 1e300
	return math.Abs(x) <= most && (!log || x >= 1/most)
}

// noFront says why there is no front, "" if there is one.
func noFront(o Options) string {
	switch {
	case !o.Front:
		return "not asked for"
	case o.X.Better == expr.Neither:
		return "neither high nor low values of " + o.X.Name + " are better"
	case o.Y.Better == expr.Neither:
		return "neither high nor low values of " + o.Y.Name + " are better"
	}
	return ""
}

// markFront finds the front among the points that meet the SLOs.
func markFront(all []*Point, o Options) {
	coordinates := make([]stats.ParetoPoint, len(all))
	for i, p := range all {
		coordinates[i] = stats.ParetoPoint{X: p.X, Y: p.Y}
		if !p.Meets || p.Off != "" {
			coordinates[i].X = math.NaN()
		}
	}
	for i, on := range stats.ParetoFront(coordinates, o.X.Better == expr.Lower, o.Y.Better == expr.Lower) {
		all[i].Front = on
	}
}
