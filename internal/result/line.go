package result

import (
	"fmt"
	"math"
	"slices"

	"perigee/internal/size"
	"perigee/internal/stats"
)

// What a threshold may be held against beside a number.
const (
	ByLine    = "line"
	ByCeiling = "ceiling"
)

// CeilingPhase is the phase in which the ceiling is measured.
const CeilingPhase = "ceiling"

// References are the words for these.
var References = []string{ByLine, ByCeiling}

// By is the rate in bytes per second that line or ceiling stands for; 0 where it is not known, with the reason. l may
// be nil.
func (l *Line) By(name string) (rate float64, unknown string) {
	switch {
	case name == ByCeiling && l != nil && l.Ceiling != nil:
		return l.Ceiling.Rate, ""
	case name == ByCeiling:
		return 0, "the ceiling was not measured"
	case l == nil:
		return 0, "it was not looked for"
	}
	return l.Rate, l.From
}

// Text is the threshold, with the number that its part of the line or ceiling stands for.
func (t Threshold) Text() string {
	if t.Limit == nil {
		return t.Threshold
	}
	return fmt.Sprintf("%s (%.4g GB/s)", t.Threshold, *t.Limit)
}

// Utilisation is what a NIC has sent and received in a window, headers included, as a part of what its speed allows in
// each direction; ok is false where the speed is not known. A rate that the user has given stands for that of each NIC.
func (d *Document) Utilisation(w NetworkWindow, n NICWindow) (sent, received float64, ok bool) {
	speed := float64(n.Mbps) * 1e6 / 8
	if d.Line != nil && d.Line.Given {
		speed = d.Line.Rate
	}
	most := speed * float64(w.EndNS-w.StartNS) / 1e9
	if !(most > 0) {
		return 0, 0, false
	}
	return float64(n.Sent) / most, float64(n.Received) / most, true
}

// CeilingText describes the ceiling, and its part of the line where that is known; "" where there is none.
func (d *Document) CeilingText() string {
	l := d.Line
	if l == nil || l.Ceiling == nil {
		return ""
	}
	c := l.Ceiling
	text := fmt.Sprintf("%s, one message of %s from rank %d to rank %d", rateText(c.Rate), size.Binary(c.Bytes),
		c.Sender, c.Receiver)
	if l.Rate > 0 {
		text += fmt.Sprintf(" (%s of the line)", percent(c.Rate/l.Rate))
	}
	return text
}

// LineText compares what messages have reached with the line and the ceiling, and what all messages of a host have
// reached together with what the host's links carry, which ranks share; "" where neither is known or nothing went
// there, and for the ceiling inside a host, where caches serve small messages faster than a large one.
func (d *Document) LineText() string {
	l := d.Line
	if l == nil || l.Rate == 0 && (l.Ceiling == nil || len(d.World.Hosts) < 2) {
		return ""
	}
	r := d.reached()
	if len(r.messages) == 0 {
		return ""
	}
	p50, over := stats.Median(r.messages), false
	part := func(rate, of float64) string {
		over = over || rate > 1.005*of
		return percent(rate / of)
	}
	text := fmt.Sprintf("%s %s", r.what, rateText(p50))
	if l.Rate > 0 {
		text += fmt.Sprintf(" = %s of %s (%s)", part(p50, l.Rate), rateText(l.Rate), l.From)
	}
	if l.Host > 0 && r.together {
		host := stats.Median(r.hosts)
		text += fmt.Sprintf(", all of the busiest host %s = %s of %s", rateText(host), part(host, l.Host),
			rateText(l.Host))
	}
	if c := l.Ceiling; c != nil {
		text += fmt.Sprintf("; %s of the ceiling, %s", percent(p50/c.Rate), rateText(c.Rate))
	}
	switch {
	case over && l.Given:
		text += "; more than the line: the links are faster than --line says, or messages took another way"
	case over:
		text += "; more than the line: the links are not as the devices say (--line RATE), or messages took another way"
	}
	return text
}

func rateText(bytesPerSecond float64) string { return size.Decimal(bytesPerSecond) + "/s" }

func percent(part float64) string { return fmt.Sprintf("%.0f %%", 100*part) }

// reached holds the rates of a run in bytes per second.
type reached struct {
	what     string    // which messages, and which of their rates counts
	messages []float64 // of each, from the start of its initiator to its own end
	hosts    []float64 // of each run, in that direction of that host that had most
	together bool      // a host had more than one message of a run in one direction
}

// direction is one of the two of a host.
type direction struct {
	host int
	out  bool
}

// flow is all messages of a run in one direction.
type flow struct{ bytes, start, end, messages int64 }

// reached collects the rates of the messages between hosts, or of all where there is one host; of the runs alone only
// where there are no others.
func (d *Document) reached() (r reached) {
	hostOf := map[int]int{}
	for h, host := range d.World.Hosts {
		for _, rank := range host.Ranks {
			hostOf[rank] = h
		}
	}
	several := len(d.World.Hosts) > 1
	workload := slices.ContainsFunc(d.Measurements, func(m Measurement) bool { return m.Phase != IsolatedPhase })
	least, most := int64(math.MaxInt64), int64(0)
	for i := range d.Measurements {
		m := &d.Measurements[i]
		if workload && m.Phase == IsolatedPhase {
			continue
		}
		read, flows := d.Patterns[m.Pattern].Op == "READ", map[direction]flow{}
		for k := range m.Ranks {
			from := &m.Ranks[k]
			for _, p := range from.Peers {
				a, b := hostOf[from.Rank], hostOf[p.Peer]
				if several && a == b || from.Rank == p.Peer || p.Bytes == 0 {
					continue
				}
				least, most = min(least, p.Bytes), max(most, p.Bytes)
				r.messages = append(r.messages, float64(p.Bytes)/float64(max(p.EndNS-from.StartNS, 1))*1e9)
				flows[direction{a, !read}] = flows[direction{a, !read}].with(p.Bytes, from.StartNS, p.EndNS)
				flows[direction{b, read}] = flows[direction{b, read}].with(p.Bytes, from.StartNS, p.EndNS)
			}
		}
		busiest := 0.0
		for _, f := range flows {
			busiest = max(busiest, f.rate())
			r.together = r.together || several && f.messages > 1
		}
		if busiest > 0 {
			r.hosts = append(r.hosts, busiest)
		}
	}
	if len(r.messages) == 0 {
		return d.fastestBlocks()
	}
	r.what = "p50 of messages"
	if several {
		r.what += " between hosts"
	}
	if least < most {
		r.what += fmt.Sprintf(", %s to %s,", size.BinaryRounded(least), size.BinaryRounded(most))
	}
	return r
}

// fastestBlocks is what an initiator of block transfers has reached with the blocks of which it moved most in a second,
// where all that ranks exchange is between hosts.
func (d *Document) fastestBlocks() (r reached) {
	for _, m := range d.Lanes {
		if len(d.World.Hosts) < d.World.Size || m.Local == "file" || m.Remote == "file" {
			continue
		}
		for _, k := range m.Ranks {
			rate := float64(k.Bytes) / float64(max(k.EndNS-k.StartNS, 1)) * 1e9
			if k.Bytes > 0 && (len(r.messages) == 0 || rate > r.messages[0]) {
				r.messages, r.what = []float64{rate}, "blocks of "+size.Binary(m.BlockBytes)+", the fastest,"
			}
		}
	}
	return r
}

func (f flow) with(bytes, start, end int64) flow {
	if f.messages == 0 {
		f.start, f.end = start, end
	}
	return flow{f.bytes + bytes, min(f.start, start), max(f.end, end), f.messages + 1}
}

func (f flow) rate() float64 { return float64(f.bytes) / float64(max(f.end-f.start, 1)) * 1e9 }
