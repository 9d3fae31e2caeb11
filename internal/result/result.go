// Package result is the document that a run leaves behind: what ran, where, with
// what, and every time that was measured. It is JSON, compressed as the file's
// name says (.json, .json.gz, .json.zst), and replaced as a whole or not at all.
//
// While a run goes on the file holds what is known so far, marked partial; so
// whatever kills the run, the last state stays readable.
package result

import (
	"slices"
	"time"

	"perigee/internal/kit/version"
	"perigee/internal/traffic/matrix"
	"perigee/internal/traffic/series"
)

// Schema is the version of the document. The number changes when a reader of
// older documents would misunderstand a newer one.
const Schema = "perigee.result/1"

const (
	// MaxMetrics bounds the metrics that a scenario declares.
	MaxMetrics = 1000
	// MaxName bounds the bytes of a name: of an engine, a phase, a pattern, a column, a metric or a label.
	// What reads results repeats it with each measurement, cell and sample that has it. The names of files, after which
	// patterns are called, are shorter.
	MaxName = 512
)

// The states of a run.
const (
	Complete = "complete"
	Partial  = "partial"
)

// Document is a result. Times named *_ns are nanoseconds on the run's common
// time line, which is the monotonic clock of rank 0's host.
type Document struct {
	Schema   string        `json:"schema"`
	Status   string        `json:"status"`
	Failure  *Failure      `json:"failure,omitempty"` // why it is partial
	Perigee  version.Build `json:"perigee"`
	Started  time.Time     `json:"started"`
	Finished *time.Time    `json:"finished,omitempty"`
	Command  []string      `json:"command"`
	Job      *Invocation   `json:"job,omitempty"`
	Scenario Scenario      `json:"scenario"`
	Title    string        `json:"title,omitempty"`    // that the user gave it
	Workload string        `json:"workload,omitempty"` // see DescribeWorkload
	Seed     uint64        `json:"seed"`
	World    World         `json:"world"`
	Engine   *Engine       `json:"engine,omitempty"` // absent if nothing was prepared
	// Environment is nil in results of earlier versions, and where no engine was opened.
	Environment *Environment `json:"environment,omitempty"`
	Notes       []string     `json:"notes,omitempty"`
	Phases      []Phase      `json:"phases"`
	// Overlaps says that the measurements hold which messages of different patterns overlapped. Without it,
	// nothing is known of that.
	Overlaps bool `json:"overlaps,omitempty"`

	Inputs       []Input        `json:"inputs,omitempty"`
	Matrices     []Matrix       `json:"matrices,omitempty"`
	Patterns     []Pattern      `json:"patterns,omitempty"`
	Totals       []*Totals      `json:"totals,omitempty"` // of each pattern in each phase, where not all runs are kept
	Measurements []Measurement  `json:"measurements,omitempty"`
	Storage      []Storage      `json:"storage,omitempty"`
	Lanes        []Lanes        `json:"lanes,omitempty"`
	Tables       []Table        `json:"tables,omitempty"`
	Values       map[string]any `json:"values,omitempty"` // what the scenario set
	Metrics      []Metric       `json:"metrics,omitempty"`
	Thresholds   []Threshold    `json:"thresholds,omitempty"`

	// What was seen beside the times. Each is nil where nothing was looked at, as in results of earlier versions.
	Paths    *Paths    `json:"path,omitempty"`
	Network  *Network  `json:"network,omitempty"`
	Accounts *Accounts `json:"accounts,omitempty"`
	Line     *Line     `json:"line,omitempty"`

	Replay *Replay `json:"replay,omitempty"` // of a serving trace

	labelKeys map[string]bool // of all metrics, and of no interest elsewhere
}

// Scenario is the script and what it was given.
type Scenario struct {
	Name    string         `json:"name"`
	SHA256  string         `json:"sha256"`
	Source  string         `json:"source"`
	Options map[string]any `json:"options"`
	Modules []Module       `json:"modules,omitempty"` // that it requires
	// Reads and Writes are the options that name files to read and to write.
	Reads  []string `json:"reads,omitempty"`
	Writes []string `json:"writes,omitempty"`
}

// Phase is a span of the run, as rank 0 saw it.
type Phase struct {
	Name    string `json:"name"`
	StartNS int64  `json:"start_ns"`
}

// Matrix is a traffic matrix. Cells holds [sender, receiver, bytes] for each
// cell that is not 0.
type Matrix struct {
	SHA256 string     `json:"sha256"`
	Ranks  int        `json:"ranks"`
	Bytes  int64      `json:"bytes"`
	File   string     `json:"file,omitempty"`
	Cells  [][3]int64 `json:"cells"`
}

// Pattern is a prepared traffic pattern.
type Pattern struct {
	Name    string `json:"name,omitempty"`
	Kind    string `json:"kind,omitempty"` // exchange; empty for a pattern
	Matrix  int    `json:"matrix"`         // index into Matrices
	Mem     string `json:"mem"`
	Op      string `json:"op"`
	Shards  int    `json:"shards"` // descriptors per message; 0 for an exchange
	Senders int    `json:"senders"`
	// Seconds that every rank of the pattern sleeps before and after its transfers.
	SleepBefore float64        `json:"sleep_before_s,omitempty"`
	SleepAfter  float64        `json:"sleep_after_s,omitempty"`
	Meet        string         `json:"meet,omitempty"` // who meets and sleeps before: initiators or all; empty: not said
	Metadata    map[string]any `json:"metadata,omitempty"`
	PatternFigures
}

// Measurement is one run of one pattern.
type Measurement struct {
	Pattern   int    `json:"pattern"` // index into Patterns
	Phase     string `json:"phase"`
	Iteration int    `json:"iteration"` // from 0, within the phase
	series.Run
	LatencyNS     int64   `json:"latency_ns"`
	MeanBandwidth float64 `json:"mean_bandwidth_bytes_per_s"`
}

// Storage is one run of one half, reading or writing, of a rank's storage operation.
type Storage struct {
	Pattern int    `json:"pattern"` // index into Patterns
	Phase   string `json:"phase"`
	series.StorageRun
}

// Lanes is one measurement of block transfers.
type Lanes struct {
	Phase string `json:"phase"`
	series.Measurement
}

// Table is a table as it was printed.
type Table struct {
	Title   string   `json:"title,omitempty"`
	Columns []string `json:"columns"`
	Rows    [][]any  `json:"rows"`
}

// MetricDef is a metric that a scenario declares.
type MetricDef struct {
	Name   string `json:"name"`
	Help   string `json:"help,omitempty"`
	Better string `json:"better,omitempty"` // lower or higher; empty if neither is
}

// Metric is a scenario's own metric and its samples.
type Metric struct {
	MetricDef
	Values  []float64 `json:"values"`
	TimesNS []int64   `json:"times_ns"` // when each was added
	// LabelSets are the different labels that samples have, Labels which of them each sample has, -1 for none. Both
	// are absent where no sample has labels.
	LabelSets []Labels `json:"label_sets,omitempty"`
	Labels    []int    `json:"labels,omitempty"`
}

// Threshold is a limit that the run was given, and what became of it.
type Threshold struct {
	Threshold string   `json:"threshold"`       // as package metric writes it
	From      string   `json:"from"`            // --threshold, or the place in the script
	Limit     *float64 `json:"limit,omitempty"` // in GB/s, where it is a part of the line or the ceiling that is known
	Value     *float64 `json:"value,omitempty"`
	Found     string   `json:"found,omitempty"` // of a threshold on the path, the transports that were used
	Samples   int      `json:"samples"`
	Passed    *bool    `json:"passed,omitempty"` // absent where it was not judged
	Note      string   `json:"note,omitempty"`   // why it passed without samples, or what the runs alone say of a violation
}

// New begins a document.
func New(command []string, scenario Scenario, seed uint64, world World, notes ...string) *Document {
	return &Document{
		Schema: Schema, Status: Partial, Perigee: version.Get(), Started: time.Now().UTC(),
		Command: command, Scenario: scenario, Seed: seed, World: world, Notes: slices.Clone(notes), Phases: []Phase{},
	}
}

// AddMatrix returns the index of a matrix, which is stored once however often
// it is added.
func (d *Document) AddMatrix(m *matrix.Matrix, file string) int {
	sum := m.Digest()
	if i := slices.IndexFunc(d.Matrices, func(o Matrix) bool { return o.SHA256 == sum }); i >= 0 {
		return i
	}
	r := Matrix{SHA256: sum, Ranks: m.Size(), Bytes: m.Total(), File: file, Cells: make([][3]int64, 0, m.Cells())}
	for i := range m.Size() {
		for _, c := range m.Row(i) {
			r.Cells = append(r.Cells, [3]int64{int64(i), int64(c.Peer), c.Bytes})
		}
	}
	d.Matrices = append(d.Matrices, r)
	return len(d.Matrices) - 1
}

// AddRuns records the runs of a pattern in a phase, after those that are there.
func (d *Document) AddRuns(pattern int, phase string, first int, runs []series.Run) {
	for i, r := range runs {
		d.Measurements = append(d.Measurements, Measure(pattern, phase, first+i, r))
	}
}

// Measure is one run of a pattern with what follows from it.
func Measure(pattern int, phase string, iteration int, r series.Run) Measurement {
	return Measurement{
		Pattern: pattern, Phase: phase, Iteration: iteration, Run: r,
		LatencyNS: r.LatencyNS(), MeanBandwidth: r.MeanBandwidth(),
	}
}

// AddStorage records runs of a pattern's storage operations. Iterations count on from those that are there.
func (d *Document) AddStorage(pattern int, phase string, runs []series.StorageRun) {
	first := 0
	for _, s := range d.Storage {
		if s.Pattern == pattern && s.Phase == phase {
			first = max(first, s.Iteration+1)
		}
	}
	for _, r := range runs {
		r.Iteration += first
		d.Storage = append(d.Storage, Storage{pattern, phase, r})
	}
}

// DeclareMetrics begins the scenario's own metrics.
func (d *Document) DeclareMetrics(list []MetricDef) {
	for _, m := range list {
		d.Metrics = append(d.Metrics, Metric{MetricDef: m, Values: []float64{}, TimesNS: []int64{}})
	}
}

// AddSample adds a value to one of the scenario's own metrics, which must be declared.
func (d *Document) AddSample(name string, value float64, timeNS int64) {
	_ = d.AddLabelled(name, nil, value, timeNS) // only labels can be too many
}

// Measured reports whether the document holds anything that the run found out.
func (d *Document) Measured() bool {
	return len(d.Measurements)+len(d.Storage)+len(d.Lanes)+len(d.Tables)+len(d.Values) > 0 || d.Replay != nil ||
		slices.ContainsFunc(d.Metrics, func(m Metric) bool { return len(m.Values) > 0 })
}

// Finish marks the document complete, or partial with the reason.
func (d *Document) Finish(failure *Failure) {
	now := time.Now().UTC()
	d.Finished = &now
	d.sumUp()
	if failure == nil {
		d.Status, d.Failure = Complete, nil
		return
	}
	d.Status, d.Failure = Partial, failure
}
