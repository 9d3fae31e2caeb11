package conf

import (
	"math"
	"strings"
	"testing"

	"perigee/internal/kit/must"
)

// TestPythonNumbers reads the floats that Python's json writes and JSON has not: as those of YAML's .inf and .nan.
func TestPythonNumbers(t *testing.T) {
	v, err := Parse("a.json", []byte(`{"a": [0.5, Infinity, -Infinity, NaN], "NaN": "say \"NaN\"",`+"\n"+`"b": 3}`))
	must.Do(t, err)
	if l := v.Get("a").List(); len(l) != 4 || l[0].Float() != 0.5 || !math.IsInf(l[1].Float(), 1) ||
		!math.IsInf(l[2].Float(), -1) || !math.IsNaN(l[3].Float()) {
		t.Errorf("%v", v.Get("a").Plain())
	}
	if v.Get("NaN").Text() != `say "NaN"` || v.Get("b").Line != 2 {
		t.Errorf("%v at line %d", v.Plain(), v.Get("b").Line)
	}
}

// What only looks like such a number is named with its line.
func TestNearlyPythonNumbers(t *testing.T) {
	for _, text := range []string{"-NaN", "1NaN", "Infinity5", "NaNInfinity", "nan", "Infinit"} {
		v, err := Parse("a.json", []byte("{\"a\": 1,\n\"b\": "+text+"}"))
		if err == nil || !strings.HasPrefix(err.Error(), "a.json:2: this is not JSON: ") {
			t.Errorf("%s: got %v, %v", text, v.Plain(), err)
		}
	}
}
