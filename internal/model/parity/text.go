package parity

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"maps"
	"net/http"
	"net/url"
	"slices"
	"strings"
	"time"

	dto "github.com/prometheus/client_model/go"
	"github.com/prometheus/common/expfmt"
	"github.com/prometheus/common/model"

	"perigee/internal/kit/fault"
	"perigee/internal/kit/file"
)

// mostText is the largest text that is read, patience how long a server may take for it.
const (
	mostText = 64 << 20
	patience = 10 * time.Second
)

// Text is what an engine or an exporter showed of itself at one time.
type Text struct {
	Source   string // the file, or the address without a password
	families map[string]*dto.MetricFamily
}

// Read reads Prometheus' text from a file, or from an address that begins with http:// or https://; one without a path
// is that of /metrics. What is missing, too large or no such text is an error of the kind Input.
func Read(ctx context.Context, source string) (*Text, error) {
	if u, err := url.Parse(source); err == nil && (u.Scheme == "http" || u.Scheme == "https") && u.Host != "" {
		return fetch(ctx, u)
	}
	text, err := file.Read(source, mostText)
	if err != nil {
		return nil, fault.New(fault.Input, "cannot read metrics: %w", err).
			WithHint("save them with curl http://HOST:PORT/metrics > FILE, or give that address")
	}
	return parse(source, text)
}

func fetch(ctx context.Context, u *url.URL) (*Text, error) {
	if strings.Trim(u.Path, "/") == "" {
		u.Path = "/metrics"
	}
	name := u.Redacted()
	ctx, cancel := context.WithTimeout(ctx, patience)
	defer cancel()
	request, err := http.NewRequestWithContext(ctx, http.MethodGet, u.String(), nil)
	if err != nil {
		return nil, fault.New(fault.Input, "%s: %w", name, err)
	}
	request.Header.Set("Accept", "text/plain;version=0.0.4")
	response, err := http.DefaultClient.Do(request)
	if err != nil {
		return nil, unreachable(ctx, name, err)
	}
	defer response.Body.Close()
	if response.StatusCode != http.StatusOK {
		return nil, fault.New(fault.Input, "%s answered %s, wanted 200 OK", name, response.Status).
			WithHint("engines have their metrics at http://HOST:PORT/metrics, SGLang only with --enable-metrics")
	}
	text, err := io.ReadAll(io.LimitReader(response.Body, mostText+1))
	switch {
	case err != nil:
		return nil, unreachable(ctx, name, err)
	case len(text) > mostText:
		return nil, fault.New(fault.Input, "%s: the metrics are larger than %d bytes", name, mostText)
	}
	return parse(name, text)
}

// unreachable is the error of a request without an answer, or without its end.
func unreachable(ctx context.Context, name string, err error) error {
	if e, ok := errors.AsType[*url.Error](err); ok {
		err = e.Err // the address is said once
	}
	if errors.Is(ctx.Err(), context.DeadlineExceeded) {
		err = fmt.Errorf("no whole answer within %v", patience)
	}
	return fault.New(fault.Input, "%s: %w", name, err).WithHint("is the engine up, and this its port for HTTP?")
}

func parse(source string, text []byte) (*Text, error) {
	parser := expfmt.NewTextParser(model.UTF8Validation)
	// As editors leave it: with a mark of UTF-8 and returns, the last line without an end.
	text = bytes.ReplaceAll(bytes.TrimPrefix(text, []byte("\ufeff")), []byte("\r\n"), []byte("\n"))
	families, err := parser.TextToMetricFamilies(io.MultiReader(bytes.NewReader(text), strings.NewReader("\n")))
	if err == nil {
		return &Text{source, families}, nil
	}
	at := source
	if e, ok := errors.AsType[expfmt.ParseError](err); ok {
		at, err = fmt.Sprintf("%s:%d", source, e.Line), errors.New(e.Msg)
	}
	return nil, fault.New(fault.Input, "%s: %w: wanted Prometheus' text format", at, err).
		WithHint("give the text of each engine or exporter as it is, in a file or at a separate address: --metrics A --metrics B")
}

// sample is one value of a counter.
type sample struct {
	name   string // with its labels
	engine string // its labels but those of a TP rank
	rank   bool   // whether it has a label of a TP rank
	value  float64
}

// samples returns what a text has of a counter: of a histogram or a summary, whose name may stand without its ending
// _sum, the sums. gauge reports whether it is a gauge. A value that is no number of at least 0, and a sample that
// stands there twice, are errors of the kind Input.
func (t *Text) samples(name string) (list []sample, gauge bool, err error) {
	base, seen := strings.TrimSuffix(name, "_sum"), map[string]bool{}
	for _, n := range slices.Compact([]string{name, base, base + "_sum"}) {
		f := t.families[n]
		for _, m := range f.GetMetric() {
			value, ok := valueOf(m)
			if !ok || n != name && n == base && m.Histogram == nil && m.Summary == nil {
				continue
			}
			s := labelled(n, m.Label)
			if s.value = value; !(value >= 0 && value < 1<<63) {
				return nil, false, fault.New(fault.Input, "%s: %s is %v, wanted a number of at least 0", t.Source, s.name, value)
			}
			if seen[s.name] {
				return nil, false, fault.New(fault.Input, "%s: %s stands there twice", t.Source, s.name)
			}
			seen[s.name] = true
			list, gauge = append(list, s), m.Gauge != nil
		}
		if list != nil {
			return list, gauge, nil
		}
	}
	return nil, false, nil
}

// valueOf is the value of a sample, or its sum. A histogram of which the text has buckets alone has none.
func valueOf(m *dto.Metric) (value float64, ok bool) {
	switch {
	case m.Counter != nil:
		return m.Counter.GetValue(), true
	case m.Gauge != nil:
		return m.Gauge.GetValue(), true
	case m.Untyped != nil:
		return m.Untyped.GetValue(), true
	case m.Histogram != nil:
		return m.Histogram.GetSampleSum(), m.Histogram.SampleSum != nil
	case m.Summary != nil:
		return m.Summary.GetSampleSum(), m.Summary.SampleSum != nil
	}
	return 0, false
}

// rankLabels differ between the TP ranks of an engine.
var rankLabels = []string{"tp_rank", "moe_ep_rank"}

func labelled(name string, labels []*dto.LabelPair) sample {
	var s sample
	var all, engine []string
	for _, l := range labels {
		text := fmt.Sprintf("%s=%q", l.GetName(), l.GetValue())
		all = append(all, text)
		if slices.Contains(rankLabels, l.GetName()) {
			s.rank = true
		} else {
			engine = append(engine, text)
		}
	}
	slices.Sort(all)
	slices.Sort(engine)
	s.name, s.engine = name, strings.Join(engine, ",")
	if all != nil {
		s.name += "{" + strings.Join(all, ",") + "}"
	}
	return s
}

// names lists the families of a text whose names fit, sorted.
func (t *Text) names(fit func(name string) bool) []string {
	return slices.DeleteFunc(slices.Sorted(maps.Keys(t.families)), func(name string) bool { return !fit(name) })
}
