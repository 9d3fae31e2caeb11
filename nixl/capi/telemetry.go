package capi

import (
	"bufio"
	"context"
	"fmt"
	"io"
	"net"
	"net/http"
	"slices"
	"strconv"
	"strings"
	"time"
)

// Telemetry says how the user has set up the library's own counting, by NIXL's variables.
type Telemetry struct {
	On       bool          // NIXL_TELEMETRY_ENABLE
	Exporter string        // prometheus_mp, prometheus, BUFFER or others; empty: what is counted goes nowhere
	Address  string        // of this host, where the counters of all its agents can be read; empty for most exporters
	Interval time.Duration // after which what has been counted is exported
}

// TelemetryOf reads an environment as NIXL does. The defaults are those of docs/telemetry.md in NIXL's repository.
func TelemetryOf(getenv func(string) string) Telemetry {
	t := Telemetry{On: yes(getenv("NIXL_TELEMETRY_ENABLE")), Exporter: getenv("NIXL_TELEMETRY_EXPORTER"),
		Interval: 100 * time.Millisecond}
	if t.Exporter == "" && getenv("NIXL_TELEMETRY_DIR") != "" {
		t.Exporter = "BUFFER"
	}
	if ms, err := strconv.ParseUint(getenv("NIXL_TELEMETRY_RUN_INTERVAL"), 10, 31); err == nil {
		t.Interval = time.Duration(ms) * time.Millisecond
	}
	if t.On && t.Exporter == "prometheus_mp" {
		port := getenv("NIXL_TELEMETRY_PROMETHEUS_PORT")
		if port == "" {
			port = "9090"
		}
		t.Address = net.JoinHostPort("127.0.0.1", port)
	}
	return t
}

func yes(value string) bool {
	return slices.Contains([]string{"y", "yes", "on", "true", "enable", "1"}, strings.ToLower(value))
}

// longestFlush bounds the wait for an exporter whose interval is long.
const longestFlush = 2 * time.Second

// Flush waits until what this process has counted is exported. The library drops what is not when an agent ends.
func (t Telemetry) Flush() {
	if t.Address != "" {
		time.Sleep(min(2*t.Interval+50*time.Millisecond, longestFlush))
	}
}

// AgentCount is what the exporter says of an agent of some process on this host.
type AgentCount struct {
	PID   string
	Agent string
	Bytes int64 // of requests that it posted
	Lost  int64 // events: four of each request
}

// Counts reads the counters at Address, of all agents that have any there.
func (t Telemetry) Counts(ctx context.Context) ([]AgentCount, error) {
	ctx, cancel := context.WithTimeout(ctx, 5*time.Second)
	defer cancel()
	q, err := http.NewRequestWithContext(ctx, http.MethodGet, "http://"+t.Address+"/metrics", nil)
	if err != nil {
		return nil, err
	}
	client := http.Client{Transport: &http.Transport{DisableKeepAlives: true}} // not through a proxy
	r, err := client.Do(q)
	if err != nil {
		return nil, err
	}
	defer r.Body.Close()
	if r.StatusCode != http.StatusOK {
		return nil, fmt.Errorf("http://%s/metrics: %s", t.Address, r.Status)
	}
	return parseCounts(r.Body)
}

// parseCounts reads the text format of Prometheus: a name, labels in braces, and a value in each line.
func parseCounts(r io.Reader) (list []AgentCount, err error) {
	at := map[[3]string]int{}
	lines := bufio.NewScanner(r)
	lines.Buffer(nil, 1<<20)
	for lines.Scan() {
		name, rest, ok := strings.Cut(lines.Text(), "{")
		if !ok || !slices.Contains([]string{
			"agent_tx_bytes_total", "agent_rx_bytes_total", "agent_telemetry_events_dropped_total",
		}, name) {
			continue
		}
		end := strings.LastIndexByte(rest, '}')
		if end < 0 {
			return nil, fmt.Errorf("the counter %s has no end of its labels", name)
		}
		labels, fields := rest[:end], strings.Fields(rest[end+1:])
		if len(fields) == 0 {
			return nil, fmt.Errorf("the counter %s has no value", name)
		}
		value, err := strconv.ParseFloat(fields[0], 64)
		if err != nil || !(value >= 0 && value < 1<<63) {
			return nil, fmt.Errorf("the counter %s is %q, want a number of at least 0", name, fields[0])
		}
		key := [3]string{label(labels, "pid"), label(labels, "agent_name"), label(labels, "agent_instance")}
		i, known := at[key]
		if !known {
			i, at[key] = len(list), len(list)
			list = append(list, AgentCount{PID: key[0], Agent: key[1]})
		}
		if name == "agent_telemetry_events_dropped_total" {
			list[i].Lost += int64(value)
		} else {
			list[i].Bytes += int64(value)
		}
	}
	return list, lines.Err()
}

// label finds the value of a label.
func label(labels, name string) string {
	for part := range strings.SplitSeq(labels, ",") {
		if key, value, ok := strings.Cut(part, "="); ok && key == name {
			return strings.Trim(value, `"`)
		}
	}
	return ""
}
