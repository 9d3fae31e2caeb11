package report

import (
	_ "embed"
	"encoding/json"
	"fmt"
	"math"
	"strings"

	"perigee/internal/figures"
	"perigee/internal/kit/size"
	"perigee/internal/result"
)

//go:embed experts.html
var expertsHTML string

// What a page shows of values at most.
const (
	mostControls = 2000    // rows of the control plane
	mostHeats    = 1 << 16 // cells of all wait matrices together
)

// expertsView holds the figures that perigee ep has left among a result's values.
type expertsView struct {
	Planes  []planeView
	Phases  []controlView
	LeftOut string // what is not shown, in words; empty if all is
}

// planeView is a measurement of the data plane.
type planeView struct {
	Mode      string `json:"mode"`
	Entry     string `json:"entry"`
	Measured  int64  `json:"iterations"`
	Asked     int64  `json:"asked_iterations"` // 0 where all are measured
	Tokens    int64  `json:"tokens"`
	Hidden    int64  `json:"hidden"`
	TopK      int64  `json:"topk"`
	PerRank   int64  `json:"experts_per_rank"`
	Payload   string `json:"payload"`
	Routing   string `json:"routing"`
	Placement string `json:"placement"`
	Fanout    number `json:"mean_fanout"`
	Hotspot   number `json:"rank_load_max_over_mean"`
	Bytes     bases  `json:"bytes_per_rank"`
	Rate      bases  `json:"gb_per_s"`
	Latency   struct {
		Avg number `json:"avg"`
		Min number `json:"min"`
		Max number `json:"max"`
	} `json:"latency_us"`
	Slowest struct {
		P50 number `json:"p50"`
		P90 number `json:"p90"`
		P99 number `json:"p99"`
	} `json:"slowest_us"`
	Shares struct {
		Quantise number `json:"quantise"`
		Stage    number `json:"stage"`
		Own      number `json:"own"`
		Wait     number `json:"wait"`
		Pack     number `json:"pack"`
		Reduce   number `json:"reduce"`
	} `json:"shares"`
	Waits   map[string][][]number `json:"waits_us"`
	Verdict string                `json:"verdict"`

	Heats []heat `json:"-"`
}

type bases struct {
	Assignment number `json:"assignment"`
	Rank       number `json:"rank"`
	Remote     number `json:"remote"`
	Wire       number `json:"wire"`
}

// controlView is a measurement of the control plane.
type controlView struct {
	Test    string `json:"test"`
	Ranks   int    `json:"ranks"`
	PerRank int64  `json:"experts_per_rank"`
	Phases  []struct {
		Phase   string `json:"phase"`
		Avg     number `json:"avg_ms"`
		Min     number `json:"min_ms"`
		Max     number `json:"max_ms"`
		Slowest number `json:"slowest_ms"`
		Rank    int    `json:"slow_rank"`
		Host    string `json:"slow_host"`
	} `json:"phases"`
}

// number is a figure of a result; null and what is missing are not known.
type number float64

// UnmarshalJSON reads a number or null.
func (n *number) UnmarshalJSON(data []byte) error {
	*n = number(math.NaN())
	if string(data) == "null" {
		return nil
	}
	return json.Unmarshal(data, (*float64)(n))
}

// Text is the number with so many decimals, a dash if it is not known.
func (n number) Text(decimals int) string {
	if math.IsNaN(float64(n)) {
		return "–"
	}
	return fmt.Sprintf("%.*f", decimals, float64(n))
}

// Percent is a share in percent, without its sign.
func (n number) Percent() string { return (100 * n).Text(1) }

// expertsOf reads what perigee ep has left. Values of other scenarios that are called the same are left out.
func expertsOf(d *result.Document) (v expertsView) {
	v = expertsView{Planes: listOf[planeView](d.Values["ep"]), Phases: listOf[controlView](d.Values["ep_control"])}
	var left []string
	if n := len(v.Planes); n > figures.MostPlanes {
		v.Planes = v.Planes[:figures.MostPlanes]
		left = append(left, fmt.Sprintf("the last %d of %d measurements of the data plane", n-figures.MostPlanes, n))
	}
	cells, undrawn := 0, 0
	for i := range v.Planes {
		p := &v.Planes[i]
		if n := p.heatCells(); cells+n > mostHeats {
			undrawn++
		} else {
			cells += n
			p.Heats = p.heats()
		}
	}
	if undrawn > 0 {
		left = append(left, fmt.Sprintf("the wait matrices of %d measurements", undrawn))
	}
	rows, all := 0, 0
	for i := range v.Phases {
		c := &v.Phases[i]
		all += len(c.Phases)
		c.Phases = c.Phases[:min(len(c.Phases), mostControls-rows)]
		rows += len(c.Phases)
	}
	if rows < all {
		left = append(left, fmt.Sprintf("the last %d of %d rows of the control plane", all-rows, all))
	}
	v.LeftOut = strings.Join(left, ", ")
	return v
}

// listOf reads a list of objects; nil where it holds anything else.
func listOf[T any](value any) (list []T) {
	data, err := json.Marshal(value)
	if err != nil || json.Unmarshal(data, &list) != nil {
		return nil
	}
	return list
}

// There reports whether there is anything to show.
func (v expertsView) There() bool { return len(v.Planes)+len(v.Phases) > 0 }

// Began says how iterations began, and of a measurement that has not come to its end how many there were.
func (p planeView) Began() string {
	if p.Asked > 0 {
		return fmt.Sprintf("%s, %d of %d iterations", p.Entry, p.Measured, p.Asked)
	}
	return p.Entry
}

// Sent is the size of what a rank sends in an iteration, by assignment.
func (p planeView) Sent() string { return size.Decimal(float64(p.Bytes.Assignment)) }

// part is a piece of the bar of an iteration's time.
type part struct {
	Name  string
	Class string
	X, W  float64
	Share string
}

// barWidth is that of the bar of parts, in units of its drawing.
const barWidth = 600.0

// Parts are the pieces of the time; the rest is transfers, and waits where they were not measured.
func (p planeView) Parts() (list []part) {
	x, rest := 0.0, 1.0
	add := func(name, class string, share float64) {
		if math.IsNaN(share) || share <= 0 {
			return
		}
		share = min(share, 1)
		list = append(list, part{name, class, x * barWidth, share * barWidth, fmt.Sprintf("%.1f %%", 100*share)})
		x += share
	}
	names := []string{"quantise", "copy to own experts", "pack", "reduce", "stage", "wait"}
	for i, s := range []number{
		p.Shares.Quantise, p.Shares.Own, p.Shares.Pack, p.Shares.Reduce, p.Shares.Stage, p.Shares.Wait,
	} {
		add(names[i], fmt.Sprintf("part-%d", i+1), float64(s))
		if !math.IsNaN(float64(s)) {
			rest -= float64(s)
		}
	}
	name := "transfers"
	if !(p.Shares.Wait > 0) {
		name = "transfers and waits"
	}
	add(name, "part-0", rest)
	return list
}

// heat is a wait matrix as it is drawn.
type heat struct {
	Operation string
	Size      float64
	Cells     []heatSquare
	Most      string
	Last      int // rank
}

type heatSquare struct {
	X, Y, Side, Opacity float64
	Title               string
}

// mostHeatRanks is how many ranks a drawn wait matrix has at most.
const mostHeatRanks = 64

// waited are the operations whose waits may be drawn, in this order.
var waited = []string{"dispatch", "combine"}

// drawn reports whether a wait matrix has a size that can be looked at.
func drawn(rows [][]number) bool { return len(rows) >= 2 && len(rows) <= mostHeatRanks }

// heatCells is how many cells the drawn wait matrices have at most.
func (p *planeView) heatCells() (n int) {
	for _, operation := range waited {
		if rows := p.Waits[operation]; drawn(rows) {
			n += len(rows) * len(rows)
		}
	}
	return n
}

// heats are the wait matrices that are small enough to draw.
func (p *planeView) heats() (list []heat) {
	for _, operation := range waited {
		if rows := p.Waits[operation]; drawn(rows) {
			list = append(list, heatOfWaits(operation, rows))
		}
	}
	return list
}

// heatOfWaits draws a matrix of waits: rows are the ranks that wait, columns those that they wait for, the darkest the
// longest wait.
func heatOfWaits(operation string, rows [][]number) heat {
	const whole = 256.0
	n := len(rows)
	side, most := whole/float64(n), 0.0
	for _, row := range rows {
		for _, w := range row {
			if !math.IsNaN(float64(w)) {
				most = max(most, float64(w))
			}
		}
	}
	h := heat{Operation: operation, Size: whole, Last: n - 1, Most: fmt.Sprintf("%.1f us", most)}
	for d, row := range rows {
		for s, w := range row {
			if s == d || s >= n || math.IsNaN(float64(w)) || most == 0 {
				continue
			}
			h.Cells = append(h.Cells, heatSquare{
				X: float64(s) * side, Y: float64(d) * side, Side: side, Opacity: 0.06 + 0.94*float64(w)/most,
				Title: fmt.Sprintf("rank %d waited %.1f us for rank %d", d, float64(w), s),
			})
		}
	}
	return h
}
