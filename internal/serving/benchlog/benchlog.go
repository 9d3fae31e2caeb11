// Package benchlog reads the log of a benchmark client: the figures of each
// level of concurrency, how many requests failed and how many tokens were
// generated.
//
// A level begins with a line
//
//	Benchmarking with concurrency C ... P prompts
//
// and is complete with
//
//	Benchmark with concurrency C done
//
// Figures outside of a level, such as those of a warm-up run, do not count, and
// neither do those of a level without its end. Each line may have any prefix
// (srun --label writes "12: "), and a carriage return ends a line like a newline
// does. In a level the figures of the last result block count, and there the last
// line of a kind. In a text without such lines each result block is a level.
//
// A result block is what a known client prints: vLLM's, SGLang's and TensorRT-LLM's
// serving benchmarks, trtllm-bench, AIPerf and GenAI-Perf. Their JSON files and
// InferenceX's aggregates are read, too: each object with results is a level.
package benchlog

import (
	"bytes"
	"fmt"
	"io"
	"math"
	"slices"
	"strconv"
	"strings"

	"perigee/internal/kit/lazyre"
	"perigee/internal/serving"
)

// Level is what the log says of one level.
type Level struct {
	// Run are its figures, as the client writes them. Its latencies and its concurrency are those below, until
	// [Level.Figures] puts them in.
	serving.Run
	Client      string // that wrote the result block, such as [VLLM]; "" where nothing says it
	Model       string // as a JSON file calls it; "" where none does
	Concurrency int    // of the client; 0 where nothing bounds it, or the log does not say
	Prompts     int    // as its first line says; 0 if it does not
	Complete    bool   // it has its end line, for this concurrency
	Metrics     map[string]float64
	// Latency holds all statistics in ms, by quantity: mean, min, max, std, p50, p99.9 and so on.
	Latency map[string]map[string]float64
	// PerGPU: the rates of tokens are those of a GPU.
	PerGPU bool

	// Mixed names a figure that the level's last result block gives with two values, such as
	// "SERVER_MEDIAN_TTFT 500 and 700": results of several clients may be mixed. Empty for nothing.
	Mixed string

	from, to              int64 // offsets of its lines in the log
	meanInput, meanOutput float64
	asked                 float64         // requests, by the client's command line; 0 where it does not say
	unread                map[string]bool // quantities of which a figure cannot be read
	other                 bool            // its client is none of the known
	totalIsOutput         bool            // older trtllm-bench latency calls generated tokens per second total ones
}

// Log holds the levels of a log.
type Log struct {
	Levels []Level
	// Warmups counts the result blocks outside of levels.
	Warmups int
	// Unmarked says that no line begins a level: each level is a result block, or an object of a JSON file.
	Unmarked bool
	JSON     bool
	Lines    int
	Whole    bool // the text ends with the end of a line
	// Other names a client that the text mentions, and whose results are not known; "" for none.
	Other string
	// Unread are the first figures that are no numbers and counts that are no whole ones, with their lines; MoreUnread
	// counts those that follow.
	Unread     []string
	MoreUnread int
	// LastLine is the end of the text if it is not whole.
	LastLine string
}

// Statistics and Quantities name the figures of a level, in the log's words.
var (
	Statistics = []string{"Mean", "Median", "P99"}
	Quantities = []string{"TTFT", "TPOT", "ITL", "E2EL"}
)

// Name returns the metric of a statistic and a quantity: SERVER_MEDIAN_TTFT.
func Name(statistic, quantity string) string {
	return "SERVER_" + string(bytes.ToUpper([]byte(statistic))) + "_" + quantity
}

// Default returns the metrics that each level of a type of test has: disagg the
// medians of TTFT and E2EL, wideep all.
func Default(testType string) []string {
	if testType == "wideep" {
		return All()
	}
	return []string{Name("Median", "TTFT"), Name("Median", "E2EL")}
}

// All lists all metrics.
func All() []string {
	var list []string
	for _, s := range Statistics {
		for _, q := range Quantities {
			list = append(list, Name(s, q))
		}
	}
	return list
}

// MaxLevels bounds the levels of a configuration. A benchmark has a few.
const MaxLevels = 10_000

// Read reads a log to its end. A JSON file is known as such where r can be rewound.
func Read(r io.Reader) (*Log, error) {
	if file, ok := r.(io.ReadSeeker); ok {
		if log, err := readJSON(file); log != nil || err != nil {
			return log, err
		}
	}
	return readText(r)
}

func readText(r io.Reader) (*Log, error) {
	m := machine{log: &Log{}, summed: math.NaN()}
	end := int64(0)
	rest, err := EachLine(r, func(at int64, line []byte) {
		m.log.Lines++
		m.at, end = at, at+int64(len(line))
		m.line(line)
	})
	last := Plain(rest)
	closed := m.open == nil && (m.loose == nil && len(m.blocks) > 0 && m.closedAt == m.at ||
		bytes.HasSuffix(bytes.TrimSpace(last), done) && bytes.Contains(last, closing))
	m.at = end
	m.abandon()
	if m.log.Whole = len(last) == 0 || closed; !m.log.Whole {
		m.log.LastLine = LastLine(rest)
	}
	m.unmarked()
	return m.log, err
}

// LastLine is the beginning of the line that a log ends within, of what EachLine returns; "" if it ends with a line.
func LastLine(rest []byte) string {
	rest = Plain(rest)
	return string(bytes.ToValidUTF8(rest[:min(len(rest), 200)], []byte("?")))
}

// sequences matches what programs write to a terminal beside text: ESC [ with digits and a letter, ESC ( with a
// character set, and Ctrl-O.
var sequences = lazyre.New(`(?s)\x1b\[[0-9;?]*[A-Za-z]|\x1b\(.|\x0f`)

// Plain is a line without what programs write to a terminal: colours, and what progress bars write, also behind the
// last line, to show the cursor again.
func Plain(line []byte) []byte {
	if bytes.IndexByte(line, '\x1b') < 0 && bytes.IndexByte(line, '\x0f') < 0 {
		return line
	}
	return sequences.Get().ReplaceAll(line, nil)
}

// machine holds the state of the reading.
type machine struct {
	log  *Log
	open *Level // nil between levels
	// after says that the last level is closed and no other result block has begun
	// since, so that totals still speak of it.
	after bool
	at    int64 // offset of the line
	// closedAt is the offset of the line that has ended the last of blocks.
	closedAt int64
	block    map[string]float64 // what the result block has said so far; nil outside of one
	// summed counts the failures that a client has summed up in the level since the last result block began, NaN if it
	// has not: TensorRT-LLM's does so before the block that they belong to.
	summed float64
	// unpaced says that the client has written that no rate bounds the requests of its next result block.
	unpaced bool

	table  table
	ended  bool     // AIPerf has written its command, which follows its tables
	marked bool     // a line has begun a level
	loose  *Level   // the result block outside of levels that is being read, until a level begins
	blocks []*Level // those before it
	said   options  // what the command line of the client says of the next block
}

var (
	opening   = []byte("Benchmarking with concurrency ")
	closing   = []byte("Benchmark with concurrency ")
	done      = []byte("done")
	prompts   = []byte("prompts")
	block     = []byte("Serving Benchmark Result")
	requests  = []byte(" requests:")
	traffic   = []byte("Traffic request rate:")
	failedSum = []byte("Total failed requests:")
)

// line takes one line.
func (m *machine) line(line []byte) {
	line = bytes.TrimRight(Plain(line), " \t\r\n")
	if len(line) == 0 || m.row(line) {
		return
	}
	last := line[len(line)-1]
	digit := '0' <= last && last <= '9'
	switch {
	case (digit || bytes.HasSuffix(line, prompts)) && bytes.Contains(line, opening):
		m.begin(line)
	case bytes.HasSuffix(line, done):
		m.close(line)
	case last == '=' && bytes.Contains(line, block):
		m.beginBlock("")
	case last == '=' && isRule(line):
		m.endBlock()
	case hasSuffix(line, titles) && m.section(line):
	case bytes.Contains(line, concurrency):
		m.options(line)
	case digit, bytes.Contains(line, requests), hasSuffix(line, words), bytes.Contains(line, unitEnd):
		m.figure(line) // which says what is no number
		m.mention(line)
	default:
		m.mention(line)
	}
}

// others are clients whose results are not known, by words of their logs: their names, and what they alone print.
var others = []struct {
	word []byte
	name string
}{
	{[]byte("evalscope"), evalScope},
	{[]byte("Benchmarking summary:"), evalScope}, {[]byte("Percentile results:"), evalScope},
	{[]byte("benchmark_serving_multi_turn"), multiTurn}, {[]byte("input_num_turns "), multiTurn},
	{[]byte("[BENCHMARK] num_samples "), oldTRTLLM}, {[]byte("seq_throughput(seq/sec)"), oldTRTLLM},
	{[]byte("[BENCHMARK] batch_size "), oldTRTLLM}, {[]byte("[BENCHMARK] model_name "), oldTRTLLM},
	{[]byte("genai-bench"), "genai-bench"}, {[]byte("guidellm"), "GuideLLM"},
}

const (
	evalScope = "EvalScope"
	multiTurn = "vLLM's multi-turn client"
	oldTRTLLM = "TensorRT-LLM's old client (gptManagerBenchmark, benchmark.py)"
)

// mention notes a client that is not known, as long as there is no result. The first one counts.
func (m *machine) mention(line []byte) {
	if m.log.Other != "" || m.marked || m.log.Warmups > 0 {
		return
	}
	for _, o := range others {
		if bytes.Contains(line, o.word) {
			m.log.Other = o.name
		}
	}
}

// beginBlock begins a client's result block. What a level has had before was a warm-up's.
func (m *machine) beginBlock(client string) {
	m.after = false
	if m.open == nil {
		m.log.Warmups++
		m.beginLoose()
		if m.loose == nil {
			return
		}
	}
	l := m.current()
	blank := NewLevel()
	blank.Concurrency, blank.Prompts, blank.from, blank.Client = l.Concurrency, l.Prompts, l.from, client
	blank.Failed = m.summed
	blank.Mixed = l.Mixed
	*l = blank
	l.Closed = m.unpaced
	m.block = map[string]float64{}
	m.summed, m.ended, m.unpaced = math.NaN(), false, false
	if m.loose != nil {
		m.said.apply(l)
	}
	m.said = options{}
}

// NewLevel returns a level of which nothing is known.
func NewLevel() Level {
	return Level{Run: serving.Unknown(), Metrics: map[string]float64{}, Latency: map[string]map[string]float64{},
		unread: map[string]bool{}}
}

// current is the level, or the result block outside of levels, that lines belong to; nil for none.
func (m *machine) current() *Level {
	if m.open != nil {
		return m.open
	}
	return m.loose
}

// beginLoose begins a result block outside of levels, which is a level in a log that has no marks.
func (m *machine) beginLoose() {
	m.endLoose(false)
	if m.marked || len(m.blocks) == MaxLevels {
		return
	}
	l := NewLevel()
	l.from = m.at
	m.loose = &l
}

// endLoose ends the result block outside of levels. trtllm-bench's report has no line that ends it.
func (m *machine) endLoose(complete bool) {
	if m.loose == nil {
		return
	}
	l := m.loose
	l.Complete, l.to = complete || l.Client == TRTLLMBench && l.Duration > 0, m.at
	if l.derive(); complete {
		m.closedAt = m.at
	}
	m.blocks, m.loose, m.block = append(m.blocks, l), nil, nil
}

// endBlock takes a rule of =, which ends the block of a serving benchmark.
func (m *machine) endBlock() {
	if m.loose != nil && m.loose.Client != TRTLLMBench {
		m.endLoose(true)
	}
}

// unmarked makes levels of the result blocks of a log that has no marks.
func (m *machine) unmarked() {
	if m.marked {
		return
	}
	m.endLoose(false)
	for _, l := range m.blocks {
		m.log.Levels = append(m.log.Levels, *l)
	}
	m.log.Unmarked, m.log.Warmups = len(m.blocks) > 0, 0
}

// begin opens a level: "Benchmarking with concurrency 4 ... 32 prompts".
func (m *machine) begin(line []byte) {
	_, rest, ok := bytes.Cut(line, opening)
	if !ok {
		return
	}
	fields := bytes.Fields(rest)
	if len(fields) == 0 {
		return
	}
	concurrency, ok := whole(fields[0])
	if !ok || concurrency < 1 {
		return
	}
	m.abandon()
	m.summed, m.marked, m.loose, m.blocks, m.table = math.NaN(), true, nil, nil, table{}
	l := NewLevel()
	l.from, l.Concurrency, l.Prompts = m.at, concurrency, promptsOf(fields)
	m.open = &l
}

// promptsOf reads the number before the word prompts; 0 where there is none, as with older clients.
func promptsOf(fields [][]byte) int {
	for i, field := range fields[1:] {
		if bytes.Equal(bytes.TrimRight(field, ",;:."), prompts) {
			count, _ := whole(fields[i])
			return count
		}
	}
	return 0
}

// close ends a level: "Benchmark with concurrency 4 done".
func (m *machine) close(line []byte) {
	_, rest, ok := bytes.Cut(line, closing)
	if !ok || m.open == nil {
		return
	}
	concurrency, ok := whole(bytes.TrimSpace(bytes.TrimSuffix(rest, done)))
	m.open.Complete = ok && concurrency == m.open.Concurrency
	m.keep(m.at + int64(len(line)))
	m.after = true
}

// abandon notes a level that has no end.
func (m *machine) abandon() {
	m.after = false
	if m.open != nil {
		m.open.Complete = false
		m.keep(m.at)
	} else {
		m.flush()
	}
}

// once notes what a result block says of something.
func (m *machine) once(what string, value float64) {
	l := m.current()
	if m.block == nil || l == nil {
		return
	}
	if before, ok := m.block[what]; ok && before != value && l.Mixed == "" {
		l.Mixed = fmt.Sprintf("%s %g and %g", what, before, value)
	}
	m.block[what] = value
}

// keep ends a level whose text ends at an offset of the log.
func (m *machine) keep(to int64) {
	m.flush()
	m.block = nil
	m.open.derive()
	m.open.to = to
	m.log.Levels = append(m.log.Levels, *m.open)
	m.open = nil
}

// summary reads the line with which a client sums up the failures of the level that is closed. They are no fewer than
// what stands in the level; other counts outside of levels are a warm-up's.
func (m *machine) summary(line []byte, l *Level) {
	value, ok := after(line, failedSum)
	if !ok {
		return
	}
	if n, ok := whole(value); ok {
		l.Failed = max(Or(l.Failed, 0), float64(n))
	} else {
		m.unread(failedSum, "a whole number", value)
	}
}

// unread notes a figure or a count of the line that cannot be read.
func (m *machine) unread(label []byte, wanted string, value []byte) {
	m.log.unread(m.log.Lines, string(label), wanted, string(value))
}

// mostUnread bounds the figures that are named as unread.
const mostUnread = 10

// unread notes a figure or a count that cannot be read.
func (l *Log) unread(line int, label, wanted, value string) {
	if len(l.Unread) == mostUnread {
		l.MoreUnread++
		return
	}
	l.Unread = append(l.Unread, fmt.Sprintf("line %d: %s wanted %s, got %.60q", line, label, wanted, value))
}

func isWord(c byte) bool {
	return c >= 'a' && c <= 'z' || c >= 'A' && c <= 'Z' || c >= '0' && c <= '9'
}

// after returns what follows a label that is not the end of a longer one.
func after(line, label []byte) ([]byte, bool) {
	at := bytes.Index(line, label)
	if at < 0 || at > 0 && isWord(line[at-1]) {
		return nil, false
	}
	return bytes.TrimSpace(line[at+len(label):]), true
}

// mostCount bounds counts, which are exact as floats.
const mostCount = 1e15

func whole(text []byte) (int, bool) {
	n, err := strconv.Atoi(string(text))
	return n, err == nil && n >= 0 && n <= mostCount
}

// Or is a figure, or another where it is not given.
func Or(figure, otherwise float64) float64 {
	if math.IsNaN(figure) {
		return otherwise
	}
	return figure
}

// noNumber notes a figure that a client gives as NaN or infinite, and reports whether it is one. The standard deviation
// of one request is honestly NaN.
func (l *Level) noNumber(quantity, stat, label, text string) bool {
	x, err := strconv.ParseFloat(strings.TrimSpace(text), 64)
	if quantity == "" || err != nil || !math.IsNaN(x) && !math.IsInf(x, 0) {
		return false
	}
	if stat == "std" {
		return true
	}
	l.NoNumbers = append(l.NoNumbers, serving.NoNumber{Quantity: quantity, Name: strings.TrimRight(label, ": "),
		Value: strings.TrimSpace(text)})
	return true
}

// unreadable notes that a figure of a quantity cannot be read; other names count for nothing.
func (l *Level) unreadable(quantity string) {
	if slices.Contains(Quantities, quantity) {
		l.unread[quantity] = true
	}
}

// Unreadable lists the latencies that stand in the log, of which no figure can be read.
func (l Level) Unreadable() (list []string) {
	for _, quantity := range Quantities {
		if l.unread[quantity] && len(l.Latency[quantity]) == 0 {
			list = append(list, quantity)
		}
	}
	return list
}

// Generative reports whether the log has times of tokens: a client of embeddings prints those of requests alone, one
// whose answers are empty prints zeros.
func (l Level) Generative() bool {
	return len(l.Latency["E2EL"]) == 0 || slices.ContainsFunc([]string{"TTFT", "TPOT", "ITL"}, func(quantity string) bool {
		return len(l.Latency[quantity]) > 0 || l.unread[quantity]
	}) || len(l.NoNumbers) > 0 || l.Unstreamed
}

// MostFigure bounds the absolute value of a figure, so that sums of two have a number.
const MostFigure = 1e300

// number reads a number of at most MostFigure.
func number(text []byte) (float64, bool) {
	x, err := strconv.ParseFloat(string(bytes.TrimSpace(text)), 64)
	return x, err == nil && math.Abs(x) <= MostFigure
}

// Counts returns how many requests of a level failed and how many there were, -1 where nothing says it. One that is
// not counted as successful failed, whatever the count of failed ones says: clients lose some.
func (l Level) Counts() (failed, total int) {
	lost, all := Or(l.Failed, -1), Or(l.Requests, -1)
	if l.Completed >= 0 {
		all = Or(l.Requests, l.Completed+max(0, lost))
		lost = max(lost, all-l.Completed)
	}
	return int(lost), int(all)
}

// HasRates reports whether the level's client writes rates where others count, and has a throughput: of tokens, or of
// requests whose first token took time.
func (l Level) HasRates() bool {
	return (l.Client == AIPerf || l.Client == GenAIPerf || l.Client == InferenceX) &&
		(l.OutputRate > 0 || l.RequestRate > 0 && l.Metrics[Name("Mean", "TTFT")] > 0)
}

// Missing lists the wanted metrics that a level lacks.
func (l Level) Missing(wanted []string) []string {
	return slices.DeleteFunc(slices.Clone(wanted), func(name string) bool { _, ok := l.Metrics[name]; return ok })
}

// Text returns the offsets of a level's text in the log, from the line that begins it to the one that ends it.
func (l Level) Text() (from, to int64) { return l.from, l.to }

// At returns the index of the level that a part of the log is in, -1 where no level has all of it.
func (l *Log) At(from, to int64) int {
	return slices.IndexFunc(l.Levels, func(level Level) bool { return level.from <= from && to <= level.to })
}

// Ended returns the index of the last level of a concurrency that has ended before an offset of the log, -1 for none.
func (l *Log) Ended(offset int64, concurrency int) int {
	for i, level := range slices.Backward(l.Levels) {
		if level.Concurrency == concurrency && level.to <= offset {
			return i
		}
	}
	return -1
}
