package config

import (
	"slices"
	"strings"
)

// GPU is a type of machine as the benchmark's own table has it.
type GPU struct {
	Name       string
	ExtraArgs  []string // of sbatch, where the config has none
	SetSegment bool
	SMClock    int // MHz, locked; 0: not locked
	MemClock   int // MHz
}

var gpus = []GPU{
	{"GB200", []string{"--gres=gpu:4"}, true, 2062, 3996},
	{"GB200_LYRIS", nil, true, 0, 0},
	{"GB300", nil, true, 0, 0},
	{"H100", nil, false, 0, 0},
	{"B200", []string{"--gres=gpu:4"}, false, 0, 0},
	{"B300", []string{"--gres=gpu:4"}, false, 0, 0},
}

// DefaultGPU is the type where GPU_TYPE is not set.
const DefaultGPU = "GB200"

// FindGPU returns the row of a type. A type that is not in the table has no
// extra arguments, no segment and no locked clocks.
func FindGPU(name string) GPU {
	if i := slices.IndexFunc(gpus, func(g GPU) bool { return g.Name == name }); i >= 0 {
		return gpus[i]
	}
	return GPU{Name: name}
}

// Runs reports whether a config for some GPUs runs on this one. GB200_LYRIS and
// the like filter as GB200.
func (g GPU) Runs(supported []string) bool {
	name := g.Name
	if strings.HasPrefix(name, "GB200_") {
		name = "GB200"
	}
	return slices.Contains(supported, name) || slices.Contains(supported, g.Name)
}
