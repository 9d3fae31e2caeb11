package dashboard

import (
	"bytes"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/prometheus/common/expfmt"
	"github.com/prometheus/common/model"
	metricspb "go.opentelemetry.io/proto/otlp/metrics/v1"
	"google.golang.org/protobuf/encoding/protojson"

	"perigee/internal/kit/must"
	"perigee/internal/result"
	"perigee/internal/traffic/series"
)

// document is a run of so many ranks, eight on a host, in which each rank has sent to its neighbour and to the first
// one of the next host, once in each of the phases.
func document(ranks int, phases ...string) *result.Document {
	w := result.World{Size: ranks, Launcher: "slurm"}
	for r := range ranks {
		if r%8 == 0 {
			w.Hosts = append(w.Hosts, result.Host{Name: fmt.Sprint("node", r/8)})
		}
		h := &w.Hosts[r/8]
		h.Ranks = append(h.Ranks, r)
	}
	d := result.New([]string{"perigee"}, result.Scenario{Name: "a \"b\"\\\n"}, 0, w)
	d.Job = &result.Invocation{ID: "x"}
	d.Matrices, d.Patterns = []result.Matrix{{Ranks: ranks}}, []result.Pattern{{}}
	for i, phase := range phases {
		d.Phases = append(d.Phases, result.Phase{Name: phase, StartNS: int64(i)})
		run := series.Run{}
		for r := range ranks {
			peers := []series.PeerRun{
				{Peer: r ^ 1, Bytes: 1000, EndNS: 1500}, {Peer: (r + 8) % ranks, Bytes: 10, EndNS: 2e9},
			}
			run.Ranks = append(run.Ranks, series.RankRun{Rank: r, StartNS: 500, Peers: peers})
		}
		d.Measurements = append(d.Measurements, result.Measurement{Phase: phase, Run: run})
	}
	return d
}

// parsed reads Prometheus' text with Prometheus' parser, and returns each series as text with its value.
func parsed(t *testing.T, text []byte) map[string]float64 {
	t.Helper()
	parser := expfmt.NewTextParser(model.UTF8Validation)
	families, err := parser.TextToMetricFamilies(bytes.NewReader(text))
	if err != nil {
		t.Fatalf("%v in\n%s", err, text)
	}
	list := map[string]float64{}
	for name, f := range families {
		for _, m := range f.Metric {
			key := name
			for _, l := range m.Label {
				if l.GetName() != "job_id" && l.GetName() != "scenario" {
					key += " " + l.GetValue()
				}
			}
			switch {
			case m.Gauge != nil:
				list[key] = m.Gauge.GetValue()
			case m.Counter != nil:
				list[key] = m.Counter.GetValue()
			case m.Histogram != nil:
				list[key+" count"], list[key+" sum"] = float64(m.Histogram.GetSampleCount()), m.Histogram.GetSampleSum()
				for _, b := range m.Histogram.Bucket {
					list[fmt.Sprintf("%s le %g", key, b.GetUpperBound())] = float64(b.GetCumulativeCount())
				}
			}
		}
	}
	return list
}

// The file holds what was measured, as Prometheus reads it, at the start, later and at the end.
func TestPrometheusFile(t *testing.T) {
	path := filepath.Join(t.TempDir(), "perigee.prom")
	d := document(16, "isolated", "workload")
	b := Start([]string{"prometheus-file=" + path}, d)
	d.Measurements = append(d.Measurements, document(16, "workload").Measurements...)
	d.DeclareMetrics([]result.MetricDef{{Name: "ttft"}})
	d.AddSample("ttft", 3, 1)
	d.AddSample("ttft", 5, 2)
	d.Finish(&result.Failure{Rank: 3, Host: "node0", Phase: "workload"})
	if notes := b.Finish(d); notes != nil {
		t.Error(notes)
	}
	text := must.Read(t, path)
	got := parsed(t, text)
	for key, want := range map[string]float64{
		"perigee_ranks":                                           16,
		"perigee_hosts":                                           2,
		"perigee_status partial":                                  1,
		"perigee_failure 3 node0 workload":                        1,
		"perigee_phase workload":                                  1,
		"perigee_message_bytes_total isolated intra_host":         16 * 1000,
		"perigee_message_bytes_total workload inter_host":         2 * 16 * 10,
		"perigee_message_seconds workload intra_host count":       32,
		"perigee_message_seconds workload intra_host le 1e-06":    32,
		"perigee_message_seconds workload inter_host le 1.048576": 0,
		"perigee_message_seconds workload inter_host le 4.194304": 32,
		"perigee_metric ttft":                                     5,
		"perigee_metric_samples_total ttft":                       2,
	} {
		if value, there := got[key]; !there || value != want {
			t.Errorf("%s: %v, want %v", key, value, want)
		}
	}
	if age := float64(time.Now().Unix()) - got["perigee_updated_time_seconds"]; age > 60 || age < -60 {
		t.Errorf("updated %v s ago", age)
	}
	if t.Failed() {
		t.Logf("%s", text)
	}
}

// However large a run is, a dashboard gets few series.
func TestFewSeries(t *testing.T) {
	d := document(16384, "a", "b", "c", "d", "e", "f")
	d.Finish(&result.Failure{})
	for i := range 100 {
		name := fmt.Sprint("m", i)
		d.DeclareMetrics([]result.MetricDef{{Name: name}})
		d.AddSample(name, 1, 1)
		d.Thresholds = append(d.Thresholds, result.Threshold{Threshold: name, Passed: new(bool)})
	}
	var text bytes.Buffer
	var f figures
	must.Do(t, writeText(&text, identity(d), f.observe(d)))
	parsed(t, text.Bytes())
	lines := 0
	for line := range strings.Lines(text.String()) {
		if !strings.HasPrefix(line, "#") {
			lines++
		}
	}
	if lines >= MostSeries || lines < 150 { // and one for the time of the update
		t.Errorf("%d series", lines)
	}
}

// A collector gets what OTLP's definition says, and one that is down costs the run nothing but a note.
func TestOTLP(t *testing.T) {
	var got []*metricspb.MetricsData
	answer := http.StatusOK
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		body, _ := io.ReadAll(r.Body)
		data := &metricspb.MetricsData{}
		if err := protojson.Unmarshal(body, data); err != nil || r.URL.Path != "/v1/metrics" {
			t.Errorf("%s: %v", r.URL, err)
		}
		got = append(got, data)
		w.WriteHeader(answer)
	}))
	defer server.Close()
	d := document(16, "workload")
	b := Start([]string{"otlp=" + server.URL}, d)
	d.Finish(nil)
	if notes := b.Finish(d); notes != nil {
		t.Error(notes)
	}
	if len(got) != 2 {
		t.Fatalf("%d requests", len(got))
	}
	found := false
	for _, m := range got[1].ResourceMetrics[0].ScopeMetrics[0].Metrics {
		if h := m.GetHistogram(); m.Name == "perigee_message_seconds" {
			p := h.DataPoints[0]
			found = p.Count == 16 && len(p.BucketCounts) == len(p.ExplicitBounds)+1 && h.AggregationTemporality == 2
		}
	}
	if !found {
		t.Errorf("no messages in %v", got[1])
	}
	answer = http.StatusServiceUnavailable
	b = Start([]string{"otlp=" + server.URL}, d)
	if notes := b.Finish(d); len(notes) != 1 || !strings.Contains(notes[0], "2 of 2 updates to") {
		t.Error(notes)
	}
}

func TestValues(t *testing.T) {
	paths, err := Files([]string{"prometheus-file=a=b.prom", "otlp=https://u:p@h/x"})
	if err != nil || len(paths) != 1 || paths[0] != "a=b.prom" {
		t.Error(paths, err)
	}
	for _, text := range []string{"", "otlp", "otlp=", "otlp=host:4318", "prometheus-file=", "csv=x", "otlp=ftp://h"} {
		if _, err := Files([]string{text}); err == nil {
			t.Errorf("%q is taken", text)
		}
	}
	if c, err := newCollector("http://u:secret@h"); err != nil || strings.Contains(c.name(), "secret") {
		t.Error(c, err)
	}
}

// The dashboard for Grafana and the page about metrics name all metrics that there are, and no others.
func TestNamesOfMetrics(t *testing.T) {
	d := document(16, "workload")
	d.Failure = &result.Failure{}
	var f figures
	known := map[string]bool{"perigee_updated_time_seconds": true}
	for _, family := range f.observe(d) {
		known[family.name] = true
	}
	for path, all := range map[string]bool{"../../packaging/grafana/perigee.json": false, "../../docs/dashboards.md": true} {
		text := must.Read(t, path)
		named := map[string]bool{}
		for _, name := range regexp.MustCompile(`perigee_[a-z_]+`).FindAllString(string(text), -1) {
			name = strings.TrimSuffix(name, "_bucket")
			if named[name] = true; !known[name] {
				t.Errorf("%s: there is no %s", path, name)
			}
		}
		if all && len(named) != len(known) {
			t.Errorf("%s: has %d of %d metrics", path, len(named), len(known))
		}
		if !all && !json.Valid(text) {
			t.Errorf("%s is no JSON", path)
		}
	}
}
