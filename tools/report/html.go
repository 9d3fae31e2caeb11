package report

import (
	"bytes"
	"cmp"
	_ "embed"
	"encoding/json"
	"fmt"
	"html/template"
	"io"
	"maps"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"

	"perigee/internal/figures"
	"perigee/internal/kit/cli"
	"perigee/internal/kit/page"
	"perigee/internal/kit/sheet"
	"perigee/internal/kit/size"
	"perigee/internal/kit/stats"
	"perigee/internal/kit/version"
	"perigee/internal/result"
)

var (
	//go:embed panel.html
	panelHTML string
	//go:embed report.css
	reportCSS string
	//go:embed report.js
	reportJS string
	//go:embed timeline.js
	timelineJS string
)

// mostPatterns is how many rows the table of patterns has.
const mostPatterns = 20_000

// mostRows is how many rows the tables of a result have together, mostNotes how many notes there are, and
// mostMetricRows how many rows the table of metrics has. The others bound what is said of hosts and engines.
const (
	mostRows       = 20_000
	mostNotes      = 1000
	mostMetricRows = 2000
	mostHosts      = 5000
	mostHostsNamed = 100 // of one kind of hardware
	mostParams     = 1000
)

// mostPairs is how many rows the ranking of pairs has; the heatmap has them all.
const mostPairs = 200

// mostHostPairs is how many rows the table of pairs of hosts has; the heatmap has them all.
const mostHostPairs = 1000

// panels is parsed when a page is made: the ranks of a job, which are this
// program too, make none.
var panels = sync.OnceValue(func() *template.Template {
	return template.Must(template.Must(template.New("").Funcs(template.FuncMap{
		"shareSheet": shareSheet, "scaleSheet": scaleSheet, "requestSheet": requestSheet, "planeSheet": planeSheet,
		"blockSheet": blockSheet, "patternSheet": patternSheet, "latencySheet": latencySheet,
		"metricSheet": metricSheet, "hostPairSheet": hostPairSheet, "thresholdSheet": thresholdSheet,
		"sheets":   func(f *figures.Figures) []*sheet.Sheet { return sheetsOf(f, mostMoved) },
		"load":     size.Rate[float64],
		"bytes":    func(n int64) string { return size.Decimal(n) },
		"dur":      durationText,
		"ratio":    ratioText,
		"rate":     rateText,
		"value":    valueText,
		"violated": violated,
	}).Parse(panelHTML)).Parse(expertsHTML + sharesHTML + movedHTML + replayHTML))
})

// The figures of tables; valueText is for sorting.
var (
	durationText = orElse("–", figures.Duration)
	ratioText    = orElse("–", func(n figures.Num) string { return fmt.Sprintf("%.2f×", float64(n)) })
	rateText     = orElse("–", size.Rate[figures.Num])
	valueText    = orElse("", func(n figures.Num) string { return fmt.Sprintf("%g", float64(n)) })
)

// orElse writes figures by text, and missing where one is not known.
func orElse(missing string, text func(figures.Num) string) func(figures.Num) string {
	return func(n figures.Num) string {
		if !n.Known() {
			return missing
		}
		return text(n)
	}
}

func sleepsText(pauses [2]figures.Num) string {
	if pauses == [2]figures.Num{} {
		return "–"
	}
	return durationText(pauses[0]) + " / " + durationText(pauses[1])
}

func verdict(t result.Threshold) string {
	switch {
	case t.Passed == nil:
		return "not judged"
	case *t.Passed:
		return "passed"
	}
	return "violated"
}

// whyViolated is what is known of a violation beside its value.
func whyViolated(t result.Threshold) string {
	if verdict(t) != "violated" {
		return ""
	}
	return t.Note
}

// violated counts the thresholds that are.
func violated(d *result.Document) (n int) {
	for _, t := range d.Thresholds {
		if verdict(t) == "violated" {
			n++
		}
	}
	return n
}

// violatedFirst puts the thresholds first that are violated, and those last that passed.
func violatedFirst(list []result.Threshold) []result.Threshold {
	list = slices.Clone(list)
	slices.SortStableFunc(list, func(a, b result.Threshold) int { return cmp.Compare(verdict(b), verdict(a)) })
	return list
}

func measuredText(t result.Threshold) string {
	switch {
	case t.Found != "":
		return t.Found
	case t.Value == nil:
		return "–"
	}
	return strconv.FormatFloat(*t.Value, 'g', 6, 64)
}

// writeHTML writes one page for all results.
func writeHTML(w io.Writer, list []input) error {
	p := page.Page{
		Title: title(list), Generator: "perigee " + version.Get().Version,
		Styles: []string{reportCSS}, Scripts: []string{timelineJS, reportJS},
	}
	var views []*view
	for i, in := range list {
		v := newView(fmt.Sprintf("r%d", i), in)
		views = append(views, v)
		p.Data = append(p.Data, page.Data{ID: v.ID, Value: dataOf(in.figures)})
	}
	for _, s := range []struct {
		id, title string
		there     bool
	}{
		{"summary", "Summary", true}, {"replay", "Replay", views[0].F.Replay != nil},
		{"thresholds", "Thresholds", len(views[0].D.Thresholds) > 0},
		{"metrics", "Metrics", views[0].MetricsFirst}, {"experts", "Experts", views[0].Experts.There()},
		{"table", "Table", len(views[0].Tables) > 0}, {"blocks", "Blocks", len(views[0].F.Blocks.List) > 0},
		{"timeline", "Timeline", views[0].HasSpans},
		{"patterns", "Patterns", views[0].Patterned}, {"matrix", "Matrix", len(views[0].F.Pairs) > 0},
		{"slowdown", "Slowdown", len(views[0].Worst) > 0}, {"latency", "Latency", len(views[0].F.Latencies) > 0},
		{"moved", "Path", len(sheetsOf(views[0].F, mostMoved)) > 0}, {"ranks", "Ranks", true}, {"run", "The run", true},
	} {
		if s.there {
			p.Sections = append(p.Sections, page.Section{ID: views[0].ID + "-" + s.id, Title: s.title})
		}
	}
	return p.WriteWith(w, panels().Lookup("page"), struct {
		Panels  []*view
		Between string
	}{views, between(list)})
}

func title(list []input) string {
	if len(list) > 1 {
		return fmt.Sprintf("%d results - perigee", len(list))
	}
	return cmp.Or(list[0].figures.Document.Title, list[0].label) + " - perigee"
}

// named is a name and a value.
type named struct{ Name, Value string }

// view is a result as the page shows it.
type view struct {
	ID    string
	Label string
	D     *result.Document
	F     *figures.Figures

	OfRequests                  bool // the patterns are the traffic of requests whose tokens are known
	Complete                    bool
	Invalid                     bool // a replay whose posts came too late
	Scenario, Started, Took     string
	HostSummary, PatternSummary string
	Engine, EngineDetail        string
	Clocks, ClockDetail         string
	Tables                      []tableView
	Notes                       []string
	BestBandwidth               string
	HasSpans, HasLatencies      bool
	Patterned                   bool // there are patterns, and figures of them
	Patterns                    []figures.PatternFigures
	Worst                       []figures.Pair
	WorstOf                     int
	Hosts                       []hostView
	HostNames                   []string
	HostPairs                   []figures.HostPair
	HostPairsOf                 int
	Hardware                    []result.HostGroup
	Params, Options             []named
	ParamsOf                    int
	Command, Values             string
	Phases                      []phaseView
	Metrics                     []metricView
	MetricsOf                   int
	MetricsFirst                bool // they are the result's first figures
	Experts                     expertsView
}

// metricView sums up a metric that the scenario kept.
type metricView struct {
	Name, Help, Min, Median, P90, P99, Max string
	Count                                  int
}

// metricViews has the first rows of metrics, one for each set of labels; of is how many there are. What a metric is
// stands in its first row.
func metricViews(list []result.Metric) (views []metricView, of int) {
	plain := func(v float64) string { return strconv.FormatFloat(v, 'g', 6, 64) }
	for _, m := range list {
		groups := m.Groups()
		of += len(groups)
		for i, g := range groups[:min(len(groups), mostMetricRows-len(views))] {
			v := metricView{Name: m.Name + g.Labels.String(), Count: len(g.Values),
				Min: "–", Median: "–", P90: "–", P99: "–", Max: "–"}
			if i == 0 {
				v.Help = m.Help
			}
			if len(g.Values) > 0 {
				sorted := slices.Sorted(slices.Values(g.Values))
				at := func(q float64) string { return plain(stats.Quantile(sorted, q)) }
				v.Min, v.Median, v.Max = at(0), at(0.5), at(1)
				if len(sorted) >= 10 { // of fewer it is the largest value, or nearly
					v.P90 = at(0.9)
				}
				if len(sorted) >= 100 {
					v.P99 = at(0.99)
				}
			}
			views = append(views, v)
		}
	}
	return views, of
}

type hostView struct {
	Name, Ranks                string
	CPUs                       int
	Offset, Uncertainty, Drift string
}

type phaseView struct{ Name, After, Took string }

func newView(id string, in input) *view {
	d, f := in.figures.Document, in.figures
	v := &view{
		ID: id, Label: in.label, D: d, F: f, Complete: d.Status == result.Complete,
		Invalid:  f.Replay != nil && f.Replay.Lateness.Posts > 0 && !f.Replay.Lateness.Valid,
		Scenario: strings.TrimSuffix(d.Scenario.Name, ".lua"), Started: d.Started.Format("2006-01-02 15:04:05 MST"),
		HasSpans: len(f.Timeline.Spans) > 0, HostNames: f.HostNames(), Command: cli.CommandLine(d.Command),
	}
	if d.Finished != nil {
		v.Took = d.Finished.Sub(d.Started).Round(10 * time.Millisecond).String()
	}
	v.OfRequests = ofRequests(f.Patterns)
	v.HostSummary = hostSummary(d.World)
	var best figures.Num
	for _, b := range f.Blocks.List {
		best = max(best, b.Bandwidth)
	}
	if best > 0 {
		v.BestBandwidth = rateText(best)
	}
	v.Patterns = f.Patterns[:min(len(f.Patterns), mostPatterns)]
	v.describePatterns()
	v.Patterned = len(f.Patterns) > 0 && (f.Runs > 0 || f.Replay == nil) &&
		(v.HasLatencies || d.Values["ep_beside"] == nil)
	v.describeEngine()
	v.describeClocks()
	rows := mostRows
	for i, t := range d.Tables {
		v.Tables = append(v.Tables, newTable(t, i, len(d.Tables), len(d.Patterns), rows))
		rows -= v.Tables[i].Len()
	}
	v.Notes = d.Notes[:min(len(d.Notes), mostNotes)]
	worst := f.Worst()
	v.WorstOf, v.Worst = len(worst), worst[:min(len(worst), mostPairs)]
	if len(d.World.Hosts) > 1 {
		v.HostPairs, v.HostPairsOf = busiest(f.HostPairs), len(f.HostPairs)
	}
	v.describeHosts()
	v.Options = plainOptions(d.Scenario.Options)
	v.Values = valuesText(d.Values)
	v.Metrics, v.MetricsOf = metricViews(d.Metrics)
	v.MetricsFirst = len(f.OwnMetrics()) > 0
	v.Experts = expertsOf(d)
	if f.Replay != nil && f.Shipped() {
		v.Tables = nil // the section on the replay has them
	}
	for i := range v.Tables { // the section on experts has their figures, but for those beside other traffic
		v.Tables[i].Folded = v.Tables[i].Folded || v.Experts.There() && d.Values["ep_beside"] == nil
	}
	v.describePhases()
	return v
}

// busiest are the pairs of hosts that a page shows: all, or those with the most bytes.
func busiest(list []figures.HostPair) []figures.HostPair {
	if len(list) <= mostHostPairs {
		return list
	}
	list = slices.Clone(list)
	slices.SortStableFunc(list, func(a, b figures.HostPair) int { return cmp.Compare(b.Bytes, a.Bytes) })
	return list[:mostHostPairs]
}

// mostValues is the most text of the values that a page shows.
const mostValues = 4 << 20

// valuesText shows the values of a result, on separate lines unless that takes too much.
func valuesText(values map[string]any) string {
	if len(values) == 0 {
		return ""
	}
	text, err := json.Marshal(values)
	if err != nil {
		return "" // it came from JSON, so this does not happen
	}
	if len(text) > mostValues {
		return "(the values are too long for this page: perigee result cat RESULT .values prints them)"
	}
	var lines bytes.Buffer
	if err := json.Indent(&lines, text, "", "  "); err != nil || lines.Len() > mostValues {
		return string(text)
	}
	return lines.String()
}

// Way names the hosts that a pair's bytes go between.
func (v *view) Way(p figures.Pair) string {
	from, to := v.F.Ranks[p.From].Host, v.F.Ranks[p.To].Host
	if from == to {
		return "inside " + v.HostNames[from]
	}
	return v.HostNames[from] + " → " + v.HostNames[to]
}

func hostSummary(w result.World) string {
	if len(w.Hosts) == 1 {
		return "on " + w.Hosts[0].Name
	}
	return fmt.Sprintf("on %d hosts", len(w.Hosts))
}

func (v *view) describePatterns() {
	ops, mems := map[string]bool{}, map[string]bool{}
	for _, p := range v.F.Patterns {
		ops[p.Op], mems[p.Mem] = true, true
		v.HasLatencies = v.HasLatencies || p.LatencyNS.Known() || p.IsolatedNS.Known()
	}
	v.PatternSummary = strings.Join(append(slices.Sorted(maps.Keys(ops)), slices.Sorted(maps.Keys(mems))...), ", ")
}

func (v *view) describeEngine() {
	v.Engine, v.EngineDetail = "–", "nothing was prepared"
	e := v.D.Engine
	if e == nil {
		return
	}
	v.Engine, v.EngineDetail = e.Name, e.Version+", backend "+e.Backend
	settings := v.D.EngineSettings()
	keys := slices.Sorted(maps.Keys(settings))
	v.ParamsOf = len(keys)
	for _, k := range keys[:min(len(keys), mostParams)] {
		v.Params = append(v.Params, named{e.Name + " " + k, settings[k]})
	}
}

func (v *view) describeClocks() {
	var worst int64
	for _, c := range v.D.World.Clocks {
		worst = max(worst, c.UncertaintyNS)
	}
	v.Clocks, v.ClockDetail = "one", "all ranks on one host: exact"
	if len(v.D.World.Hosts) > 1 {
		v.Clocks = "± " + figures.Duration(figures.Num(worst))
		v.ClockDetail = "between hosts, at worst"
	}
}

// PairSheet is the table of pairs.
func (v *view) PairSheet() *sheet.Sheet {
	s := pairSheet(v.Worst, v.Way)
	return s.Choose(s.Headers()[:10]...) // ranks stand in the first two
}

func (v *view) describeHosts() {
	v.Hardware = v.D.World.ByHardware()
	for i, g := range v.Hardware {
		if more := len(g.Hosts) - mostHostsNamed; more > 0 {
			v.Hardware[i].Hosts = append(g.Hosts[:mostHostsNamed:mostHostsNamed], fmt.Sprintf("and %d more", more))
		}
	}
	v.Hardware = v.Hardware[:min(len(v.Hardware), mostHosts)]
	for i, h := range v.D.World.Hosts[:min(len(v.D.World.Hosts), mostHosts)] {
		host := hostView{Name: v.HostNames[i], Ranks: result.Ranges(h.Ranks), CPUs: h.CPUs, Offset: "–",
			Uncertainty: "–", Drift: "–"}
		if i < len(v.D.World.Clocks) {
			c := v.D.World.Clocks[i]
			host.Offset = signed(c.OffsetNS)
			host.Uncertainty = "± " + figures.Duration(figures.Num(c.UncertaintyNS))
			host.Drift = fmt.Sprintf("%.2f ppm", c.DriftPPM)
		}
		v.Hosts = append(v.Hosts, host)
	}
}

func signed(ns int64) string {
	if ns < 0 {
		return "−" + figures.Duration(figures.Num(-ns))
	}
	return figures.Duration(figures.Num(ns))
}

func (v *view) describePhases() {
	phases := v.D.Phases
	for i, p := range phases {
		took := "–"
		if i+1 < len(phases) {
			took = durationText(figures.Num(phases[i+1].StartNS - p.StartNS))
		}
		v.Phases = append(v.Phases, phaseView{p.Name, durationText(figures.Num(p.StartNS - phases[0].StartNS)), took})
	}
}

// plainOptions shows options by name.
func plainOptions(options map[string]any) (list []named) {
	for _, k := range slices.Sorted(maps.Keys(options)) {
		text := ""
		if data, err := json.Marshal(options[k]); err == nil {
			text = strings.Trim(string(data), `"`)
		}
		list = append(list, named{strings.ReplaceAll(k, "_", "-"), text})
	}
	return list
}
