package spmd

import (
	"runtime"
	"testing"

	"perigee/internal/kit/must"
	"perigee/spmd/host"

	"golang.org/x/sys/unix"
)

func TestOwnCPUs(t *testing.T) {
	if got := countCPUs(ownCPUs()); got != runtime.NumCPU() {
		t.Errorf("%d CPUs, Go has %d", got, runtime.NumCPU())
	}
	runtime.LockOSThread() // and never unlocked: the thread ends with the test
	var mask unix.CPUSet
	last := 0
	for _, r := range ownCPUs() {
		last = r.first + r.count - 1
	}
	mask.Set(last)
	must.Do(t, unix.SchedSetaffinity(0, &mask))
	if got := ownCPUs(); len(got) != 1 || got[0] != (cpuRun{last, 1}) {
		t.Errorf("bound to CPU %d, found %v", last, got)
	}
}

func TestCountCPUs(t *testing.T) {
	for _, tt := range []struct {
		name string
		sets []cpuSet
		want int
	}{
		{"none", nil, 0},
		{"ranks with a CPU each", []cpuSet{{{0, 1}}, {{1, 1}}, {{7, 1}}}, 3},
		{"ranks that share all", []cpuSet{firstCPUs(64), firstCPUs(64)}, 64},
		{"overlapping", []cpuSet{{{0, 4}, {8, 4}}, {{2, 8}}}, 12},
		{"one inside another", []cpuSet{{{0, 16}}, {{3, 2}}}, 16},
	} {
		if got := countCPUs(tt.sets...); got != tt.want {
			t.Errorf("%s: %d, want %d", tt.name, got, tt.want)
		}
	}
}

// Ranks of one cgroup share its quota; what one group leaves unused, another cannot use.
func TestQuotaOf(t *testing.T) {
	none, half, four := host.Quota{}, host.Quota{MilliCPUs: 500, Group: 1}, host.Quota{MilliCPUs: 4000, Group: 2}
	for _, c := range []struct {
		quotas []host.Quota
		want   int
	}{
		{[]host.Quota{none, none}, 0},
		{[]host.Quota{half, half}, 500},
		{[]host.Quota{four, four}, 4000},
		{[]host.Quota{half, half, four}, 1500},
		{[]host.Quota{half, none, none}, 2500},
	} {
		if got := quotaOf(c.quotas); got != c.want {
			t.Errorf("%v: %d, want %d", c.quotas, got, c.want)
		}
	}
}
