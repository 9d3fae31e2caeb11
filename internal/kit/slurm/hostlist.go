package slurm

import (
	"fmt"
	"strconv"
	"strings"
)

// MaxHosts is how many hosts a list may stand for: node[0-999999999] is a
// mistake, or an attack.
const MaxHosts = 1 << 16

// ExpandHosts returns the names that a host list such as SLURM_STEP_NODELIST
// stands for, in its order: n[1,3-4] is n1 n3 n4, b[08-11] is b08 b09 b10 b11,
// and of several brackets the last counts fastest. It fails on a malformed list
// and on one of more than MaxHosts names.
func ExpandHosts(list string) ([]string, error) {
	items, err := splitOutsideBrackets(list)
	if err != nil {
		return nil, fmt.Errorf("host list %.80q: %w", list, err)
	}
	var all []string
	for _, item := range items {
		names, err := expandItem(item, MaxHosts-len(all))
		if err != nil {
			return nil, fmt.Errorf("host list %.80q: %w", list, err)
		}
		all = append(all, names...)
	}
	return all, nil
}

// splitOutsideBrackets cuts a list at its commas, those in brackets left alone.
func splitOutsideBrackets(s string) ([]string, error) {
	var items []string
	start, inside := 0, false
	for i, c := range s {
		switch {
		case c == '[' && inside, c == ']' && !inside:
			return nil, fmt.Errorf("a stray %c", c)
		case c == '[' || c == ']':
			inside = c == '['
		case c == ',' && !inside:
			items = append(items, s[start:i])
			start = i + 1
		case c <= ' ' || c == 0x7f:
			return nil, fmt.Errorf("%q in a name", c)
		}
	}
	if inside {
		return nil, fmt.Errorf("a bracket is not closed")
	}
	return append(items, s[start:]), nil
}

// expandItem expands name[ranges]name[ranges]..., to at most limit names.
func expandItem(item string, limit int) ([]string, error) {
	if item == "" {
		return nil, fmt.Errorf("an empty name")
	}
	names := []string{""}
	for item != "" {
		plain, rest, found := strings.Cut(item, "[")
		for i := range names {
			names[i] += plain
		}
		if !found {
			break
		}
		var ranges string
		ranges, item, _ = strings.Cut(rest, "]")
		numbers, err := expandRanges(ranges, limit)
		if err != nil {
			return nil, err
		}
		if len(names)*len(numbers) > limit {
			return nil, errTooManyHosts
		}
		product := make([]string, 0, len(names)*len(numbers))
		for _, name := range names {
			for _, n := range numbers {
				product = append(product, name+n)
			}
		}
		names = product
	}
	if len(names) > limit {
		return nil, errTooManyHosts
	}
	return names, nil
}

var errTooManyHosts = fmt.Errorf("more than %d hosts", MaxHosts)

// expandRanges expands 1,3-4 and keeps leading zeros.
func expandRanges(ranges string, limit int) ([]string, error) {
	var all []string
	for r := range strings.SplitSeq(ranges, ",") {
		first, last, isRange := strings.Cut(r, "-")
		if !isRange {
			last = first
		}
		low, errLow := strconv.ParseUint(first, 10, 63)
		high, errHigh := strconv.ParseUint(last, 10, 63)
		if errLow != nil || errHigh != nil || high < low {
			return nil, fmt.Errorf("%.40q is no number or range", r)
		}
		if high-low >= uint64(limit-len(all)) {
			return nil, errTooManyHosts
		}
		for n := low; n <= high; n++ {
			all = append(all, fmt.Sprintf("%0*d", len(first), n))
		}
	}
	return all, nil
}

// ExpandCounts returns the number of tasks of each node from a list such as
// SLURM_STEP_TASKS_PER_NODE: 2(x3),1 is 2 2 2 1. It fails on a malformed list
// and on one of more than MaxHosts nodes.
func ExpandCounts(list string) ([]int, error) {
	var all []int
	for item := range strings.SplitSeq(list, ",") {
		number, times, repeated := strings.Cut(item, "(x")
		repeat := 1
		if repeated {
			digits, closed := strings.CutSuffix(times, ")")
			n, err := strconv.ParseUint(digits, 10, 31)
			if !closed || err != nil || n < 1 {
				return nil, fmt.Errorf("tasks per node %.80q: %.40q is not like 2(x3)", list, item)
			}
			repeat = int(n)
		}
		n, err := strconv.ParseUint(number, 10, 31)
		if err != nil {
			return nil, fmt.Errorf("tasks per node %.80q: %.40q is no number", list, item)
		}
		if repeat > MaxHosts-len(all) {
			return nil, fmt.Errorf("tasks per node %.80q: %w", list, errTooManyHosts)
		}
		for range repeat {
			all = append(all, int(n))
		}
	}
	return all, nil
}
