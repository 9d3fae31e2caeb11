package conf

import "testing"

// TestPythonNumbers reads what Python's json writes of numbers that are none.
func TestPythonNumbers(t *testing.T) {
	v, err := Parse("a.json", []byte(`{"a": [0.5, Infinity, -Infinity, NaN], "NaN": "say \"NaN\"",`+"\n"+`"b": 3}`))
	if err != nil {
		t.Fatal(err)
	}
	if l := v.Get("a").List(); len(l) != 4 || l[0].Float() != 0.5 || l[1].Kind != Null || l[2].Kind != Null || l[3].Kind != Null {
		t.Errorf("%v", v.Get("a").Plain())
	}
	if v.Get("NaN").Text() != `say "NaN"` || v.Get("b").Line != 2 {
		t.Errorf("%v at line %d", v.Plain(), v.Get("b").Line)
	}
}
