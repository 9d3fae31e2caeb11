package result

import (
	"fmt"
	"strings"

	"perigee/internal/kit/size"
)

// Accounts compares the bytes of a run as three sides count them: the plan, the library that moves them, and the NICs.
type Accounts struct {
	Library string    `json:"library"`                          // who counts for the library, or why none is there
	Missing int       `json:"library_missing_agents,omitempty"` // that moved bytes, and that the library does not count
	NICs    string    `json:"nics"`                             // who counts for the NICs, or why none is there
	Control int64     `json:"control_bytes"`                    // between ranks, of perigee itself: in no plan
	Total   Account   `json:"total"`
	Phases  []Account `json:"phases,omitempty"` // in the order of the first rank that moved bytes in them
}

// Account holds the bytes of one phase, or of all. What is not known is nil.
type Account struct {
	Phase   string `json:"phase,omitempty"`
	Plan    int64  `json:"plan_bytes"`              // of all messages and parts of files that were played
	Between int64  `json:"plan_between_host_bytes"` // of the messages that left their host
	// Unwatched are those of Between in phases of which the NICs' counters say nothing.
	Unwatched int64  `json:"plan_unwatched_bytes,omitempty"`
	Library   *int64 `json:"library_bytes,omitempty"` // of the total only: exporters have no phases
	Lost      *int64 `json:"library_lost_events,omitempty"`
	Sent      *int64 `json:"nic_sent_bytes,omitempty"` // by the NICs of all hosts
	Received  *int64 `json:"nic_received_bytes,omitempty"`
	Messages  int64  `json:"plan_messages,omitempty"`
	Resent    int64  `json:"tcp_retransmits,omitempty"` // segments that all hosts sent again meanwhile
	Verdict   string `json:"verdict,omitempty"`
}

// What NICs count for a byte of messages. Ethernet, IPv4 and TCP with time stamps add 66 bytes to each 1448 at an MTU
// of 1500, which is 1.046, and an acknowledgement of 66 bytes for every second segment 0.023 more. Larger MTUs and
// interfaces that count before segmentation add less; so do RoCEv2 and InfiniBand, which add up to 78 bytes to each
// 1024 at the least. Below 1 lies what a window of the counters misses at its edges.
const (
	leastHeaders = 0.99
	mostHeaders  = 1.08
	// connecting bounds what NICs carry beside messages and perigee's own control: set-up of connections, notices, ARP.
	connecting = 1_000_000
	// small messages fill no segments: a request, its reply and acknowledgements add up to perSmall to each.
	small    = 16 << 10
	perSmall = 512
	// segment is the length of a TCP segment with its headers at an MTU of 1500.
	segment = 1514
)

// Judge fills in the verdicts.
func (a *Accounts) Judge() {
	nics := func(t *Account) string { return prefixed("NICs ", t.nicWords(a.Control)) }
	a.Total.Verdict = nics(&a.Total)
	if library := prefixed("NIXL ", a.Total.libraryWords(a.Missing)); library != "" {
		a.Total.Verdict = strings.TrimSuffix(library+"; "+a.Total.Verdict, "; ")
	}
	for i := range a.Phases {
		p := &a.Phases[i]
		p.Verdict = nics(p)
		if ratio, ok := p.NICRatio(); ok && len(a.Phases) > 1 && (ratio < leastHeaders || ratio > mostHeaders) {
			p.Verdict += " (or the phase before or after counts them)"
		}
	}
}

// prefixed puts a name before words, if there are any.
func prefixed(who, words string) string {
	if words == "" {
		return ""
	}
	return who + words
}

// LibraryRatio is what the library counts over the plan; ok is false where either is unknown or nothing.
func (a *Account) LibraryRatio() (ratio float64, ok bool) { return over(a.Library, a.Plan) }

// NICRatio is what the NICs have sent over what left a host by the plan meanwhile; ok is false where either is unknown
// or nothing.
func (a *Account) NICRatio() (ratio float64, ok bool) { return over(a.Sent, a.Between-a.Unwatched) }

func over(counted *int64, plan int64) (float64, bool) {
	if counted == nil || plan <= 0 {
		return 0, false
	}
	return float64(*counted) / float64(plan), true
}

// libraryWords judges the library's count; empty where it has none.
func (a *Account) libraryWords(missing int) string {
	ratio, ok := a.LibraryRatio()
	switch {
	case !ok:
		return ""
	case a.Lost != nil && *a.Lost > 0:
		return fmt.Sprintf("%.3f: %d events lost, raise NIXL_TELEMETRY_BUFFER_SIZE", ratio, *a.Lost)
	case *a.Library == a.Plan && a.Lost != nil:
		return "1.000: every byte"
	case *a.Library == a.Plan:
		return "1.000: by request"
	case missing > 0:
		return fmt.Sprintf("%.3f: agents that it does not count: %d", ratio, missing)
	case *a.Library < a.Plan:
		return fmt.Sprintf("%.3f: fewer bytes than the plan", ratio)
	}
	return fmt.Sprintf("%.3f: more bytes than the plan", ratio)
}

// nicWords judges the NICs' count beside so many bytes of control messages; empty where there is none.
func (a *Account) nicWords(control int64) string {
	if a.Sent == nil {
		return ""
	}
	ratio, ok := a.NICRatio()
	if !ok {
		if *a.Sent <= control+connecting {
			return ""
		}
		return "other traffic, no message left its host"
	}
	words := a.excessWords(float64(*a.Sent)-mostHeaders*float64(a.Between-a.Unwatched), float64(control))
	if ratio < leastHeaders {
		words = "fewer bytes than the plan: NICs that are not counted, RDMA without counters, or shared memory carried the rest"
	}
	if a.Unwatched > 0 {
		return fmt.Sprintf("%.3f of %s in phases: %s", ratio, size.Decimal(a.Between-a.Unwatched), words)
	}
	return fmt.Sprintf("%.3f: %s", ratio, words)
}

// excessWords say of what the bytes are that NICs sent beside messages. So many are more than headers usually are.
func (a *Account) excessWords(excess, control float64) string {
	ofSmall, again := 0.0, ""
	if a.Messages > 0 && a.Plan/a.Messages < small {
		between := float64(a.Between-a.Unwatched) / float64(a.Plan) // of all messages
		ofSmall = perSmall * between * float64(a.Messages)
	}
	if a.Resent > 0 {
		again = fmt.Sprintf(", and %d segments sent again", a.Resent)
		if a.Resent == 1 {
			again = ", and 1 segment sent again"
		}
	}
	resent := segment * float64(a.Resent)
	switch {
	case excess > control+connecting+ofSmall+resent && again != "":
		return "other traffic on the hosts" + again
	case excess > control+connecting+ofSmall+resent:
		return "other traffic on the hosts, or bytes sent again"
	case excess > resent && ofSmall > 0:
		return "headers and acknowledgements of small messages, control messages" + again
	case excess > resent:
		return "headers and control messages" + again
	}
	return "headers" + again
}

// Speaks reports whether the accounts say more than the plan: messages left their host, or the library counts them, or
// should.
func (a *Accounts) Speaks() bool {
	return a.Total.Between > 0 || a.Missing > 0 || a.Total.Plan > 0 && a.Total.Library != nil
}

// String is one line: "plan 655 MB, NIXL 134 MB (0.205: ...), NICs 676 MB (1.031: headers)".
func (a *Accounts) String() string {
	t := &a.Total
	text := "plan " + size.Decimal(t.Plan)
	if t.Between > 0 && t.Between < t.Plan {
		text += ", between hosts " + size.Decimal(t.Between)
	}
	if t.Library != nil {
		text += ", NIXL " + size.Decimal(*t.Library) + inBrackets(t.libraryWords(a.Missing))
	} else if a.Missing > 0 {
		text += ", NIXL unknown" + inBrackets(a.Library)
	}
	switch words := t.nicWords(a.Control); {
	case t.Sent == nil && t.Between > 0:
		text += ", NICs unknown" + inBrackets(a.NICs)
	case t.Sent != nil && (t.Between > 0 || words != ""):
		text += ", NICs " + size.Decimal(*t.Sent) + inBrackets(words)
	}
	return text
}

func inBrackets(words string) string {
	if words == "" {
		return ""
	}
	return " (" + words + ")"
}
