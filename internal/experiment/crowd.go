package experiment

import (
	"fmt"

	"perigee/internal/cli"
	"perigee/spmd"
)

// crowded returns a note on hosts that have fewer CPUs than ranks: the ranks' waits for a CPU are part of every time
// that is measured.
func crowded(hosts []spmd.Host) []string {
	var worst spmd.Host
	n := 0
	for _, h := range hosts {
		if len(h.Ranks) > h.CPUs {
			n++
			if worst.CPUs*len(h.Ranks) >= h.CPUs*len(worst.Ranks) {
				worst = h
			}
		}
	}
	if n == 0 {
		return nil
	}
	text := fmt.Sprintf("%s has %s for %s: their waits for a CPU are in the figures", worst.Name,
		cli.Count(worst.CPUs, "CPU"), cli.Count(len(worst.Ranks), "rank"))
	if n > 1 {
		text += fmt.Sprintf("; so in %s more", cli.Count(n-1, "host"))
	}
	return []string{text}
}

// shared returns a note on GPUs that several ranks use. gpus are their UUIDs, by rank.
func shared(gpus []string, hosts []spmd.Host) []string {
	most, where, n := 1, "", 0
	for _, h := range hosts {
		ranks := map[string]int{}
		for _, r := range h.Ranks {
			if gpus[r] != "" {
				ranks[gpus[r]]++
			}
		}
		for _, k := range ranks {
			if k > 1 {
				n++
			}
			if k > most {
				most, where = k, h.Name
			}
		}
	}
	if n == 0 {
		return nil
	}
	text := fmt.Sprintf("%d ranks on %s share a GPU, which serves them in turn: their waits for it are in the figures",
		most, where)
	if n > 1 {
		text += fmt.Sprintf("; so in %s more", cli.Count(n-1, "GPU"))
	}
	return []string{text}
}
