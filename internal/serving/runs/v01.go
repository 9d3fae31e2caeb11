package runs

import (
	"math"
	"time"

	"perigee/internal/kit/conf"
)

// harnesses are the load generators that reports of v0.1 may come from.
var harnesses = []string{
	"guidellm", "inference-perf", "vllm-benchmark", "fmperf", "aiperf", "inferencemax", "nop",
}

var rolesV01 = map[string]Role{"replica": Replica, "prefill": Prefill, "decode": Decode}

// readV01 reads a report of the version 0.1. What the schema requires must be
// there; anything it does not know is ignored, as the schema has it.
func readV01(to *Record, doc *conf.Value) error {
	var r reader
	scenario := r.need(doc, "scenario")
	if r.err == nil && scenario.Get("load").Get("metadata").Get("file_type").Text() == "session_lifecycle" {
		return doc.Errorf("%w", errSession)
	}
	r.hostsV01(to, scenario)
	to.Model = r.text(r.need(r.need(scenario, "model"), "name"))
	r.loadV01(to, r.need(scenario, "load"))
	to.Scorers = scorers(scenario.Get("platform").Get("metadata").Get("inferenceScheduler"))
	r.metricsV01(to, r.need(doc, "metrics"), r.get(scenario, "host"), r.get(scenario, "platform"))
	return r.err
}

func (r *reader) hostsV01(to *Record, scenario *conf.Value) {
	host := r.get(scenario, "host")
	if host == nil {
		return
	}
	types := r.list(r.need(host, "type"))
	accelerators := r.list(r.need(host, "accelerator"))
	if r.err == nil && len(types) != len(accelerators) {
		r.fail(host.Errorf("wanted as many accelerators (%d) as types (%d)", len(accelerators), len(types)))
	}
	if r.err != nil {
		return
	}
	for i, t := range types {
		h := r.hostV01(t, accelerators[i])
		if r.err == nil {
			r.unmixed(to, h, t)
			r.add(to, h, accelerators[i])
		}
	}
}

// add adds engines of a kind that stands at v.
func (r *reader) add(to *Record, h Host, v *conf.Value) {
	if !to.Add(h) {
		r.fail(v.Errorf("wanted at most %d kinds of engines, got more", MostKinds))
	}
}

func (r *reader) hostV01(kind, accelerator *conf.Value) Host {
	nan := math.NaN()
	h := Host{TP: nan, DP: nan, PP: nan, EP: nan}
	h.Role = rolesV01[r.oneOf(kind, "replica", "prefill", "decode")]
	h.GPU = r.text(r.need(accelerator, "model"))
	h.GPUs = r.whole(r.need(accelerator, "count"), 0)
	if p := r.get(accelerator, "parallelism"); p != nil {
		r.parallelism(&h, p, 1)
		h.GPUs = h.TP * h.DP * h.PP
	}
	return h
}

// unmixed refuses replicas beside engines for prefill or decode.
func (r *reader) unmixed(to *Record, h Host, kind *conf.Value) {
	if len(to.Hosts) > 0 && (h.Role == Replica) != (to.Hosts[0].Role == Replica) {
		r.fail(kind.Errorf("wanted either replicas or prefill and decode engines, got both"))
	}
}

func (r *reader) loadV01(to *Record, load *conf.Value) {
	to.Harness = r.oneOf(r.need(load, "name"), harnesses...)
	to.Concurrency = concurrencyV01(load)
	to.Workload = workload(load.Get("args"))
	to.Rate = rateV01(load)
	to.Closed = isClosed(load.Get("args").Get("request_rate"), load.Get("args"))
}

// isClosed reports whether the rate of the requests is infinite, and the generator's arguments have no ramp.
func isClosed(rate, args *conf.Value) bool {
	x, ok := asNumber(rate)
	return ok && math.IsInf(x, 1) && args.Get("ramp_up_strategy").Text() == ""
}

// rateV01 looks for the requests per second that inference-perf offered: in the list of its stages. Anything strange is
// unknown, as with the concurrency.
func rateV01(load *conf.Value) float64 {
	stage := load.Get("metadata").Get("stage").Int()
	list := load.Get("args").Get("load").Get("stages").List()
	if stage < 0 || stage >= int64(len(list)) {
		return math.NaN()
	}
	x, ok := asNumber(list[stage].Get("rate"))
	if !ok || !(x > 0) || math.IsInf(x, 0) {
		return math.NaN()
	}
	return x
}

// concurrencyV01 looks for the concurrency in what the load generators note of
// themselves: vLLM's benchmark and those like it have max_concurrency, GuideLLM
// a list by stage. These maps have no schema, so anything strange is unknown.
func concurrencyV01(load *conf.Value) float64 {
	args := load.Get("args")
	v := args.Get("max_concurrency")
	if v == nil || v.Kind == conf.Null {
		stage := load.Get("metadata").Get("stage").Int()
		if list := args.Get("profile").Get("measured_concurrencies").List(); stage >= 0 && stage < int64(len(list)) {
			v = list[stage]
		}
	}
	x, ok := asNumber(v)
	if !ok || math.IsNaN(x) || x < 0 {
		return math.NaN()
	}
	return x
}

func (r *reader) metricsV01(to *Record, metrics, host, platform *conf.Value) {
	r.countsV01(host, platform, metrics)
	span := r.need(metrics, "time")
	to.Duration = r.number(r.need(span, "duration"))
	if start := r.number(r.get(span, "start")); start > 0 && start < 1e11 {
		to.Start = time.UnixMicro(int64(start * 1e6))
	}
	requests := r.need(metrics, "requests")
	r.need(requests, "total")
	r.counts(to, requests)
	to.InputLength, _ = r.length(r.figure(requests, "input_length"))
	to.OutputLength, to.SameLength = r.length(r.figure(requests, "output_length"))
	latency := r.figure(metrics, "latency")
	r.figure(latency, latencyKeys[TTFT].key)
	r.latencies(to, latency)
	throughput := r.figure(metrics, "throughput")
	to.TotalRate = r.number(r.figure(throughput, "total_tokens_per_sec"))
	to.InputRate = r.number(r.get(throughput, "input_tokens_per_sec"))
	to.OutputRate = r.number(r.get(throughput, "output_tokens_per_sec"))
	to.RequestRate = r.number(r.get(throughput, "requests_per_sec"))
	to.Backend = r.enginesV01(platform)
}

// countsV01 refuses lists about the hosts that are not equally long.
func (r *reader) countsV01(host, platform, metrics *conf.Value) {
	lists := []*conf.Value{r.get(host, "type"), r.get(platform, "engine"), r.dig(metrics, "resources", "accelerator")}
	var first *conf.Value
	for _, l := range lists {
		switch {
		case l == nil || l.Kind != conf.List:
		case first == nil:
			first = l
		case l.Len() != first.Len():
			r.fail(l.Errorf("wanted %d elements, as many as %s has, got %d", first.Len(), first.Path(), l.Len()))
		}
	}
}

func (r *reader) enginesV01(platform *conf.Value) string {
	if platform == nil {
		return ""
	}
	var names []string
	for _, e := range r.list(r.need(platform, "engine")) {
		names = append(names, r.text(r.need(e, "name")))
	}
	return Join(names)
}
