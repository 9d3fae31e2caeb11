package capi

import (
	"context"
	"net"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"perigee/internal/kit/must"
)

func TestTelemetryOf(t *testing.T) {
	mp := map[string]string{"NIXL_TELEMETRY_ENABLE": "Yes", "NIXL_TELEMETRY_EXPORTER": "prometheus_mp"}
	with := func(key, value string) map[string]string {
		m := map[string]string{key: value}
		for k, v := range mp {
			if k != key {
				m[k] = v
			}
		}
		return m
	}
	const usual = 100 * time.Millisecond
	for _, c := range []struct {
		env  map[string]string
		want Telemetry
	}{
		{nil, Telemetry{Interval: usual}},
		{map[string]string{"NIXL_TELEMETRY_ENABLE": "n"}, Telemetry{Interval: usual}},
		{map[string]string{"NIXL_TELEMETRY_ENABLE": "1"}, Telemetry{On: true, Interval: usual}},
		{map[string]string{"NIXL_TELEMETRY_ENABLE": "on", "NIXL_TELEMETRY_DIR": "/x"}, Telemetry{On: true, Exporter: "BUFFER", Interval: usual}},
		{mp, Telemetry{On: true, Exporter: "prometheus_mp", Address: "127.0.0.1:9090", Interval: usual}},
		{with("NIXL_TELEMETRY_ENABLE", ""), Telemetry{Exporter: "prometheus_mp", Interval: usual}},
		{with("NIXL_TELEMETRY_PROMETHEUS_PORT", "19000"), Telemetry{On: true, Exporter: "prometheus_mp", Address: "127.0.0.1:19000", Interval: usual}},
		{with("NIXL_TELEMETRY_RUN_INTERVAL", "20"), Telemetry{On: true, Exporter: "prometheus_mp", Address: "127.0.0.1:9090", Interval: 20 * time.Millisecond}},
		{with("NIXL_TELEMETRY_RUN_INTERVAL", "soon"), Telemetry{On: true, Exporter: "prometheus_mp", Address: "127.0.0.1:9090", Interval: usual}},
		{with("NIXL_TELEMETRY_EXPORTER", "prometheus"), Telemetry{On: true, Exporter: "prometheus", Interval: usual}},
	} {
		if got := TelemetryOf(func(key string) string { return c.env[key] }); got != c.want {
			t.Errorf("%v: %+v, want %+v", c.env, got, c.want)
		}
	}
}

// As NIXL 1.5.1 writes them; further families follow and precede.
const exported = `# HELP agent_tx_bytes_total Number of bytes sent by the agent
# TYPE agent_tx_bytes_total counter
agent_tx_bytes_total{hostname="vm",agent_name="perigee-1-lane0-1",pid="695",agent_instance="0"} 134152192
agent_tx_bytes_total{hostname="vm",agent_name="perigee-0-lane0-1",pid="693",agent_instance="0"} 1.5e+03
agent_tx_last_bytes{hostname="vm",agent_name="perigee-0-lane0-1",pid="693",agent_instance="0"} 65536
agent_rx_bytes_total{hostname="vm",agent_name="perigee-1-lane0-1",pid="695",agent_instance="0"} 8
agent_telemetry_events_dropped_total{hostname="vm",agent_name="perigee-1-lane0-1",pid="695",agent_instance="0"} 31812
agent_xfer_time_us_bucket{hostname="vm",agent_name="perigee-1-lane0-1",pid="695",agent_instance="0",le="10"} 3
`

func TestParseCounts(t *testing.T) {
	want := []AgentCount{{"695", "perigee-1-lane0-1", 134152200, 31812}, {"693", "perigee-0-lane0-1", 1500, 0}}
	got, err := parseCounts(strings.NewReader(exported))
	if diff := cmp.Diff(want, got); err != nil || diff != "" {
		t.Error(err, diff)
	}
	for text, want := range map[string]string{
		`agent_tx_bytes_total{pid="1" 3`:    "no end of its labels",
		`agent_tx_bytes_total{pid="1"}`:     "no value",
		`agent_tx_bytes_total{pid="1"} -1`:  `is "-1"`,
		`agent_tx_bytes_total{pid="1"} NaN`: `is "NaN"`,
		`agent_tx_bytes_total{pid="1"} x`:   `is "x"`,
		strings.Repeat("x", 2<<20):          "too long",
	} {
		if list, err := parseCounts(strings.NewReader(text)); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%.60q: %v, %v; want %s", text, list, err, want)
		}
	}
}

func TestCounts(t *testing.T) {
	s := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.URL.Path != "/metrics" {
			http.Error(w, "no", http.StatusNotFound)
			return
		}
		w.Write([]byte(exported))
	}))
	address := s.Listener.Addr().String()
	if list, err := (Telemetry{Address: address}).Counts(context.Background()); err != nil || len(list) != 2 {
		t.Errorf("%v, %v", list, err)
	}
	s.Close()
	if _, err := (Telemetry{Address: address}).Counts(context.Background()); err == nil {
		t.Error("no server is there, and there is no error")
	}
	// Who accepts and says nothing must not keep the job.
	l, err := net.Listen("tcp", "127.0.0.1:0")
	must.Do(t, err)
	defer l.Close()
	ctx, cancel := context.WithTimeout(context.Background(), 50*time.Millisecond)
	defer cancel()
	if _, err := (Telemetry{Address: l.Addr().String()}).Counts(ctx); err == nil {
		t.Error("the server says nothing, and there is no error")
	}
}
