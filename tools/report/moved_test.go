package report

import (
	"encoding/json"
	"fmt"
	"reflect"
	"strings"
	"testing"

	"perigee/internal/kit/plaintext"
	"perigee/internal/result"
)

// observed adds what was seen beside the times to a result: the path, accounts, counters of so many NICs on each host
// in three phases, the line and its ceiling.
func observed(d *result.Document, nics int) *result.Document {
	known := func(n int64) *int64 { return &n }
	d.Paths = &result.Paths{Source: "UCX 1.20.0", Uses: []result.PathUse{
		{Op: "WRITE", Local: "dram", Remote: "dram", Reach: "network", Transport: "tcp", Device: "eth0", How: "zero-copy", MinBytes: 8192, Count: 2900, Ranks: 4},
		{Op: "WRITE", Local: "dram", Remote: "dram", Reach: "network", Transport: "tcp", Device: "eth0", How: "short", MaxBytes: 8191, Count: 100, Ranks: 4},
	}, Lanes: []result.PathLanes{{Reach: "network", Lanes: "rma_am(tcp/eth0) am(tcp/eth0)", Ranks: 4}}}
	d.Accounts = &result.Accounts{Library: "NIXL's exporter prometheus", NICs: "counters of 2 hosts",
		Total: result.Account{Plan: 8e9, Between: 8e9, Library: known(1.64e9), Lost: known(7953), Sent: known(8.24e9), Received: known(8.24e9)},
		Phases: []result.Account{{Phase: "isolated", Plan: 4e9, Between: 4e9, Sent: known(4.12e9), Received: known(4.12e9)},
			{Phase: "workload", Plan: 4e9, Between: 4e9}}}
	d.Accounts.Judge()
	d.Network = &result.Network{}
	for i, phase := range []string{"prepare", "isolated", "workload"} {
		for h := range d.World.Hosts {
			w := result.NetworkWindow{Host: h, Phase: phase, StartNS: int64(i) * 1e9, EndNS: int64(i+1) * 1e9,
				TCP: map[string]int64{"retransmits": 0, "timeouts": 0}}
			if i == 2 && h == 1 {
				w.TCP["retransmits"], w.TCP["timeouts"] = 2174, 12
			}
			for n := range nics {
				w.NICs = append(w.NICs, result.NICWindow{Name: fmt.Sprintf("mlx5_%d:1", n), Mbps: 400_000, Sent: int64(i*n) * 1e9, Received: 48e9, Counters: map[string]int64{"xmit_wait": 0}})
			}
			d.Network.Windows = append(d.Network.Windows, w)
		}
	}
	d.Network.Windows[0].Note = "mlx5_7:1 went away"
	d.Line = &result.Line{Rate: 50e9, From: "mlx5_0:1, 400 Gb/s, by its driver",
		Ceiling: &result.Ceiling{Receiver: 1, Op: "WRITE", Mem: "dram", Bytes: 64 << 20, Runs: 10, Rate: 48.6e9}}
	return d
}

// manyNICs is a result of 64 hosts with 8 NICs each in 3 phases.
func manyNICs() *result.Document {
	s := synthetic{ranks: 64, hosts: 64, patterns: 1, senders: 2, peers: 1, isolated: 1, iterations: 2}
	d := s.document()
	s.each(d, func(m *result.Measurement) { d.Measurements = append(d.Measurements, *m) })
	return observed(d, 8)
}

// Page, text and JSON have the path, the accounts, the counters and the line, in the same figures.
func TestWhatMovedTheBytes(t *testing.T) {
	d := observed(smallDocument(), 1)
	for _, w := range d.Network.Windows {
		w.TCP["retransmits"] = 2174
	}
	d.Lanes = nil
	page, text := htmlOf(t, d), textOf(t, d, look{width: 200, full: true})
	for _, want := range []string{
		"path: WRITE dram-dram tcp/eth0 zero-copy 97 %; WRITE dram-dram tcp/eth0 short 3 %", "The path", "Three accounts of the bytes", "Counters of the network", "The line",
		"As UCX 1.20.0 says.", "Connections of 4 ranks, network: rma_am(tcp/eth0) am(tcp/eth0)", "zero-copy", "from 8 KiB",
		"0 B to 8191 B", "2900", "96.7 %", "4.12 GB", "isolated: NICs 1.030: headers",
		"NIXL 1.64 GB (0.205: 7953 events lost, raise NIXL_TELEMETRY_BUFFER_SIZE)", "NICs: counters of 2 hosts",
		"retransmits 2174", "48.0 GB/s, 96.0 %", "mlx5_7:1 went away", "50.0 GB/s", "400 Gb/s, by its driver", "97.2 %",
		"one message of 64 MiB from rank 0 to rank 1 (97 % of the line); WRITE of dram, the median of 10 runs", "All traffic of a host",
	} {
		if !strings.Contains(page, want) {
			t.Errorf("the page lacks %q", want)
		}
		if !strings.Contains(strings.Join(strings.Fields(text), " "), want) {
			t.Errorf("the text lacks %q:\n%s", want, text)
		}
	}
	if n := strings.Count(page, "All traffic of a host"); n != 1 {
		t.Errorf("the page says %d times whose counters these are", n)
	}
	short := textOf(t, d, look{width: 80})
	if !strings.Contains(short, "  path: WRITE dram-dram tcp/eth0") || !strings.Contains(short, "what moved the bytes") ||
		strings.Contains(short, "Three accounts") {
		t.Errorf("without --full:\n%s", short)
	}
	var out struct {
		Results []struct {
			Answer struct{ Path string }
			Moved  struct {
				Path     *result.Paths
				Accounts *result.Accounts
				Line     *result.Line
				NICs     []struct {
					Host     int
					Name     string
					Sent     *int64   `json:"sent_bytes"`
					Use      *float64 `json:"received_utilisation"`
					Counters map[string]int64
				}
				Reached []struct {
					OfLine float64 `json:"of_line"`
				}
			}
		}
	}
	js, _, err := report(t, Cmd{Results: []string{write(t, d, "r.json")}, Format: "json", Output: "-"})
	if err == nil {
		err = json.Unmarshal([]byte(js), &out)
	}
	m := out.Results[0].Moved
	if err != nil || !reflect.DeepEqual(m.Path, d.Paths) || !reflect.DeepEqual(m.Accounts, d.Accounts) ||
		!reflect.DeepEqual(m.Line, d.Line) || len(m.NICs) != 6 || m.NICs[0].Counters["retransmits"] != 2174 ||
		m.NICs[0].Use != nil || *m.NICs[3].Use != 0.96 || m.Reached[0].OfLine != 0.972 ||
		!strings.HasPrefix(out.Results[0].Answer.Path, "path: WRITE") {
		t.Errorf("%v, %+v", err, m)
	}
}

// What a run warns of, and why a threshold is violated though its value is beyond the limit, stands in page and text.
func TestBytesThatPassNoNetwork(t *testing.T) {
	d := observed(smallDocument(), 1)
	for i := range d.Paths.Uses {
		d.Paths.Uses[i].Transport, d.Paths.Uses[i].Device = "cma", "memory"
	}
	d.Notes = []string{"WARNING: " + d.PathWarnings()[0]}
	violated, value := false, 5.
	d.Thresholds = []result.Threshold{{Threshold: "pair_bw_gb_per_s.p50 > 0.9 * line", Value: &value, Samples: 3, Passed: &violated, Note: "more than the line of x"}}
	page, text := htmlOf(t, d), textOf(t, d, look{width: 200})
	for _, want := range []string{"WRITE dram-dram goes between hosts over cma: they share a kernel, and these bytes pass no network; UCX_TLS=tcp", "more than the line of x"} {
		if !strings.Contains(page, want) || !strings.Contains(text, want) {
			t.Errorf("%t, and in the text %t: %q:\n%s", strings.Contains(page, want), strings.Contains(text, want), want, text)
		}
	}
	if !strings.Contains(text, "\n- warning: WRITE") {
		t.Error(text)
	}
}

// Of many NICs page and text have those with counters and the busiest, JSON has all.
func TestManyNICs(t *testing.T) {
	d := manyNICs()
	page, text := htmlOf(t, d), textOf(t, d, look{width: 200, full: true})
	_, rest, _ := strings.Cut(page, "<h2>What moved the bytes</h2>")
	section, _, _ := strings.Cut(rest, "</section>")
	first := strings.Index(section, "<td>TCP</td>")
	if n := strings.Count(section, "<tr>"); n > 60 || first < 0 || first > strings.Index(section, "<td>mlx5_7:1</td>") ||
		strings.Contains(section, "<td>prepare</td><td>node") && strings.Contains(section, "<td>mlx5_1:1</td>") ||
		!strings.Contains(section, "The first 40 of 1537 rows; --format json has all.") {
		t.Errorf("%d rows in the page, TCP at %d:\n%.3000s", n, first, section)
	}
	if n := strings.Count(text, "mlx5_"); n > 25 || !strings.Contains(text, "The first 16 of 1537 rows") {
		t.Errorf("%d lines of NICs in the text", n)
	}
	js, _, err := report(t, Cmd{Results: []string{write(t, d, "r.json")}, Format: "json", Output: "-"})
	if n := strings.Count(js, `"name": "mlx5_`); err != nil || n != 64*8*3 {
		t.Errorf("%v, %d NICs in JSON", err, n)
	}
}

// What other machines say of themselves stays text.
func TestMovedIsEscaped(t *testing.T) {
	d := observed(smallDocument(), 1)
	for _, v := range []any{d.Paths, d.Accounts, d.Network, d.Line} {
		poison(reflect.ValueOf(v))
	}
	d.Network.Windows[0].TCP = map[string]int64{"retransmits": 3, "\x1b[2Jevil": 5}
	if text := textOf(t, d, look{width: 80, full: true}); text != plaintext.Text(text) || strings.Count(text, "evil") < 9 {
		t.Errorf("a result plays with the terminal: %q", text)
	}
	d.Paths.Uses[0].Device, d.Network.Windows[0].NICs[0].Name, d.Line.From = hostile, hostile, hostile
	if page := htmlOf(t, d); strings.Contains(page, hostile) || strings.Count(page, "&lt;img src=x") < 4 {
		t.Error("a result plays with the page")
	}
}

// A result without these sections says nothing of them, and one with little says that.
func TestLittleMoved(t *testing.T) {
	d := smallDocument()
	for _, view := range []string{htmlOf(t, d), textOf(t, d, look{width: 80, full: true}), textOf(t, d, look{width: 80})} {
		if strings.Contains(strings.ToLower(view), "moved the bytes") {
			t.Error("an old result says what moved its bytes")
		}
	}
	d.Paths, d.Network = &result.Paths{Source: "UCX", Unknown: "its log has another form"}, &result.Network{}
	d.Line, d.Accounts = &result.Line{From: "no host says the speed of a NIC"}, &result.Accounts{Library: "no telemetry"}
	text := textOf(t, d, look{width: 80, full: true}) + htmlOf(t, d)
	for _, want := range []string{"Not known: its log has another form", "Line: unknown (no host says", "Library: no telemetry"} {
		if strings.Count(text, want) != 2 {
			t.Errorf("lacks %q", want)
		}
	}
}
