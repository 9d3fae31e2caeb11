package runs

import (
	"math"
	"time"

	"perigee/internal/kit/conf"
)

// readV02 reads a report of the version 0.2 or 0.2.1, which differ in what is
// not read here. The published examples of the version differ among themselves:
// the kind of a component stands in its metadata or in its standardized section,
// a role is called replica or aggregate, replicas may be missing, and the rate of
// requests is request_rate or requests_rate. All of these are read.
func readV02(to *Record, doc *conf.Value) error {
	var r reader
	results := r.need(doc, "results")
	if r.err == nil && results.Has("session_performance") && r.get(results, "request_performance") == nil {
		return doc.Errorf("%w", errSession)
	}
	r.aggregateV02(to, r.need(r.need(results, "request_performance"), "aggregate"))
	r.timeV02(to, r.dig(doc, "run", "time"))
	scenario := r.get(doc, "scenario")
	r.stackV02(to, r.list(r.get(scenario, "stack")))
	r.loadV02(to, r.dig(scenario, "load", "standardized"))
	to.Closed = isClosed(scenario.Get("load").Get("standardized").Get("rate_qps"), scenario.Get("load").Get("native").Get("args"))
	to.Workload, to.Scorers = workloadV02(scenario.Get("load")), scorersV02(scenario.Get("stack"))
	return r.err
}

func (r *reader) timeV02(to *Record, span *conf.Value) {
	if d := r.get(span, "duration"); d != nil {
		seconds, err := parseDuration(d)
		if err != nil {
			r.fail(err)
		}
		to.Duration = seconds
	}
	if s := r.get(span, "start"); s != nil {
		t, ok := parseTime(r.text(s))
		if !ok {
			r.fail(s.Errorf("wanted a time such as 2025-11-05T18:00:42Z, got %s", shown(s)))
		}
		to.Start = t
	}
}

// parseTime reads a time as ISO 8601 has it, or with a blank instead of T, as PyYAML writes it. One without a zone is
// taken for UTC.
func parseTime(text string) (time.Time, bool) {
	if day := len("2006-01-02"); len(text) > day && text[day] == ' ' {
		text = text[:day] + "T" + text[day+1:]
	}
	for _, layout := range []string{time.RFC3339, "2006-01-02T15:04:05Z0700", "2006-01-02T15:04:05"} {
		if t, err := time.Parse(layout, text); err == nil { // with a fraction of a second or without
			return t, true
		}
	}
	return time.Time{}, false
}

var rolesV02 = map[string]Role{
	"replica": Replica, "aggregate": Replica, "prefill": Prefill, "decode": Decode,
}

// stackV02 reads the inference engines of a stack. Routers and other components
// are passed over.
func (r *reader) stackV02(to *Record, stack []*conf.Value) {
	var models, tools []string
	for _, component := range stack {
		engine := r.get(component, "standardized")
		kind := r.get(engine, "kind")
		if kind == nil {
			kind = r.dig(component, "metadata", "kind")
		}
		if engine == nil || r.text(kind) != "inference_engine" {
			continue
		}
		r.engineV02(to, engine)
		models = append(models, r.text(r.need(r.need(engine, "model"), "name")))
		tools = append(tools, r.text(r.need(engine, "tool")))
	}
	to.Model, to.Backend = Join(models), Join(tools)
}

// engineV02 adds a host for every replica of an engine.
func (r *reader) engineV02(to *Record, engine *conf.Value) {
	var h Host
	h.Role = rolesV02[r.oneOf(r.need(engine, "role"), "replica", "prefill", "decode", "aggregate")]
	accelerator := r.need(engine, "accelerator")
	h.GPU = r.text(r.need(accelerator, "model"))
	count := r.whole(r.need(accelerator, "count"), 0)
	r.parallelism(&h, r.get(accelerator, "parallelism"), 0)
	replicas := 1.0
	if v := r.get(engine, "replicas"); v != nil {
		replicas = r.whole(v, 1)
	}
	const most = 1 << 16 // of engines; more are a typing error
	if r.err == nil && to.Engines()+int(replicas) > most {
		r.fail(engine.Errorf("wanted at most %d engines, got more", most))
	}
	if r.err != nil {
		return
	}
	h.GPUs = gpusV02(to, &h, replicas, count) / replicas
	h.Count = int(replicas)
	r.add(to, h, engine)
}

// gpusV02 returns how many GPUs the replicas of an engine use together. That is
// the count, which the schema calls the total. But the program that writes most
// reports puts in the GPUs of one pod; that shows where the replicas need more
// than there would be in total.
func gpusV02(to *Record, h *Host, replicas, count float64) float64 {
	one := max(h.TP, 1) * max(h.DP, 1) * max(h.PP, 1)
	if count == 0 || count >= replicas*one {
		return count
	}
	to.Notes = append(to.Notes, "accelerator.count is less than the engines need together, so it was taken for that of one engine")
	return replicas * max(count, one)
}

func (r *reader) loadV02(to *Record, load *conf.Value) {
	if load == nil {
		return
	}
	to.Harness = r.text(r.get(load, "tool"))
	to.Rate = r.number(r.get(load, "rate_qps"))
	c := r.get(load, "concurrency")
	if x, ok := asNumber(c); ok && math.IsInf(x, 1) {
		to.Concurrency = x
		return
	}
	if c != nil {
		if x, ok := asNumber(c); !ok || !(x >= 1) || x != math.Trunc(x) {
			r.fail(c.Errorf("wanted a whole number from 1 or .inf, got %s", shown(c)))
		}
	}
	to.Concurrency = r.number(c)
}

func (r *reader) aggregateV02(to *Record, aggregate *conf.Value) {
	requests := r.get(aggregate, "requests")
	r.counts(to, requests)
	to.InputLength, _ = r.length(r.get(requests, "input_length"))
	to.OutputLength, to.SameLength = r.length(r.get(requests, "output_length"))
	r.latencies(to, r.get(aggregate, "latency"))
	throughput := r.get(aggregate, "throughput")
	mean := func(key string, u units) float64 { return r.stats(r.get(throughput, key), u).Mean }
	to.InputRate = mean("input_token_rate", tokenRates)
	to.OutputRate = mean("output_token_rate", tokenRates)
	to.TotalRate = mean("total_token_rate", tokenRates)
	to.RequestRate = mean("request_rate", requestRates)
	if r.get(throughput, "request_rate") == nil {
		to.RequestRate = mean("requests_rate", requestRates)
	}
}
