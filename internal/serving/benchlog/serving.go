package benchlog

import (
	"bytes"
	"math"
	"strconv"
	"strings"

	"perigee/internal/kit/lazyre"
)

// The clients whose results are known.
const (
	VLLM        = "vLLM"         // vllm bench serve, and the older benchmark_serving.py
	SGLang      = "SGLang"       // sglang.bench_serving
	TRTLLM      = "TensorRT-LLM" // its benchmark_serving
	TRTLLMBench = "trtllm-bench"
	AIPerf      = "AIPerf"
	GenAIPerf   = "GenAI-Perf"
	InferenceX  = "InferenceX" // its aggregates of vLLM's results, a point each
)

// Clients lists them.
func Clients() []string {
	return []string{VLLM, SGLang, TRTLLM, TRTLLMBench, AIPerf, GenAIPerf, InferenceX}
}

// figure describes a line with a number: its label, where the number goes, and the client that alone prints it, "" for
// several.
type figure struct{ label, field, client string }

// figures lists the lines that are read, besides latencies; a longer label stands before one that it ends with.
var figures = []figure{
	{string(failedSum), failed, ""},
	{"Failed requests:", failed, ""},
	{"Total requests:", total, TRTLLM},
	{"Successful requests:", successful, ""},
	{"Total input tokens:", input, ""},
	{"Total generated tokens:", generated, ""},
	{"Total generated tokens (retokenized):", retokenized, SGLang},
	{"Benchmark duration (s):", duration, ""},
	{"Request throughput (req/s):", requestRate, ""},
	{"Input token throughput (tok/s):", inputRate, SGLang},
	{"Output token throughput (tok/s):", outputRate, ""},
	{"Total token throughput (tok/s):", totalRate, ""},
	{"Total Token throughput (tok/s):", totalRate, ""},
	{"User throughput (tok/s):", "", TRTLLM}, // which only names the client
	{"Peak concurrent requests:", peak, ""},
	{"Concurrency:", inFlight, SGLang},
	{"Number of requests:", successful, TRTLLMBench},
	{"Number of concurrent requests:", inFlight, TRTLLMBench},
	{"Average Input Length (tokens):", meanInput, TRTLLMBench},
	{"Average Output Length (tokens):", meanOutput, TRTLLMBench},
	{"Request Throughput (req/sec):", requestRate, TRTLLMBench},
	{"Total Output Throughput (tokens/sec):", outputRate, TRTLLMBench},
	{"Total Token Throughput (tokens/sec):", totalRate, TRTLLMBench},
	{"Generation Token Throughput (tokens/sec):", "", TRTLLMBench}, // of one request, without its first token
	{"Token Throughput (tokens/sec):", outputRate, TRTLLMBench},
	{"Total Latency (ms):", duration, TRTLLMBench},
	{"Total Latency (seconds):", duration, TRTLLMBench},
	{"Benchmark Duration:", duration, AIPerf},
}

// averages are trtllm-bench's words for means, in ms.
var averages = map[string]string{
	"Average request latency (ms):":              "E2EL",
	"Average time-to-first-token [TTFT] (ms):":   "TTFT",
	"Average time-per-output-token [TPOT] (ms):": "TPOT",
	"Average time-to-first-token (ms):":          "TTFT",
	"Average inter-token latency (ms):":          "ITL",
}

// latencyLabel matches what stands before the unit: the statistic and the quantity.
var latencyLabel = lazyre.New(`(?:^|[^A-Za-z0-9])(Mean|Median|Std|Std Dev|Min|Max|P[0-9]+(?:\.[0-9]+)?) ` +
	`(TTFT|TPOT|ITL|E2EL|E2E Latency|Request Latency)$`)

// breakdown matches a line of trtllm-bench's breakdowns: "[TPOT] P50    : 12.5".
var breakdown = lazyre.New(`\[(TTFT|TPOT|Latency)\] (P[0-9]+|MINIMUM|MAXIMUM|AVERAGE) *: *(\S+)$`)

var (
	second      = []byte(" sec")
	words       = [][]byte{second, []byte(" nan"), []byte(" inf")}
	unitEnd     = []byte("):")
	concurrency = []byte("oncurrency")
	section     = []byte("= ")
	titles      = [][]byte{[]byte("DETAILS"), []byte("OVERVIEW"), []byte("STATISTICS")}
)

// isRule reports whether a line ends in a rule of =, whatever stands before it, but for the half before a title.
func isRule(line []byte) bool {
	prefix := bytes.TrimRight(line, "=")
	return len(line)-len(prefix) >= 20 && !bytes.Contains(prefix, []byte("==="))
}

// section takes a line such as "= PERFORMANCE OVERVIEW", which begins a part of trtllm-bench's report, and reports
// whether it is one.
func (m *machine) section(line []byte) bool {
	title := line[bytes.LastIndex(line, section)+len(section):]
	if !bytes.Contains(line, section) {
		return false
	}
	l := m.current()
	inside := l != nil && l.Client == TRTLLMBench
	switch string(title) {
	case "REQUEST DETAILS":
		m.beginBlock(TRTLLMBench)
	case "PERFORMANCE OVERVIEW", "STATISTICS":
		if !inside || l.RequestRate > 0 || l.Duration > 0 {
			m.beginBlock(TRTLLMBench)
		}
	case "THROUGHPUT OVERVIEW":
		if inside {
			l.totalIsOutput = true
		}
	case "DATASET DETAILS":
		if inside {
			m.endLoose(false)
		}
	default:
		return false
	}
	return true
}

// unitAt returns the offset behind the last unit of a line, such as "(ms):", or -1.
func unitAt(line []byte) int {
	end := bytes.LastIndex(line, unitEnd)
	if end < 0 {
		return -1
	}
	begin := bytes.LastIndexByte(line[:end], '(')
	if begin < 0 || units[string(line[begin+1:end])] == 0 {
		return -1
	}
	return end + len(unitEnd)
}

// figure reads a line with a figure or a count.
func (m *machine) figure(line []byte) {
	if rate, ok := after(line, traffic); ok {
		m.paced(string(rate))
		return
	}
	l := m.current()
	if l == nil {
		m.outside(line)
		return
	}
	if m.latency(l, line) {
		return
	}
	f, text := find(line)
	if f == nil || f.field == inFlight && (l.Client != f.client || l.InFlight > 0) { // what a script says, too
		return
	}
	if m.belongs(l, f) {
		m.take(l, f, text)
	}
}

// paced takes the rate at which the client offers requests: "inf" for none. Ramps and schedules have other words.
// SGLang's client writes it in the block, others before.
func (m *machine) paced(rate string) {
	if l := m.current(); l != nil && m.block != nil {
		l.Closed = rate == "inf"
	} else {
		m.unpaced = rate == "inf"
	}
}

// outside reads a line between levels and result blocks.
func (m *machine) outside(line []byte) {
	switch {
	case m.after && len(m.log.Levels) > 0:
		m.summary(line, &m.log.Levels[len(m.log.Levels)-1])
	case m.marked:
	case bytes.Contains(line, failedSum):
		if text, ok := after(line, failedSum); ok {
			n, _ := whole(text)
			m.summed = float64(n)
		}
	case len(m.blocks) > 0 && bytes.HasSuffix(line, second): // AIPerf writes it behind its tables
		last := m.blocks[len(m.blocks)-1]
		if f, text := find(line); f != nil && f.client == AIPerf && last.Client == AIPerf {
			m.take(last, f, text)
		}
	}
}

// find returns the last figure of a line. Where two lines run into each other, as tasks of srun write them, the figure
// of the second is whole.
func find(line []byte) (last *figure, text []byte) {
	for i := range figures {
		if value, ok := after(line, []byte(figures[i].label)); ok && (last == nil || len(value) < len(text)) {
			last, text = &figures[i], value
		}
	}
	return last, text
}

// belongs reports whether a figure may be of the block, and names the block's client by it.
func (m *machine) belongs(l *Level, f *figure) bool {
	if l.Client == "" && !l.other && m.block != nil {
		l.Client = VLLM
	}
	if l.Client == VLLM && (f.client == SGLang || f.client == TRTLLM) {
		l.Client = f.client
	}
	return f.client == "" || f.client == l.Client || m.open != nil && f.client != TRTLLMBench
}

// latency reads a line with a latency, and reports whether it is one.
func (m *machine) latency(l *Level, line []byte) bool {
	if l.Client == TRTLLMBench {
		return m.breakdown(l, line)
	}
	at := unitAt(line)
	if at < 0 {
		return false
	}
	begin := bytes.LastIndexByte(line[:at], '(')
	found := latencyLabel.FindSubmatch(bytes.TrimRight(line[:begin], " "))
	if found == nil {
		return false
	}
	quantity, stat := string(found[2]), statistic(string(found[1]))
	switch quantity {
	case "E2E Latency":
		if quantity = "E2EL"; m.block != nil {
			l.Client = SGLang
		}
	case "Request Latency":
		quantity = "E2EL"
	}
	if string(found[1]) == "P50" && l.Latency[quantity]["p50"] != 0 {
		return true // the median, once more
	}
	label := string(found[1]) + " " + string(found[2]) + " " + string(line[begin:at])
	m.takeLatency(l, quantity, stat, label, line[at:], units[string(line[begin+1:at-len(unitEnd)])])
	return true
}

// takeLatency gives a level a latency. One before does not stand for one that cannot be read.
func (m *machine) takeLatency(l *Level, quantity, stat, label string, text []byte, factor float64) {
	value, ok := number(text)
	if !ok || math.Abs(value*factor) > MostFigure {
		m.unread([]byte(label), "a number", bytes.TrimSpace(text))
		if !l.noNumber(quantity, stat, label, string(text)) {
			l.unreadable(quantity)
		}
		delete(l.Metrics, metric(quantity, stat))
		delete(l.Latency[quantity], stat)
		return
	}
	if name := metric(quantity, stat); name != "" {
		m.once(name, value*factor)
	}
	l.set(quantity, stat, value*factor)
}

// breakdown reads a latency of trtllm-bench.
func (m *machine) breakdown(l *Level, line []byte) bool {
	if found := breakdown.FindSubmatch(line); found != nil {
		quantity, label := string(found[1]), "["+string(found[1])+"] "+string(found[2])
		if quantity == "Latency" {
			quantity = "E2EL"
		}
		m.takeLatency(l, quantity, statistic(string(found[2])), label, found[3], 1)
		return true
	}
	for label, quantity := range averages {
		if text, ok := after(line, []byte(label)); ok {
			m.takeLatency(l, quantity, "mean", label, text, 1)
			return true
		}
	}
	return false
}

// take gives a level a figure. One before does not stand for one that cannot be read, but for a count.
func (m *machine) take(l *Level, f *figure, text []byte) {
	count, value := l.place(f.field)
	if count != nil {
		m.count(l, f, count, text)
		return
	}
	text = bytes.TrimSuffix(text, second)
	x, ok := number(text)
	if !ok {
		m.unread([]byte(f.label), "a number", text)
		l.noNumber(f.field, "", f.label, string(text))
	}
	if value != nil && !ok {
		*value = math.NaN()
	} else if value != nil {
		_, unit := splitUnit(strings.TrimSuffix(f.label, ":"))
		l.put(f.field, x, unit)
	}
}

// count gives a level a count of requests or tokens.
func (m *machine) count(l *Level, f *figure, to *float64, text []byte) {
	n, ok := whole(text)
	if !ok {
		m.unread([]byte(f.label), wantedWhole, text)
		return
	}
	if f.field == total || f.field == successful || f.field == failed {
		m.once(strings.TrimSuffix(f.label, ":"), float64(n))
	}
	if f.label == string(failedSum) {
		m.summed = float64(n)
	}
	if f.field == failed {
		n = max(n, int(Or(*to, 0)))
	}
	*to = float64(n)
}

// options are what a client's command line says of its next result block.
type options struct {
	concurrency, prompts int     // 0 where it does not say
	longest              float64 // tokens that no answer exceeds; 0 where it does not say
}

// apply gives a result block outside of levels what the command line has said. Its own lines go before.
func (o options) apply(l *Level) {
	l.Concurrency, l.asked, l.LongestOutput = o.concurrency, float64(o.prompts), o.longest
}

// bound matches the bound of requests at the same time in a client's command line, its arguments, or its result.
var bound = lazyre.New(`(?:--max-concurrency|--concurrency-range|--concurrency|\bmax_concurrency|` +
	boundLabel + `)['" =\t]*(\d+)(?:[^\d:.]|$)`)

// boundLabel matches what results call it: vLLM's "Maximum request concurrency:", SGLang's "Max request concurrency:",
// written "reqeuest" up to its version 0.4.3, and "Max Concurrency:" of a client that is not known.
const boundLabel = `\bMax(?:imum)? (?:req(?:ue|eue)st )?[cC]oncurrency:`

var labelled = lazyre.New(boundLabel)

// askedFor matches the number of requests among the arguments that vLLM's clients and those derived of it print.
var askedFor = lazyre.New(`\bnum_prompts=(\d+)`)

// lengthOf, ratioOf and randomly match how long answers may be among these arguments.
var (
	lengthOf = lazyre.New(`\brandom_output_len=(\d+)`)
	ratioOf  = lazyre.New(`\brandom_range_ratio=(\d+(?:\.\d+)?)[,)]`)
	randomly = []byte("dataset_name='random'")
)

// longestOf returns the number of tokens that no answer of random length exceeds, 0 where the arguments do not say it.
// Clients draw lengths from ratio x length to length, newer ones of vLLM up to (1 + ratio) x length.
func longestOf(arguments []byte) float64 {
	found := ratioOf.FindSubmatch(arguments)
	if found == nil || !bytes.Contains(arguments, randomly) {
		return 0
	}
	ratio, _ := strconv.ParseFloat(string(found[1]), 64)
	if ratio == 1 { // which is not one of the newer ones
		ratio = 0
	}
	return float64(firstNumber(lengthOf, arguments)) * (1 + ratio)
}

// options reads a line that may say the concurrency, and what else is asked for.
func (m *machine) options(line []byte) {
	command := bytes.Contains(line, []byte("CLI Command:"))
	m.ended = m.ended || command
	if m.marked {
		m.figure(line)
		return
	}
	namespace := bytes.Contains(line, []byte("Namespace("))
	label := labelled.Get().Find(line)
	if !namespace && !command && label == nil && !bytes.Contains(line, []byte("Running Perf Analyzer")) {
		m.figure(line)
		return
	}
	said := options{concurrency: firstNumber(bound, line)}
	if namespace {
		said.prompts, said.longest = firstNumber(askedFor, line), longestOf(line)
	}
	switch l := m.loose; {
	case command && len(m.blocks) > 0 && m.blocks[len(m.blocks)-1].Client == AIPerf: // behind its tables
		m.blocks[len(m.blocks)-1].Concurrency = said.concurrency
	case l != nil && said.concurrency > 0:
		l.Concurrency = said.concurrency
		m.nameBy(l, label)
	case l == nil && namespace:
		m.said = said
	case l == nil && said.concurrency > 0:
		m.said.concurrency = said.concurrency
	}
}

// nameBy names the client of a block by its label of the bound, which says SGLang's or that it is none of the known.
func (m *machine) nameBy(l *Level, label []byte) {
	switch {
	case bytes.HasPrefix(label, []byte("Max req")) && (l.Client == "" || l.Client == VLLM):
		l.Client = SGLang
	case bytes.EqualFold(label, []byte("Max Concurrency:")) && (l.Client == "" || l.Client == VLLM):
		l.Client, l.other = "", true
	}
}

// firstNumber returns the number that a pattern finds in a line, 0 for none.
func firstNumber(p *lazyre.Regexp, line []byte) int {
	found := p.FindSubmatch(line)
	if found == nil {
		return 0
	}
	n, _ := strconv.Atoi(string(found[1])) // 0 for one that is too large
	return n
}
