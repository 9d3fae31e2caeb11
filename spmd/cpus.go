package spmd

import (
	"cmp"
	"encoding/binary"
	"runtime"
	"slices"

	"golang.org/x/sys/unix"

	"perigee/internal/kit/pack"
	"perigee/spmd/host"
)

// cpuSet lists the CPUs that a rank may run on: ascending, one run of consecutive
// numbers after the other. Launchers bind ranks to CPUs, each to its own as a rule, so
// that none of them knows how many a host's ranks have together.
type cpuSet []cpuRun

type cpuRun struct{ first, count int }

// maxCPU bounds the numbers in a set.
const maxCPU = 1 << 16

// firstCPUs are the first n CPUs.
func firstCPUs(n int) cpuSet { return cpuSet{{0, n}} }

// ownCPUs are the CPUs of this process. Where the kernel has more of them than fit its
// answer, only their number is right.
func ownCPUs() cpuSet {
	var mask unix.CPUSet
	if err := unix.SchedGetaffinity(0, &mask); err != nil {
		return firstCPUs(runtime.NumCPU())
	}
	var s cpuSet
	for n := range len(mask) * 64 {
		switch {
		case !mask.IsSet(n):
		case len(s) > 0 && s[len(s)-1].first+s[len(s)-1].count == n:
			s[len(s)-1].count++
		default:
			s = append(s, cpuRun{n, 1})
		}
	}
	return s
}

// countCPUs returns how many CPUs are in at least one of the sets.
func countCPUs(sets ...cpuSet) int {
	runs := slices.Concat(sets...)
	slices.SortFunc(runs, func(a, b cpuRun) int { return cmp.Compare(a.first, b.first) })
	total, end := 0, 0 // up to end all are counted
	for _, r := range runs {
		if last := r.first + r.count; last > end {
			total += last - max(r.first, end)
			end = last
		}
	}
	return total
}

// quotaOf returns how many thousandths of a CPU ranks may use whose quotas these are: a group as much as its quota, or
// a CPU for each of its ranks; 0 if no rank has a quota.
func quotaOf(quotas []host.Quota) (sum int) {
	groups, limited := map[host.Quota]int{}, false
	for _, q := range quotas {
		groups[q]++
		limited = limited || q.MilliCPUs > 0
	}
	if !limited {
		return 0
	}
	for q, ranks := range groups {
		switch {
		case q.MilliCPUs == 0:
			sum += 1000 * ranks
		case len(groups) == 1:
			sum += q.MilliCPUs
		default:
			sum += min(q.MilliCPUs, 1000*ranks)
		}
	}
	return sum
}

func (s cpuSet) appendTo(b []byte) []byte {
	b = binary.AppendUvarint(b, uint64(len(s)))
	for _, r := range s {
		b = binary.AppendUvarint(b, uint64(r.first))
		b = binary.AppendUvarint(b, uint64(r.count))
	}
	return b
}

func readCPUs(p *pack.Reader) cpuSet {
	s := make(cpuSet, p.Count())
	for i := range s {
		s[i] = cpuRun{p.Number(maxCPU), p.Number(maxCPU)}
	}
	return s
}
