package result

import (
	"cmp"
	"fmt"
	"maps"
	"slices"
	"sort"
	"strings"

	"perigee/internal/kit/plaintext"
)

// congestion words the counters whose gain is a sign of congestion or loss, the plainest first. Counters that are a
// part of others, such as fast retransmissions, have no words. Names are those of docs/network.md; TCP's begin with
// tcp.
var congestion = []struct{ name, words string }{
	{"tcp retransmits", "retransmitted TCP segment%s"},
	{"tcp timeouts", "TCP time-out%s"},
	{"tcp receive_drops", "TCP segment%s without room at the receiver"},
	{"tcp backlog_drops", "TCP segment%s dropped from a backlog"},
	{"tcp ecn_marked", "TCP segment%s marked for congestion"},
	{"retransmits", "retransmitted packet%s"},
	{"ack_timeouts", "missing acknowledgement%s"},
	{"sequence_errors", "sequence error%s"},
	{"out_of_sequence", "packet%s out of sequence"},
	{"ecn_marked", "packet%s marked for congestion"},
	{"cnp_received", "congestion notification%s received"},
	{"cnp_sent", "congestion notification%s sent"},
	{"pause_received", "pause frame%s received"},
	{"pause_sent", "pause frame%s sent"},
	{"xmit_wait", "tick%s of waiting to send"},
	{"rx_dropped", "arriving packet%s dropped"},
	{"tx_dropped", "departing packet%s dropped"},
	{"rx_discards", "arriving packet%s discarded"},
	{"tx_discards", "departing packet%s discarded"},
	{"rx_errors", "receive error%s"},
	{"out_of_buffer", "packet%s without a buffer"},
	{"not_ready", "message%s for a receiver that was not ready"},
	{"shaped_received", "arriving packet%s beyond the cloud's bandwidth"},
	{"shaped_sent", "departing packet%s beyond the cloud's bandwidth"},
	{"shaped_packets", "packet%s beyond the cloud's packets per second"},
	{"impaired_connections", "impaired connection%s"},
}

// Congestion says what the counters of congestion have gained in each phase in which something was measured, one text
// for a phase: "workload: 2174 retransmitted TCP segments on c (3220 on 3 hosts)". Phases in which none has moved have
// no text. NICs that came or went are named in any phase. Of a job on one host only RDMA ports count: TCP then carries
// what others send. The counters are those of whole hosts, so that other traffic is in them.
func (d *Document) Congestion() (texts []string) {
	measured, windows := d.measuredPhases(), map[string][]*NetworkWindow{}
	var phases []string
	for i := range d.windows() {
		w := &d.Network.Windows[i]
		if windows[w.Phase] == nil {
			phases = append(phases, w.Phase)
		}
		windows[w.Phase] = append(windows[w.Phase], w)
	}
	for _, phase := range phases {
		if text := d.congestionIn(windows[phase], len(measured) == 0 || measured[phase]); text != "" {
			texts = append(texts, cmp.Or(phase, "the run")+": "+text)
		}
	}
	return texts
}

// congestionIn words the windows of one phase: their notes and, if something was measured, their counters.
func (d *Document) congestionIn(windows []*NetworkWindow, measured bool) string {
	const most = 4
	gains := map[string]map[string]int64{} // by counter and place
	var notes []string
	for _, w := range windows {
		host := d.World.Hosts[w.Host].Name
		d.Counted(w, func(counter, nic string, n int64) {
			if n <= 0 || !measured {
				return
			}
			place := host
			if nic != "" {
				place = nic + " of " + host
			}
			if gains[counter] == nil {
				gains[counter] = map[string]int64{}
			}
			gains[counter][place] += n
		})
		if w.Note != "" {
			notes = append(notes, fmt.Sprintf("on %s %s", host, w.Note))
		}
	}
	var parts []string
	for _, c := range congestion {
		if len(gains[c.name]) > 0 {
			parts = append(parts, worst(c.name, gains[c.name]))
		}
	}
	parts, notes = plaintext.First(parts, most, "%d more"), plaintext.First(notes, most, "%d more")
	return strings.Join(append(parts, notes...), ", ")
}

// Counted yields what the counters of a host have gained by traffic that may be the job's: of a job on one host those
// of RDMA ports, since TCP there carries what others send. Names of TCP's begin with "tcp ", and have no NIC.
func (d *Document) Counted(w *NetworkWindow, yield func(name, nic string, n int64)) {
	several := len(d.World.Hosts) > 1
	for name, n := range w.TCP {
		if several {
			yield("tcp "+name, "", n)
		}
	}
	for _, nic := range w.NICs {
		if !several && !strings.Contains(nic.Name, ":") {
			continue
		}
		for name, n := range nic.Counters {
			yield(name, nic.Name, n)
		}
	}
}

// worst words where a counter has gained most, and what it has gained everywhere.
func worst(counter string, gains map[string]int64) string {
	var sum, most int64
	place := ""
	for _, p := range slices.Sorted(maps.Keys(gains)) {
		if sum += gains[p]; gains[p] > most {
			most, place = gains[p], p
		}
	}
	text, _, _ := CongestionWords(counter, most)
	text += " on " + place
	if unit := "NICs"; len(gains) > 1 {
		if strings.HasPrefix(counter, "tcp ") {
			unit = "hosts"
		}
		text += fmt.Sprintf(" (%d on %d %s)", sum, len(gains), unit)
	}
	return text
}

// Sort puts the windows in order: by time, then by host.
func (n *Network) Sort() {
	slices.SortStableFunc(n.Windows, func(a, b NetworkWindow) int {
		return cmp.Or(cmp.Compare(a.StartNS, b.StartNS), cmp.Compare(a.Host, b.Host))
	})
}

// measuredPhases are those in which measurements were made and samples taken, and those that measurements were
// collected in. The middle of a measurement counts: clocks of hosts are not exact at its edges.
func (d *Document) measuredPhases() map[string]bool {
	phases := map[string]bool{}
	add := func(phase string, start, end int64) {
		phases[phase], phases[d.PhaseAt(start+(end-start)/2)] = true, true
	}
	for i := range d.Measurements {
		add(d.Measurements[i].Phase, d.Measurements[i].StartNS, d.Measurements[i].EndNS)
	}
	for i := range d.Storage {
		add(d.Storage[i].Phase, d.Storage[i].StartNS, d.Storage[i].EndNS)
	}
	for i := range d.Lanes {
		add(d.Lanes[i].Phase, d.Lanes[i].StartNS, d.Lanes[i].EndNS)
	}
	for _, m := range d.Metrics {
		for _, at := range m.TimesNS {
			phases[cmp.Or(d.PhaseAt(at), FirstPhase)] = true
		}
	}
	return phases
}

// PhaseAt is the phase in which a moment lies, "" before the first.
func (d *Document) PhaseAt(ns int64) string {
	after := sort.Search(len(d.Phases), func(i int) bool { return d.Phases[i].StartNS > ns })
	if after == 0 {
		return ""
	}
	return d.Phases[after-1].Name
}
