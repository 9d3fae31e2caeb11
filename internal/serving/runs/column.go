package runs

import (
	"cmp"
	"fmt"
	"math"
	"slices"
	"strconv"
	"strings"
	"time"

	"perigee/internal/kit/expr"
	"perigee/internal/kit/fault"
	"perigee/internal/kit/value"
)

// Column is one column of the table of runs.
type Column struct {
	expr.Column[*Record]
	Format   string // of a number in a table for people; "" stands for %v
	Original bool   // one of the columns of the original analysis
}

// Label is the column's name for an axis: words and unit.
func (c *Column) Label() string {
	if l, ok := labels[c.Name]; ok {
		return l
	}
	name := strings.TrimSuffix(c.Name, "_"+c.Unit)
	name = strings.ReplaceAll(name, "_", " ")
	if c.Unit == "" {
		return name
	}
	return name + " (" + c.Unit + ")"
}

// labels are the axes that the original analysis names.
var labels = map[string]string{
	"Thpt_per_User":      "Tok/s/User",
	"Thpt_per_User_TPOT": "Tok/s/User (1000 / mean TPOT)",
	"Thpt_per_GPU":       "Tok/s/GPU",
}

func number(name, unit, format string, better expr.Better, help string, of func(*Record) float64) Column {
	return Column{Format: format, Column: expr.Column[*Record]{
		Entry: expr.Entry{Name: name, Unit: unit, Better: better, Help: help},
		Of:    func(r *Record) expr.Cell { return expr.Num(of(r)) },
	}}
}

func text(name, help string, of func(*Record) string) Column {
	return cells(name, expr.Text, help, func(r *Record) expr.Cell { return expr.Words(of(r)) })
}

func cells(name string, kind expr.Kind, help string, of func(*Record) expr.Cell) Column {
	return Column{Column: expr.Column[*Record]{Entry: expr.Entry{Name: name, Help: help}, Kind: kind, Of: of}}
}

// parallelisms are the columns of a role's engines. prefix is "", "P_" or "D_".
func parallelisms(prefix string, role Role, what string) []Column {
	var columns []Column
	for _, p := range []struct {
		name, words string
		of          func(Host) float64
	}{
		{"DP", "data", func(h Host) float64 { return h.DP }},
		{"TP", "tensor", func(h Host) float64 { return h.TP }},
		{"PP", "pipeline", func(h Host) float64 { return h.PP }},
		{"EP", "expert", func(h Host) float64 { return h.EP }},
	} {
		help := p.words + " parallelism of the " + what + "; 4+8 where they differ"
		columns = append(columns, cells(prefix+p.name, expr.Number, help, func(r *Record) expr.Cell {
			var all []float64
			for _, h := range r.of(role) {
				all = append(all, p.of(h))
			}
			return expr.Mixed(all)
		}))
	}
	return append(columns, number(prefix+"Replicas", "", "", expr.Neither, "number of "+what, func(r *Record) float64 {
		var n int
		for _, h := range r.of(role) {
			n += h.count()
		}
		if n == 0 {
			return math.NaN()
		}
		return float64(n)
	}))
}

func mean(l Latency) func(*Record) float64 {
	return func(r *Record) float64 { return r.Stat(l, Mean) }
}

var latencyHelp = [Latencies]string{
	"time to first token", "time per output token after the first", "inter token latency",
	"end-to-end latency of a request",
	"time per output token, the first one included",
}

// originals are the columns of the original analysis, in its order.
func originals() []Column {
	list := []Column{
		text("Name", "engines and their parallelism: 2R TP4; 4P TP1, 1D TP4", (*Record).Name),
		text("Directory", "folder of the sweep: two levels above the report, but not above the folder that was asked for", func(r *Record) string { return r.Directory }),
		text("Model", "model that was served", func(r *Record) string { return r.Model }),
		text("GPU", "accelerator; different ones are joined by +", (*Record).GPU),
	}
	list = append(list, parallelisms("", Replica, "replicas")...)
	list = append(list, parallelisms("P_", Prefill, "prefill engines")...)
	list = append(list, parallelisms("D_", Decode, "decode engines")...)
	list = append(list,
		number("Concurrency", "", "", expr.Neither, "most requests in flight; inf for no limit",
			func(r *Record) float64 { return r.Concurrency }),
		number("ISL", "tokens", "", expr.Neither, "Mean_ISL rounded to multiples of --round-isl",
			func(r *Record) float64 { return r.ISL }),
		number("OSL", "tokens", "", expr.Neither, "Mean_OSL rounded to multiples of --round-osl",
			func(r *Record) float64 { return r.OSL }),
		text("Backend", "inference engine", func(r *Record) string { return r.Backend }),
		number("Duration", "s", "%.1f", expr.Neither, "duration of the benchmark",
			func(r *Record) float64 { return r.Duration }),
		number("Completed", "", "", expr.Neither, "requests.total of the report less Failures and Incomplete",
			(*Record).Answered),
		number("Request_Throughput", "req/s", "%.2f", expr.Higher, "requests per second",
			func(r *Record) float64 { return r.RequestRate }),
		number("Output_Token_Throughput", "tok/s", "%.2f", expr.Higher, "output tokens per second",
			func(r *Record) float64 { return r.OutputRate }),
		number("Total_Token_Throughput", "tok/s", "%.2f", expr.Higher, "input and output tokens per second",
			func(r *Record) float64 { return r.TotalRate }),
	)
	for l := range NTPOT {
		list = append(list, number("Mean_"+latencyNames[l]+"_ms", "ms", "%.2f", expr.Lower, latencyHelp[l]+", mean",
			mean(l)))
	}
	list = append(list,
		cells("Is_PD", expr.Bool, "whether prefill and decode run on different engines", func(r *Record) expr.Cell {
			c := expr.Truth(r.IsPD())
			c.Empty = len(r.Hosts) == 0
			return c
		}),
		number("Num_GPUs", "", "", expr.Lower, "sum over the engines of TP * DP * PP (v0.2: of accelerator.count)",
			(*Record).NumGPUs),
		number("Thpt_per_GPU", "tok/s/GPU", "%.2f", expr.Higher, "Output_Token_Throughput / Num_GPUs",
			(*Record).ThptPerGPU),
		number("Thpt_per_User", "tok/s/user", "%.2f", expr.Higher, "Output_Token_Throughput / Concurrency",
			(*Record).ThptPerUser),
	)
	for i := range list {
		list[i].Original = true
	}
	return list
}

// added are the columns that the original does not have.
func added() []Column {
	list := []Column{
		number("Thpt_per_User_TPOT", "tok/s/user", "%.2f", expr.Higher, "1000 / Mean_TPOT_ms",
			(*Record).ThptPerUserTPOT),
		number("Input_Token_Throughput", "tok/s", "%.2f", expr.Higher, "input tokens per second",
			func(r *Record) float64 { return r.InputRate }),
		number("Failures", "", "", expr.Lower, "requests that failed", func(r *Record) float64 { return r.Failed }),
		number("Incomplete", "", "", expr.Lower, "requests that were not finished",
			func(r *Record) float64 { return r.Unended }),
		text("Off_Front", "why the run is kept off the Pareto front: --max-failed, --allow-implausible", (*Record).whyOff),
		number("Mean_ISL", "tokens", "%.1f", expr.Neither, "input length of a request, mean",
			func(r *Record) float64 { return r.InputLength }),
		number("Mean_OSL", "tokens", "%.1f", expr.Neither, "output length of a request, mean",
			func(r *Record) float64 { return r.OutputLength }),
		number("Max_QPS", "req/s", "%.2f", expr.Neither, "requests per second that the load generator offered",
			func(r *Record) float64 { return r.Rate }),
		text("Workload_Generator", "load generator", func(r *Record) string { return r.Harness }),
		text("Start", "begin of the benchmark, UTC", func(r *Record) string {
			if r.Start.IsZero() {
				return ""
			}
			return r.Start.UTC().Format(time.RFC3339)
		}),
		text("Run", "folder that the report lies in", func(r *Record) string { return r.Folder }),
		text("File", "path of the report", func(r *Record) string { return r.File }),
		text("Schema", "version of the report", func(r *Record) string { return r.Schema }),
	}
	for l := range Latencies {
		for s := range Statistics {
			name := statisticNames[s] + "_" + latencyNames[l] + "_ms"
			if s == Mean && l != NTPOT {
				continue // among the originals
			}
			better := expr.Lower
			if s == StdDev {
				better = expr.Neither
			}
			list = append(list, number(name, "ms", "%.2f", better, latencyHelp[l]+", "+statisticNames[s],
				func(r *Record) float64 { return r.Stat(l, s) }))
		}
	}
	list = append(list, ofNotebook()...)
	return append(list,
		number("Transfer_Latency_ms", "ms", "%.3f", expr.Lower,
			"results of perigee: geometric mean over the patterns of the phase of the median of last end - first start; of block transfers, their mean latency", func(r *Record) float64 { return r.TransferMS }),
		number("Transfer_GBps", "GB/s", "%.3f", expr.Higher,
			"results of perigee: geometric mean over the patterns of the phase of the median of the initiators' mean bandwidth; of block transfers, their bandwidth", func(r *Record) float64 { return r.TransferBytes / 1e9 }),
	)
}

// ofNotebook are the columns that today's notebook of llm-d has beside those above.
func ofNotebook() []Column {
	plain := func(name, unit, help string, of func(*Record) float64) Column {
		return number(name, unit, "", expr.Neither, help, of)
	}
	const weight = "weight in the first profile of the inference scheduler; 0 if it is not used"
	const parameter = "of the prefix cache scorer: "
	return []Column{
		text("Directory_Base", "Directory", func(r *Record) string { return r.Directory }),
		text("Platform", "Backend", func(r *Record) string { return r.Backend }),
		plain("Max_Concurrency", "", "Concurrency", func(r *Record) float64 { return r.Concurrency }),
		plain("Total_Requests", "", "requests.total of the report", func(r *Record) float64 { return r.Requests }),
		plain("Target_OSL", "tokens", "output length that was asked for",
			func(r *Record) float64 { return r.Workload.TargetOSL }),
		plain("System_Prompt_Length", "tokens", "length of the prefix that prompts share",
			func(r *Record) float64 { return r.Workload.SystemPrompt }),
		plain("Question_Length", "tokens", "length of a prompt behind the shared prefix",
			func(r *Record) float64 { return r.Workload.Question }),
		plain("Groups", "", "groups of prompts that share prefixes",
			func(r *Record) float64 { return r.Workload.Groups }),
		plain("Prompts_Per_Group", "", "prompts of a group; of GuideLLM its prefix_count",
			func(r *Record) float64 { return r.Workload.PromptsPerGroup }),
		plain("KV_Cache_Scorer_Weight", "", weight, func(r *Record) float64 { return r.Scorers.KVCache }),
		plain("Queue_Scorer_Weight", "", weight, func(r *Record) float64 { return r.Scorers.Queue }),
		plain("Prefix_Cache_Scorer_Weight", "", weight, func(r *Record) float64 { return r.Scorers.Prefix }),
		plain("Prefix_Cache_Scorer_Block_Size", "", parameter+"blockSize, 16 unless given",
			func(r *Record) float64 { return r.Scorers.BlockSize }),
		plain("Prefix_Cache_Scorer_LRU_Capacity_Per_Server", "", parameter+"lruCapacityPerServer, 31250 unless given",
			func(r *Record) float64 { return r.Scorers.LRUCapacity }),
		plain("Prefix_Cache_Scorer_Max_Blocks_To_Match", "", parameter+"maxPrefixBlocksToMatch, 256 unless given",
			func(r *Record) float64 { return r.Scorers.MaxBlocks }),
		text("Prefix_Cache_Scorer_Mode", parameter+"mode, default unless given",
			func(r *Record) string { return r.Scorers.Mode }),
	}
}

var columns = append(originals(), added()...)

// Names lists the names of all columns.
func Names() (names []string) {
	for _, c := range Columns() {
		names = append(names, c.Name)
	}
	return names
}

// Columns returns all columns, those of the original analysis first.
func Columns() []*Column {
	list := make([]*Column, len(columns))
	for i := range columns {
		list[i] = &columns[i]
	}
	return list
}

// Originals are the columns of the original analysis, and Thpt_per_User_TPOT.
func Originals() []*Column {
	return slices.DeleteFunc(Columns(), func(c *Column) bool { return !c.Original && c.Name != "Thpt_per_User_TPOT" })
}

var byName = func() map[string]*Column {
	m := make(map[string]*Column, len(columns))
	for _, c := range Columns() {
		m[strings.ToLower(c.Name)] = c
	}
	return m
}()

// Find returns the column of a name, in which case does not matter. An unknown
// name is an error of the kind Usage.
func Find(name string) (*Column, error) {
	if c := byName[strings.ToLower(name)]; c != nil {
		return c, nil
	}
	meant := cmp.Or(value.Suggestion(name, Names()), statisticsOf(name))
	return nil, fault.New(fault.Usage, "there is no column %q%s", name, meant).
		WithHint("perigee sweep columns lists them")
}

// statisticsOf is "; did you mean ...?" with columns of a latency that is given without its statistic, such as TTFT.
func statisticsOf(name string) string {
	name = strings.TrimSuffix(strings.ToLower(name), "_ms")
	mean, p90 := byName["mean_"+name+"_ms"], byName["p90_"+name+"_ms"]
	if mean == nil || p90 == nil {
		return ""
	}
	return fmt.Sprintf("; did you mean %s or %s?", mean.Name, p90.Name)
}

// FindNumber is Find for a column of numbers. A column of another kind is an error of the kind Usage.
func FindNumber(name string) (*Column, error) {
	c, err := Find(name)
	if err != nil {
		return nil, err
	}
	if c.Kind != expr.Number {
		return nil, fault.New(fault.Usage, "the column %s holds %s, and a number is needed", c.Name, c.Kind)
	}
	return c, nil
}

// where is the language of conditions on runs.
var where = expr.Language[*Record]{
	What: "condition", Hint: "for example: TP >= 4 && Is_PD; perigee sweep columns lists the columns",
	Operand: "a column, a number or text", Example: "TP >= 4",
	Find: func(name string, _ bool) (*expr.Column[*Record], error) {
		c, err := Find(name)
		if err != nil {
			return nil, err
		}
		return &c.Column, nil
	},
}

// Where reads a condition on runs. Its errors are of the kind Usage.
func Where(text string) (*expr.Condition[*Record], error) { return where.Parse(text) }

// Short is a cell for people: a number that is not whole, such as a measured concurrency, has at most four digits.
func Short(c expr.Cell) expr.Cell {
	x := c.Value()
	if math.IsNaN(x) || math.IsInf(x, 0) || x == math.Trunc(x) {
		return c
	}
	x, _ = strconv.ParseFloat(strconv.FormatFloat(x, 'g', 4, 64), 64)
	return expr.Num(x)
}

// Compare orders cells of one column; empty ones come last.
func Compare(a, b expr.Cell) int {
	if a.Empty || b.Empty {
		return compareBool(a.Empty, b.Empty)
	}
	switch a.Kind {
	case expr.Text:
		return Natural(a.Text, b.Text)
	case expr.Bool:
		return compareBool(a.Bool, b.Bool)
	}
	return slices.Compare(a.Nums, b.Nums)
}

func compareBool(a, b bool) int {
	switch {
	case a == b:
		return 0
	case b:
		return -1
	}
	return 1
}
