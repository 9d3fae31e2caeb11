package report

import (
	"encoding/json"
	"strings"
	"testing"

	"perigee/internal/figures"
	"perigee/internal/kit/must"
)

// What a scenario has stored takes a bounded part of the page.
func TestValuesText(t *testing.T) {
	const few = `{"a": {"b": [1, "[{"]}}`
	for name, c := range map[string]struct{ values, want string }{
		"none": {"{}", ""},
		"few":  {few, "{\n  \"a\": {\n    \"b\": [\n      1,\n      \"[{\"\n    ]\n  }\n}"},
		"long": {`{"a":"` + strings.Repeat("x", mostValues) + `"}`, "(the values are too long for this page: perigee result cat RESULT .values prints them)"},
	} {
		var values map[string]any
		must.Do(t, json.Unmarshal([]byte(c.values), &values))
		got := valuesText(values)
		if len(got) > mostValues || !strings.HasPrefix(got, c.want) || c.want == "" && got != "" {
			t.Errorf("%s: %d bytes, %.100q, want %.100q", name, len(got), got, c.want)
		}
	}
}

// Of many pairs of hosts the page shows those with the most bytes.
func TestBusiestHosts(t *testing.T) {
	var list []figures.HostPair
	for i := range mostHostPairs + 5 {
		list = append(list, figures.HostPair{From: i, Bytes: int64(i % 7)})
	}
	if got := busiest(list[:mostHostPairs]); got[3].From != 3 {
		t.Errorf("few: %+v", got[3])
	}
	got := busiest(list)
	if len(got) != mostHostPairs || got[0].From != 6 || got[0].Bytes != 6 || list[0].From != 0 {
		t.Errorf("%d pairs, %+v", len(got), got[0])
	}
}
