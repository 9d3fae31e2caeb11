package figures

import (
	"slices"
	"strings"
)

// Answer is what a result says first. Page, text and JSON show this one value, so they cannot contradict each
// other.
type Answer struct {
	Level    string    `json:"level"`          // as of a Finding
	Sentence string    `json:"sentence"`       // with its interval, where there is one
	Why      string    `json:"why,omitempty"`  // one line
	Path     string    `json:"path,omitempty"` // over what the bytes went, in a line
	Charts   []Chart   `json:"charts"`         // the picture; the first one is the text's, too
	Judged   []Finding `json:"judged"`         // how this was judged, and what else is to know: folded
}

// Chart is a picture of values over one axis, such as bandwidth over bytes.
type Chart struct {
	Title  string   `json:"title"`
	Wide   bool     `json:"wide,omitempty"` // it has a line of a page for itself
	X      Axis     `json:"x"`
	Y      Axis     `json:"y"`
	Series []Series `json:"series"`
	Limits []Limit  `json:"limits,omitempty"`
}

// Axis has a label and the unit of its values.
type Axis struct {
	Label string   `json:"label"`
	Unit  string   `json:"unit"`            // ns, bytes, bytes/s, ratio, or empty: a plain number
	Log   bool     `json:"log,omitempty"`   // logarithmic
	Words []string `json:"words,omitempty"` // names of the values 0, 1, ... of an axis without numbers
}

// Series is one line or one row of bars of a chart.
type Series struct {
	Name   string  `json:"name"`
	Points []Point `json:"points"` // ascending in X
}

// Point is a value with the range of what it sums up; Low and High are None where there is none.
type Point struct {
	X    Num    `json:"x"`
	Y    Num    `json:"y"`
	Low  Num    `json:"low"`
	High Num    `json:"high"`
	Name string `json:"name,omitempty"` // of what was measured, such as a request's number
}

// Limit is what the machine can do at most, such as a copy inside its memory: a value of Y, or one of each X.
type Limit struct {
	Name   string  `json:"name"`
	Points []Point `json:"points"` // one point holds for all X
}

// answerOf makes the answer of the figures, whose findings are complete.
func answerOf(f *Figures) Answer {
	a := Answer{Level: "note", Charts: []Chart{}, Judged: []Finding{}}
	if len(f.Findings) > 0 {
		first := f.Findings[0]
		a.Level, a.Sentence, a.Why, a.Judged = first.Level, first.Text, first.why, f.Findings[1:]
		a.Sentence = strings.TrimSpace(strings.TrimSuffix(a.Sentence, a.Why))
	}
	if f.Moved != nil {
		a.Path = f.Moved.Path
	}
	experts, sizes := expertsCharts(f), sizesCharts(f)
	a.Charts = append(a.Charts, replayCharts(f.Replay)...)
	a.Charts = append(a.Charts, slices.Concat(experts, blocksCharts(f), scriptCharts(f), trafficCharts(f), sizes)...)
	switch {
	case a.Why != "":
	case len(f.Blocks.List) > 0 && len(a.Judged) > 0: // from which size on the best is nearly reached
		a.Why, a.Judged = a.Judged[0].Text, a.Judged[1:]
	case len(experts) > 0:
		a.Why = expertsWhy(f)
	case len(f.OwnMetrics()) > 0:
		a.Why = waitsOf(f.Document)
	case len(sizes) > 0:
		a.Why = sizesWhy(f)
	}
	threads := f.Document.World.Size > 2 ||
		slices.ContainsFunc(f.Blocks.List, func(b Block) bool { return b.Threads > 1 })
	for i := range a.Charts { // else a limit far above would press the rest onto the axis
		if c := &a.Charts[i]; c.X.Words == nil && c.X.Unit != "ns" && c.Y.Unit == "bytes/s" {
			c.Y.Log = c.wide(func(p Point) Num { return p.Y })
		}
	}
	limited := slices.ContainsFunc(a.Charts, func(c Chart) bool { return len(c.Limits) > 0 })
	limited = limited && f.Replay == nil && len(f.Document.World.Hosts) == 1
	if threads && limited {
		a.Why = strings.TrimSpace(a.Why + " Several threads together may exceed memcpy of one.")
	}
	return a
}
