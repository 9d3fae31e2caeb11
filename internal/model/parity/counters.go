package parity

import (
	"regexp"
	"slices"
	"strings"

	"perigee/internal/kit/fault"
	"perigee/internal/kit/size"
)

// Counter is a counter of moved bytes.
type Counter struct {
	Name   string
	Source string  // what exports it; empty: --metric has named it
	Unit   float64 // bytes of 1
	Counts string  // whose transfers, and on which side

	ranks bool // every rank of an engine has one
}

// nixl is the source whose counters lose events.
const nixl = "NIXL"

// Counters are those that are known, an engine's own before those of the library below it, which may move other things
// as well. All grow, but the gauge of the same name in SGLang's versions of 2025: it is the last transfer alone.
//
// A histogram's sum counts as a counter. vLLM counts a transfer at the engine that posts it: decode where it pulls,
// prefill where it pushes. NIXL does at the agent that posts it: bytes that it writes as tx, those that it reads as rx,
// and nothing at the other side.
var Counters = []Counter{
	{Name: "vllm:nixl_bytes_transferred_sum", Source: "vLLM", Unit: 1, Counts: "of the engines that post transfers"},
	{Name: "sglang:kv_transfer_total_mb", Source: "SGLang", Unit: 1 << 20, Counts: "of prefill's TP ranks, in MiB",
		ranks: true},
	{Name: "agent_tx_bytes_total", Source: nixl, Unit: 1, Counts: "of agents that write to others"},
	{Name: "agent_rx_bytes_total", Source: nixl, Unit: 1, Counts: "of agents that read from others"},
}

// scaled ends names of counters that count something larger than bytes.
var scaled = regexp.MustCompile(`(?i)(_[kmgt]i?b|_(kilo|mega|giga|tera|kibi|mebi|gibi|tebi)bytes)(_total|_sum)?$`)

// ParseCounter reads the name of a counter, with its unit behind a colon unless it counts bytes: engine_sent_mb:MiB. A
// known counter has its own unit. A name that speaks of another unit than bytes without one is an error of the kind
// Usage.
func ParseCounter(text string) (Counter, error) {
	if i := slices.IndexFunc(Counters, func(c Counter) bool {
		return c.Name == text || c.Name == text+"_sum" || c.Name+"_sum" == text
	}); i >= 0 {
		return Counters[i], nil
	}
	c := Counter{Name: text, Unit: 1, Counts: "bytes assumed; NAME:MiB says another unit"}
	if i := strings.LastIndexByte(text, ':'); i > 0 && strings.HasSuffix(text, "B") {
		if bytes, err := size.Parse("1" + text[i+1:]); err == nil {
			return Counter{Name: text[:i], Unit: float64(bytes), Counts: "in " + text[i+1:]}, nil
		}
	}
	if scaled.MatchString(text) {
		return c, fault.New(fault.Usage, "--metric %s does not count bytes by its name: wanted its unit, such as %s:MiB", text,
			text)
	}
	if strings.HasPrefix(text, "agent_") {
		c.Source = nixl
	}
	return c, nil
}

// KnownNames lists the names of all known counters.
func KnownNames() string {
	var names []string
	for _, c := range Counters {
		names = append(names, c.Name)
	}
	return strings.Join(names, ", ")
}
