// Package judge reads what a job has left behind and says whether its figures
// can be believed. A job's exit code, its state in Slurm and a cheerful last line
// prove nothing; what counts is every level with its end line, tokens that were
// generated, requests that did not fail, and a log that is whole.
//
// [Gather] reads the folder of a job into an [Evidence]. [Judge] makes the [Verdict]
// of it, of what the configuration expects, and of how Slurm has ended the job; it
// reads nothing itself.
package judge

import (
	"fmt"
	"maps"
	"math"
	"slices"
	"strings"

	"perigee/internal/kit/cli"
	"perigee/internal/serving"
	"perigee/internal/serving/benchlog"
	"perigee/internal/serving/config"
)

// Gates are the conditions of a green case that the user can relax.
type Gates struct {
	MaxFailed      float64 `name:"max-failed" type:"number" min:"0" max:"100" default:"0" placeholder:"PERCENT" help:"How many percent of the requests may fail [0]."`
	TokenTolerance float64 `name:"token-tolerance" type:"number" min:"0" max:"100" default:"10" placeholder:"PERCENT" help:"How many percent fewer tokens than asked for may be generated [10]."`
	MissingLevels  bool    `name:"allow-missing-levels" help:"A level that is not in the log, or without its end line, does not fail the case."`
	MissingMetrics bool    `name:"allow-missing-metrics" help:"A level without one of the metrics does not fail the case."`
	Truncated      bool    `name:"allow-truncated" help:"A log that ends within a line does not fail the case."`
	UnknownTokens  bool    `name:"allow-unknown-tokens" help:"A log that does not say how many tokens were generated, or how many requests failed, does not fail the case."`
	Implausible    bool    `name:"allow-implausible" help:"Figures that contradict each other, or took no time, do not fail the case."`
}

// Expect says what a case should leave behind. Zero members are not known.
type Expect struct {
	Levels     []int // of the client
	Metrics    []string
	Custom     *config.Metrics
	MultiRound int     // prompts of a level are its concurrency times this
	Output     int     // tokens per request
	Ratio      float64 // smallest length as a share of Output
	Benchmark  bool    // a benchmark ran
	Unstreamed bool    // its answers come whole
	References []Reference
	// AccuracyLog is the name of the evaluation's log, which may hold *; "": the
	// usual ones.
	AccuracyLog string
	Bounds      []config.Reference // of figures
	Line        float64            // bytes per second of the links of a host; 0: not known
	known       bool               // a config says the above
}

// Expected returns what a case of a config should leave behind.
func Expected(c *config.Config) Expect {
	e := Expect{
		Levels: c.Concurrencies(), Metrics: benchlog.Default(c.Type), Custom: c.Metrics,
		MultiRound: rounds(c), Bounds: c.References, Output: c.Benchmark.Output, Ratio: 1,
		Unstreamed: !c.Benchmark.Streaming, Line: c.Job.Line,
		Benchmark: c.Benchmark.Enabled && c.Category != "accuracy", known: true,
	}
	if c.Benchmark.NvSA || c.UsesCommand() {
		e.Ratio = c.Benchmark.Ratio
	}
	if c.Metrics != nil && c.Metrics.Pattern != nil {
		e.Metrics = c.Metrics.Pattern.Names
	}
	if c.Category != "perf" {
		e.References = references(c.Datasets)
		e.AccuracyLog = c.AccuracyLog
	}
	return e
}

// rounds returns the number of rounds of prompts that the client of a config runs, 0 if it is not known. A command runs
// its own number, unless the config says one.
func rounds(c *config.Config) int {
	if c.UsesCommand() && c.Tree.Get("benchmark").Get("multi_round") == nil {
		return 0
	}
	return c.Benchmark.MultiRound
}

// references completes data sets with the defaults of their tests.
func references(datasets []config.Dataset) []Reference {
	var list []Reference
	for _, d := range datasets {
		r := Reference{Name: d.Name, Filter: d.Filter, Unjudged: d.Expected == nil, Test: defaultTest(d.Name)}
		set(&r.Expected, d.Expected)
		set(&r.Alpha, d.Alpha)
		set(&r.Beta, d.Beta)
		set(&r.Sigma, d.Sigma)
		set(&r.Samples, d.Samples)
		set(&r.HigherIsBetter, d.HigherIsBetter)
		list = append(list, r)
	}
	return list
}

// unjudged are the names of the data sets of which the configuration says no expected value.
func (e Expect) unjudged() (names []string) {
	for _, r := range e.References {
		if r.Unjudged {
			names = append(names, r.Name)
		}
	}
	return names
}

func set[T any](to, from *T) {
	if from != nil {
		*to = *from
	}
}

// Level is one level of a case.
type Level struct {
	Client      string             `json:"client,omitempty"` // that has printed it, as far as it is known
	Concurrency int                `json:"concurrency"`      // 0 where nothing says it
	Complete    bool               `json:"complete"`         // it has its end line, and none of the same concurrency comes later
	Metrics     map[string]float64 `json:"metrics"`          // ms; empty unless complete
	Throughput  float64            `json:"output_tok_s,omitempty"`
	PerGPU      bool               `json:"output_tok_s_per_gpu,omitempty"` // Throughput is that of a GPU
	// Latency holds what the client says of each quantity, in ms: mean, min, max, std and percentiles such as p50.
	Latency map[string]map[string]float64 `json:"latency_ms,omitempty"`
}

// The states of a case.
const (
	Passed   = "passed"
	Failed   = "failed"
	Unjudged = "unjudged" // only scores that nothing says a reference of
)

// Verdict says whether the figures of a case can be believed, and has them.
type Verdict struct {
	Levels         []Level  `json:"levels"`
	FailedRequests *int     `json:"failed_requests"` // over all levels; null where no log says it
	TotalRequests  *int     `json:"total_requests"`
	Accuracy       []Score  `json:"accuracy"`
	State          string   `json:"state"`
	Reasons        []string `json:"reasons"`            // why it is not passed
	Warnings       []string `json:"warnings,omitempty"` // what a relaxed gate let pass, and what was not judged
	Files          []string `json:"files,omitempty"`    // what was read

	Death *Death `json:"-"` // the part whose end is one of the reasons; nil for none
}

// NoFigures is the verdict on a case of which there are no figures. The reason may be of any length.
func NoFigures(reason string) *Verdict {
	return &Verdict{Levels: []Level{}, State: Failed, Reasons: []string{cli.Shortened(reason)}}
}

// Fail fails the case for a reason that stands in front: it is the cause of the others.
func (v *Verdict) Fail(format string, args ...any) {
	v.Reasons = append([]string{fmt.Sprintf(format, args...)}, v.Reasons...)
	v.State = Failed
}

// Sound reports whether nothing is wrong with the benchmark itself: an evaluation comes after it.
func (v *Verdict) Sound() bool {
	return !slices.ContainsFunc(v.Reasons, func(s string) bool {
		return !strings.HasPrefix(s, accuracyPrefix) && !strings.HasPrefix(s, "EVALUATE ")
	})
}

// Judge holds evidence against what is expected. end says how the job has ended; nil for logs of no job.
func Judge(e *Evidence, want Expect, g Gates, end *End) *Verdict {
	if want.Metrics == nil && !e.Log.Unmarked { // what a client prints by itself differs
		want.Metrics = benchlog.Default("disagg")
	}
	v := &Verdict{Levels: []Level{}, Accuracy: []Score{}, Reasons: []string{}, Files: e.Files}
	j := judge{v: v, e: e, want: want, g: g, held: map[int]bool{}, last: map[int]int{}}
	for i, l := range e.Log.Levels {
		if l.Complete {
			j.last[l.Concurrency] = i
		}
	}
	benchmark := want.Benchmark || !want.known && (len(e.Scores) == 0 || len(e.Log.Levels) > 0)
	if benchmark {
		j.levels()
		j.benchmark()
	} else if n := len(e.Log.Levels); n > 0 {
		j.warn("the benchmark in the log (%s) is neither judged nor recorded; a stress case judges both figures and accuracy",
			cli.Count(n, "level"))
	}
	j.files()
	j.rest("")
	j.accuracy()
	j.rest(accuracyPrefix)
	switch {
	case len(v.Reasons) > 0:
		v.State = Failed
	case !benchmark && len(want.unjudged()) == len(want.References):
		v.State = Unjudged
	default:
		v.State = Passed
	}
	if end != nil {
		v.end(e, *end)
	}
	return v
}

type judge struct {
	v    *Verdict
	e    *Evidence
	want Expect
	g    Gates
	held map[int]bool // the references that a figure was held against
	last map[int]int  // the last complete level of a concurrency

	moreReasons, moreWarnings int // beyond mostReasons
}

// mostReasons bounds the reasons and the warnings of a verdict: each of 10,000 levels may have some.
const mostReasons = 100

// reason fails the case, unless the gate is relaxed.
func (j *judge) reason(relaxed bool, format string, args ...any) {
	list, more := &j.v.Reasons, &j.moreReasons
	if relaxed {
		list, more = &j.v.Warnings, &j.moreWarnings
	}
	if len(*list) >= mostReasons {
		*more++
		return
	}
	text := fmt.Sprintf(format, args...)
	if rest, ok := strings.CutPrefix(text, "level 0"); ok {
		text = "the run of unknown concurrency" + rest
	}
	*list = append(*list, cli.Shortened(text))
}

func (j *judge) fail(format string, args ...any) { j.reason(false, format, args...) }

func (j *judge) warn(format string, args ...any) { j.reason(true, format, args...) }

// rest says how many reasons and warnings were left out since it was called last.
func (j *judge) rest(prefix string) {
	if j.moreReasons > 0 {
		j.v.Reasons = append(j.v.Reasons, fmt.Sprintf("%sand %d more reasons", prefix, j.moreReasons))
	}
	if j.moreWarnings > 0 {
		j.v.Warnings = append(j.v.Warnings, fmt.Sprintf("and %d more warnings", j.moreWarnings))
	}
	j.moreReasons, j.moreWarnings = 0, 0
}

// levels fills in the levels and the requests.
func (j *judge) levels() {
	for i, l := range j.e.Log.Levels {
		complete := l.Complete && !j.repeated(i)
		level := Level{Client: l.Client, Concurrency: l.Concurrency, Complete: complete, Metrics: map[string]float64{}}
		if complete {
			level.Metrics, level.Throughput, level.Latency = l.Metrics, benchlog.Or(l.OutputRate, 0), l.Latency
			level.PerGPU = l.PerGPU && l.OutputRate > 0
		}
		j.v.Levels = append(j.v.Levels, level)
	}
	if list, more := j.e.Log.Unread, j.e.Log.MoreUnread; len(list) > 0 {
		text := "the log has figures that cannot be read: " + strings.Join(list, "; ")
		if more > 0 {
			text += fmt.Sprintf("; and %d more", more)
		}
		j.warn("%s", text)
	}
	failed, total, known := 0, 0, false
	for _, l := range j.counting() {
		f, t := l.Counts()
		known = known || t >= 0
		failed += max(0, f)
		total += max(0, t)
	}
	if known {
		j.v.FailedRequests, j.v.TotalRequests = &failed, &total
	}
}

// repeated reports whether the level i of the log is there again, complete: the job was run twice. A config has each
// level once.
func (j *judge) repeated(i int) bool {
	last, isComplete := j.last[j.e.Log.Levels[i].Concurrency]
	return j.want.known && isComplete && last > i
}

// counting are the levels of the log without those that are there again.
func (j *judge) counting() (list []benchlog.Level) {
	for i, l := range j.e.Log.Levels {
		if !j.repeated(i) {
			list = append(list, l)
		}
	}
	return list
}

func (j *judge) benchmark() {
	log := j.e.Log
	if j.e.NoBenchmark != "" {
		j.fail("%s", j.e.NoBenchmark)
		return
	}
	if len(log.Levels) == 0 {
		known := strings.Join(benchlog.Clients(), ", ")
		clients := " (" + known + ")"
		text := "no level in the log: there is no line \"Benchmarking with concurrency\", and no result of a " +
			"known client"
		switch {
		case log.Other != "":
			text = "no level in the log: it is of " + log.Other + ", not a client that perigee knows (known: " + known + ")"
		case log.JSON:
			text = "the file is JSON, but holds no result of a known client" + clients
		case log.Lines == 0 && log.Whole:
			text = "the log is empty"
		case log.Warmups > 0:
			text += " counts"
		default:
			text += clients
		}
		if log.Warmups > 0 {
			text += "; the " + cli.Count(log.Warmups, "result block") +
				" outside of levels (a warm-up run) does not count"
		}
		j.fail("%s", text)
		return
	}
	j.presence()
	for _, l := range j.counting() {
		if !l.Complete && log.Unmarked {
			j.reason(j.g.MissingLevels, "level %d: its result has no end, or its run was cancelled; its figures do not count",
				l.Concurrency)
			continue
		}
		if !l.Complete {
			j.reason(j.g.MissingLevels,
				"level %d has no end line \"Benchmark with concurrency %d done\"; its figures do not count",
				l.Concurrency, l.Concurrency)
			continue
		}
		j.level(l)
	}
	for i, b := range j.want.Bounds {
		if !j.held[i] {
			j.reason(j.g.MissingLevels || j.g.MissingMetrics, "nothing was held against the reference of %s: no complete level has such a figure", b)
		}
	}
}

// presence compares the levels of the log with those of the config.
func (j *judge) presence() {
	if len(j.want.Levels) == 0 {
		return
	}
	left := slices.Clone(j.want.Levels)
	for _, l := range j.e.Log.Levels {
		if i := slices.Index(left, l.Concurrency); i >= 0 {
			left = slices.Delete(left, i, i+1)
		} else {
			j.reason(j.g.MissingLevels, "level %d is in the log more often than in the config; the last one counts",
				l.Concurrency)
		}
	}
	for _, missing := range left {
		j.reason(j.g.MissingLevels, "level %d is missing: %d of %s in the log", missing, len(j.want.Levels)-len(left),
			cli.Count(len(j.want.Levels), "level"))
	}
}

// level judges one complete level.
func (j *judge) level(l benchlog.Level) {
	missing := l.Missing(j.want.Metrics)
	if l.Unstreamed && (j.want.Unstreamed || !j.want.known) {
		missing = slices.DeleteFunc(missing, func(name string) bool { return !strings.HasSuffix(name, "_E2EL") })
	}
	if len(missing) > 0 {
		j.reason(j.g.MissingMetrics, "level %d lacks %s", l.Concurrency, strings.Join(missing, ", "))
	}
	if list := l.Unreadable(); len(list) > 0 {
		j.reason(j.g.MissingMetrics, "level %d: no figure of its %s can be read", l.Concurrency, strings.Join(list, ", "))
	}
	if j.e.Log.Unmarked && l.Client == "" {
		j.warn("level %d: the client is not known: figures that it calls otherwise are not read", l.Concurrency)
	}
	if l.PerGPU {
		j.warn("level %d: tokens per second are those of a GPU", l.Concurrency)
	}
	if j.e.Log.Unmarked && len(l.Metrics) == 0 && benchlog.Or(l.OutputRate, 0) == 0 {
		j.reason(j.g.MissingMetrics, "level %d has neither a latency nor a throughput", l.Concurrency)
	}
	custom := j.want.Custom != nil && j.want.Custom.Pattern != nil
	j.requests(l, custom)
	j.tokens(l, custom || l.HasRates())
	j.plausible(l)
	for i, b := range j.want.Bounds {
		if b.Concurrency != 0 && b.Concurrency != l.Concurrency {
			continue
		}
		value, ok := l.Metrics[b.Metric]
		if !ok {
			continue
		}
		j.held[i] = true
		if ok, bounds := b.Judge(value); !ok {
			j.fail("level %d: %s is %g, wanted %s", l.Concurrency, b.Metric, value, bounds)
		}
	}
}

func (j *judge) requests(l benchlog.Level, custom bool) {
	failed, total := l.Counts()
	if total < 0 && failed > 0 && l.Prompts > 0 { // it says that these failed, and of how many is known
		total = max(failed, l.Prompts)
	}
	// The client may print fewer than it was asked for: lost ones failed, too.
	asked := l.Concurrency * j.want.MultiRound
	// A table of AIPerf or GenAI-Perf may have rates alone; SGLang's client counts no failed requests.
	unsaid := custom || j.g.UnknownTokens || l.HasRates() || j.e.Log.Unmarked && l.Completed > 0
	switch {
	case total < 0:
	case l.Prompts > 0 && total < l.Prompts:
		j.fail("level %d: %d of %d prompts are accounted for", l.Concurrency, total, l.Prompts)
	case l.Prompts == 0 && total < asked:
		j.reason(custom || j.g.UnknownTokens, "level %d: %d of %d prompts (concurrency times benchmark.multi_round) are "+
			"accounted for", l.Concurrency, total, asked)
	case l.Prompts == 0 && asked == 0 && math.IsNaN(benchlog.Or(l.Requests, l.Failed)), failed < 0:
		j.reason(unsaid, "level %d: the log does not say how many requests failed", l.Concurrency)
	}
	switch {
	case total < 0:
		j.reason(unsaid, "level %d: the log does not say how many requests there were",
			l.Concurrency)
	case total == 0:
		j.fail("level %d: no request was made", l.Concurrency)
	case 100*float64(failed) > j.g.MaxFailed*float64(total):
		j.fail("level %d: %d of %d requests failed (%.4g %%), more than %g %%", l.Concurrency, failed, total,
			100*float64(failed)/float64(total), j.g.MaxFailed)
	case l.Completed == 0:
		j.fail("level %d: no request succeeded", l.Concurrency)
	case failed > 0:
		j.warn("level %d: %d of %d requests failed", l.Concurrency, failed, total)
	}
}

func (j *judge) tokens(l benchlog.Level, custom bool) {
	switch {
	case math.IsNaN(l.OutputTokens):
		j.reason(custom || j.g.UnknownTokens, "level %d: the log does not say how many tokens were generated",
			l.Concurrency)
		return
	case l.OutputTokens == 0 && !l.Generative():
		j.fail("level %d: no output tokens and no TTFT: not a generative benchmark (embeddings?)", l.Concurrency)
		return
	case l.OutputTokens == 0:
		j.fail("level %d: no token was generated", l.Concurrency)
		return
	}
	requests := benchlog.Or(l.Completed, l.Requests-benchlog.Or(l.Failed, 0))
	if j.want.Output == 0 || !(requests > 0) {
		return
	}
	least := requests * float64(j.want.Output) * j.want.Ratio * (1 - j.g.TokenTolerance/100)
	count, what := l.OutputTokens, "were generated"
	if l.Retokenized < count { // SGLang's client counts those that it has asked for
		count, what = l.Retokenized, "came back"
	}
	if count < least {
		j.fail("level %d: %.0f tokens %s, fewer than %.0f (%.0f requests of %d tokens, at least %g of the length, less %g %%)",
			l.Concurrency, count, what, least, requests, j.want.Output, j.want.Ratio, j.g.TokenTolerance)
	}
}

// plausible holds the figures of a level against the laws between them.
func (j *judge) plausible(l benchlog.Level) {
	contradiction := func(format string, args ...any) {
		if !j.g.Implausible {
			format += " (--allow-implausible lets it pass)"
		}
		j.reason(j.g.Implausible, "level %d: "+format, append([]any{l.Concurrency}, args...)...)
	}
	if l.Mixed != "" {
		contradiction("its result block says %s: results of several clients, or of a warm-up, may be mixed", l.Mixed)
	}
	f := l.Figures()
	f.Exact, f.Unstreamed = true, f.Unstreamed || j.want.Unstreamed
	if j.want.Output > 0 {
		f.LongestOutput = float64(j.want.Output)
		if j.want.Ratio == 1 {
			f.AskedOutput = f.LongestOutput
		}
	}
	for _, v := range f.Check() {
		if v.Law != serving.Tokens || l.OutputTokens != 0 { // which has been said
			contradiction("%s", v.Text)
		}
	}
	for _, v := range f.Unusual() {
		j.warn("level %d: %s", l.Concurrency, v.Text)
	}
	known := benchlog.All()
	for _, name := range slices.Sorted(maps.Keys(l.Metrics)) {
		if value := l.Metrics[name]; value < 0 && !slices.Contains(known, name) {
			contradiction("%s is %g", name, value)
		}
	}
}

// files judges the logs as such.
func (j *judge) files() {
	for _, f := range j.e.Cut {
		j.reason(j.g.Truncated, "%s ends within a line: %q", f.Name, f.LastLine)
	}
	for _, name := range j.e.Growing {
		j.reason(j.g.Truncated, "%s is still growing", name)
	}
}
