package slurm

import (
	"fmt"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"pgregory.net/rapid"

	"perigee/internal/kit/fuzztest"
)

func TestExpandHosts(t *testing.T) {
	for list, want := range map[string]string{
		"vm":                    "vm",
		"node[1,3-4]":           "node1 node3 node4",
		"b[08-11]":              "b08 b09 b10 b11",
		"b[8-11]":               "b8 b9 b10 b11",
		"b[008,9]":              "b008 b9",
		"r[1-2]n[01-02]":        "r1n01 r1n02 r2n01 r2n02",
		"r[1-2]n[1-2]-ib":       "r1n1-ib r1n2-ib r2n1-ib r2n2-ib",
		"a,b[1-2],c.example":    "a b1 b2 c.example",
		"[1-3]":                 "1 2 3",
		"n[0-0]":                "n0",
		"n[2,1]":                "n2 n1",
		"login-0[1-2],gpu[7-7]": "login-01 login-02 gpu7",
	} {
		got, err := ExpandHosts(list)
		if err != nil || strings.Join(got, " ") != want {
			t.Errorf("%s: got %v, %v; want %s", list, got, err, want)
		}
	}
}

func TestExpandHostsRefuses(t *testing.T) {
	for _, list := range []string{
		"", ",", "a,", ",a", "a,,b", "n[", "n]", "n[]", "n[1", "n1]", "n[[1]]", "n[1-]", "n[-1]", "n[2-1]", "n[a-b]", "n[1;2]",
		"n[1,]", "a b", "a\nb", "n[0-65536]", "n[0-255][0-255][0-1]", "n[0-18446744073709551615]", "n[9223372036854775808]", "n[1-+2]",
	} {
		if got, err := ExpandHosts(list); err == nil {
			t.Errorf("%q: got %d names %.60q", list, len(got), got)
		}
	}
	if got, err := ExpandHosts("n[0-65535]"); err != nil || len(got) != MaxHosts {
		t.Errorf("the largest list: %d, %v", len(got), err)
	}
}

// A list of ranges and counts says what it was made from.
func TestExpandHostsOfRanges(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		prefix := rapid.StringMatching(`[a-z][a-z0-9-]{0,8}`).Draw(t, "prefix")
		suffix := rapid.StringMatching(`(-[a-z]{1,3})?`).Draw(t, "suffix")
		width := rapid.IntRange(1, 4).Draw(t, "width")
		var ranges, want []string
		for range rapid.IntRange(1, 5).Draw(t, "ranges") {
			low := rapid.IntRange(0, 300).Draw(t, "low")
			n := rapid.IntRange(1, 20).Draw(t, "length")
			if n == 1 {
				ranges = append(ranges, fmt.Sprintf("%0*d", width, low))
			} else {
				ranges = append(ranges, fmt.Sprintf("%0*d-%0*d", width, low, width, low+n-1))
			}
			for i := range n {
				want = append(want, fmt.Sprintf("%s%0*d%s", prefix, width, low+i, suffix))
			}
		}
		list := prefix + "[" + strings.Join(ranges, ",") + "]" + suffix
		got, err := ExpandHosts(list)
		if err != nil || !cmp.Equal(got, want) {
			t.Fatalf("%s: %v\n%s", list, err, cmp.Diff(want, got))
		}
	})
}

func TestExpandCounts(t *testing.T) {
	for list, want := range map[string][]int{
		"1":               {1},
		"2(x3),1":         {2, 2, 2, 1},
		"1(x3)":           {1, 1, 1},
		"8,4(x2),0":       {8, 4, 4, 0},
		"2147483647":      {2147483647},
		"1(x2),1(x1),1,3": {1, 1, 1, 1, 3},
	} {
		if got, err := ExpandCounts(list); err != nil || !cmp.Equal(got, want) {
			t.Errorf("%s: got %v, %v; want %v", list, got, err, want)
		}
	}
	for _, list := range []string{"", ",", "1,", "x", "1(x", "1(x)", "1(x0)", "(x2)", "1(x2)3", "-1", "1(x65537)", "1(x40000),1(x40000)", "1 ", "1(2)", "2147483648", "99999999999999999999"} {
		if got, err := ExpandCounts(list); err == nil {
			t.Errorf("%q: got %d numbers", list, len(got))
		}
	}
}

// Writing counts as Slurm does and reading them again changes nothing.
func TestExpandCountsReversesSlurm(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		counts := rapid.SliceOfN(rapid.IntRange(0, 4), 1, 50).Draw(t, "counts")
		var items []string
		for rest := counts; len(rest) > 0; {
			same := slices.IndexFunc(rest, func(n int) bool { return n != rest[0] })
			if same < 0 {
				same = len(rest)
			}
			if same == 1 {
				items = append(items, fmt.Sprint(rest[0]))
			} else {
				items = append(items, fmt.Sprintf("%d(x%d)", rest[0], same))
			}
			rest = rest[same:]
		}
		got, err := ExpandCounts(strings.Join(items, ","))
		if err != nil || !cmp.Equal(got, counts) {
			t.Fatalf("%v: %v", err, cmp.Diff(counts, got))
		}
	})
}

func FuzzExpandHosts(f *testing.F) {
	for _, seed := range []string{"node[1,3-4]", "b[08-11],c", "r[1-2]n[1-2]", "n[0-99999999]", "n[1", "]", "a,,b"} {
		f.Add(seed)
	}
	fuzztest.Run(f, []string{"n", "node", "[", "]", "[1-3]", "[3-7]", "[08-11]", "n[1,3]", "-", ",", "0", "1", "3", "7", "08", "11", "a", " "}, func(t *testing.T, list string) {
		names, err := ExpandHosts(list)
		if err != nil {
			return
		}
		if len(names) == 0 || len(names) > MaxHosts {
			t.Fatalf("%d names", len(names))
		}
		for _, n := range names {
			if n == "" || strings.ContainsAny(n, "[], \n\t") {
				t.Fatalf("%q means a host %q", list, n)
			}
		}
		if len(names) <= 100 { // more take long
			if want := expanded(list); !slices.Equal(names, want) {
				t.Fatalf("%q means %q, want %q", list, names, want)
			}
		}
		// Names without brackets are lists of themselves.
		if again, err := ExpandHosts(strings.Join(names, ",")); err != nil || !slices.Equal(again, names) {
			t.Fatalf("%q: %v", list, err)
		}
	})
}

// expanded are the names of a list without mistakes, by definition.
func expanded(list string) (names []string) {
	for _, item := range regexp.MustCompile(`(?:[^,\[]|\[[^\]]*\])+`).FindAllString(list, -1) {
		before, rest, found := strings.Cut(item, "[")
		if !found {
			names = append(names, item)
			continue
		}
		ranges, after, _ := strings.Cut(rest, "]")
		for part := range strings.SplitSeq(ranges, ",") {
			first, last, isRange := strings.Cut(part, "-")
			if !isRange {
				last = first
			}
			low, _ := strconv.Atoi(first)
			high, _ := strconv.Atoi(last)
			for n := low; n <= high; n++ {
				digits := strconv.Itoa(n)
				names = append(names, expanded(before+strings.Repeat("0", max(0, len(first)-len(digits)))+digits+after)...)
			}
		}
	}
	return names
}

func FuzzExpandCounts(f *testing.F) {
	for _, seed := range []string{"2(x3),1", "1(x3)", "9999999(x99999999)", "1(x", ",", "1(x65536)", "1(x65535),1", "1,1(x65536)", "0"} {
		f.Add(seed)
	}
	item := regexp.MustCompile(`^([0-9]+)(?:\(x([0-9]+)\))?$`)
	fuzztest.Run(f, []string{"1", "2", "7", "0", "(x", ")", ",", "3", "x", "-", "(x65535)", "(x2)"}, func(t *testing.T, list string) {
		counts, err := ExpandCounts(list)
		if err != nil {
			return
		}
		var want []int
		for part := range strings.SplitSeq(list, ",") {
			m := item.FindStringSubmatch(part)
			if m == nil {
				t.Fatalf("%q is taken", list)
			}
			count, _ := strconv.Atoi(m[1])
			times := 1
			if m[2] != "" {
				times, _ = strconv.Atoi(m[2])
			}
			if want = append(want, slices.Repeat([]int{count}, times)...); times == 0 || len(want) > MaxHosts {
				t.Fatalf("%q is taken", list)
			}
		}
		if !slices.Equal(counts, want) {
			t.Fatalf("%q means %v, want %v", list, counts, want)
		}
	})
}
