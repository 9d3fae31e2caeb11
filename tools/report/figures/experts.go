package figures

import "perigee/internal/size"

// sayExperts names what stands out of measurements of expert parallelism, which scenarios keep among a result's values.
func sayExperts(values map[string]any, say sayer) {
	planes, _ := values["ep"].([]any)
	var best map[string]any
	for _, v := range planes {
		m, _ := v.(map[string]any)
		if best == nil || rateOf(m) > rateOf(best) {
			best = m
		}
		if named, _ := m["named"].(string); named != "" {
			say("bad", "%v, %v, %v tokens: %v.", m["mode"], m["entry"], m["tokens"], m["verdict"])
		}
	}
	if rateOf(best) > 0 {
		say("note", "The best bandwidth of a rank is %s/s by assignment: %v, %v, %v tokens of %v channels.",
			size.Decimal(1e9*rateOf(best)), best["mode"], best["entry"], best["tokens"], best["hidden"])
	}
	phases, _ := values["ep_control"].([]any)
	if len(phases) > 0 {
		say("note", "The control plane was measured %d times.", len(phases))
	}
}

// rateOf returns the bandwidth by assignment of a measurement, 0 if it has none.
func rateOf(m map[string]any) float64 {
	rates, _ := m["gb_per_s"].(map[string]any)
	rate, _ := rates["assignment"].(float64)
	return rate
}
