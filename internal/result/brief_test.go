package result_test

import (
	"encoding/json"
	"testing"

	"perigee/internal/result"

	"pgregory.net/rapid"
)

// What is no longer than a bound takes no more than that as JSON.
func TestLonger(t *testing.T) {
	scalar := rapid.OneOf(rapid.String().AsAny(), rapid.Float64().AsAny(), rapid.Bool().AsAny(), rapid.Just(any(nil)))
	value := rapid.OneOf(scalar, rapid.SliceOf(scalar).AsAny(), rapid.MapOf(rapid.String(), scalar).AsAny())
	rapid.Check(t, func(t *rapid.T) {
		v, most := value.Draw(t, "value"), rapid.IntRange(0, 500).Draw(t, "most")
		text, err := json.Marshal(v)
		if err != nil {
			t.Fatal(err)
		}
		if !result.Longer(v, most) && len(text) > most {
			t.Errorf("%d bytes fit into %d: %s", len(text), most, text)
		}
		if result.Longer(v, 6*len(text)+100*24) {
			t.Errorf("%d bytes are too long for %d", len(text), 6*len(text)+2400)
		}
	})
}
