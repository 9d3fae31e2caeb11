package experiment

import (
	"fmt"

	"perigee/internal/kit/cli"
	"perigee/spmd"
)

// crowded returns a note on hosts that have less than a CPU for each rank: the ranks' waits for a CPU are part of every
// time that is measured.
func crowded(hosts []spmd.Host) []string {
	text, least, n := "", 1.0, 0
	for _, h := range hosts {
		short, share := h.Short()
		if short == "" {
			continue
		}
		if n++; share <= least {
			text, least = short+": their waits for a CPU are in the figures", share
		}
	}
	switch {
	case n == 0:
		return machines(hosts)
	case n > 1:
		text += fmt.Sprintf("; so in %s more", cli.Count(n-1, "host"))
	}
	return []string{text}
}

// machines returns notes on hosts that are one machine.
func machines(hosts []spmd.Host) (notes []string) {
	for _, h := range hosts {
		if m := h.Machine; m != nil && m.Hosts[0] == h.Name {
			notes = append(notes, m.String()+" and share its CPUs: what one host does may slow down another")
		}
	}
	return notes
}

// shared returns a note on GPUs that several ranks use. all are by rank.
func shared(all []gpuUse, hosts []spmd.Host) []string {
	most, where, n, mps := 1, "", 0, false
	for _, h := range hosts {
		ranks := map[string]int{}
		for _, r := range h.Ranks {
			if all[r].UUID != "" {
				ranks[all[r].UUID]++
			}
		}
		for _, k := range ranks {
			if k > 1 {
				n++
			}
			if k > most {
				most, where, mps = k, h.Name, all[h.Ranks[0]].MPS
			}
		}
	}
	if n == 0 {
		return nil
	}
	text := fmt.Sprintf("%d ranks on %s share a GPU, which serves them in turn: their waits for it are in the figures",
		most, where)
	if mps {
		text = fmt.Sprintf("%d ranks on %s share a GPU, by CUDA's MPS: each has a part of its speed", most, where)
	}
	if n > 1 {
		text += fmt.Sprintf("; so in %s more", cli.Count(n-1, "GPU"))
	}
	if !mps {
		text += ". CUDA's MPS serves them side by side, on one H100 in 31 us instead of 580: nvidia-cuda-mps-control -d, " +
			"without root with CUDA_MPS_PIPE_DIRECTORY and CUDA_MPS_LOG_DIRECTORY set, to the same for it and the job"
	}
	return []string{text}
}
