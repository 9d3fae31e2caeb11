package metric

import (
	"cmp"
	"fmt"
	"maps"
	"slices"
	"strings"

	"perigee/internal/kit/expr"
	"perigee/internal/result"
)

// network are the metrics of the counters of the hosts' networks, which are known at the end of a run.
var network = []Def{
	counted("tcp_retransmits", expr.Lower, "segments that TCP sent again; each host and phase", []string{"host"},
		func(_ *result.Document, w *result.NetworkWindow, yield func(value float64, labels ...string)) {
			if n, ok := w.TCP["retransmits"]; ok {
				yield(float64(n))
			}
		}),
	counted("tcp_counter", expr.Lower, "what a counter of TCP has gained; each counter, host and phase",
		[]string{"host", "counter"},
		func(_ *result.Document, w *result.NetworkWindow, yield func(value float64, labels ...string)) {
			for _, name := range slices.Sorted(maps.Keys(w.TCP)) {
				yield(float64(w.TCP[name]), name)
			}
		}),
	counted("nic_counter", expr.Lower, "what a counter of a NIC has gained; each counter, NIC and phase",
		[]string{"host", "counter", "nic"},
		func(_ *result.Document, w *result.NetworkWindow, yield func(value float64, labels ...string)) {
			for _, nic := range w.NICs {
				for _, name := range slices.Sorted(maps.Keys(nic.Counters)) {
					yield(float64(nic.Counters[name]), name, nic.Name)
				}
			}
		}),
}

// counted makes a metric of the windows of hosts. each yields values with their labels, which follow that of the host.
func counted(name string, better expr.Better, help string, labels []string,
	each func(d *result.Document, w *result.NetworkWindow, yield func(value float64, labels ...string))) Def {
	d := perResult(name, "", better, help, func(v *view, yield func(Sample)) {
		if v.d.Network == nil {
			return
		}
		set := 0
		for i := range v.d.Network.Windows {
			w := &v.d.Network.Windows[i]
			each(v.d, w, func(value float64, texts ...string) {
				l := result.Labels{"host": v.d.World.Hosts[w.Host].Name}
				for k, text := range texts {
					l[labels[k+1]] = text
				}
				s := ofPattern(-1, w.Phase, value)
				s.StartNS, s.EndNS, s.Labels, s.LabelSet = w.StartNS, w.EndNS, l, set
				yield(s)
				set++
			})
		}
	})
	d.labels, d.atEnd = labels, true
	return d
}

// worst says where and when the sample was counted that is farthest from what a threshold allows; "" for aggregates
// that are none of the samples.
func (t Threshold) worst(d *result.Document) string {
	least := strings.HasPrefix(t.Op, ">")
	switch t.Aggregate {
	case "count", "rate", "stddev":
		return ""
	}
	var worst *Sample
	Each(d, t.Metric, func(s Sample) {
		if t.admits(d, s) && (worst == nil || s.Value != worst.Value && (s.Value < worst.Value) == least) {
			worst = &s
		}
	})
	if worst == nil {
		return ""
	}
	at := strings.Trim(worst.Labels.String(), "{}")
	if worst.Phase != "" {
		at += " in phase " + worst.Phase
	}
	return fmt.Sprintf("the worst is %.6g, %s", worst.Value, at)
}

// uncounted says which counters and phases a result has where none of those that were asked for is there.
func uncounted(d *result.Document, name string) string {
	if def, _ := Find(name); def.ofReplay {
		return unreplayed(d, name)
	}
	if name == utilisation.Name {
		text := fmt.Sprintf(": no such NIC with a known speed in a phase of at least %v", result.ShortestUse)
		if len(d.World.Hosts) > 1 {
			text += "; --line RATE says what the speed is"
		}
		return text
	}
	counters, phases := map[string]bool{}, map[string]bool{}
	Each(d, name, func(s Sample) {
		counters[cmp.Or(s.Labels["counter"], "retransmits")] = true
		phases[s.Phase] = true
	})
	if len(counters) == 0 {
		return ": no host shows such counters"
	}
	list := func(set map[string]bool) string { return strings.Join(slices.Sorted(maps.Keys(set)), ", ") }
	return ": no host shows it; there are the counters " + list(counters) + " in the phases " + list(phases)
}
