package benchlog

import (
	"bufio"
	"bytes"
	"cmp"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"maps"
	"math"
	"slices"
	"strings"

	"perigee/internal/kit/jsonkeys"
)

// readJSON reads a file of JSON that a client has written, and returns nil for any other file, which it rewinds.
func readJSON(file io.ReadSeeker) (*Log, error) {
	start, err := file.Seek(0, io.SeekCurrent)
	if err != nil {
		return nil, nil // a pipe: a text
	}
	log := &Log{JSON: true, Unmarked: true, Whole: true}
	others := false // objects that are no result stand first
	d := documents{in: bufio.NewReaderSize(file, 1<<16), line: 1}
	for {
		text, line, err := d.next()
		if err == nil {
			err = log.object(text, line)
		}
		log.Lines = d.line
		others = others || len(log.Levels) == 0 && errors.Is(err, errNoResult)
		switch {
		case others && len(log.Levels) == 0 && errors.Is(err, errNoResult): // it may be a text that begins so
		case (others || d.isList) && len(log.Levels) == 0 && errors.Is(err, io.EOF):
			return log, nil
		case err == nil && len(log.Levels) > MaxLevels:
			return nil, fmt.Errorf("line %d: wanted at most %d results", line, MaxLevels)
		case err == nil:
		case errors.Is(err, errTwice):
			return nil, err
		case len(log.Levels) == 0:
			_, err = file.Seek(start, io.SeekStart)
			return nil, err
		case errors.Is(err, io.EOF):
			return log, nil
		case errors.Is(err, io.ErrUnexpectedEOF):
			log.Whole, log.LastLine = false, LastLine(text[max(0, len(text)-80):])
			return log, nil
		default:
			return nil, err
		}
	}
}

var (
	errNoResult = errors.New("wanted the result of a known client")
	errTwice    = errors.New("wanted it once")
)

// result is an object with results.
type result struct {
	log   *Log
	text  []byte
	line  int // that it begins on
	keys  map[string]any
	outer string // the key of the object that is being read, if that is not the outermost
	level Level
}

// object reads an object with results as a level. One of no known client is an error.
func (l *Log) object(text []byte, line int) error {
	r := result{log: l, text: text, line: line, level: NewLevel()}
	decoder := json.NewDecoder(bytes.NewReader(text))
	decoder.UseNumber()
	if err := decoder.Decode(&r.keys); err != nil {
		if syntax, ok := errors.AsType[*json.SyntaxError](err); ok {
			line += bytes.Count(text[:min(int(syntax.Offset), len(text))], []byte("\n"))
		}
		return fmt.Errorf("line %d: not JSON: %w", line, err)
	}
	switch {
	case r.has("performance", "request_info"):
		r.trtllmBench()
	case r.records():
		r.aiperf()
	case r.has("completed") && (r.has("request_throughput") || r.has("output_throughput")):
		r.serving()
	case r.has("hw", "conc", "framework") && (r.has("mean_ttft") || r.has("output_tput_per_gpu")):
		r.inferenceX()
	default:
		if r.has("Number of concurrency") || r.has("Succeed requests") {
			l.Other = evalScope
		}
		return fmt.Errorf("line %d: %w", line, errNoResult)
	}
	if key, at := jsonkeys.Twice(text); key != "" {
		return fmt.Errorf("line %d: the key %.60q is there twice: %w", line+bytes.Count(text[:at], []byte("\n")), key, errTwice)
	}
	for _, key := range []string{"model", "model_name", "model_id"} {
		if name, ok := r.keys[key].(string); ok {
			r.level.Model = name
		}
	}
	r.level.Complete = r.keys["was_cancelled"] != true && r.keys["is_complete"] != false
	r.level.derive()
	l.Levels = append(l.Levels, r.level)
	return nil
}

// has reports whether an object has keys.
func (r *result) has(keys ...string) bool {
	for _, key := range keys {
		if _, ok := r.keys[key]; !ok {
			return false
		}
	}
	return true
}

// number gives what a key of an object holds, if it is a number. Null and what is not there are none. A figure that is
// none is noted by its quantity and its statistic; without a quantity it is no figure.
func (r *result) number(keys map[string]any, key, quantity, stat string, use func(float64)) {
	value, ok := keys[key]
	if !ok || value == nil {
		return
	}
	n, _ := value.(json.Number)
	x, err := n.Float64()
	switch {
	case err == nil && math.Abs(x) <= MostFigure:
		use(x)
	case !r.level.noNumber(quantity, stat, r.label(key), fmt.Sprint(value)):
		r.level.unreadable(quantity)
		r.unread(key, "a number", fmt.Sprint(value))
	}
}

// unread notes a figure that cannot be read.
func (r *result) unread(key, wanted, got string) {
	if len(r.log.Unread) == mostUnread {
		r.log.MoreUnread++
		return
	}
	at := max(0, bytes.Index(r.text, []byte(`"`+r.outer+`"`)))
	at += max(0, bytes.Index(r.text[at:], []byte(`"`+key+`"`)))
	r.log.unread(r.line+bytes.Count(r.text[:at], []byte("\n")), r.label(key), wanted, got)
}

// label is a key with that of the object that it is in.
func (r *result) label(key string) string {
	if r.outer != "" {
		return r.outer + "." + key
	}
	return key
}

// read puts the numbers of keys into the fields of the level.
func (r *result) read(keys map[string]any, unit string, fields map[string]string) {
	for _, key := range slices.Sorted(maps.Keys(fields)) {
		quantity := fields[key]
		if _, value := r.level.place(quantity); value == nil {
			quantity = "" // a count
		}
		r.number(keys, key, quantity, "", func(x float64) {
			if wanted := r.level.put(fields[key], x, unit); wanted != "" {
				r.unread(key, wanted, fmt.Sprint(keys[key]))
			}
		})
	}
}

// latencies reads an object of statistics in ms.
func (r *result) latencies(quantity string, keys map[string]any) {
	for _, word := range slices.Sorted(maps.Keys(keys)) {
		if stat := statistic(word); stat != "" {
			r.number(keys, word, quantity, stat, func(x float64) { r.level.set(quantity, stat, x) })
		}
	}
}

// within returns an object inside of an object, nil for none.
func within(keys map[string]any, path ...string) map[string]any {
	for _, key := range path {
		keys, _ = keys[key].(map[string]any)
	}
	return keys
}

// serving reads the results of vLLM's serving benchmark and of those that come from it.
func (r *result) serving() {
	l, k := &r.level, r.keys
	switch {
	case r.has("total_output_tokens_retokenized") || r.has("mean_e2e_latency_ms"):
		l.Client = SGLang
		r.read(k, "", map[string]string{"concurrency": inFlight})
	case r.has("user_throughput"):
		l.Client = TRTLLM
	default:
		l.Client = VLLM
	}
	r.read(k, "", map[string]string{
		"completed": successful, "failed": failed, "num_prompts": asked, "total_input_tokens": input,
		"total_output_tokens": generated, "total_output_tokens_retokenized": retokenized, "max_concurrency": bounded,
		"max_concurrent_requests": peak,
		"duration":                duration, "request_throughput": requestRate, "input_throughput": inputRate,
		"output_throughput": outputRate, "total_token_throughput": totalRate, "total_throughput": totalRate,
	})
	if errs, ok := k["errors"].([]any); ok && len(errs) > 0 { // of each request, empty for none
		l.asked = float64(len(errs))
	}
	r.askedOutput()
	r.offered()
	for _, key := range slices.Sorted(maps.Keys(k)) {
		stat, quantity, _ := strings.Cut(strings.TrimSuffix(key, "_ms"), "_")
		quantity, ok := map[string]string{
			"ttft": "TTFT", "tpot": "TPOT", "itl": "ITL", "e2el": "E2EL", "e2e_latency": "E2EL",
		}[quantity]
		if stat = statistic(stat); stat != "" && ok && strings.HasSuffix(key, "_ms") {
			r.number(k, key, quantity, stat, func(x float64) { l.set(quantity, stat, x) })
		}
	}
}

// inferenceX reads a point of InferenceX's aggregates: rates of tokens of a GPU, and latencies in seconds, also where
// their names still end in the client's "_ms". All answers have the same length.
func (r *result) inferenceX() {
	l := &r.level
	l.Client, l.PerGPU = InferenceX, true
	r.read(r.keys, "", map[string]string{
		"conc": bounded, "output_tput_per_gpu": outputRate, "input_tput_per_gpu": inputRate, "tput_per_gpu": totalRate,
	})
	r.number(r.keys, "osl", "", "", func(x float64) { l.AskedOutput = x })
	told := r.unitByInteractivity()
	for _, key := range slices.Sorted(maps.Keys(r.keys)) {
		name, inMs := strings.CutSuffix(key, "_ms")
		word, name, _ := strings.Cut(name, "_")
		stat, quantity := statistic(word), strings.ToUpper(name)
		if stat == "" || !slices.Contains(Quantities, quantity) {
			continue
		}
		if told == 0 && inMs {
			l.unreadable(quantity)
			r.unread(key, "a mean_intvty_ms beside it that shows whether it is in s or ms", fmt.Sprint(r.keys[key]))
			continue
		}
		unit := cmp.Or(told, 1e3)
		r.number(r.keys, key, quantity, stat, func(x float64) { l.set(quantity, stat, x*unit) })
	}
}

// unitByInteractivity returns what a latency of InferenceX's aggregates is to be multiplied with for ms, as their
// tokens per second of a user say it, which are the inverse of TPOT; 0 where nothing says it.
func (r *result) unitByInteractivity() (factor float64) {
	for _, stat := range []string{"mean", "median", "p99"} {
		for _, suffix := range []string{"", "_ms"} {
			tpot, intvty := r.plain(stat+"_tpot"+suffix), r.plain(stat+"_intvty"+suffix)
			for _, unit := range []float64{1, 1e3} {
				if math.Abs(tpot*unit*intvty/1e3-1) < 0.05 {
					return unit
				}
			}
		}
	}
	return 0
}

// plain returns the number that a key holds, 0 where it holds none.
func (r *result) plain(key string) float64 {
	n, _ := r.keys[key].(json.Number)
	x, _ := n.Float64()
	return x
}

// askedOutput takes the tokens that SGLang's client asks for: it draws lengths evenly from a share of the longest to
// that. vLLM and TensorRT-LLM do not write it.
func (r *result) askedOutput() {
	name, _ := r.keys["dataset_name"].(string)
	if r.level.Client != SGLang || !strings.HasPrefix(name, "random") {
		return
	}
	longest, share := 0.0, 0.0
	r.number(r.keys, "random_output_len", "", "", func(x float64) { longest = x })
	r.number(r.keys, "random_range_ratio", "", "", func(x float64) { share = x })
	if share >= 0 && share <= 1 {
		r.level.AskedOutput, r.level.LongestOutput = longest*(1+share)/2, longest
	}
}

// offered takes how the client has offered requests, and whether all answers of detailed JSON have the same length.
func (r *result) offered() {
	rate := fmt.Sprint(r.keys["request_rate"])
	r.level.Closed = (rate == "inf" || rate == "Infinity") && isNothing(r.keys["ramp_up_strategy"])
	lengths, _ := r.keys["output_lens"].([]any)
	r.level.SameLength = len(lengths) > 0 && float64(len(lengths)) == r.level.Completed &&
		!slices.ContainsFunc(lengths, func(n any) bool { return n != lengths[0] })
}

// isNothing reports whether a value of JSON says nothing: null, false, 0, an empty text, or what is not there.
func isNothing(value any) bool {
	switch v := value.(type) {
	case json.Number:
		x, err := v.Float64()
		return err == nil && x == 0
	case bool:
		return !v
	case string:
		return v == ""
	}
	return value == nil
}

// records finds the figures of AIPerf and GenAI-Perf, which older versions of AIPerf write one level deeper.
func (r *result) records() bool {
	if inner := within(r.keys, "records"); inner != nil {
		for key, value := range inner {
			if !r.has(key) {
				r.keys[key] = value
			}
		}
	}
	for _, key := range []string{"request_latency", "request_throughput", "output_token_throughput"} {
		if _, ok := within(r.keys, key)["unit"]; ok {
			return true
		}
	}
	return false
}

// aiperf reads the export of AIPerf or GenAI-Perf: an object with a unit and statistics for each figure.
func (r *result) aiperf() {
	l := &r.level
	l.Client = AIPerf
	config := within(r.keys, "input_config")
	if config["perf_analyzer"] != nil || config["backend"] != nil || config["subcommand"] != nil {
		l.Client = GenAIPerf
	}
	for _, key := range slices.Sorted(maps.Keys(r.keys)) {
		name, keys := strings.ReplaceAll(key, "_", " "), within(r.keys, key)
		if !isNamed(name) {
			continue
		}
		r.outer = key
		unit, _ := keys["unit"].(string)
		for _, word := range slices.Sorted(maps.Keys(keys)) {
			if stat := statistic(word); stat != "" {
				r.number(keys, word, l.figureOf(name, stat), stat, func(x float64) {
					if wanted := l.named(name, strings.ToLower(unit), stat, x); wanted != "" {
						l.unreadable(quantities[name])
						r.unread(word, wanted, fmt.Sprint(keys[word], " ", unit))
					}
				})
			}
		}
	}
	r.outer = ""
	r.errors()
	lengths := within(r.keys, "output_sequence_length")
	r.level.SameLength = lengths["std"] != nil && isNothing(lengths["std"]) ||
		lengths["min"] != nil && lengths["min"] == lengths["max"]
	r.level.Closed = config != nil && !paces(config)
	bounds := map[int]bool{}
	concurrencies(config, bounds)
	if len(bounds) == 1 {
		for l.Concurrency = range bounds {
		}
	}
}

// errors counts the requests of AIPerf's summary of errors, where no figure says how many have failed.
func (r *result) errors() {
	list, ok := r.keys["error_summary"].([]any)
	if r.level.Failed >= 0 || !ok {
		return
	}
	r.level.Failed = 0
	for _, entry := range list {
		keys, _ := entry.(map[string]any)
		r.number(keys, "count", "", "", func(x float64) { r.level.Failed += math.Trunc(max(0, min(x, 1e9))) })
	}
}

// pacing are parts of the names of what makes a client of AIPerf's kind wait before a request, or not for its answer.
var pacing = []string{"rate", "ramp", "schedule", "delay", "pause", "think", "duration", "interval", "trace", "users"}

// paces reports whether a configuration has any of that, but for warm-ups.
func paces(config any) bool {
	switch c := config.(type) {
	case []any:
		return slices.ContainsFunc(c, paces)
	case map[string]any:
		for key, value := range c {
			pace := slices.ContainsFunc(pacing, func(word string) bool { return strings.Contains(key, word) })
			if !strings.Contains(key, "warmup") && (pace && !isNothing(value) || paces(value)) {
				return true
			}
		}
	}
	return false
}

// concurrencies collects what a configuration calls concurrency, wherever it stands, but for warm-ups.
func concurrencies(config any, found map[int]bool) {
	switch c := config.(type) {
	case []any:
		for _, value := range c {
			concurrencies(value, found)
		}
	case map[string]any:
		if name, _ := c["name"].(string); strings.Contains(name, "warmup") {
			return
		}
		for key, value := range c {
			n, isNumber := value.(json.Number)
			if x, err := n.Int64(); isNumber && key == "concurrency" && err == nil && x > 0 && x < 1<<30 {
				found[int(x)] = true
			} else if !strings.Contains(key, "warmup") {
				concurrencies(value, found)
			}
		}
	}
}

// trtllmBench reads the report of trtllm-bench (--report_json).
func (r *result) trtllmBench() {
	l := &r.level
	l.Client = TRTLLMBench
	info, performance, streaming := within(r.keys, "request_info"), within(r.keys, "performance"),
		within(r.keys, "streaming_metrics")
	r.read(info, "", map[string]string{
		"num_requests": successful, "avg_num_concurrent_requests": inFlight, "avg_input_length": meanInput,
		"avg_output_length": meanOutput,
	})
	r.read(performance, "ms", map[string]string{
		"total_latency_ms": duration, "request_throughput_req_s": requestRate,
		"system_output_throughput_tok_s": outputRate, "system_total_throughput_tok_s": totalRate,
	})
	for _, part := range []struct {
		quantity, mean, percentiles string
		keys                        map[string]any
	}{
		{"E2EL", "avg_request_latency_ms", "request_latency_percentiles_ms", performance},
		{"TTFT", "avg_ttft_ms", "ttft_percentiles", streaming},
		{"TPOT", "avg_tpot_ms", "tpot_percentiles", streaming},
	} {
		r.outer = ""
		r.number(part.keys, part.mean, part.quantity, "mean", func(x float64) { l.set(part.quantity, "mean", x) })
		r.outer = part.percentiles
		r.latencies(part.quantity, within(part.keys, part.percentiles))
	}
}
