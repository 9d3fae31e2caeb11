package dashboard

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"math"
	"net/http"
	"net/url"
	"strconv"
	"strings"
	"time"

	"perigee/internal/kit/version"
)

// pushWithin bounds a request to the collector.
const pushWithin = 2 * time.Second

// collector takes metrics by OTLP over HTTP, in JSON.
type collector struct{ url string }

// newCollector checks the address of a collector. Without a path it is that of OTLP's metrics.
func newCollector(address string) (*collector, error) {
	u, err := url.Parse(address)
	if err != nil || u.Host == "" || u.Scheme != "http" && u.Scheme != "https" {
		return nil, fmt.Errorf("%q is no address of a collector: want http://HOST:4318 or https://...", address)
	}
	if strings.Trim(u.Path, "/") == "" {
		u.Path = "/v1/metrics"
	}
	return &collector{u.String()}, nil
}

// name is the address without what may be a password.
func (c *collector) name() string {
	u, err := url.Parse(c.url)
	if err != nil {
		return "the collector"
	}
	return u.Redacted()
}

func (c *collector) put(s *snapshot) error {
	body, err := json.Marshal(otlp(s))
	if err != nil {
		return err
	}
	ctx, cancel := context.WithTimeout(context.Background(), pushWithin)
	defer cancel()
	request, err := http.NewRequestWithContext(ctx, http.MethodPost, c.url, bytes.NewReader(body))
	if err != nil {
		return err
	}
	request.Header.Set("Content-Type", "application/json")
	response, err := http.DefaultClient.Do(request)
	if err != nil {
		return err
	}
	defer response.Body.Close()
	_, _ = io.Copy(io.Discard, io.LimitReader(response.Body, 1<<16)) // so that the connection can be used again
	if response.StatusCode/100 != 2 {
		return fmt.Errorf("the collector answered %s", response.Status)
	}
	return nil
}

// The JSON of OTLP's ExportMetricsServiceRequest, as far as it is used; 64-bit integers are texts there.
type (
	object = map[string]any
	array  = []any
)

func otlp(s *snapshot) object {
	resource := append([]label{{"service.name", "perigee"}}, s.run...)
	metrics := array{}
	for _, f := range s.families {
		if len(f.list) == 0 {
			continue
		}
		m := object{"name": f.name, "description": f.help, "unit": f.unit}
		points := array{}
		for _, p := range f.list {
			points = append(points, point(p, s.began, s.taken))
		}
		switch f.kind {
		case gauge:
			m["gauge"] = object{"dataPoints": points}
		case counter:
			m["sum"] = object{"dataPoints": points, "aggregationTemporality": 2, "isMonotonic": true}
		case histogram:
			m["histogram"] = object{"dataPoints": points, "aggregationTemporality": 2}
		}
		metrics = append(metrics, m)
	}
	scope := object{"name": "perigee", "version": version.Get().Version}
	return object{"resourceMetrics": array{object{
		"resource":     object{"attributes": attributes(resource)},
		"scopeMetrics": array{object{"scope": scope, "metrics": metrics}},
	}}}
}

func point(s sample, began, taken time.Time) object {
	p := object{
		"attributes":        attributes(s.labels),
		"startTimeUnixNano": strconv.FormatInt(began.UnixNano(), 10),
		"timeUnixNano":      strconv.FormatInt(taken.UnixNano(), 10),
	}
	if s.times == nil {
		p["asDouble"] = double(s.value)
		return p
	}
	counts := array{}
	for _, n := range s.times.buckets {
		counts = append(counts, strconv.FormatUint(n, 10))
	}
	p["count"], p["sum"] = strconv.FormatUint(s.times.count, 10), s.times.sum
	p["bucketCounts"], p["explicitBounds"] = counts, bounds
	return p
}

// double is a number as JSON of protocol buffers has it.
func double(v float64) any {
	switch {
	case math.IsNaN(v):
		return "NaN"
	case math.IsInf(v, 1):
		return "Infinity"
	case math.IsInf(v, -1):
		return "-Infinity"
	}
	return v
}

func attributes(labels []label) array {
	list := array{}
	for _, l := range labels {
		list = append(list, object{"key": l.name, "value": object{"stringValue": strings.ToValidUTF8(l.value, "?")}})
	}
	return list
}
