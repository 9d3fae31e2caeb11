package dashboard

import (
	"cmp"
	"os"
	"slices"
	"strconv"
	"time"

	"perigee/internal/result"
)

// MostSeries bounds the series of a run, buckets of histograms included.
const MostSeries = 200

// What a run may have more of goes into "other", or is left out.
const (
	mostPhases     = 3
	mostMetrics    = 15
	mostThresholds = 15
)

// bounds are the upper ends of the buckets of times, in seconds: 1 us to 17 s in steps of 4.
var bounds = func() (list []float64) {
	for us := 1.0; len(list) < 13; us *= 4 {
		list = append(list, us/1e6)
	}
	return list
}()

// kind is what a metric is to Prometheus.
type kind string

const (
	gauge     kind = "gauge"
	counter   kind = "counter"
	histogram kind = "histogram"
)

// family is a metric with its series.
type family struct {
	name, unit, help string // the name as Prometheus has it, the unit as UCUM writes it
	kind             kind
	list             []sample
}

// label is a name and its value.
type label struct{ name, value string }

// sample is a number, or a distribution, with what it is about.
type sample struct {
	labels []label
	value  float64
	times  *times
}

// times is a distribution of seconds.
type times struct {
	buckets []uint64 // one for each of bounds, and one for what is longer
	count   uint64
	sum     float64
}

func (t *times) add(seconds float64) {
	i, _ := slices.BinarySearch(bounds, seconds)
	t.buckets[i]++
	t.count++
	t.sum += seconds
}

// class is what a message is about: the phase, and whether it left its host.
type class struct {
	phase string
	pairs string // intra_host or inter_host
}

// traffic counts the messages of a class.
type traffic struct {
	bytes int64
	times times
}

// figures adds up a document that grows.
type figures struct {
	next    int   // the first measurement that is not counted yet
	hosts   []int // of ranks
	phases  []string
	order   []class
	traffic map[class]*traffic
}

// observe counts what has come since the last call, and returns all families.
func (f *figures) observe(d *result.Document) []family {
	for ; f.next < len(d.Measurements); f.next++ {
		f.count(d, &d.Measurements[f.next])
	}
	return slices.Concat(about(d), f.ofTraffic(), own(d), judged(d))
}

// count adds the messages of a run.
func (f *figures) count(d *result.Document, m *result.Measurement) {
	if f.hosts == nil {
		f.hosts = make([]int, d.World.Size)
		for i, h := range d.World.Hosts {
			for _, r := range h.Ranks {
				f.hosts[r] = i
			}
		}
		f.traffic = map[class]*traffic{}
	}
	for _, r := range m.Ranks {
		for _, p := range r.Peers {
			f.add(m.Phase, r.Rank, p.Peer, p.Bytes, float64(p.EndNS-r.StartNS)/1e9)
		}
	}
}

// add counts a message.
func (f *figures) add(phase string, rank, peer int, bytes int64, seconds float64) {
	if !slices.Contains(f.phases, phase) {
		if len(f.phases) < mostPhases {
			f.phases = append(f.phases, phase)
		} else {
			phase = "other"
		}
	}
	c := class{phase, "intra_host"}
	if f.hosts[rank] != f.hosts[peer] {
		c.pairs = "inter_host"
	}
	t := f.traffic[c]
	if t == nil {
		t = &traffic{times: times{buckets: make([]uint64, len(bounds)+1)}}
		f.traffic[c] = t
		f.order = append(f.order, c)
	}
	t.bytes += bytes
	t.times.add(seconds)
}

// about says which run it is and how far it has come.
func about(d *result.Document) []family {
	one := func(name, unit, help string, value float64, labels ...label) family {
		return family{"perigee_" + name, unit, help, gauge, []sample{{labels: labels, value: value}}}
	}
	engine := result.Engine{}
	if d.Engine != nil {
		engine = *d.Engine
	}
	status := "running"
	if d.Finished != nil {
		status = d.Status
	}
	list := []family{
		one("info", "", "What runs.", 1, label{"version", d.Perigee.Version}, label{"engine", engine.Name},
			label{"backend", engine.Backend}, label{"launcher", d.World.Launcher}),
		one("status", "", "1 with the status of the run: running, complete or partial.", 1, label{"status", status}),
		one("ranks", "", "Ranks of the run.", float64(d.World.Size)),
		one("hosts", "", "Hosts of the run.", float64(len(d.World.Hosts))),
		one("start_time_seconds", "s", "When the run began, seconds since 1970.", seconds(d.Started)),
	}
	if n := len(d.Phases); n > 0 {
		last := label{"phase", d.Phases[n-1].Name}
		list = append(list, one("phase", "", "1 with the phase that began last.", 1, last))
	}
	if f := d.Failure; f != nil {
		list = append(list, one("failure", "", "1 with the rank that ended the run, -1 if none did.", 1,
			label{"rank", strconv.Itoa(f.Rank)}, label{"host", f.Host}, label{"phase", f.Phase}))
	}
	return list
}

func seconds(t time.Time) float64 { return float64(t.UnixMilli()) / 1e3 }

// ofTraffic has the counters of messages.
func (f *figures) ofTraffic() []family {
	bytes := family{"perigee_message_bytes_total", "By", "Bytes of the measured messages.", counter, nil}
	took := family{"perigee_message_seconds", "s", "Times of the measured messages, from the start of their initiator.",
		histogram, nil}
	for _, c := range f.order {
		labels := []label{{"phase", c.phase}, {"pairs", c.pairs}}
		t := f.traffic[c]
		copied := t.times
		copied.buckets = slices.Clone(copied.buckets)
		bytes.list = append(bytes.list, sample{labels: labels, value: float64(t.bytes)})
		took.list = append(took.list, sample{labels: labels, times: &copied})
	}
	return []family{bytes, took}
}

// own has the scenario's own metrics.
func own(d *result.Document) []family {
	last := family{"perigee_metric", "", "Last sample of a metric of the scenario.", gauge, nil}
	samples := family{"perigee_metric_samples_total", "", "Samples of a metric of the scenario.", counter, nil}
	for _, m := range d.Metrics {
		if n := len(m.Values); n > 0 && len(last.list) < mostMetrics {
			labels := []label{{"metric", m.Name}}
			last.list = append(last.list, sample{labels: labels, value: m.Values[n-1]})
			samples.list = append(samples.list, sample{labels: labels, value: float64(n)})
		}
	}
	return []family{last, samples}
}

// judged has the thresholds that were judged.
func judged(d *result.Document) []family {
	passed := family{"perigee_threshold_passed", "", "1 where a threshold holds, else 0.", gauge, nil}
	for _, t := range d.Thresholds {
		if t.Passed != nil && len(passed.list) < mostThresholds {
			s := sample{labels: []label{{"threshold", t.Threshold}}}
			if *t.Passed {
				s.value = 1
			}
			passed.list = append(passed.list, s)
		}
	}
	return []family{passed}
}

// identity labels all series of a run.
func identity(d *result.Document) []label {
	id := os.Getenv("SLURM_JOB_ID")
	if d.Job != nil {
		id = cmp.Or(id, d.Job.ID)
	}
	return []label{{"job_id", id}, {"scenario", d.Scenario.Name}}
}
