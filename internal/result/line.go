package result

import (
	"cmp"
	"fmt"
	"math"
	"slices"
	"time"

	"perigee/internal/kit/size"
	"perigee/internal/kit/stats"
	"perigee/internal/traffic/series"
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

// NoCeiling is the remark on figures above [Ceiling.Exceeded].
const NoCeiling = "which was slower than messages of the run, so it is no ceiling for them"

// Exceeded is the rate in bytes per second above which a figure shows that the ceiling is none.
func (c *Ceiling) Exceeded() float64 { return 1.1 * c.Rate }

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

// ShortestUse is the window from which on a utilisation is known: hosts begin and end a phase some milliseconds apart,
// and what others send in these counts too.
const ShortestUse = 100 * time.Millisecond

// Utilisation is what a NIC has sent and received in a window, headers included, as a part of what its speed allows in
// each direction; ok is false where the speed is not known, and for windows shorter than [ShortestUse]. A rate that the
// user has given stands for that of each NIC.
func (d *Document) Utilisation(w NetworkWindow, n NICWindow) (sent, received float64, ok bool) {
	speed := float64(n.Mbps) * 1e6 / 8
	if d.Line != nil && d.Line.Given {
		speed = d.Line.Rate
	}
	most := speed * float64(w.EndNS-w.StartNS) / 1e9
	if !(most > 0) || w.EndNS-w.StartNS < int64(ShortestUse) {
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
	text := fmt.Sprintf("%s, one message of %s from rank %d to rank %d", size.Rate(c.Rate), size.Binary(c.Bytes),
		c.Sender, c.Receiver)
	switch {
	case l.Rate > 0 && c.Rate > MostShare*l.Rate:
		text += " (more than the line)"
	case l.Rate > 0:
		text += fmt.Sprintf(" (%s of the line)", percent(c.Rate/l.Rate))
	}
	return text
}

// LineText compares what messages have reached with the line and the ceiling, and what all messages of a host have
// reached together with what the host's links carry, which ranks share; "" where neither is known or nothing went
// there, and inside a host, where no wire is used and caches serve small messages faster than a large one.
func (d *Document) LineText() string {
	l := d.Line
	if l == nil || len(d.World.Hosts) < 2 || l.Rate == 0 && l.Ceiling == nil {
		return ""
	}
	r := d.reached()
	if len(r.messages) == 0 {
		return ""
	}
	p50, over := stats.Median(r.messages), false
	part := func(rate, of float64) string {
		over = over || rate > 1.005*of
		return shareOf(rate, of)
	}
	text := fmt.Sprintf("%s %s", r.what, size.Rate(p50))
	if l.Rate > 0 {
		text += fmt.Sprintf("%s (%s)", part(p50, l.Rate), l.From)
	}
	if b, ok := d.Busiest(); ok && l.Host > 0 {
		text += fmt.Sprintf(", all of the busiest host: %s %s%s", b.Text(d), size.Rate(b.Rate), part(b.Rate, l.Host))
	}
	if c := l.Ceiling; c != nil {
		text += fmt.Sprintf("; %s of the ceiling, %s", percent(p50/c.Rate), size.Rate(c.Rate))
		if p50 > c.Exceeded() {
			text += ", " + NoCeiling
		}
	}
	switch {
	case over && l.Given:
		text += "; more than the line: the links are faster than --line says, or messages took another way"
	case over:
		text += "; more than the line: the links are not as the devices say (--line RATE), or messages took another way"
	}
	return text
}

// AboveLine says which figure is more than the line carries, so that none of the run is a part of it, and of a ceiling
// that was measured over the same way; "" where none is, or no line is known.
func (d *Document) AboveLine() string {
	l := d.Line
	if l == nil || len(d.World.Hosts) < 2 || l.Rate == 0 {
		return ""
	}
	way := "they took another way, or the links are not as said (--line RATE)"
	if d.Paths != nil && slices.ContainsFunc(d.Paths.ways(), d.bypasses) {
		way = "the hosts share a kernel, and the bytes pass no network: UCX_TLS=tcp"
	}
	r := d.reached()
	if len(r.messages) == 0 {
		return ""
	}
	if p50 := stats.Median(r.messages); p50 > MostShare*l.Rate {
		return fmt.Sprintf("%s %s, more than the line of %s: %s", r.what, size.Rate(p50), size.Rate(l.Rate), way)
	}
	if b, ok := d.Busiest(); ok && l.Host > 0 && b.Rate > MostShare*l.Host {
		return fmt.Sprintf("%s %s, more than its line of %s: %s", b.Text(d), size.Rate(b.Rate), size.Rate(l.Host), way)
	}
	return ""
}

// MostShare is the largest part of a line that may be one: what is above has not gone through it.
const MostShare = 1.05

// shareOf is " = 80 % of 25.0 GB/s", or says that a rate is no part of that.
func shareOf(rate, of float64) string {
	if rate > MostShare*of {
		return ", above " + size.Rate(of)
	}
	return fmt.Sprintf(" = %s of %s", percent(rate/of), size.Rate(of))
}

func percent(part float64) string { return fmt.Sprintf("%.0f %%", 100*part) }

// reached holds the rates of messages in bytes per second.
type reached struct {
	what     string    // which messages, and which of their rates counts
	messages []float64 // of each, from the start of its initiator to its own end
}

// hostNumbers maps ranks to the indices of their hosts.
func hostNumbers(d *Document) map[int]int {
	hostOf := map[int]int{}
	for h, host := range d.World.Hosts {
		for _, rank := range host.Ranks {
			hostOf[rank] = h
		}
	}
	return hostOf
}

// eachBetween yields the messages between hosts; those of the runs alone only where there are no others.
func (d *Document) eachBetween(yield func(from *series.RankRun, p series.PeerRun)) {
	hostOf := hostNumbers(d)
	workload := slices.ContainsFunc(d.Measurements, func(m Measurement) bool { return m.Phase != IsolatedPhase })
	for i := range d.Measurements {
		m := &d.Measurements[i]
		if workload && m.Phase == IsolatedPhase {
			continue
		}
		for k := range m.Ranks {
			from := &m.Ranks[k]
			for _, p := range from.Peers {
				if hostOf[from.Rank] != hostOf[p.Peer] && p.Bytes > 0 {
					yield(from, p)
				}
			}
		}
	}
}

// reached collects the rates of messages.
func (d *Document) reached() (r reached) {
	least, most := int64(math.MaxInt64), int64(0)
	d.eachBetween(func(from *series.RankRun, p series.PeerRun) {
		least, most = min(least, p.Bytes), max(most, p.Bytes)
		r.messages = append(r.messages, float64(p.Bytes)/float64(max(p.EndNS-from.StartNS, 1))*1e9)
	})
	if len(r.messages) == 0 {
		return d.fastestBlocks()
	}
	r.what = "p50 of messages between hosts"
	if least < most {
		r.what += fmt.Sprintf(", %s to %s,", size.BinaryRounded(least), size.BinaryRounded(most))
	}
	return r
}

// Busiest is what a host has sent to other hosts, or received from them, while it did so.
type Busiest struct {
	Host  int // index into World.Hosts
	Sends bool
	Rate  float64 // bytes per second of the time in which at least one message was under way
}

// Text names the host and the direction, such as "node3 receives".
func (b Busiest) Text(d *Document) string {
	if b.Sends {
		return d.World.Hosts[b.Host].Name + " sends"
	}
	return d.World.Hosts[b.Host].Name + " receives"
}

// Busiest is the host that has reached most in one direction, with all its messages of the workload: their bytes over
// the union of the times from the start of their initiators to their ends. So patterns that overlap share the time, and
// pauses between runs, or senders that drift apart, have no part in it. ok is false where no host had two messages at
// the same time in one direction: then the messages say it.
func (d *Document) Busiest() (b Busiest, ok bool) {
	var f Flows
	for i := range d.Measurements {
		f.Add(d, &d.Measurements[i])
	}
	return f.Busiest(d)
}

// Flows collects the messages of a result for [Document.Busiest], run by run. The zero value is empty.
type Flows struct {
	hostOf          map[int]int
	alone, workload map[direction]*flow
}

// Add takes in the messages between hosts of a run.
func (f *Flows) Add(d *Document, m *Measurement) {
	if f.hostOf == nil {
		*f = Flows{hostNumbers(d), map[direction]*flow{}, map[direction]*flow{}}
	}
	flows, read := f.workload, d.Patterns[m.Pattern].Op == "READ"
	if m.Phase == IsolatedPhase {
		flows = f.alone
	}
	add := func(at direction, bytes, start, end int64) {
		if flows[at] == nil {
			flows[at] = new(flow)
		}
		flows[at].add(bytes, start, end)
	}
	for k := range m.Ranks {
		from := &m.Ranks[k]
		for _, p := range from.Peers {
			if a, b := f.hostOf[from.Rank], f.hostOf[p.Peer]; a != b {
				add(direction{a, !read}, p.Bytes, from.StartNS, p.EndNS)
				add(direction{b, read}, p.Bytes, from.StartNS, p.EndNS)
			}
		}
	}
}

// Busiest is [Document.Busiest] of what was added; the runs alone count only where there are no others.
func (f *Flows) Busiest(d *Document) (b Busiest, ok bool) {
	flows := f.workload
	if len(flows) == 0 {
		flows = f.alone
	}
	for h := range d.World.Hosts {
		for _, sends := range []bool{true, false} {
			if f := flows[direction{h, sends}]; f != nil {
				if rate := f.rate(); rate > b.Rate {
					b = Busiest{h, sends, rate}
				}
				ok = ok || f.shared
			}
		}
	}
	return b, ok
}

// Alone is the rate of the runs alone in the direction of a host; 0 without any.
func (f *Flows) Alone(b Busiest) float64 {
	if k := f.alone[direction{b.Host, b.Sends}]; k != nil {
		return k.rate()
	}
	return 0
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

// direction is one of the two of a host.
type direction struct {
	host  int
	sends bool
}

// span is a time on the common time line.
type span struct{ start, end int64 }

// flow is all messages in one direction.
type flow struct {
	bytes  int64
	times  []span // in which they were under way
	shared bool   // two were at the same time
}

// add takes in a message. One that overlaps with the one before, as most do, extends its time.
func (f *flow) add(bytes, start, end int64) {
	f.bytes += bytes
	if n := len(f.times) - 1; n >= 0 && start < f.times[n].end && end > f.times[n].start {
		f.times[n] = span{min(f.times[n].start, start), max(f.times[n].end, end)}
		f.shared = true
		return
	}
	f.times = append(f.times, span{start, end})
}

// rate is the bytes over the union of the times, in bytes per second.
func (f *flow) rate() float64 {
	slices.SortFunc(f.times, func(a, b span) int { return cmp.Compare(a.start, b.start) })
	ns, until := int64(0), int64(math.MinInt64)
	for _, t := range f.times {
		f.shared = f.shared || t.start < until
		if t.end > until {
			ns += t.end - max(t.start, until)
			until = t.end
		}
	}
	return float64(f.bytes) / float64(max(ns, 1)) * 1e9
}
