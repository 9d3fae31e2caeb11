package experiment

import (
	"strconv"
	"strings"

	"perigee/internal/kit/fault"
)

// LocalMap gives local ranks a value each, alike on every host.
type LocalMap struct {
	list []string // by local rank, and again from the first where there are more of these
	of   map[int]string
}

// Of is the value of a local rank, if it has one.
func (m LocalMap) Of(local int) (value string, ok bool) {
	if len(m.list) > 0 {
		return m.list[local%len(m.list)], true
	}
	value, ok = m.of[local]
	return value, ok
}

// ParseGPUMap reads --gpu-map: CUDA ordinals by local rank (0,1,2,3), or of single local ranks (0:3,1:2). An error is
// of kind Usage.
func ParseGPUMap(text string) (LocalMap, error) {
	m, err := parseLocalMap("--gpu-map", text, ":", func(gpu string) bool { return number(gpu) >= 0 })
	if err != nil {
		return m, fault.New(fault.Usage, "%w: want numbers of GPUs, as CUDA counts them", err).
			WithHint("0,1,2,3 gives them to local ranks in turn, 0:3,1:2 gives local rank 0 GPU 3 and local rank 1 GPU 2")
	}
	return m, nil
}

// ParseNICMap reads --nic-map: what UCX_NET_DEVICES is at each local rank (mlx5_0:1,mlx5_1:1), or at single local ranks
// (0=mlx5_0:1,1=mlx5_1:1), with + between several devices of one rank. An error is of kind Usage.
func ParseNICMap(text string) (LocalMap, error) {
	m, err := parseLocalMap("--nic-map", text, "=", func(list string) bool {
		return !strings.Contains("+"+list+"+", "++")
	})
	if err != nil {
		return m, fault.New(fault.Usage, "%w: want network devices, as UCX_NET_DEVICES names them", err).
			WithHint("mlx5_0:1,mlx5_1:1 gives them to local ranks in turn, 1=mlx5_0:1+mlx5_1:1 gives local rank 1 two")
	}
	for i, list := range m.list {
		m.list[i] = strings.ReplaceAll(list, "+", ",")
	}
	for rank, list := range m.of {
		m.of[rank] = strings.ReplaceAll(list, "+", ",")
	}
	return m, nil
}

// parseLocalMap reads entries with commas between them, all with a local rank before a separator or none.
func parseLocalMap(flag, text, separator string, good func(value string) bool) (m LocalMap, err error) {
	if text == "" {
		return m, nil
	}
	m.of = map[int]string{}
	for entry := range strings.SplitSeq(text, ",") {
		entry = strings.TrimSpace(entry)
		value := entry
		if local, after, ok := strings.Cut(entry, separator); ok {
			rank := number(local)
			if _, twice := m.of[rank]; twice {
				return m, fault.New(fault.Usage, "%s %s: local rank %d is there twice", flag, text, rank)
			} else if rank < 0 {
				return m, fault.New(fault.Usage, "%s %s: %q is no local rank", flag, text, local)
			}
			m.of[rank], value = after, after
		} else {
			m.list = append(m.list, entry)
		}
		if !good(value) {
			return m, fault.New(fault.Usage, "%s %s: %q", flag, text, value)
		}
	}
	if len(m.list) > 0 && len(m.of) > 0 {
		return m, fault.New(fault.Usage, "%s %s: some entries name a local rank, and some do not", flag, text)
	}
	return m, nil
}

// number reads one that is not negative; else it is -1.
func number(text string) int {
	n, err := strconv.ParseUint(text, 10, 31)
	if err != nil {
		return -1
	}
	return int(n)
}
